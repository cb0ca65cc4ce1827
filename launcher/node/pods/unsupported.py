"""What a pod asks for that local mode does not do: one sentence for each, so that nothing is ignored in silence."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.node.shim.confinement import can_filter
from launcher.store.interface import Object

_POD = {
    "hostPID": "hostPID is not honoured: each container has its own process namespace.",
    "shareProcessNamespace": "shareProcessNamespace is not honoured: each container has its own process namespace.",
    "ephemeralContainers": "ephemeralContainers are not started.",
    "runtimeClassName": "runtimeClassName is not honoured: containers are processes of this machine.",
}
#: Settings of a security context, of the pod or of a container.
_CONTEXT = {
    "seLinuxOptions": "seLinuxOptions are not honoured.",
    "appArmorProfile": "appArmorProfile is not honoured.",
    "windowsOptions": "windowsOptions are not honoured.",
    "procMount": "procMount is not honoured.",
    "sysctls": "sysctls are not set.",
}


def unsupported_in(pod: Object) -> Iterator[str]:
    """A sentence for each thing that the pod's spec asks for and does not get."""
    spec = pod["spec"]
    yield from (sentence for field, sentence in _POD.items() if spec.get(field))
    if spec.get("priorityClassName") and spec.get("priority") is None:
        yield (
            f"priorityClassName {spec['priorityClassName']!r} is not honoured: there are no PriorityClasses here; "
            "set spec.priority."
        )
    yield from _in_context(spec.get("securityContext") or {}, "securityContext")
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            where = f'container "{container["name"]}": securityContext'
            yield from _in_context(container.get("securityContext") or {}, where)


def _in_context(context: Mapping[str, Any], where: str) -> Iterator[str]:
    for field, sentence in _CONTEXT.items():
        if context.get(field):
            yield f"{where}: {sentence}"
    profile = (context.get("seccompProfile") or {}).get("type")
    if profile == "Localhost":
        yield f"{where}: seccompProfile Localhost is not honoured: use RuntimeDefault."
    if profile == "RuntimeDefault" and not can_filter():
        yield f"{where}: seccompProfile RuntimeDefault is not honoured on a processor of this kind."
    added = (context.get("capabilities") or {}).get("add")
    if os.geteuid() != 0 and (added or context.get("privileged")):
        what = f"capabilities {', '.join(map(str, added))}" if added else "privileged"
        yield f"{where}: {what} cannot be given: the launcher does not run as root."
