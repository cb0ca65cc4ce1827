"""``spec.replicas`` on a real control plane: kubectl and autoscalers scale a Framework, and its pods come and go."""

import json
from typing import Any

import pytest

from launcher.core.replicas import reconcile_replicas, with_replicas
from tests.cluster import pods
from tests.cluster.client import Answer
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.test_crd import frameworks
from tests.local.server import PATIENCE, until

MERGE = "application/merge-patch+json"


@pytest.fixture
def running(cluster: ControlPlane, shared_launcher: KubeLauncher, namespace: str) -> str:
    """The namespace of a Framework of two tasks that run, stored as the launcher's webhook stores it."""
    cluster.admin.post(frameworks(namespace), with_replicas(a_framework()))
    comes_to(cluster, namespace, 2)
    return namespace


def comes_to(cluster: ControlPlane, namespace: str, tasks: int, within: float = PATIENCE) -> None:
    """Return when that many pods run, and none else is there, and the status says so."""
    wanted = [f"mnist-worker-{index}" for index in range(tasks)]

    def look() -> bool | None:
        found = cluster.admin.get(pods.path(namespace))["items"]
        names = [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running"]
        status = cluster.admin.get(frameworks(namespace, "mnist")).get("status", {})
        settled = status.get("taskCounts") == ({"AttemptRunning": tasks} if tasks else {})
        return (sorted(names) == wanted and len(found) == tasks and settled) or None

    until(look, f"{tasks} tasks run", within)


def spec_of(cluster: ControlPlane, namespace: str) -> Json:
    spec: Json = cluster.admin.get(frameworks(namespace, "mnist"))["spec"]
    return spec


def numbers(spec: Json) -> tuple[int, int | None]:
    return spec["taskRoles"][0]["taskNumber"], spec.get("replicas")


def test_kubectl_scales_a_framework_up_and_down(cluster: ControlPlane, running: str) -> None:
    said = cluster.kubectl("scale", "fw/mnist", "--replicas=4", "-n", running)
    comes_to(cluster, running, 4)
    cluster.kubectl("scale", "fw/mnist", "--current-replicas=4", "--replicas=1", "-n", running)
    comes_to(cluster, running, 1)

    assert said == "framework.launcher.microsoft.com/mnist scaled\n"
    assert numbers(spec_of(cluster, running)) == (2, 1)


def test_the_scale_tells_what_there_is_and_which_pods_these_are(cluster: ControlPlane, running: str) -> None:
    cluster.kubectl("scale", "fw/mnist", "--replicas=3", "-n", running)
    comes_to(cluster, running, 3)

    scale = cluster.admin.get(frameworks(running, "mnist/scale"))
    selected = cluster.kubectl("get", "pods", "-n", running, "-o", "name", "-l", scale["status"]["selector"])

    assert scale["spec"] == {"replicas": 3}
    assert scale["status"]["replicas"] == 3
    assert len(selected.splitlines()) == 3


def test_an_autoscaler_scales_a_framework(cluster: ControlPlane, running: str) -> None:
    cluster.kubectl("autoscale", "fw/mnist", "--min=4", "--max=6", "--cpu=50%", "-n", running)

    # The controller manager learns of new kinds every 30 seconds.
    comes_to(cluster, running, 4, within=30 + PATIENCE)

    path = f"/apis/autoscaling/v2/namespaces/{running}/horizontalpodautoscalers/mnist"
    conditions = {c["type"]: c for c in cluster.admin.get(path)["status"]["conditions"]}
    assert conditions["AbleToScale"]["status"] == "True", conditions
    assert numbers(spec_of(cluster, running)) == (2, 4)


def test_a_framework_that_never_saw_the_webhook_can_be_scaled_too(
    cluster: ControlPlane, shared_launcher: KubeLauncher, namespace: str
) -> None:
    cluster.admin.post(frameworks(namespace), a_framework())
    comes_to(cluster, namespace, 2)

    cluster.kubectl("scale", "fw/mnist", "--replicas=3", "-n", namespace)

    comes_to(cluster, namespace, 3)


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["by itself", "with the server's help"])
def test_the_same_file_applied_after_a_scale_changes_nothing(
    cluster: ControlPlane, namespace: str, how: tuple[str, ...]
) -> None:
    def apply(framework: Json, *flags: str) -> str:
        return cluster.kubectl(
            "apply", *how, *flags, "-n", namespace, "-f", "-", "-o", "json", stdin=json.dumps(framework)
        )

    # Replicas is written as the webhook would.
    held = a_framework(executionType="Create")
    first = json.loads(apply(held))
    cluster.admin.patch(frameworks(namespace, "mnist"), {"spec": {"replicas": 2}})
    cluster.kubectl("scale", "fw/mnist", "--replicas=5", "-n", namespace)
    before = cluster.admin.get(frameworks(namespace, "mnist"))["metadata"]["generation"]

    again = json.loads(apply(held))
    diff = cluster.kubectl("diff", *how, "-n", namespace, "-f", "-", stdin=json.dumps(held))

    assert numbers(first["spec"]) == (2, None)
    assert numbers(again["spec"]) == (2, 5)
    assert again["metadata"]["generation"] == before
    assert diff == ""


