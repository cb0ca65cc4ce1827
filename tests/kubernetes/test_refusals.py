"""What a cluster refuses is told in its own words, and tried again or given up as the kind of refusal asks for."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.world import World, a_task_pod
from tests.local.server import ended

pytestmark = pytest.mark.usefixtures("shared_launcher")

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
#: Codes of reference: the cluster's refusal holds for good, or nobody knows.
PERMANENT, UNKNOWN = -200, -310


def a_container(**resources: str) -> Json:
    return {"name": "main", "image": "busybox", "resources": {"requests": resources, "limits": resources}}


def waits_because(world: World, words: str, name: str = "mnist") -> str:
    """What a task says that waits, once it does for that reason."""

    def look() -> str | None:
        framework = world.framework(name)
        roles = framework.get("status", {}).get("attemptStatus", {}).get("taskRoleStatuses") or []
        tasks = [task for role in roles for task in role["taskStatuses"]]
        return next((task["message"] for task in tasks if words in task.get("message", "")), None)

    return world.until(look, f"a task waits because of {words!r}")


def refused(world: World, code: int) -> str:
    """What is told of the Framework's end, which came of a refusal with that code."""
    framework = world.completed()
    end = framework["status"]["attemptStatus"]["completionStatus"]
    assert ended(framework) == "Failed"
    assert end["code"] == code
    return str(end["diagnostics"])


def test_a_full_quota_is_told_and_waited_for(world: World) -> None:
    quotas = world.path("resourcequotas")
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    world.cluster.admin.post(quotas, quota)
    world.until(
        lambda: world.cluster.admin.get(f"{quotas}/few").get("status") or None, "the quota is counted"
    )
    world.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))

    told = waits_because(world, "exceeded quota")
    events = world.until(lambda: world.events("FailedCreate") or None, "the refusal is told")
    world.cluster.admin.patch(f"{quotas}/few", {"spec": {"hard": {"pods": "10"}}})
    world.running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    assert "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2" in told
    assert any("exceeded quota: few, requested: pods=1" in event for event in events)
    made = [request for request in world.asked("create", "pods") if request.status == 201]
    assert len(made) == 3


def test_a_role_that_fits_does_not_wait_for_one_that_does_not(world: World) -> None:
    quotas = world.path("resourcequotas")
    world.cluster.admin.post(quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "1"}}})
    world.until(
        lambda: world.cluster.admin.get(f"{quotas}/small").get("status") or None, "the quota is counted"
    )
    large = a_task_pod(containers=[a_container(cpu="2")])
    small = a_task_pod(containers=[a_container(cpu="500m")])

    # More of the first than are asked for at once, so that the second comes after they were refused.
    world.submit(a_framework(a_role("large", 80, pod=large), a_role("small", 1, pod=small)))

    assert "exceeded quota: small" in waits_because(world, "exceeded quota")
    world.running("mnist-small-0")


def test_a_pod_beyond_the_namespaces_limits_fails_in_the_clusters_words(world: World) -> None:
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    world.cluster.admin.post(world.path("limitranges"), {"metadata": {"name": "small"}, "spec": limits})

    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod(containers=[a_container(cpu="2")]))))

    assert "maximum cpu usage per Container is 1, but limit is 2" in refused(world, UNKNOWN)
    assert len(world.asked("create", "pods")) == 1


def test_limits_that_the_namespace_gives_to_pods_are_no_trouble(world: World) -> None:
    limits = {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "10m"}}]}
    world.cluster.admin.post(world.path("limitranges"), {"metadata": {"name": "given"}, "spec": limits})

    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded"))))

    assert ended(world.completed()) == "Succeeded"


