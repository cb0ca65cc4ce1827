"""Completed attempts of Frameworks as objects of a real control plane."""

import pytest

from tests.builders import Json, a_framework, a_role
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod

pytestmark = pytest.mark.usefixtures("shared_launcher")

RETRIED_ONCE: Json = {"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 1}}


def test_a_retried_framework_keeps_its_attempts_which_kubectl_lists_and_which_are_deleted_with_it(
    ns: NamespaceClient,
) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod("failed", exit_code="7")), **RETRIED_ONCE))

    framework = ns.wait_completed()
    lines = ns.kubectl("get", "fwa").splitlines()
    attempt = ns.cluster.admin.get(ns.frameworks.replace("frameworks", "frameworkattempts") + "/mnist-1")
    ns.delete_without_waiting("framework", "mnist")

    assert lines[0].split() == ["NAME", "FRAMEWORK", "ATTEMPT", "RESULT", "COUNTED", "COMPLETED"]
    assert lines[1].split()[:5] == ["mnist-1", "mnist", "1", "Failed", "true"]
    assert attempt["metadata"]["ownerReferences"][0]["uid"] == framework["metadata"]["uid"]
    assert attempt["attemptStatus"]["completionStatus"]["code"] == 7
    (role,) = attempt["attemptStatus"]["taskRoleStatuses"]
    assert [task["index"] for task in role["taskStatuses"]] == [0, 1]
    ns.until(lambda: ns.kubectl("get", "fwa", "-o=name") == "" or None, "the attempt is deleted")


def test_an_attempt_needs_one_request_and_a_framework_without_retries_none(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("failed")), **RETRIED_ONCE))
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("failed")), name="once"))
    ns.wait_completed()
    ns.wait_completed("once")

    requests = [
        request
        for verb in ("create", "get", "delete", "list", "update", "patch")
        for request in ns.launcher_requests(verb, "frameworkattempts")
    ]
    # The name is in the body of a creation.
    assert [(request.verb, request.status) for request in requests] == [("create", 201)]
