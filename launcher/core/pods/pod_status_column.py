"""The STATUS column of ``kubectl get pods``."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.core.json_access import as_list, as_object


def pod_status_column(pod: Mapping[str, Any]) -> str:
    """Returns the phase of the pod, or the reason of a container: ``Running``, ``Init:0/1``, ``Completed``, …"""
    status = as_object(pod.get("status"))
    if "deletionTimestamp" in as_object(pod.get("metadata")):
        return "Terminating"
    containers = container_statuses(status)
    reason = _init_reason(pod, status) or next(_reasons(containers), None)
    if reason == "Completed" and any(
        "running" in as_object(container.get("state")) for container in containers
    ):
        # One container is completed, others are running.
        reason = "Running" if all(container.get("ready") for container in containers) else "NotReady"
    return str(reason or status.get("reason") or status.get("phase") or "Unknown")


def container_statuses(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the statuses of the main containers."""
    return [as_object(container) for container in as_list(status.get("containerStatuses"))]


def _init_reason(pod: Mapping[str, Any], status: Mapping[str, Any]) -> str | None:
    """Returns ``Init:1/2`` or ``Init:REASON`` until all init containers are completed or started as sidecars."""
    declared = [
        as_object(container) for container in as_list(as_object(pod.get("spec")).get("initContainers"))
    ]
    sidecars = {container.get("name") for container in declared if container.get("restartPolicy") == "Always"}
    statuses = as_list(status.get("initContainerStatuses"))
    for index, entry in enumerate(statuses):
        container = as_object(entry)
        state = as_object(container.get("state"))
        terminated = as_object(state.get("terminated"))
        is_completed = bool(terminated) and terminated.get("exitCode") == 0
        if is_completed or (container.get("name") in sidecars and container.get("started")):
            continue
        reason = _terminated(terminated) if terminated else as_object(state.get("waiting")).get("reason")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(declared) or len(statuses)}"
    return None


def _reasons(containers: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the reason of each container that is waiting or terminated."""
    for container in containers:
        state = as_object(container.get("state"))
        if reason := as_object(state.get("waiting")).get("reason"):
            yield str(reason)
        elif terminated := as_object(state.get("terminated")):
            yield _terminated(terminated)


def _terminated(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode')}"