def test_a_pod_that_is_not_secure_enough_fails_in_the_clusters_words(world: World) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    world.cluster.admin.patch(f"/api/v1/namespaces/{world.namespace}", {"metadata": {"labels": labels}})

    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))

    told = refused(world, UNKNOWN)
    assert 'violates PodSecurity "restricted:latest"' in told
    assert "runAsNonRoot != true" in told
    events = world.until(lambda: world.events("PodCreationUnknownError") or None, "the refusal is told")
    assert any("violates PodSecurity" in event for event in events)


def test_a_pod_that_the_api_server_finds_invalid_fails_for_good_with_every_fault(world: World) -> None:
    # Both are left to kube-apiserver by the launcher's own validation.
    gates = [{"conditionType": "a b"}]
    role = a_role(tasks=1, pod=a_task_pod(dnsPolicy="None", readinessGates=gates))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": 3}

    world.submit(a_framework(role))

    told = refused(world, PERMANENT)
    assert "spec.dnsConfig: Required value" in told
    assert 'spec.readinessGates[0].conditionType: Invalid value: "a b"' in told
    assert len(world.asked("create", "pods")) == 1


@contextmanager
def a_policy(world: World, validation: Json) -> Iterator[None]:
    """Inside, pods of the namespace are held against that validation."""
    name = f"policy-{world.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    world.cluster.admin.post(_POLICIES, {"metadata": {"name": name}, "spec": spec})
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": here},
    }
    world.cluster.admin.post(_BINDINGS, {"metadata": {"name": name}, "spec": binding})
    try:
        world.until(lambda: _is_denied(world), "the policy holds")
        yield
    finally:
        world.cluster.admin.delete(f"{_BINDINGS}/{name}")
        world.cluster.admin.delete(f"{_POLICIES}/{name}")


def _is_denied(world: World) -> bool | None:
    pod = {"metadata": {"name": "probe"}, "spec": a_task_pod()["spec"]}
    return world.cluster.admin.ask("POST", f"{world.path('pods')}?dryRun=All", pod).status >= 400 or None


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        pytest.param("Forbidden", UNKNOWN, id="forbidden"),
        pytest.param("Invalid", PERMANENT, id="called invalid"),
    ],
)
def test_what_an_admission_policy_denies_fails_in_the_policys_words(
    world: World, reason: str, code: int
) -> None:
    validation = {"expression": "false", "message": "pods need a cost center", "reason": reason}
    with a_policy(world, validation):
        world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))

        told = refused(world, code)

    assert "denied request: pods need a cost center" in told
    assert len(world.asked("create", "pods")) == 1


def test_a_denied_task_is_tried_again_if_its_policy_says_so(world: World) -> None:
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 2}
    with a_policy(world, {"expression": "false", "message": "not today"}):
        world.submit(a_framework(role))

        told = refused(world, PERMANENT)

    assert "not today" in told
    assert len(world.asked("create", "pods")) == 3


def test_a_namespace_that_is_being_deleted_takes_no_more_pods(cluster: ControlPlane) -> None:
    world = World(cluster, cluster.new_namespace())
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    world.submit(a_framework(role))
    world.running("mnist-worker-0")

    # Who empties namespaces would delete the Framework as well, and sometimes before its pod.
    with cluster.paused(Part.CONTROLLER_MANAGER):
        cluster.admin.delete(f"/api/v1/namespaces/{world.namespace}")
        cluster.admin.delete(world.path("pods", "mnist-worker-0"))
        told = refused(world, UNKNOWN)

    assert "because it is being terminated" in told
    world.until(lambda: (not world.framework()) or None, "the Framework is gone")


def test_a_framework_in_a_brand_new_namespace_waits_for_its_service_account(world: World) -> None:
    account = a_task_pod("succeeded", serviceAccountName="later")
    world.submit(a_framework(a_role(tasks=1, pod=account)))

    told = waits_because(world, "service account")
    world.cluster.admin.post(world.path("serviceaccounts"), {"metadata": {"name": "later"}})

    assert 'serviceaccount "later" not found' in told
    assert ended(world.completed()) == "Succeeded"
