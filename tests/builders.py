"""Objects as JSON, complete and valid: a test passes the fields that matter to it."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def a_container(*command: str, name: str = "main", **fields: Any) -> Json:
    """A container that runs *command*, by default ``true``."""
    return {"name": name, "image": "busybox", "command": list(command or ("true",)), **fields}


def a_pod_template(*containers: Json, metadata: Any = None, **spec: Any) -> Json:
    """The pod template of a task role."""
    template: Json = {
        "spec": {"restartPolicy": "Never", "containers": list(containers or (a_container(),)), **spec}
    }
    return {"metadata": dict(metadata), **template} if metadata else template


def a_pod(
    name: str = "mnist-worker-0",
    *containers: Json,
    namespace: str = "default",
    metadata: Any = None,
    **spec: Any,
) -> Json:
    """A pod whose container runs once; *metadata* is added to its name and namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **a_pod_template(
            *containers, metadata={"name": name, "namespace": namespace, **(metadata or {})}, **spec
        ),
    }


def a_role(name: str = "worker", tasks: int = 2, *, pod: Json | None = None, **fields: Any) -> Json:
    return {"name": name, "taskNumber": tasks, "task": {"pod": pod or a_pod_template()}, **fields}


def a_framework(*roles: Json, name: str = "mnist", metadata: Any = None, **spec: Any) -> Json:
    """A Framework as a user writes it, without a namespace unless *metadata* has one."""
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {**spec, "taskRoles": list(roles or (a_role(),))},
    }


def a_node(
    name: str = "n1",
    *,
    cpu: int | str = 4,
    memory: str = "8Gi",
    address: str = "",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A node with the allocatable resources and the address that it reports."""
    status: Json = {"allocatable": {"cpu": str(cpu), "memory": memory, "pods": "110"}}
    if address:
        addresses = {"InternalIP": address, "Hostname": name}
        status["addresses"] = [{"type": type_, "address": value} for type_, value in addresses.items()]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": status,
    }
