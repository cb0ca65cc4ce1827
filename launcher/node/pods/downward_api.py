"""The downward API: values of fieldRef and resourceFieldRef."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING
from typing import Any

from launcher.core.quantity import quantity
from launcher.store.interface import Object

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
#: Resources whose limit defaults to the node's allocatable.
_NODE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class UnknownField(ValueError):
    """The field does not exist or cannot be referenced."""


@dataclass(frozen=True, slots=True)
class DownwardApiContext:
    """A pod with the addresses of its node and its own, and the node's allocatable resources."""

    pod: Object
    host_address: str
    allocatable: Mapping[str, str] = field(default_factory=dict)
    #: Empty for that of the node.
    pod_address: str = ""


def field_value(context: DownwardApiContext, path: str) -> str:
    """The field as text; empty if it is not set. Raises UnknownField."""
    pod = context.pod
    meta, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.fullmatch(path):
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(meta[path.removeprefix("metadata.")])
        case "metadata.labels" | "metadata.annotations":
            return _format_map(meta.get(path.removeprefix("metadata.")) or {})
        case "spec.nodeName":
            return str(spec.get("nodeName") or "")
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName") or "default")
        case "status.hostIP" | "status.hostIPs":
            return context.host_address
        case "status.podIP" | "status.podIPs":
            return context.pod_address or context.host_address
        case _:
            raise UnknownField(
                f"unsupported fieldPath: {path}: use metadata.name, metadata.namespace, metadata.uid, "
                "metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, "
                "status.hostIP, status.hostIPs, status.podIP or status.podIPs"
            )


def resource_value(context: DownwardApiContext, container: Mapping[str, Any], ref: Mapping[str, Any]) -> str:
    """The request or limit that *ref* names, in its divisor's unit, rounded up. Raises UnknownField."""
    kind, _, name = str(ref.get("resource", "")).partition(".")
    if kind not in ("limits", "requests") or not name:
        raise UnknownField(
            f"unsupported container resource: {ref.get('resource')}: use limits.cpu, requests.memory, …"
        )
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    if kind == "limits":
        amount = limits.get(name, context.allocatable.get(name, "0") if name in _NODE_RESOURCES else "0")
    else:
        # The request defaults to the limit, as in the API.
        amount = (resources.get("requests") or {}).get(name, limits.get(name, "0"))
    unit = quantity(ref.get("divisor") or "1") or quantity("1")
    return str((quantity(amount) / unit).to_integral_value(ROUND_CEILING))


def _format_map(pairs: Mapping[str, str]) -> str:
    """Lines of ``key="value"``, sorted by key, with the values quoted as in Go."""
    return "\n".join(f'{key}="{_escape(str(pairs[key]))}"' for key in sorted(pairs))


def _escape(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(escapes.get(letter, letter) for letter in text)
