"""
The admission policy: what the admin allows pods to request.

Paths are compared as text. Symbolic links are resolved and checked when a path is mounted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.json_access import as_list, as_object
from launcher.core.replicas import tasks_of_roles
from launcher.core.validation.field_errors import forbidden, quote_value


@dataclass(slots=True)
class AdmissionPolicy:
    """
    The rules; None allows everything.

    A reload of the settings replaces them in place, so they change everywhere at once.
    """

    #: hostPath volumes must be one of these directories or below one.
    host_path_prefixes: tuple[str, ...] | None = None
    #: Allowed servers of nfs volumes.
    nfs_servers: tuple[str, ...] | None = None
    host_network: bool = True
    privileged: bool = True
    #: Maximum number of tasks of one Framework.
    max_tasks: int | None = 10_000

    def replace_with(self, other: "AdmissionPolicy") -> None:
        """Copies the rules of *other*."""
        for rule in fields(self):
            setattr(self, rule.name, getattr(other, rule.name))

    def errors(self, framework: dict[str, Any]) -> Sequence[FieldError]:
        """Errors of a Framework; values of a wrong type are skipped."""
        return tuple(self._framework_errors(framework))

    def pod_errors(self, pod: dict[str, Any]) -> Sequence[FieldError]:
        """Errors of a pod."""
        return tuple(self._pod_errors(pod, "spec"))

    def _framework_errors(self, framework: dict[str, Any]) -> Iterator[FieldError]:
        spec = as_object(framework.get("spec"))
        yield from self.size_errors(sum(tasks_of_roles(spec)), "spec.taskRoles")
        for index, role in enumerate(as_list(spec.get("taskRoles"))):
            pod = as_object(as_object(as_object(role).get("task")).get("pod"))
            yield from self._pod_errors(pod, f"spec.taskRoles[{index}].task.pod.spec")

    def size_errors(self, tasks: int, field: str) -> Iterator[FieldError]:
        """The error of a Framework with too many tasks, at *field*."""
        if self.max_tasks is not None and tasks > self.max_tasks:
            yield forbidden(
                field,
                f"{tasks} tasks exceed the maximum of the admission policy (max-tasks: {self.max_tasks})",
            )

    def _pod_errors(self, pod: dict[str, Any], field: str) -> Iterator[FieldError]:
        spec = as_object(pod.get("spec"))
        if spec.get("hostNetwork") is True and not self.host_network:
            yield forbidden(
                f"{field}.hostNetwork", "not allowed by the admission policy (host-network: false)"
            )
        for index, volume in enumerate(as_list(spec.get("volumes"))):
            yield from self._volume_errors(as_object(volume), f"{field}.volumes[{index}]")
        if not self.privileged:
            yield from _privileged(spec, field)

    def _volume_errors(self, volume: dict[str, Any], field: str) -> Iterator[FieldError]:
        path, server = (
            as_object(volume.get("hostPath")).get("path"),
            as_object(volume.get("nfs")).get("server"),
        )
        if isinstance(path, str) and self.host_path_prefixes is not None:
            yield from _path_errors(path, self.host_path_prefixes, f"{field}.hostPath.path")
        if isinstance(server, str) and self.nfs_servers is not None:
            yield from _server_errors(server, self.nfs_servers, f"{field}.nfs.server")


def _path_errors(path: str, prefixes: Sequence[str], field: str) -> Iterator[FieldError]:
    parts = PurePosixPath(path).parts
    if not path.startswith("/"):
        yield forbidden(field, f"{quote_value(path)} is not an absolute path")
    elif ".." in parts:
        # Its meaning depends on symbolic links at the time of use.
        yield forbidden(field, f"{quote_value(path)} contains '..'")
    elif not any(_below(parts, prefix) for prefix in prefixes):
        yield forbidden(
            field,
            f"{quote_value(path)} is not allowed by the admission policy (host-path-prefixes: {_listed(prefixes)})",
        )


def _below(parts: tuple[str, ...], prefix: str) -> bool:
    first = PurePosixPath(prefix).parts
    # For Python, two leading slashes are a different root; for Linux they are not.
    return parts[1 : len(first)] == first[1:]


def _server_errors(server: str, servers: Sequence[str], field: str) -> Iterator[FieldError]:
    if server.lower() not in {name.lower() for name in servers}:
        yield forbidden(
            field,
            f"{quote_value(server)} is not allowed by the admission policy (nfs-servers: {_listed(servers)})",
        )


def _privileged(spec: dict[str, Any], field: str) -> Iterator[FieldError]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(as_list(spec.get(kind))):
            if as_object(as_object(container).get("securityContext")).get("privileged") is True:
                yield forbidden(
                    f"{field}.{kind}[{index}].securityContext.privileged",
                    "not allowed by the admission policy (privileged: false)",
                )


def _listed(allowed: Sequence[str]) -> str:
    return f"[{', '.join(allowed)}]"
