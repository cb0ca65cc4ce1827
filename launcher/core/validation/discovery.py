"""Validates ``spec.discovery``, and the pod templates that it adds to."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.json_access import as_list, as_object
from launcher.core.names import DISCOVERY
from launcher.core.parsing import field_path
from launcher.core.parsing.field_path import format_path
from launcher.core.pods.services import SERVICES_ANNOTATION, ServiceMode
from launcher.core.validation.field_errors import invalid, not_found, required, unsupported


def service_errors(pod: Any, field: str) -> Iterator[FieldError]:
    """Errors of the Services annotation of the template at *field*; values of a wrong type are skipped."""
    annotations = as_object(as_object(as_object(pod).get("metadata")).get("annotations"))
    mode = annotations.get(SERVICES_ANNOTATION)
    if not isinstance(mode, str):
        return
    if mode not in list(ServiceMode):
        path = format_path(("metadata", "annotations", SERVICES_ANNOTATION))
        yield unsupported(f"{field}.{path}", mode, [supported.value for supported in ServiceMode])
    elif mode == ServiceMode.NODE_PORT and not _has_ports(as_object(as_object(pod).get("spec"))):
        yield required(f"{field}.spec.containers[0].ports", f"a Service of type {mode} needs a port")


def _has_ports(spec: dict[str, Any]) -> bool:
    return any(as_list(as_object(container).get("ports")) for container in as_list(spec.get("containers")))


_MOUNT_PATH = "/configdir"


def discovery_errors(spec: Mapping[str, Any], roles: Mapping[str, Any]) -> Iterator[FieldError]:
    """Errors of ``spec.discovery``; *roles* are the roles by name. Values of a wrong type are skipped."""
    discovery = spec.get("discovery")
    if not isinstance(discovery, dict):
        return
    ports = as_object(discovery.get("ports"))
    for name in ports:
        if name not in roles:
            yield not_found(field_path.format_path(("spec", "discovery", "ports", name)), name, roles, "role")
    if discovery.get("waitForPorts") is True and not ports:
        must = "there is no port to wait for; set spec.discovery.ports"
        yield invalid("spec.discovery.waitForPorts", True, must)
    path = discovery.get("mountPath") or _MOUNT_PATH
    if not isinstance(path, str):
        return
    if not path.strip("/") or ":" in path:
        must = "must be a directory other than /, without a colon, such as /configdir"
        yield invalid("spec.discovery.mountPath", path, must)
    for index, role in enumerate(as_list(spec.get("taskRoles"))):
        pod = as_object(as_object(as_object(as_object(role).get("task")).get("pod")).get("spec"))
        yield from _pod_errors(pod, f"spec.taskRoles[{index}].task.pod.spec", path)


def _pod_errors(pod: Mapping[str, Any], field: str, mount_path: str) -> Iterator[FieldError]:
    reserved = "reserved for spec.discovery; use another name"
    for kind in ("volumes", "initContainers", "containers"):
        for index, item in enumerate(as_list(pod.get(kind))):
            path = f"{field}.{kind}[{index}]"
            if as_object(item).get("name") == DISCOVERY:
                yield invalid(f"{path}.name", DISCOVERY, reserved)
            for number, mount in enumerate(as_list(as_object(item).get("volumeMounts"))):
                target = as_object(mount).get("mountPath")
                if isinstance(target, str) and target.rstrip("/") == mount_path.rstrip("/"):
                    must = "used by spec.discovery.mountPath; use another path"
                    yield invalid(f"{path}.volumeMounts[{number}].mountPath", target, must)
