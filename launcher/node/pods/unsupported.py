"""Fields of a pod that local mode ignores: one sentence each, which becomes an event."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.store.interface import Object

_POD = {
    "hostPID": "hostPID is ignored: each container has its own process namespace.",
    "shareProcessNamespace": "shareProcessNamespace is ignored: each container has its own process namespace.",
    "ephemeralContainers": "ephemeralContainers are not started.",
    "runtimeClassName": "runtimeClassName is ignored: containers are processes of this machine.",
}
#: Fields of a securityContext, of the pod or of a container.
_CONTEXT = {
    "seLinuxOptions": "seLinuxOptions are ignored.",
    "appArmorProfile": "appArmorProfile is ignored.",
    "windowsOptions": "windowsOptions are ignored.",
    "procMount": "procMount is ignored.",
    "sysctls": "sysctls are not set.",
}


def unsupported_fields(pod: Object, *, is_root: bool, has_seccomp: bool) -> Iterator[str]:
    """
    A sentence for each field of the pod's spec that is ignored.

    *is_root*: the launcher runs as root; *has_seccomp*: it can filter system calls.
    """
    spec = pod["spec"]
    yield from (sentence for field, sentence in _POD.items() if spec.get(field))
    if spec.get("priorityClassName") and spec.get("priority") is None:
        yield (
            f"priorityClassName {spec['priorityClassName']!r} is ignored: local mode has no PriorityClasses; "
            "set spec.priority."
        )
    contexts = {"securityContext": spec.get("securityContext") or {}}
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            path = f'container "{container["name"]}": securityContext'
            contexts[path] = container.get("securityContext") or {}
    for path, context in contexts.items():
        yield from _unsupported_in_context(context, path)
        yield from _unavailable_in_context(context, path, is_root, has_seccomp)


def _unsupported_in_context(context: Mapping[str, Any], path: str) -> Iterator[str]:
    for field, sentence in _CONTEXT.items():
        if context.get(field):
            yield f"{path}: {sentence}"
    profile = (context.get("seccompProfile") or {}).get("type")
    if profile == "Localhost":
        yield f"{path}: seccompProfile Localhost is ignored: use RuntimeDefault."


def _unavailable_in_context(
    context: Mapping[str, Any], path: str, is_root: bool, has_seccomp: bool
) -> Iterator[str]:
    """Fields that another machine or user could apply."""
    if (context.get("seccompProfile") or {}).get("type") == "RuntimeDefault" and not has_seccomp:
        yield f"{path}: seccompProfile RuntimeDefault is ignored: not supported on this processor."
    added = (context.get("capabilities") or {}).get("add")
    if not is_root and (added or context.get("privileged")):
        privileges = f"capabilities {', '.join(map(str, added))}" if added else "privileged"
        yield f"{path}: {privileges} cannot be granted: the launcher does not run as root."
