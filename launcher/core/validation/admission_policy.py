"""
What this place allows pods to ask of the machine, set by its admin.

Paths are compared as they are written. What a path leads to over symbolic links is looked at where it is mounted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.replicas import tasks_of_roles
from launcher.core.validation.field_errors import forbidden, quote_value
from launcher.core.validation.pod_template import as_list, as_object


@dataclass(slots=True)
class Policy:
    """
    The admin's rules; None allows everything.

    A reload of the settings changes them in place, so that they hold everywhere from the same moment on.
    """

    #: hostPath volumes must be one of these directories or stand below one.
    host_path_prefixes: tuple[str, ...] | None = None
    #: nfs volumes must come from one of these.
    nfs_servers: tuple[str, ...] | None = None
    host_network: bool = True
    privileged: bool = True
    #: Of one Framework, over all of its roles.
    max_tasks: int | None = 10_000

    def replace_with(self, other: "Policy") -> None:
        """Take the rules of *other*."""
        for rule in fields(self):
            setattr(self, rule.name, getattr(other, rule.name))

    def problems(self, framework: dict[str, Any]) -> Sequence[FieldError]:
        """Everything that the Framework asks for and may not; what has not its proper shape is passed over."""
        return tuple(self._framework_problems(framework))

    def pod_problems(self, pod: dict[str, Any]) -> Sequence[FieldError]:
        """The same of a single pod."""
        return tuple(self._pod_problems(pod, "spec"))

    def _framework_problems(self, framework: dict[str, Any]) -> Iterator[FieldError]:
        spec = as_object(framework.get("spec"))
        yield from self.size_problems(sum(tasks_of_roles(spec)), "spec.taskRoles")
        for index, role in enumerate(as_list(spec.get("taskRoles"))):
            pod = as_object(as_object(as_object(role).get("task")).get("pod"))
            yield from self._pod_problems(pod, f"spec.taskRoles[{index}].task.pod.spec")

    def size_problems(self, tasks: int, field: str) -> Iterator[FieldError]:
        """Of a Framework with so many tasks, which *field* holds."""
        if self.max_tasks is not None and tasks > self.max_tasks:
            yield forbidden(
                field,
                f"the roles have {tasks} tasks together, and a Framework may have {self.max_tasks} here",
            )

    def _pod_problems(self, pod: dict[str, Any], field: str) -> Iterator[FieldError]:
        spec = as_object(pod.get("spec"))
        if spec.get("hostNetwork") is True and not self.host_network:
            yield forbidden(f"{field}.hostNetwork", "pods get no host network here; leave it out")
        for index, volume in enumerate(as_list(spec.get("volumes"))):
            yield from self._volume_problems(as_object(volume), f"{field}.volumes[{index}]")
        if not self.privileged:
            yield from _privileged(spec, field)

    def _volume_problems(self, volume: dict[str, Any], field: str) -> Iterator[FieldError]:
        path, server = (
            as_object(volume.get("hostPath")).get("path"),
            as_object(volume.get("nfs")).get("server"),
        )
        if isinstance(path, str) and self.host_path_prefixes is not None:
            yield from _path_problems(path, self.host_path_prefixes, f"{field}.hostPath.path")
        if isinstance(server, str) and self.nfs_servers is not None:
            yield from _server_problems(server, self.nfs_servers, f"{field}.nfs.server")


def _path_problems(path: str, prefixes: Sequence[str], field: str) -> Iterator[FieldError]:
    parts = PurePosixPath(path).parts
    if not path.startswith("/"):
        yield forbidden(field, f"{quote_value(path)} is not an absolute path")
    elif ".." in parts:
        # Where it leads depends on what stands on the disk when it is used.
        yield forbidden(field, f"{quote_value(path)} holds '..'; write the path without it")
    elif not any(_below(parts, prefix) for prefix in prefixes):
        yield forbidden(field, f"{quote_value(path)} is outside of {_listed(prefixes, 'host paths')}")


def _below(parts: tuple[str, ...], prefix: str) -> bool:
    first = PurePosixPath(prefix).parts
    # Two slashes at the front are a root of their own to Python, and the same one to Linux.
    return parts[1 : len(first)] == first[1:]


def _server_problems(server: str, servers: Sequence[str], field: str) -> Iterator[FieldError]:
    if server.lower() not in {name.lower() for name in servers}:
        yield forbidden(field, f"{quote_value(server)} is none of {_listed(servers, 'NFS servers')}")


def _privileged(spec: dict[str, Any], field: str) -> Iterator[FieldError]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(as_list(spec.get(kind))):
            if as_object(as_object(container).get("securityContext")).get("privileged") is True:
                yield forbidden(
                    f"{field}.{kind}[{index}].securityContext.privileged",
                    "containers cannot be privileged here; leave it out",
                )


def _listed(allowed: Sequence[str], what: str) -> str:
    return f"the {what} that are allowed here: {', '.join(allowed) or 'there are none'}"
