"""What a container's securityContext allows its programs to do, in the terms of the runtime."""

from collections.abc import Mapping
from typing import Any

from launcher.node.container_runtime import Confinement, StartFailed
from launcher.node.shim.confinement import CAPABILITIES
from launcher.store.interface import Object

#: What containerd gives to a container that says nothing.
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


def confinement_of(pod: Object, spec: Mapping[str, Any]) -> Confinement:
    """What the container may do. Raises StartFailed for a capability that does not exist."""
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


def _capabilities(said: Mapping[str, Any]) -> frozenset[str]:
    added, dropped = (_named(said.get(verb) or (), verb) for verb in ("add", "drop"))
    base = frozenset(CAPABILITIES) if _ALL in added else _DEFAULT
    # As container engines do it: what is added by its name stays, also when all others are dropped.
    left = frozenset() if _ALL in dropped else base - dropped
    return left | (added - {_ALL})


def _named(names: Any, verb: str) -> frozenset[str]:
    plain = frozenset(str(name).upper().removeprefix("CAP_") for name in names)
    if unknown := sorted(plain - {_ALL, *CAPABILITIES}):
        raise StartFailed(
            "CreateContainerConfigError",
            f"securityContext.capabilities.{verb}: there is no capability {unknown[0]!r}",
        )
    return plain
