"""``get_ips.sh`` on a cluster, by ``kubectl proxy`` as its admin runs it."""

from pathlib import Path

from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import a_framework, a_role
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import World, a_task_pod
from tests.local.test_get_ips import found, proxied


def test_it_finds_the_hosts_of_all_tasks(
    launcher: KubeLauncher, world: World, cluster: ControlPlane, tmp_path: Path
) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_task_pod()), a_role("ps", 1, pod=a_task_pod())))

    with proxied("--kubeconfig", str(cluster.kubeconfig)) as url:
        said = found(
            tmp_path, KUBE_APISERVER_ADDRESS=url, FC_FRAMEWORK_NAMESPACE=world.namespace, ps_port="46867"
        )

    hosts = {name: pod["status"]["hostIP"] for name, pod in world.pods().items()}
    workers = f"{hosts['mnist-worker-0']},{hosts['mnist-worker-1']}"
    assert said == f"{workers} {hosts['mnist-ps-0']}:46867\n"
