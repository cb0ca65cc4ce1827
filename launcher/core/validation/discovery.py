"""What ``spec.discovery`` must keep to, and what the pods must leave free for it."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.names import DISCOVERY
from launcher.core.parsing import field_path
from launcher.core.parsing.field_path import written
from launcher.core.pods.services import ANNOTATION, ServiceMode
from launcher.core.validation.field_errors import invalid, not_found, required, unsupported
from launcher.core.validation.pod_template import as_list, as_object


def service_problems(pod: Any, field: str) -> Iterator[FieldError]:
    """Each rule that the template at *field* breaks; what has not its proper shape is passed over."""
    annotations = as_object(as_object(as_object(pod).get("metadata")).get("annotations"))
    asked = annotations.get(ANNOTATION)
    if not isinstance(asked, str):
        return
    if asked not in list(ServiceMode):
        where = written(("metadata", "annotations", ANNOTATION))
        yield unsupported(f"{field}.{where}", asked, [wish.value for wish in ServiceMode])
    elif asked == ServiceMode.NODE_PORT and not _has_ports(as_object(as_object(pod).get("spec"))):
        yield required(
            f"{field}.spec.containers[0].ports", f"a Service of type {asked} is asked for: to which port?"
        )


def _has_ports(spec: dict[str, Any]) -> bool:
    return any(as_list(as_object(container).get("ports")) for container in as_list(spec.get("containers")))


_MOUNT_PATH = "/configdir"


def discovery_problems(spec: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[FieldError]:
    """Each rule that it breaks; *known* are the roles by name. What has not its proper shape is passed over."""
    discovery = spec.get("discovery")
    if not isinstance(discovery, dict):
        return
    ports = as_object(discovery.get("ports"))
    for name in ports:
        if name not in known:
            yield not_found(field_path.written(("spec", "discovery", "ports", name)), name, known, "role")
    if discovery.get("waitForPorts") is True and not ports:
        must = "there is no port to wait for; name those of the roles in spec.discovery.ports"
        yield invalid("spec.discovery.waitForPorts", True, must)
    path = discovery.get("mountPath") or _MOUNT_PATH
    if not isinstance(path, str):
        return
    if not path.strip("/") or ":" in path:
        must = "must be a directory of its own without a colon in its name, such as /configdir"
        yield invalid("spec.discovery.mountPath", path, must)
    for index, role in enumerate(as_list(spec.get("taskRoles"))):
        pod = as_object(as_object(as_object(as_object(role).get("task")).get("pod")).get("spec"))
        yield from _pod_problems(pod, f"spec.taskRoles[{index}].task.pod.spec", path)


def _pod_problems(pod: Mapping[str, Any], field: str, path: str) -> Iterator[FieldError]:
    ours = "this is the name of what spec.discovery adds to the pod; choose another"
    for kind in ("volumes", "initContainers", "containers"):
        for index, each in enumerate(as_list(pod.get(kind))):
            where = f"{field}.{kind}[{index}]"
            if as_object(each).get("name") == DISCOVERY:
                yield invalid(f"{where}.name", DISCOVERY, ours)
            for number, mount in enumerate(as_list(as_object(each).get("volumeMounts"))):
                target = as_object(mount).get("mountPath")
                if isinstance(target, str) and target.rstrip("/") == path.rstrip("/"):
                    must = "spec.discovery puts its files there; mount one of the two somewhere else"
                    yield invalid(f"{where}.volumeMounts[{number}].mountPath", target, must)
