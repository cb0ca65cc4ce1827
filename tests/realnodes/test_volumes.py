"""Volumes, init containers and addresses, as real kubelets give them to pods."""

from typing import Any

import pytest

from tests.core.manifests import a_framework, a_role
from tests.kubernetes.world import World
from tests.local.server import ended
from tests.realnodes.bed import NAMES, RealNodes
from tests.realnodes.images import BUSYBOX
from tests.realnodes.pods import FOREVER, a_real_pod, has_host_data, on, sees_host_data

pytestmark = pytest.mark.usefixtures("shared_launcher")


def with_nfs(server: str, path: str) -> dict[str, Any]:
    """Of a pod: it mounts that export."""
    return {"volumes": [{"name": "share", "nfs": {"server": server, "path": path}}]}


SEES_NFS = {"volumeMounts": [{"name": "share", "mountPath": "/share"}]}


def test_an_init_container_leaves_its_work_in_an_empty_dir(world: World) -> None:
    mount = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}
    writer = {"name": "first", "image": BUSYBOX, "command": ["sh", "-c", "echo done >/work/file"], **mount}
    pod = a_real_pod(
        "cat /work/file",
        container=mount,
        initContainers=[writer],
        volumes=[{"name": "work", "emptyDir": {}}],
    )
    world.submit(a_framework(a_role(tasks=1, pod=pod)))

    assert ended(world.completed()) == "Succeeded"
    assert world.kubectl("logs", "mnist-worker-0") == "done\n"


def test_an_init_container_that_fails_is_the_failure_of_its_task(world: World) -> None:
    first = {"name": "first", "image": BUSYBOX, "command": ["sh", "-c", "exit 3"]}
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod("echo never", initContainers=[first]))))

    assert ended(world.completed()) == "Failed"
    status = world.task()["attemptStatus"]["completionStatus"]
    assert status["code"] == 3
    assert [(one["name"], one["code"]) for one in status["pod"]["containers"]] == [("first", 3), ("main", 0)]


@pytest.mark.parametrize("node", NAMES)
def test_a_path_of_the_host_is_that_of_the_node_where_the_pod_runs(
    bed: RealNodes, world: World, node: str
) -> None:
    (bed.nodes[node].data / world.namespace).write_text(f"from {node}\n")
    pod = a_real_pod(f"cat /host/{world.namespace}", container=sees_host_data(), **has_host_data(node))
    world.submit(a_framework(a_role(tasks=1, pod=pod)))

    assert ended(world.completed()) == "Succeeded"
    assert world.kubectl("logs", "mnist-worker-0") == f"from {node}\n"


def test_an_export_that_cannot_be_mounted_is_told_in_kubelets_words_and_fails_nothing(world: World) -> None:
    pod = a_real_pod("ls /share", container=SEES_NFS, **with_nfs("203.0.113.1", "/export"))
    world.submit(a_framework(a_role(tasks=1, pod=pod)))

    def told() -> list[str] | None:
        return [words for words in failed_mounts(world) if "203.0.113.1:/export" in words] or None

    world.until(told, "kubelet tells that it cannot mount it")
    world.until(lambda: world.task()["state"] == "AttemptPreparing" or None, "the task waits for its volume")
    assert world.task()["retryPolicyStatus"]["totalRetriedCount"] == 0


def test_a_directory_that_stands_for_an_export_is_mounted_by_kubelet_as_one(
    bed: RealNodes, world: World
) -> None:
    node = bed.nodes["node-2"]
    (node.data / "export").mkdir()
    (node.data / "export" / "file").write_text("shared\n")
    node.stand_in_for_nfs("198.51.100.1:/export", "/data/export")
    pod = a_real_pod(
        "cat /share/file",
        container=SEES_NFS,
        nodeSelector=on(node.name),
        **with_nfs("198.51.100.1", "/export"),
    )
    world.submit(a_framework(a_role(tasks=1, pod=pod)))

    assert ended(world.completed()) == "Succeeded"
    assert world.kubectl("logs", "mnist-worker-0") == "shared\n"


def test_a_pod_on_the_hosts_network_has_the_address_of_its_node_and_the_status_says_it(
    bed: RealNodes, world: World
) -> None:
    addresses = {node: bed.address(node) for node in NAMES}
    roles = [
        a_role(f"on{number}", 1, pod=a_real_pod(FOREVER, hostNetwork=True, nodeSelector=on(node)))
        for number, node in enumerate(NAMES)
    ]
    world.submit(a_framework(*roles))
    world.running("mnist-on0-0", "mnist-on1-0")

    pods = world.pods()

    for number, node in enumerate(NAMES):
        pod = pods[f"mnist-on{number}-0"]
        assert (pod["status"]["hostIP"], pod["status"]["podIP"]) == (addresses[node], addresses[node])
        assert addresses[node] in world.kubectl("exec", f"mnist-on{number}-0", "--", "ip", "addr")
        status = placed(world, number)
        assert (status["podHostIP"], status["podIP"]) == (addresses[node], addresses[node])


def test_pods_of_different_nodes_reach_each_other(bed: RealNodes, world: World) -> None:
    server = a_real_pod("echo hello | nc -l -p 7000; echo served", nodeSelector=on("node-1"))
    world.submit(a_framework(a_role("server", 1, pod=server), name="server"))
    world.running("server-server-0")
    address = world.pods()["server-server-0"]["status"]["podIP"]
    client = a_real_pod(f"until nc {address} 7000 </dev/null; do sleep 0.2; done", nodeSelector=on("node-2"))
    world.submit(a_framework(a_role("client", 1, pod=client), name="client"))

    assert ended(world.completed("client")) == "Succeeded"
    assert world.kubectl("logs", "client-client-0") == "hello\n"
    assert ended(world.completed("server")) == "Succeeded"


def failed_mounts(world: World) -> list[str]:
    events = world.cluster.admin.get(world.path("events"))["items"]
    return [event["message"] for event in events if event["reason"] == "FailedMount"]


def placed(world: World, role: int) -> Any:
    """The attempt of that role's one task, once the status says where it runs."""

    def look() -> Any:
        status = world.task(role=role)["attemptStatus"]
        return status if status.get("podHostIP") else None

    return world.until(look, "the status says where it runs")
