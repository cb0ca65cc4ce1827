"""``spec.replicas`` on a real control plane: kubectl and autoscalers scale a Framework."""

import json
from typing import Any

import pytest

from launcher.core.replicas import reconcile_replicas, with_replicas
from tests.builders import Json, a_framework, a_role
from tests.cluster import pods
from tests.cluster.client import Response
from tests.cluster.controlplane import ControlPlane
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import frameworks_path

MERGE_PATCH = "application/merge-patch+json"


@pytest.fixture
def running_namespace(cluster: ControlPlane, shared_launcher: KubeLauncher, namespace: str) -> str:
    """The namespace of a Framework with two running tasks, with the defaults of the launcher's webhook."""
    cluster.admin.post(frameworks_path(namespace), with_replicas(a_framework()))
    wait_for_tasks(cluster, namespace, 2)
    return namespace


def wait_for_tasks(
    cluster: ControlPlane, namespace: str, tasks: int, within: float = TIMEOUT_SECONDS
) -> None:
    """Waits until exactly this number of pods exists and runs, and the status counts them."""
    expected = [f"mnist-worker-{index}" for index in range(tasks)]

    def probe() -> bool | None:
        found = cluster.admin.get(pods.path(namespace))["items"]
        names = [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running"]
        status = cluster.admin.get(frameworks_path(namespace, "mnist")).get("status", {})
        consistent = status.get("taskCounts") == ({"AttemptRunning": tasks} if tasks else {})
        return (sorted(names) == expected and len(found) == tasks and consistent) or None

    until(probe, f"{tasks} tasks run", within)


def spec_of(cluster: ControlPlane, namespace: str) -> Json:
    spec: Json = cluster.admin.get(frameworks_path(namespace, "mnist"))["spec"]
    return spec


def task_number_and_replicas(spec: Json) -> tuple[int, int | None]:
    return spec["taskRoles"][0]["taskNumber"], spec.get("replicas")


def test_kubectl_scales_a_framework_up_and_down(cluster: ControlPlane, running_namespace: str) -> None:
    output = cluster.kubectl("scale", "fw/mnist", "--replicas=4", "-n", running_namespace)
    wait_for_tasks(cluster, running_namespace, 4)
    cluster.kubectl("scale", "fw/mnist", "--current-replicas=4", "--replicas=1", "-n", running_namespace)
    wait_for_tasks(cluster, running_namespace, 1)

    assert output == "framework.launcher.microsoft.com/mnist scaled\n"
    assert task_number_and_replicas(spec_of(cluster, running_namespace)) == (2, 1)


def test_the_scale_reports_replicas_and_selector(cluster: ControlPlane, running_namespace: str) -> None:
    cluster.kubectl("scale", "fw/mnist", "--replicas=3", "-n", running_namespace)
    wait_for_tasks(cluster, running_namespace, 3)

    scale = cluster.admin.get(frameworks_path(running_namespace, "mnist/scale"))
    selected = cluster.kubectl(
        "get", "pods", "-n", running_namespace, "-o", "name", "-l", scale["status"]["selector"]
    )

    assert scale["spec"] == {"replicas": 3}
    assert scale["status"]["replicas"] == 3
    assert len(selected.splitlines()) == 3


def test_an_autoscaler_scales_a_framework(cluster: ControlPlane, running_namespace: str) -> None:
    cluster.kubectl("autoscale", "fw/mnist", "--min=4", "--max=6", "--cpu=50%", "-n", running_namespace)

    # kube-controller-manager discovers new kinds every 30 seconds.
    wait_for_tasks(cluster, running_namespace, 4, within=30 + TIMEOUT_SECONDS)

    path = f"/apis/autoscaling/v2/namespaces/{running_namespace}/horizontalpodautoscalers/mnist"
    conditions = {c["type"]: c for c in cluster.admin.get(path)["status"]["conditions"]}
    assert conditions["AbleToScale"]["status"] == "True", conditions
    assert task_number_and_replicas(spec_of(cluster, running_namespace)) == (2, 4)


def test_a_framework_created_without_the_webhook_can_be_scaled(
    cluster: ControlPlane, shared_launcher: KubeLauncher, namespace: str
) -> None:
    cluster.admin.post(frameworks_path(namespace), a_framework())
    wait_for_tasks(cluster, namespace, 2)

    cluster.kubectl("scale", "fw/mnist", "--replicas=3", "-n", namespace)

    wait_for_tasks(cluster, namespace, 3)


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client-side apply", "server-side apply"])
def test_the_same_file_applied_after_a_scale_changes_nothing(
    cluster: ControlPlane, namespace: str, options: tuple[str, ...]
) -> None:
    def apply(framework: Json, *flags: str) -> str:
        return cluster.kubectl(
            "apply", *options, *flags, "-n", namespace, "-f", "-", "-o", "json", stdin=json.dumps(framework)
        )

    # The webhook would set replicas.
    unstarted = a_framework(executionType="Create")
    first = json.loads(apply(unstarted))
    cluster.admin.patch(frameworks_path(namespace, "mnist"), {"spec": {"replicas": 2}})
    cluster.kubectl("scale", "fw/mnist", "--replicas=5", "-n", namespace)
    before = cluster.admin.get(frameworks_path(namespace, "mnist"))["metadata"]["generation"]

    applied_again = json.loads(apply(unstarted))
    diff = cluster.kubectl("diff", *options, "-n", namespace, "-f", "-", stdin=json.dumps(unstarted))

    assert task_number_and_replicas(first["spec"]) == (2, None)
    assert task_number_and_replicas(applied_again["spec"]) == (2, 5)
    assert applied_again["metadata"]["generation"] == before
    assert diff == ""


def test_the_owner_of_task_number_and_the_owner_of_replicas_do_not_conflict(
    cluster: ControlPlane, namespace: str
) -> None:
    def apply(manager: str, spec: Json) -> Any:
        framework = {**a_framework(), "spec": spec}
        path = f"{frameworks_path(namespace, 'mnist')}?fieldManager={manager}"
        return cluster.admin.request("PATCH", path, framework, content_type="application/apply-patch+yaml")

    spec_of_owner: Json = {"executionType": "Create", "taskRoles": [a_role(tasks=2)]}
    assert apply("one", spec_of_owner).status == 201
    assert apply("two", {"replicas": 5}).status == 200
    cluster.kubectl("scale", "fw/mnist", "--replicas=6", "-n", namespace)

    applied_again = apply("one", spec_of_owner)
    other = apply("two", {"replicas": 5})

    assert (applied_again.status, task_number_and_replicas(applied_again.body["spec"])) == (200, (2, 6))
    assert (other.status, other.body["reason"]) == (409, "Conflict")
    assert ".spec.replicas" in other.body["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"taskRoles": [a_role(tasks=3)]},
            "overrides taskNumber, which was changed; set it to the same number, or to null",
            id="a new number of tasks without effect",
        ),
        pytest.param(
            {"taskRoles": [a_role(), a_role("ps")]},
            "only allowed with one task role",
            id="a second role",
        ),
    ],
)
def test_without_the_webhook_inconsistent_scales_are_rejected(
    cluster: ControlPlane, namespace: str, change: Json, message: str
) -> None:
    stored = cluster.admin.post(
        frameworks_path(namespace), with_replicas(a_framework(executionType="Create"))
    )
    path = frameworks_path(namespace, "mnist")

    rejected = cluster.admin.request("PATCH", path, {"spec": change}, content_type=MERGE_PATCH)
    consistent = reconcile_replicas({**stored, "spec": stored["spec"] | change}, stored)

    def put() -> Response | None:
        """The response, unless the launcher has written the status in between."""
        consistent["metadata"] |= {"resourceVersion": cluster.admin.get(path)["metadata"]["resourceVersion"]}
        response = cluster.admin.request("PUT", path, consistent)
        return response if response.status != 409 else None

    accepted = until(put, "the update has no conflict")
    assert (rejected.status, rejected.body["details"]["causes"][0]["field"]) == (422, "spec.replicas")
    assert message in rejected.body["message"]
    assert accepted.status == 200, accepted.body


def test_a_framework_with_several_roles_has_no_scale(cluster: ControlPlane, namespace: str) -> None:
    roles = a_role(), a_role("ps")
    cluster.admin.post(frameworks_path(namespace), a_framework(*roles, executionType="Create"))

    message = cluster.kubectl("scale", "fw/mnist", "--replicas=4", "-n", namespace, ok=False)

    assert "spec.taskRoles[0].taskNumber" in message


def test_a_scale_over_the_limit_is_rejected(cluster: ControlPlane, namespace: str) -> None:
    cluster.admin.post(frameworks_path(namespace), a_framework(executionType="Create"))

    message = cluster.kubectl("scale", "fw/mnist", "--replicas=10001", "-n", namespace, ok=False)

    assert "less than or equal to 10000" in message
