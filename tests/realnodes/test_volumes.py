"""Volumes, init containers and addresses of pods on real nodes."""

from typing import Any

import pytest

from tests.builders import a_framework, a_role
from tests.kubernetes.namespace_client import NamespaceClient
from tests.local.server import ended
from tests.realnodes.bed import NAMES, RealNodes
from tests.realnodes.images import BUSYBOX
from tests.realnodes.pods import SLEEP_COMMAND, a_real_pod, host_data_mount, host_data_volume, node_selector

pytestmark = pytest.mark.usefixtures("shared_launcher")


def nfs_volume(server: str, path: str) -> dict[str, Any]:
    """The fields of a pod that mounts the export."""
    return {"volumes": [{"name": "share", "nfs": {"server": server, "path": path}}]}


NFS_MOUNT = {"volumeMounts": [{"name": "share", "mountPath": "/share"}]}


def test_an_init_container_shares_files_through_an_empty_dir(ns: NamespaceClient) -> None:
    mount = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    writer = {"name": "first", "image": BUSYBOX, "command": ["sh", "-c", "echo done >/work/file"], **mount}
    pod = a_real_pod(
        "cat /work/file",
        container=mount,
        initContainers=[writer],
        volumes=[{"name": "work", "emptyDir": {}}],
    )
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))

    assert ended(ns.wait_completed()) == "Succeeded"
    assert ns.kubectl("logs", "mnist-worker-0") == "done\n"


def test_a_failed_init_container_fails_its_task(ns: NamespaceClient) -> None:
    first = {"name": "first", "image": BUSYBOX, "command": ["sh", "-c", "exit 3"]}
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod("echo never", initContainers=[first]))))

    assert ended(ns.wait_completed()) == "Failed"
    status = ns.task()["attemptStatus"]["completionStatus"]
    assert status["code"] == 3
    assert [(one["name"], one["code"]) for one in status["pod"]["containers"]] == [("first", 3), ("main", 0)]


@pytest.mark.parametrize("node", NAMES)
def test_a_host_path_is_that_of_the_pods_node(bed: RealNodes, ns: NamespaceClient, node: str) -> None:
    (bed.nodes[node].data / ns.namespace).write_text(f"from {node}\n")
    pod = a_real_pod(f"cat /host/{ns.namespace}", container=host_data_mount(), **host_data_volume(node))
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))

    assert ended(ns.wait_completed()) == "Succeeded"
    assert ns.kubectl("logs", "mnist-worker-0") == f"from {node}\n"


def test_an_export_that_cannot_be_mounted_is_reported_with_the_kubelets_message(ns: NamespaceClient) -> None:
    pod = a_real_pod("ls /share", container=NFS_MOUNT, **nfs_volume("203.0.113.1", "/export"))
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))

    def messages() -> list[str] | None:
        return [message for message in failed_mounts(ns) if "203.0.113.1:/export" in message] or None

    ns.until(messages, "the kubelet reports that it cannot mount it")
    ns.until(lambda: ns.task()["state"] == "AttemptPreparing" or None, "the task waits for its volume")
    assert ns.task()["retryPolicyStatus"]["totalRetriedCount"] == 0


def test_a_directory_that_replaces_an_export_is_mounted_by_the_kubelet(
    bed: RealNodes, ns: NamespaceClient
) -> None:
    node = bed.nodes["node-2"]
    (node.data / "export").mkdir()
    (node.data / "export" / "file").write_text("shared\n")
    node.replace_nfs("198.51.100.1:/export", "/data/export")
    pod = a_real_pod(
        "cat /share/file",
        container=NFS_MOUNT,
        nodeSelector=node_selector(node.name),
        **nfs_volume("198.51.100.1", "/export"),
    )
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))

    assert ended(ns.wait_completed()) == "Succeeded"
    assert ns.kubectl("logs", "mnist-worker-0") == "shared\n"


def test_a_pod_on_the_host_network_has_the_address_of_its_node_in_its_status(
    bed: RealNodes, ns: NamespaceClient
) -> None:
    addresses = {node: bed.address(node) for node in NAMES}
    roles = [
        a_role(
            f"on{number}",
            1,
            pod=a_real_pod(SLEEP_COMMAND, hostNetwork=True, nodeSelector=node_selector(node)),
        )
        for number, node in enumerate(NAMES)
    ]
    ns.submit(a_framework(*roles))
    ns.wait_running("mnist-on0-0", "mnist-on1-0")

    pods = ns.pods()

    for number, node in enumerate(NAMES):
        pod = pods[f"mnist-on{number}-0"]
        assert (pod["status"]["hostIP"], pod["status"]["podIP"]) == (addresses[node], addresses[node])
        assert addresses[node] in ns.kubectl("exec", f"mnist-on{number}-0", "--", "ip", "addr")
        status = wait_until_scheduled(ns, number)
        assert (status["podHostIP"], status["podIP"]) == (addresses[node], addresses[node])


def test_pods_on_different_nodes_connect_to_each_other(bed: RealNodes, ns: NamespaceClient) -> None:
    server = a_real_pod("echo hello | nc -l -p 7000; echo served", nodeSelector=node_selector("node-1"))
    ns.submit(a_framework(a_role("server", 1, pod=server), name="server"))
    ns.wait_running("server-server-0")
    address = ns.pods()["server-server-0"]["status"]["podIP"]
    client = a_real_pod(
        f"until nc {address} 7000 </dev/null; do sleep 0.2; done", nodeSelector=node_selector("node-2")
    )
    ns.submit(a_framework(a_role("client", 1, pod=client), name="client"))

    assert ended(ns.wait_completed("client")) == "Succeeded"
    assert ns.kubectl("logs", "client-client-0") == "hello\n"
    assert ended(ns.wait_completed("server")) == "Succeeded"


def failed_mounts(ns: NamespaceClient) -> list[str]:
    events = ns.cluster.admin.get(ns.path("events"))["items"]
    return [event["message"] for event in events if event["reason"] == "FailedMount"]


def wait_until_scheduled(ns: NamespaceClient, role: int) -> Any:
    """Waits until the role's only task has a node in its status, and returns its attempt."""

    def probe() -> Any:
        status = ns.task(role=role)["attemptStatus"]
        return status if status.get("podHostIP") else None

    return ns.until(probe, "the status has the address of the node")
