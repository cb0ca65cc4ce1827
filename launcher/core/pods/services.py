"""
The Services of a Framework: names that stay while its pods come and go.

* One without an address of its own, named as the Framework, in which each pod has a name: ``mnist-worker-0.mnist``.
  It is there for Frameworks with ``spec.discovery``, and for those whose templates name it as ``subdomain``.
* What the annotation ``launcher.microsoft.com/services`` of a role's pod template asks for: ``PerTask``, one for each
  task, named as its pod; ``NodePort``, one for the role, ``mnist-tensorboard``, reached from outside.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from launcher.core.framework import Framework
from launcher.core.names import API_VERSION, KIND, PodIdentityKey, config_map_name, pod_name
from launcher.core.owner_references import controller_reference
from launcher.core.spec import FrameworkName, TaskRole

Json = dict[str, Any]

#: Of a pod template: which Services its role has.
ANNOTATION = "launcher.microsoft.com/services"
_PLACEHOLDER = re.compile(r"\{\{(FC_[A-Z_]+)\}\}")


class ServiceMode(StrEnum):
    """Which Services a role has."""

    PER_TASK = "PerTask"
    NODE_PORT = "NodePort"


def service_name(framework: FrameworkName) -> str:
    """The name of the Service in which every pod of the Framework has a name."""
    # Services begin with a letter; and no pod's name has more characters than fit, so neither has this one.
    return f"fw-{framework}" if framework[0].isdigit() else framework


def role_service_name(framework: FrameworkName, role: str) -> str:
    """The name of the Service that leads to any task of the role."""
    return f"{framework}-{role}"


def service_mode(role: TaskRole) -> ServiceMode | None:
    """Which Services the role asks for; None for none. Raises ValueError when the annotation is no such word."""
    asked = ((role.pod.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION)
    return None if asked is None else ServiceMode(asked)


def has_headless_service(framework: Framework) -> bool:
    """Whether there is a Service in which every pod has a name."""
    own = service_name(framework.name)
    return framework.spec.discovery is not None or any(
        (role.pod.get("spec") or {}).get("subdomain") == own for role in framework.spec.roles
    )


def services_of(framework: Framework) -> dict[str, Json]:
    """Every Service that the Framework is to have, by its name."""
    return {service["metadata"]["name"]: service for service in _services(framework)}


def _services(framework: Framework) -> Iterator[Json]:
    if has_headless_service(framework):
        selector = {PodIdentityKey.FRAMEWORK_NAME.value: framework.name}
        yield _service(framework, service_name(framework.name), selector, selector, _HEADLESS)
    for role in framework.spec.roles:
        match service_mode(role):
            case ServiceMode.PER_TASK:
                for index in range(role.tasks):
                    yield _of_task(framework, role, index)
            case ServiceMode.NODE_PORT:
                yield _of_role(framework, role)
            case None:
                pass


#: Peers are looked for before they are ready.
_HEADLESS: Mapping[str, Any] = {"clusterIP": "None", "publishNotReadyAddresses": True}


def _of_task(framework: Framework, role: TaskRole, index: int) -> Json:
    name = pod_name(framework.name, role.name, index)
    selector = {**_role_selector(framework, role), PodIdentityKey.TASK_INDEX.value: str(index)}
    marks: Mapping[str, str] = {
        PodIdentityKey.FRAMEWORK_NAMESPACE: framework.namespace,
        PodIdentityKey.FRAMEWORK_NAME: framework.name,
        PodIdentityKey.TASKROLE_NAME: role.name,
        PodIdentityKey.TASK_INDEX: str(index),
        PodIdentityKey.CONFIGMAP_NAME: config_map_name(framework.name),
        PodIdentityKey.POD_NAME: name,
    }
    labels = {
        key: _PLACEHOLDER.sub(lambda found: marks.get(found[1], found[0]), value)
        for key, value in _labels(role).items()
    }
    return _service(framework, name, {**labels, **selector}, selector, {**_HEADLESS, **_ports(role)})


def _of_role(framework: Framework, role: TaskRole) -> Json:
    selector = _role_selector(framework, role)
    # What differs from task to task is no label of all of them.
    labels = {key: value for key, value in _labels(role).items() if not _PLACEHOLDER.search(value)}
    name = role_service_name(framework.name, role.name)
    return _service(
        framework,
        name,
        {**labels, **selector},
        selector,
        {"type": ServiceMode.NODE_PORT.value, **_ports(role)},
    )


def _role_selector(framework: Framework, role: TaskRole) -> dict[str, str]:
    return {
        PodIdentityKey.FRAMEWORK_NAME.value: framework.name,
        PodIdentityKey.TASKROLE_NAME.value: role.name,
    }


def _labels(role: TaskRole) -> Mapping[str, str]:
    return (role.pod.get("metadata") or {}).get("labels") or {}


def _ports(role: TaskRole) -> Json:
    """Every port that a container of the role's pods names, as the ``ports`` of a Service."""
    ports: dict[tuple[int, str], Json] = {}
    names: set[str] = set()
    for container in (role.pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            number, protocol = port["containerPort"], port.get("protocol") or "TCP"
            if (number, protocol) in ports:
                continue
            name = port.get("name") or ""
            if not name or name in names:
                name = f"{protocol.lower()}-{number}"
            names.add(name)
            ports[number, protocol] = {
                "name": name,
                "port": number,
                "protocol": protocol,
                "targetPort": number,
            }
    return {"ports": list(ports.values())} if ports else {}


def _service(
    framework: Framework,
    name: str,
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    spec: Mapping[str, Any],
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": framework.namespace,
            "labels": dict(labels),
            "ownerReferences": [controller_reference(API_VERSION, KIND, framework.name, framework.uid)],
        },
        "spec": {"selector": dict(selector), **spec},
    }
