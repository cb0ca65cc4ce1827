"""What a pod may ask to be told of itself: fieldRef and resourceFieldRef, as text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING
from typing import Any

from launcher.core.quantity import quantity
from launcher.store.interface import Object

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
#: What limits stand for when there are none: all that the node has.
_FROM_NODE = ("cpu", "memory", "ephemeral-storage")


class UnknownField(ValueError):
    """There is no such field to refer to."""


@dataclass(frozen=True, slots=True)
class DownwardApiContext:
    """A pod, and what its node knows of it."""

    pod: Object
    address: str
    #: What the node has, by resource.
    allocatable: Mapping[str, str] = field(default_factory=dict)


def field_value(facts: DownwardApiContext, path: str) -> str:
    """The field as text; nothing if it is not set. Raises UnknownField."""
    pod = facts.pod
    meta, spec = pod["metadata"], pod["spec"]
    if found := _SUBSCRIPT.fullmatch(path):
        return str((meta.get(found[1]) or {}).get(found[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(meta[path.removeprefix("metadata.")])
        case "metadata.labels" | "metadata.annotations":
            return _listed(meta.get(path.removeprefix("metadata.")) or {})
        case "spec.nodeName":
            return str(spec.get("nodeName") or "")
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName") or "default")
        case "status.hostIP" | "status.podIP" | "status.hostIPs" | "status.podIPs":
            return facts.address
        case _:
            raise UnknownField(
                f"unsupported fieldPath: {path}: use metadata.name, metadata.namespace, metadata.uid, "
                "metadata.labels['KEY'], metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, "
                "status.hostIP, status.hostIPs, status.podIP or status.podIPs"
            )


def resource_value(facts: DownwardApiContext, container: Mapping[str, Any], ref: Mapping[str, Any]) -> str:
    """The request or limit that *ref* names, in its divisor's unit, rounded up. Raises UnknownField."""
    kind, _, name = str(ref.get("resource", "")).partition(".")
    if kind not in ("limits", "requests") or not name:
        raise UnknownField(
            f"unsupported container resource: {ref.get('resource')}: use limits.cpu, requests.memory, …"
        )
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    if kind == "limits":
        amount = limits.get(name, facts.allocatable.get(name, "0") if name in _FROM_NODE else "0")
    else:
        # A limit without a request is a request of the same size, as the API has it.
        amount = (resources.get("requests") or {}).get(name, limits.get(name, "0"))
    unit = quantity(ref.get("divisor") or "1") or quantity("1")
    return str((quantity(amount) / unit).to_integral_value(ROUND_CEILING))


def _listed(pairs: Mapping[str, str]) -> str:
    """One ``key="value"`` a line, by key, the value written as Go quotes it."""
    return "\n".join(f'{key}="{_quoted(str(pairs[key]))}"' for key in sorted(pairs))


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(escapes.get(letter, letter) for letter in text)