def test_who_owns_taskNumber_and_who_scales_do_not_contradict_each_other(  # noqa: N802 - it is called so
    cluster: ControlPlane, namespace: str
) -> None:
    def apply(manager: str, spec: Json) -> Any:
        wish = {**a_framework(), "spec": spec}
        path = f"{frameworks(namespace, 'mnist')}?fieldManager={manager}"
        return cluster.admin.ask("PATCH", path, wish, content_type="application/apply-patch+yaml")

    mine: Json = {"executionType": "Create", "taskRoles": [a_role(tasks=2)]}
    assert apply("one", mine).status == 201
    assert apply("two", {"replicas": 5}).status == 200
    cluster.kubectl("scale", "fw/mnist", "--replicas=6", "-n", namespace)

    again = apply("one", mine)
    other = apply("two", {"replicas": 5})

    assert (again.status, numbers(again.body["spec"])) == (200, (2, 6))
    assert (other.status, other.body["reason"]) == (409, "Conflict")
    assert ".spec.replicas" in other.body["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"taskRoles": [a_role(tasks=3)]},
            "it stands over taskNumber, which was changed: set it to the same number, or to null",
            id="a new number of tasks that would not count",
        ),
        pytest.param(
            {"taskRoles": [a_role(), a_role("ps")]},
            "only a Framework with one task role has it",
            id="a second role",
        ),
    ],
)
def test_what_the_webhook_would_set_right_is_refused_while_it_is_away(
    cluster: ControlPlane, namespace: str, change: Json, message: str
) -> None:
    stored = cluster.admin.post(frameworks(namespace), with_replicas(a_framework(executionType="Create")))
    path = frameworks(namespace, "mnist")

    refused = cluster.admin.ask("PATCH", path, {"spec": change}, content_type=MERGE)
    settled = reconcile_replicas({**stored, "spec": stored["spec"] | change}, stored)

    def put() -> Answer | None:
        """What becomes of it as soon as the launcher does not write its status in between."""
        settled["metadata"] |= {"resourceVersion": cluster.admin.get(path)["metadata"]["resourceVersion"]}
        answer = cluster.admin.ask("PUT", path, settled)
        return answer if answer.status != 409 else None

    taken = until(put, "it is taken, or refused")
    assert (refused.status, refused.body["details"]["causes"][0]["field"]) == (422, "spec.replicas")
    assert message in refused.body["message"]
    assert taken.status == 200, taken.body


def test_several_roles_have_no_one_scale(cluster: ControlPlane, namespace: str) -> None:
    roles = a_role(), a_role("ps")
    cluster.admin.post(frameworks(namespace), a_framework(*roles, executionType="Create"))

    told = cluster.kubectl("scale", "fw/mnist", "--replicas=4", "-n", namespace, ok=False)

    assert "spec.taskRoles[0].taskNumber" in told


def test_a_scale_beyond_the_most_is_refused(cluster: ControlPlane, namespace: str) -> None:
    cluster.admin.post(frameworks(namespace), a_framework(executionType="Create"))

    told = cluster.kubectl("scale", "fw/mnist", "--replicas=10001", "-n", namespace, ok=False)

    assert "less than or equal to 10000" in told
