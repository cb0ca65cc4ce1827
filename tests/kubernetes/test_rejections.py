"""Pods rejected by the cluster: its message is reported, and its kind decides about a retry."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.builders import Json, a_framework, a_role
from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod
from tests.local.server import ended

pytestmark = pytest.mark.usefixtures("shared_launcher")

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
#: Completion codes: the rejection is permanent, or unknown.
PERMANENT, UNKNOWN = -200, -310


def a_limited_container(**resources: str) -> Json:
    return {"name": "main", "image": "busybox", "resources": {"requests": resources, "limits": resources}}


def wait_for_task_message(ns: NamespaceClient, text: str, name: str = "mnist") -> str:
    """Waits until a task has a message with this text, and returns it."""

    def probe() -> str | None:
        framework = ns.framework(name)
        roles = framework.get("status", {}).get("attemptStatus", {}).get("taskRoleStatuses") or []
        tasks = [task for role in roles for task in role["taskStatuses"]]
        return next((task["message"] for task in tasks if text in task.get("message", "")), None)

    return ns.until(probe, f"a task has the message {text!r}")


def failure_message(ns: NamespaceClient, code: int) -> str:
    """Waits until the Framework has failed with this code, and returns the diagnostics."""
    framework = ns.wait_completed()
    completion = framework["status"]["attemptStatus"]["completionStatus"]
    assert ended(framework) == "Failed"
    assert completion["code"] == code
    return str(completion["diagnostics"])


def test_an_exceeded_quota_is_reported_and_retried(ns: NamespaceClient) -> None:
    quotas = ns.path("resourcequotas")
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    ns.cluster.admin.post(quotas, quota)
    ns.until(lambda: ns.cluster.admin.get(f"{quotas}/few").get("status") or None, "the quota is counted")
    ns.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))

    message = wait_for_task_message(ns, "exceeded quota")
    events = ns.until(lambda: ns.events("FailedCreate") or None, "the rejection is reported")
    ns.cluster.admin.patch(f"{quotas}/few", {"spec": {"hard": {"pods": "10"}}})
    ns.wait_running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    assert "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2" in message
    assert any("exceeded quota: few, requested: pods=1" in event for event in events)
    created = [request for request in ns.launcher_requests("create", "pods") if request.status == 201]
    assert len(created) == 3


def test_a_role_that_fits_does_not_wait_for_one_that_does_not(ns: NamespaceClient) -> None:
    quotas = ns.path("resourcequotas")
    ns.cluster.admin.post(quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "1"}}})
    ns.until(lambda: ns.cluster.admin.get(f"{quotas}/small").get("status") or None, "the quota is counted")
    large = a_task_pod(containers=[a_limited_container(cpu="2")])
    small = a_task_pod(containers=[a_limited_container(cpu="500m")])

    # More tasks than are created at once, so that the small role is created after the rejection of the first ones.
    ns.submit(a_framework(a_role("large", 80, pod=large), a_role("small", 1, pod=small)))

    assert "exceeded quota: small" in wait_for_task_message(ns, "exceeded quota")
    ns.wait_running("mnist-small-0")


def test_a_pod_over_a_limit_range_fails_with_the_clusters_message(ns: NamespaceClient) -> None:
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    ns.cluster.admin.post(ns.path("limitranges"), {"metadata": {"name": "small"}, "spec": limits})

    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod(containers=[a_limited_container(cpu="2")]))))

    assert "maximum cpu usage per Container is 1, but limit is 2" in failure_message(ns, UNKNOWN)
    assert len(ns.launcher_requests("create", "pods")) == 1


def test_defaults_of_a_limit_range_do_not_affect_the_launcher(ns: NamespaceClient) -> None:
    limits = {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "10m"}}]}
    ns.cluster.admin.post(ns.path("limitranges"), {"metadata": {"name": "defaults"}, "spec": limits})

    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded"))))

    assert ended(ns.wait_completed()) == "Succeeded"


def test_a_pod_against_pod_security_fails_with_the_clusters_message(ns: NamespaceClient) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    ns.cluster.admin.patch(f"/api/v1/namespaces/{ns.namespace}", {"metadata": {"labels": labels}})

    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))

    message = failure_message(ns, UNKNOWN)
    assert 'violates PodSecurity "restricted:latest"' in message
    assert "runAsNonRoot != true" in message
    events = ns.until(lambda: ns.events("PodCreationUnknownError") or None, "the rejection is reported")
    assert any("violates PodSecurity" in event for event in events)


def test_an_invalid_pod_fails_permanently_with_all_errors(ns: NamespaceClient) -> None:
    # Both are left to kube-apiserver by the launcher's own validation.
    gates = [{"conditionType": "a b"}]
    role = a_role(tasks=1, pod=a_task_pod(dnsPolicy="None", readinessGates=gates))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": 3}

    ns.submit(a_framework(role))

    message = failure_message(ns, PERMANENT)
    assert "spec.dnsConfig: Required value" in message
    assert 'spec.readinessGates[0].conditionType: Invalid value: "a b"' in message
    assert len(ns.launcher_requests("create", "pods")) == 1


@contextmanager
def admission_policy(ns: NamespaceClient, validation: Json) -> Iterator[None]:
    """Applies the validation to pods of the namespace inside the block."""
    name = f"policy-{ns.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": ns.namespace}}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    ns.cluster.admin.post(_POLICIES, {"metadata": {"name": name}, "spec": spec})
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    ns.cluster.admin.post(_BINDINGS, {"metadata": {"name": name}, "spec": binding})
    try:
        ns.until(lambda: _is_denied(ns), "the policy is enforced")
        yield
    finally:
        ns.cluster.admin.delete(f"{_BINDINGS}/{name}")
        ns.cluster.admin.delete(f"{_POLICIES}/{name}")


def _is_denied(ns: NamespaceClient) -> bool | None:
    pod = {"metadata": {"name": "probe"}, "spec": a_task_pod()["spec"]}
    return ns.cluster.admin.request("POST", f"{ns.path('pods')}?dryRun=All", pod).status >= 400 or None


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        pytest.param("Forbidden", UNKNOWN, id="forbidden"),
        pytest.param("Invalid", PERMANENT, id="invalid"),
    ],
)
def test_a_pod_denied_by_an_admission_policy_fails_with_the_policys_message(
    ns: NamespaceClient, reason: str, code: int
) -> None:
    validation = {"expression": "false", "message": "pods need a cost center", "reason": reason}
    with admission_policy(ns, validation):
        ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))

        message = failure_message(ns, code)

    assert "denied request: pods need a cost center" in message
    assert len(ns.launcher_requests("create", "pods")) == 1


def test_a_denied_task_is_retried_if_its_policy_permits(ns: NamespaceClient) -> None:
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 2}
    with admission_policy(ns, {"expression": "false", "message": "not today"}):
        ns.submit(a_framework(role))

        message = failure_message(ns, PERMANENT)

    assert "not today" in message
    assert len(ns.launcher_requests("create", "pods")) == 3


def test_a_terminating_namespace_gets_no_pods(cluster: ControlPlane) -> None:
    ns = NamespaceClient(cluster, cluster.new_namespace())
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0")

    # The namespace controller would delete the Framework, too, sometimes before its pod.
    with cluster.paused(Component.CONTROLLER_MANAGER):
        cluster.admin.delete(f"/api/v1/namespaces/{ns.namespace}")
        cluster.admin.delete(ns.path("pods", "mnist-worker-0"))
        message = failure_message(ns, UNKNOWN)

    assert "because it is being terminated" in message
    ns.until(lambda: (not ns.framework()) or None, "the Framework is deleted")


def test_a_framework_waits_for_a_missing_service_account(ns: NamespaceClient) -> None:
    pod = a_task_pod("succeeded", serviceAccountName="later")
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))

    message = wait_for_task_message(ns, "service account")
    ns.cluster.admin.post(ns.path("serviceaccounts"), {"metadata": {"name": "later"}})

    assert 'serviceaccount "later" not found' in message
    assert ended(ns.wait_completed()) == "Succeeded"
