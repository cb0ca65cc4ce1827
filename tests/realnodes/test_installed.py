"""The launcher as installed by ``kubectl apply -k``: two replicas with their own service account."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.versions import PROJECT
from tests.eventually import until
from tests.kubernetes.account import BASE, LAUNCHER_NAME, LAUNCHER_NAMESPACE
from tests.kubernetes.namespace_client import NamespaceClient
from tests.local.server import ended
from tests.realnodes.bed import RealNodes
from tests.realnodes.launcher_image import launcher_image
from tests.realnodes.pods import SLEEP_COMMAND, a_real_pod

OVERLAY = PROJECT / "deploy" / "kubernetes" / "overlays" / "default"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LAUNCHER_NAMESPACE}/leases/{LAUNCHER_NAME}"
#: The time within which another replica becomes the leader.
TAKEOVER_SECONDS = 90.0


@pytest.fixture(scope="module")
def bed(programs: Path, node_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNodes]:
    """Nodes of a cluster without the Framework CRD until the launcher is installed."""
    with RealNodes(tmp_path_factory.mktemp("bed"), programs, node_programs) as real_nodes:
        real_nodes.load(launcher_image(image_name(), tmp_path_factory.mktemp("image")))
        real_nodes.plane.kubectl("apply", "--server-side", "--kustomize", str(OVERLAY))
        real_nodes.plane.kubectl(
            "--namespace",
            LAUNCHER_NAMESPACE,
            "rollout",
            "status",
            f"deployment/{LAUNCHER_NAME}",
            "--timeout=110s",
        )
        yield real_nodes


@pytest.fixture(scope="module")
def cluster(bed: RealNodes) -> ControlPlane:
    return bed.plane


def image_name() -> str:
    """The image of the Deployment."""
    deployment = yaml.safe_load((BASE / "deployment.yaml").read_text())
    name = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return name if name.count("/") > 1 else f"docker.io/library/{name}"


def replicas(bed: RealNodes) -> dict[str, Any]:
    """The launcher's pods that are not being deleted, by name."""
    found = bed.plane.admin.get(f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/pods")["items"]
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


def leader(bed: RealNodes) -> str:
    """Waits for a leader, and returns the name of its pod."""

    def probe() -> str | None:
        response = bed.plane.admin.request("GET", LEASE)
        holder = response.body["spec"].get("holderIdentity", "") if response.status == 200 else ""
        return next((name for name in replicas(bed) if holder.startswith(name)), None)

    return until(probe, "one of the replicas leads", TAKEOVER_SECONDS)


def test_two_replicas_are_ready_on_two_nodes_and_one_of_them_leads(bed: RealNodes) -> None:
    pods = replicas(bed).values()

    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-1", "node-2"]
    assert all(pod["status"]["containerStatuses"][0]["ready"] for pod in pods)
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0]
    assert leader(bed) in replicas(bed)


def test_the_launcher_runs_as_an_unprivileged_user_on_a_read_only_root(bed: RealNodes) -> None:
    paths = ("/", "/opt/framework-launcher", "/tmp")
    program = f"import os; print(os.getuid(), os.getgid(), [os.access(p, os.W_OK) for p in {paths}])"

    for name in replicas(bed):
        output = bed.plane.kubectl(
            "--namespace", LAUNCHER_NAMESPACE, "exec", name, "--", "/usr/bin/python3", "-c", program
        )
        assert output == "65532 65532 [False, False, False]\n"


def test_the_image_has_the_library_of_the_log_archive(bed: RealNodes) -> None:
    name, *_ = replicas(bed)
    program = (
        "from launcher.log_archive.object_store import open_archive; open_archive('file:///tmp'); print('ok')"
    )

    output = bed.plane.kubectl(
        "--namespace", LAUNCHER_NAMESPACE, "exec", name, "--", "/usr/bin/python3", "-c", program
    )

    assert output == "ok\n"


def test_a_framework_runs_to_completion(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_real_pod("echo task $taskindex"))))

    assert ended(ns.wait_completed()) == "Succeeded"
    assert ns.kubectl("logs", "mnist-worker-1") == "task 1\n"


def test_the_webhook_rejects_an_invalid_framework_before_it_is_stored(ns: NamespaceClient) -> None:
    # The CRD has no rule for that; the webhook computes the sum.
    invalid = yaml.safe_dump(a_framework(a_role("w" * 60, tasks=1, pod=a_real_pod("true")), name="m" * 60))

    output = ns.kubectl("create", "-f", "-", stdin=invalid, ok=False)

    assert "shorten a name by 60" in output
    assert ns.framework("m" * 60) == {}


def test_the_webhook_warns_of_a_misspelled_field(ns: NamespaceClient) -> None:
    pod = a_real_pod("true", container={"olumeMounts": []})
    text = yaml.safe_dump(a_framework(a_role(tasks=1, pod=pod)))

    output = ns.kubectl("create", "--validate=warn", "--warnings-as-errors", "-f", "-", stdin=text, ok=False)

    assert "olumeMounts" in output
    assert "volumeMounts" in output


def test_the_webhook_writes_defaults(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod("true"))))

    assert ns.framework()["spec"]["executionType"] == "Start"
    assert ns.framework()["spec"]["retryPolicy"] == {"fancyRetryPolicy": False, "maxRetryCount": 0}


def test_clients_connect_through_the_service_and_trust_its_certificate(
    bed: RealNodes, tmp_path: Path
) -> None:
    service = bed.plane.admin.get(f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/services/{LAUNCHER_NAME}")[
        "spec"
    ]["clusterIP"]
    encoded = bed.plane.kubectl(
        "--namespace",
        LAUNCHER_NAMESPACE,
        "get",
        "secret",
        "framework-launcher-tls",
        "-o",
        r"jsonpath={.data.ca\.crt}",
    )
    authority = tmp_path / "ca.crt"
    authority.write_bytes(base64.b64decode(encoded))

    for node in bed.nodes.values():
        name = f"{LAUNCHER_NAME}.{LAUNCHER_NAMESPACE}.svc"
        words = ("--resolve", f"{name}:443:{service}", "--cacert", str(authority), f"https://{name}/readyz")
        assert node.machine.run("curl", "--silent", "--show-error", "--max-time", "10", *words) == "ok"


def test_when_the_leader_is_killed_another_replica_continues(bed: RealNodes, ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_real_pod(SLEEP_COMMAND)), name="long"))
    ns.wait_running("long-worker-0", "long-worker-1")
    before = {name: pod["metadata"]["uid"] for name, pod in ns.pods().items()}
    first = leader(bed)

    bed.kill_container(replicas(bed)[first])
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod("true")), name="later"))

    assert ended(ns.wait_completed("later", TAKEOVER_SECONDS)) == "Succeeded"
    assert {name: ns.pods()[name]["metadata"]["uid"] for name in before} == before


def test_when_the_leaders_pod_is_deleted_the_other_replica_leads_immediately(
    bed: RealNodes, ns: NamespaceClient
) -> None:
    first = leader(bed)

    bed.plane.kubectl("--namespace", LAUNCHER_NAMESPACE, "delete", "pod", first, "--timeout=60s")
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod("true"))))

    assert ended(ns.wait_completed(within=TAKEOVER_SECONDS)) == "Succeeded"
    assert leader(bed) != first
