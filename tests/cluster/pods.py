"""Pods for the simulated nodes."""

from typing import Any

from tests.cluster.controlplane import ControlPlane
from tests.eventually import until


def path(namespace: str, name: str = "") -> str:
    """The API path of the pods of a namespace, or of one pod."""
    return f"/api/v1/namespaces/{namespace}/pods" + (name and f"/{name}")


def end_annotations(
    ends: str | None = None, *, after: str | None = None, exit_code: str | None = None
) -> dict[str, str]:
    """The annotations with which simulated nodes end a pod: see stages.yaml."""
    values = {"ends": ends, "after": after, "exit-code": exit_code}
    return {f"launcher.test/{key}": value for key, value in values.items() if value is not None}


def a_pod(
    name: str,
    *,
    ends: str | None = None,
    after: str | None = None,
    exit_code: str | None = None,
    host_network: bool = False,
) -> dict[str, Any]:
    """A pod that runs until annotated, or ends as specified."""
    annotations = end_annotations(ends, after=after, exit_code=exit_code)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "hostNetwork": host_network,
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }


def wait_for_phase(cluster: ControlPlane, namespace: str, name: str, phase: str) -> Any:
    """Waits until the pod is in that phase, and returns it."""

    def probe() -> Any:
        pod = cluster.admin.get(path(namespace, name))
        return pod if pod["status"]["phase"] == phase else None

    return until(probe, f"pod {name} is {phase}")
