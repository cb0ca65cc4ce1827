"""Converts a container's securityContext to the runtime's Confinement."""

from collections.abc import Mapping
from typing import Any

from launcher.node.container_runtime import Confinement, StartFailed
from launcher.node.shim.confinement import CAPABILITIES
from launcher.store.interface import Object

#: containerd's default capabilities.
_DEFAULT = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_ALL = "ALL"


def container_confinement(pod: Object, spec: Mapping[str, Any]) -> Confinement:
    """The confinement of the container. Raises StartFailed for an unknown capability."""
    context = spec.get("securityContext") or {}
    if context.get("privileged"):
        return Confinement()
    profile = context.get("seccompProfile") or (pod["spec"].get("securityContext") or {}).get(
        "seccompProfile"
    )
    return Confinement(
        _capabilities(context.get("capabilities") or {}),
        no_new_privileges=context.get("allowPrivilegeEscalation") is False,
        filtered=(profile or {}).get("type") == "RuntimeDefault",
    )


def _capabilities(spec: Mapping[str, Any]) -> frozenset[str]:
    added, dropped = (_normalized(spec.get(verb) or (), verb) for verb in ("add", "drop"))
    base = frozenset(CAPABILITIES) if _ALL in added else _DEFAULT
    # As in container engines, a capability that is added by name is kept even if ALL are dropped.
    remaining = frozenset() if _ALL in dropped else base - dropped
    return remaining | (added - {_ALL})


def _normalized(names: Any, verb: str) -> frozenset[str]:
    normalized = frozenset(str(name).upper().removeprefix("CAP_") for name in names)
    if unknown := sorted(normalized - {_ALL, *CAPABILITIES}):
        raise StartFailed(
            "CreateContainerConfigError",
            f"securityContext.capabilities.{verb}: unknown capability {unknown[0]!r}",
        )
    return normalized
