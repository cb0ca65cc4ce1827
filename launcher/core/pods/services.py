"""
The Services of a Framework.

* A headless Service, named after the Framework, in which each pod has a DNS name: ``mnist-worker-0.mnist``. It exists
  for Frameworks with ``spec.discovery``, and for those whose templates use it as ``subdomain``.
* The Services that the annotation ``launcher.microsoft.com/services`` of a role's pod template requests: ``PerTask``,
  one for each task, named after its pod; ``NodePort``, one for the role, such as ``mnist-tensorboard``.
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

#: Annotation of a pod template: the Services of its role.
SERVICES_ANNOTATION = "launcher.microsoft.com/services"
_PLACEHOLDER = re.compile(r"\{\{(FC_[A-Z_]+)\}\}")


class ServiceMode(StrEnum):
    """The Services of a role."""

    PER_TASK = "PerTask"
    NODE_PORT = "NodePort"


def service_name(framework: FrameworkName) -> str:
    """The name of the headless Service."""
    # A Service name starts with a letter. It is not too long, since it is shorter than the names of the pods.
    return f"fw-{framework}" if framework[0].isdigit() else framework


def role_service_name(framework: FrameworkName, role: str) -> str:
    """The name of the role's NodePort Service."""
    return f"{framework}-{role}"


def service_mode(role: TaskRole) -> ServiceMode | None:
    """The Services that the role requests; None for none. Raises ValueError when the annotation is invalid."""
    mode = ((role.pod.get("metadata") or {}).get("annotations") or {}).get(SERVICES_ANNOTATION)
    return None if mode is None else ServiceMode(mode)


def has_headless_service(framework: Framework) -> bool:
    """Whether the Framework has the headless Service."""
    own = service_name(framework.name)
    return framework.spec.discovery is not None or any(
        (role.pod.get("spec") or {}).get("subdomain") == own for role in framework.spec.roles
    )


def services_of(framework: Framework) -> dict[str, Json]:
    """The Services of the Framework, by name."""
    return {service["metadata"]["name"]: service for service in _services(framework)}


def _services(framework: Framework) -> Iterator[Json]:
    if has_headless_service(framework):
        selector = {PodIdentityKey.FRAMEWORK_NAME.value: framework.name}
        yield _service(framework, service_name(framework.name), selector, selector, _HEADLESS)
    for role in framework.spec.roles:
        match service_mode(role):
            case ServiceMode.PER_TASK:
                for index in range(role.tasks):
                    yield _task_service(framework, role, index)
            case ServiceMode.NODE_PORT:
                yield _role_service(framework, role)
            case None:
                pass


#: Peers are resolved before they are ready.
_HEADLESS: Mapping[str, Any] = {"clusterIP": "None", "publishNotReadyAddresses": True}


def _task_service(framework: Framework, role: TaskRole, index: int) -> Json:
    name = pod_name(framework.name, role.name, index)
    selector = {**_role_selector(framework, role), PodIdentityKey.TASK_INDEX.value: str(index)}
    identity: Mapping[str, str] = {
        PodIdentityKey.FRAMEWORK_NAMESPACE: framework.namespace,
        PodIdentityKey.FRAMEWORK_NAME: framework.name,
        PodIdentityKey.TASKROLE_NAME: role.name,
        PodIdentityKey.TASK_INDEX: str(index),
        PodIdentityKey.CONFIGMAP_NAME: config_map_name(framework.name),
        PodIdentityKey.POD_NAME: name,
    }
    labels = {
        key: _PLACEHOLDER.sub(lambda match: identity.get(match[1], match[0]), value)
        for key, value in _labels(role).items()
    }
    return _service(framework, name, {**labels, **selector}, selector, {**_HEADLESS, **_ports(role)})


def _role_service(framework: Framework, role: TaskRole) -> Json:
    selector = _role_selector(framework, role)
    # Labels that differ between tasks are omitted.
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
    """The ports of the role's containers as ``ports`` of a Service."""
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
