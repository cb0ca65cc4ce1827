"""kubectl top on pods and nodes of local mode."""

from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl, fits_terminal
from tests.eventually import until

BUSY = "while :; do :; done"


def millicores(text: str) -> int:
    return int(text.removesuffix("m"))


def test_top_shows_the_use_of_pods_containers_and_nodes(
    isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    kubectl("create", "-f", "-", stdin=isolated.pod("busy", main=BUSY, side=wait_for_file("never")))
    kubectl("create", "-f", "-", stdin=isolated.pod("idle", main="sleep 600"))
    kubectl("wait", "pod/busy", "pod/idle", "--for=condition=Ready", "--timeout=30s")

    def is_busy() -> bool:
        return millicores(kubectl.table("top", "pod", "busy")[1][1]) > 100

    until(is_busy, "the pod uses the CPU")
    pods = kubectl("top", "pods", "--sort-by=cpu")
    containers = kubectl.table("top", "pod", "busy", "--containers")
    header, *nodes = kubectl.table("top", "nodes")

    rows = [line.split() for line in pods.splitlines()]
    assert [row[0] for row in rows] == ["NAME", "busy", "idle"]
    assert millicores(rows[2][1]) < 50
    assert rows[1][2].endswith("Mi")
    assert {row[1] for row in containers[1:]} == {"main", "side"}
    assert header[0] == "NAME"
    assert millicores(nodes[0][1]) > 100
    assert fits_terminal(pods)


def test_top_of_a_pod_that_does_not_run_reports_it(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=isolated.pod("done", main="true"))
    kubectl("wait", "pod/done", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")

    assert "not found" in kubectl.error_output("top", "pod", "done")
