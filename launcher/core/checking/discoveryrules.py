"""What ``spec.discovery`` must keep to, and what the pods must leave free for it."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.core.checking import fieldpath
from launcher.core.checking.podrules import items, part
from launcher.core.checking.problems import invalid, not_found
from launcher.core.errors import Problem
from launcher.core.names import DISCOVERY

_MOUNT_PATH = "/configdir"


def discovery_problems(spec: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Problem]:
    """Each rule that it breaks; *known* are the roles by name. What has not its proper shape is passed over."""
    discovery = spec.get("discovery")
    if not isinstance(discovery, dict):
        return
    ports = part(discovery.get("ports"))
    for name in ports:
        if name not in known:
            yield not_found(fieldpath.written(("spec", "discovery", "ports", name)), name, known, "role")
    if discovery.get("waitForPorts") is True and not ports:
        must = "there is no port to wait for; name those of the roles in spec.discovery.ports"
        yield invalid("spec.discovery.waitForPorts", True, must)
    path = discovery.get("mountPath") or _MOUNT_PATH
    if not isinstance(path, str):
        return
    if not path.strip("/") or ":" in path:
        must = "must be a directory of its own without a colon in its name, such as /configdir"
        yield invalid("spec.discovery.mountPath", path, must)
    for index, role in enumerate(items(spec.get("taskRoles"))):
        pod = part(part(part(part(role).get("task")).get("pod")).get("spec"))
        yield from _pod_problems(pod, f"spec.taskRoles[{index}].task.pod.spec", path)


def _pod_problems(pod: Mapping[str, Any], field: str, path: str) -> Iterator[Problem]:
    ours = "this is the name of what spec.discovery adds to the pod; choose another"
    for kind in ("volumes", "initContainers", "containers"):
        for index, each in enumerate(items(pod.get(kind))):
            where = f"{field}.{kind}[{index}]"
            if part(each).get("name") == DISCOVERY:
                yield invalid(f"{where}.name", DISCOVERY, ours)
            for number, mount in enumerate(items(part(each).get("volumeMounts"))):
                target = part(mount).get("mountPath")
                if isinstance(target, str) and target.rstrip("/") == path.rstrip("/"):
                    must = "spec.discovery puts its files there; mount one of the two somewhere else"
                    yield invalid(f"{where}.volumeMounts[{number}].mountPath", target, must)
