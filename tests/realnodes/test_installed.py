"""The launcher as an admin installs it: ``kubectl apply -k``, two replicas in pods, its own service account."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import ControlPlane
from tests.cluster.versions import PROJECT
from tests.core.manifests import a_framework, a_role
from tests.kubernetes.account import BASE, HOME
from tests.kubernetes.world import World
from tests.local.server import ended, until
from tests.realnodes.bed import RealNodes
from tests.realnodes.launcher_image import launcher_image
from tests.realnodes.pods import FOREVER, a_real_pod

OVERLAY = PROJECT / "deploy" / "kubernetes" / "overlays" / "default"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/{HOME}"
#: For a replica to be taken for dead and another one to have taken over.
TAKEOVER = 90.0


@pytest.fixture(scope="module")
def bed(programs: Path, node_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNodes]:
    """Nodes of its own, in a cluster that has never heard of Frameworks until the launcher is installed."""
    with RealNodes(tmp_path_factory.mktemp("bed"), programs, node_programs) as real_nodes:
        real_nodes.load(launcher_image(image_name(), tmp_path_factory.mktemp("image")))
        real_nodes.plane.kubectl("apply", "--server-side", "--kustomize", str(OVERLAY))
        real_nodes.plane.kubectl(
            "--namespace", HOME, "rollout", "status", f"deployment/{HOME}", "--timeout=110s"
        )
        yield real_nodes


@pytest.fixture(scope="module")
def cluster(bed: RealNodes) -> ControlPlane:
    return bed.plane


def image_name() -> str:
    """What kubelet looks for when it reads the Deployment."""
    deployment = yaml.safe_load((BASE / "deployment.yaml").read_text())
    name = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return name if name.count("/") > 1 else f"docker.io/library/{name}"


def replicas(bed: RealNodes) -> dict[str, Any]:
    """The launcher's pods that are not on their way out, by name."""
    found = bed.plane.admin.get(f"/api/v1/namespaces/{HOME}/pods")["items"]
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


def leader(bed: RealNodes) -> str:
    """The name of the replica that works, once there is one."""

    def look() -> str | None:
        answer = bed.plane.admin.ask("GET", LEASE)
        holder = answer.body["spec"].get("holderIdentity", "") if answer.status == 200 else ""
        return next((name for name in replicas(bed) if holder.startswith(name)), None)

    return until(look, "one of the replicas leads", TAKEOVER)


def test_two_replicas_are_ready_on_two_nodes_and_one_of_them_leads(bed: RealNodes) -> None:
    pods = replicas(bed).values()

    assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-1", "node-2"]
    assert all(pod["status"]["containerStatuses"][0]["ready"] for pod in pods)
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0]
    assert leader(bed) in replicas(bed)


def test_it_is_nobody_in_particular_and_can_write_nothing(bed: RealNodes) -> None:
    places = ("/", "/opt/framework-launcher", "/tmp")
    program = f"import os; print(os.getuid(), os.getgid(), [os.access(p, os.W_OK) for p in {places}])"

    for name in replicas(bed):
        said = bed.plane.kubectl("--namespace", HOME, "exec", name, "--", "/usr/bin/python3", "-c", program)
        assert said == "65532 65532 [False, False, False]\n"


def test_a_framework_runs_to_its_end(world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_real_pod("echo task $taskindex"))))

    assert ended(world.completed()) == "Succeeded"
    assert world.kubectl("logs", "mnist-worker-1") == "task 1\n"


def test_what_is_wrong_is_refused_by_its_webhook_before_it_is_stored(world: World) -> None:
    # The definition of Frameworks has no rule for that: it is the launcher that does the sum.
    wrong = yaml.safe_dump(a_framework(a_role("w" * 60, tasks=1, pod=a_real_pod("true")), name="m" * 60))

    said = world.kubectl("create", "-f", "-", stdin=wrong, ok=False)

    assert "shorten a name by 60" in said
    assert world.framework("m" * 60) == {}


def test_what_is_misspelt_is_warned_of_by_its_webhook(world: World) -> None:
    pod = a_real_pod("true", container={"olumeMounts": []})
    text = yaml.safe_dump(a_framework(a_role(tasks=1, pod=pod)))

    said = world.kubectl("create", "--validate=warn", "--warnings-as-errors", "-f", "-", stdin=text, ok=False)

    assert "olumeMounts" in said
    assert "volumeMounts" in said


def test_defaults_are_written_out_by_its_webhook(world: World) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod("true"))))

    assert world.framework()["spec"]["executionType"] == "Start"
    assert world.framework()["spec"]["retryPolicy"] == {"fancyRetryPolicy": False, "maxRetryCount": 0}


def test_clients_reach_it_through_its_service_and_trust_its_certificate(
    bed: RealNodes, tmp_path: Path
) -> None:
    service = bed.plane.admin.get(f"/api/v1/namespaces/{HOME}/services/{HOME}")["spec"]["clusterIP"]
    encoded = bed.plane.kubectl(
        "--namespace", HOME, "get", "secret", "framework-launcher-tls", "-o", r"jsonpath={.data.ca\.crt}"
    )
    authority = tmp_path / "ca.crt"
    authority.write_bytes(base64.b64decode(encoded))

    for node in bed.nodes.values():
        name = f"{HOME}.{HOME}.svc"
        words = ("--resolve", f"{name}:443:{service}", "--cacert", str(authority), f"https://{name}/readyz")
        assert node.machine.run("curl", "--silent", "--show-error", "--max-time", "10", *words) == "ok"


def test_when_the_leader_is_killed_its_work_goes_on(bed: RealNodes, world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_real_pod(FOREVER)), name="long"))
    world.running("long-worker-0", "long-worker-1")
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods().items()}
    first = leader(bed)

    bed.kill_container(replicas(bed)[first])
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod("true")), name="later"))

    assert ended(world.completed("later", TAKEOVER)) == "Succeeded"
    assert {name: world.pods()[name]["metadata"]["uid"] for name in before} == before


def test_when_the_leaders_pod_is_deleted_the_other_one_takes_over_at_once(
    bed: RealNodes, world: World
) -> None:
    first = leader(bed)

    bed.plane.kubectl("--namespace", HOME, "delete", "pod", first, "--timeout=60s")
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod("true"))))

    assert ended(world.completed(within=TAKEOVER)) == "Succeeded"
    assert leader(bed) != first
