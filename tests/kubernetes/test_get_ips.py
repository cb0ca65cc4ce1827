"""``get_ips.sh`` on a cluster, through ``kubectl proxy``."""

from pathlib import Path

from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod
from tests.local.test_get_ips import found, proxied


def test_get_ips_prints_the_hosts_of_all_tasks(
    launcher: KubeLauncher, ns: NamespaceClient, cluster: ControlPlane, programs: Path, tmp_path: Path
) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod()), a_role("ps", 1, pod=a_task_pod())))

    with proxied(programs / "kubectl", "--kubeconfig", str(cluster.kubeconfig)) as url:
        output = found(
            tmp_path, KUBE_APISERVER_ADDRESS=url, FC_FRAMEWORK_NAMESPACE=ns.namespace, ps_port="46867"
        )

    hosts = {name: pod["status"]["hostIP"] for name, pod in ns.pods().items()}
    workers = f"{hosts['mnist-worker-0']},{hosts['mnist-worker-1']}"
    assert output == f"{workers} {hosts['mnist-ps-0']}:46867\n"
