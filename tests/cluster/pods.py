"""Pods for the simulated nodes, and the wait for what becomes of them."""

from typing import Any

from tests.cluster.controlplane import ControlPlane
from tests.local.server import until


def path(namespace: str, name: str = "") -> str:
    """Where the pods of a namespace are, or one of them."""
    return f"/api/v1/namespaces/{namespace}/pods" + (name and f"/{name}")


def a_pod(
    name: str,
    *,
    ends: str | None = None,
    after: str | None = None,
    exit_code: str | None = None,
    host_network: bool = False,
) -> dict[str, Any]:
    """A pod of one container, which says what shall become of it: see stages.yaml."""
    said = {"ends": ends, "after": after, "exit-code": exit_code}
    annotations = {f"launcher.test/{word}": value for word, value in said.items() if value is not None}
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


def in_phase(cluster: ControlPlane, namespace: str, name: str, phase: str) -> Any:
    """The pod, once it is in that phase."""

    def look() -> Any:
        pod = cluster.admin.get(path(namespace, name))
        return pod if pod["status"]["phase"] == phase else None

    return until(look, f"pod {name} is {phase}")
