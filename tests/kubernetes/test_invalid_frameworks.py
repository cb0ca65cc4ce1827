"""Invalid Frameworks that the CRD accepts, as on a cluster without the webhook."""

from typing import Any

import orjson
import pytest

from tests.builders import Json, a_framework, a_role
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod
from tests.local.server import ended

pytestmark = pytest.mark.usefixtures("shared_launcher")


def apply(ns: NamespaceClient, framework: Json) -> None:
    ns.kubectl("apply", "-f", "-", stdin=orjson.dumps(framework).decode())


def a_valid_framework(name: str = "mnist") -> Json:
    framework = a_framework(a_role(tasks=2, pod=a_task_pod("succeeded")))
    framework["metadata"]["name"] = name
    return framework


def _sequence(framework: Json) -> None:
    framework["spec"]["roleSequence"] = ["worker", "missing"]


def _indexes(framework: Json) -> None:
    framework["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = {"succeededIndexes": "9-3"}


def _containers(framework: Json) -> None:
    del framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]


def _mount(framework: Json) -> None:
    (container,) = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "missing", "mountPath": "/data"}]


@pytest.mark.parametrize(
    ("invalidate", "field"),
    [
        pytest.param(_sequence, "spec.roleSequence[1]", id="a missing role"),
        pytest.param(_indexes, "succeededIndexes", id="an invalid range of indexes"),
        pytest.param(_containers, "spec.containers", id="a pod without containers"),
        pytest.param(_mount, "volumeMounts[0].name", id="a missing volume"),
    ],
)
def test_an_invalid_framework_is_reported_and_runs_after_correction(
    ns: NamespaceClient, invalidate: Any, field: str
) -> None:
    framework = a_valid_framework()
    invalidate(framework)
    apply(ns, framework)

    ns.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")
    condition = next(c for c in ns.framework()["status"]["conditions"] if c["type"] == "Valid")
    pods = ns.pods()
    ns.until(lambda: ns.events("InvalidSpec") or None, "the event is recorded")
    apply(ns, a_valid_framework())

    assert field in condition["message"]
    assert pods == {}
    assert ended(ns.wait_completed()) == "Succeeded"
    assert len(ns.launcher_requests("create", "pods")) == 2


def test_too_long_pod_names_are_reported_with_their_length(ns: NamespaceClient) -> None:
    name = "m" * 60
    apply(ns, a_valid_framework(name))

    ns.kubectl("wait", "--for=condition=Valid=False", f"fw/{name}", "--timeout=60s")

    assert "pod names would have up to 69 characters" in ns.framework(name)["status"]["message"]
    assert ns.launcher_requests("create", "pods") == []


def test_a_running_framework_with_an_invalid_edit_is_not_changed(ns: NamespaceClient) -> None:
    running = a_framework(a_role(tasks=2, pod=a_task_pod()))
    apply(ns, running)
    ns.wait_running("mnist-worker-0", "mnist-worker-1")
    apply(ns, {**running, "spec": {**running["spec"], "roleSequence": ["missing"]}})
    ns.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")
    before = ns.pods()

    apply(ns, {**running, "spec": {**running["spec"], "description": "corrected"}})
    ns.kubectl("wait", "--for=condition=Valid", "fw/mnist", "--timeout=60s")
    for pod in before:
        ns.end_pod(pod, "succeeded")

    assert ended(ns.wait_completed()) == "Succeeded"
    assert {pod["metadata"]["uid"] for pod in ns.pods().values()} == {
        pod["metadata"]["uid"] for pod in before.values()
    }
