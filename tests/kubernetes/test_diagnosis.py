"""Diagnosis of real situations on a control plane: each cause with its evidence and next step, for a user."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, a_role
from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.diagnosis_test_bed import DiagnosisTestBed, framework_name
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import a_task_pod

#: The first test creates all situations.
pytestmark = pytest.mark.timeout(300)

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_POD_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
#: Other pods are not scheduled to the nodes of a situation.
_RESERVED = {"key": "launcher.test/reserved", "effect": "NoSchedule"}
_TOLERATES_RESERVED: Json = {"tolerations": [{"key": "launcher.test/reserved", "operator": "Exists"}]}


def a_pod_on(purpose: str, **spec: Any) -> Json:
    """A pod that only the node of that name may run."""
    return a_task_pod(nodeSelector={"purpose": purpose}, **_TOLERATES_RESERVED, **spec)


def a_container(**fields: Any) -> Json:
    return {"name": "main", "image": "busybox", **fields}


def requesting(**amounts: str) -> list[Json]:
    return [a_container(resources={"requests": amounts, "limits": amounts})]


def in_this_namespace(ns_name: str) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": ns_name}}


# Situations of the scheduler.


def tainted(bed: DiagnosisTestBed) -> None:
    taints = [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]
    bed.add_node("tainted", taints=taints)
    bed.one("FL-PEND-04", a_task_pod(nodeSelector={"purpose": "tainted"}))


def cordoned(bed: DiagnosisTestBed) -> None:
    bed.add_node("cordoned", unschedulable=True)
    bed.one("FL-PEND-09", a_task_pod(nodeSelector={"purpose": "cordoned"}))


def not_ready(bed: DiagnosisTestBed) -> None:
    bed.add_node("unready", taints=[_RESERVED])
    bed.make_unready("unready", "starting")
    bed.one("FL-PEND-15", a_pod_on("unready"))


def no_longer_ready(bed: DiagnosisTestBed) -> None:
    bed.add_node("failing", taints=[_RESERVED])
    ns = bed.one("FL-NODE-01", a_pod_on("failing"))
    ns.wait_running(bed.pod_name("FL-NODE-01"))
    bed.make_unready("failing", "container runtime is down")


def spread(bed: DiagnosisTestBed) -> None:
    """Two zones, of which one is cordoned, so that the second pod cannot be placed."""
    bed.add_node("zone-a", labels={"zone": "a", "group": "zones"}, taints=[_RESERVED])
    bed.add_node("zone-b", labels={"zone": "b", "group": "zones"}, taints=[_RESERVED], unschedulable=True)
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"FC_FRAMEWORK_NAME": framework_name("FL-PEND-16")}},
    }
    pod = a_task_pod(
        nodeSelector={"group": "zones"}, topologySpreadConstraints=[constraint], **_TOLERATES_RESERVED
    )
    bed.one("FL-PEND-16", pod, tasks=2)


def claim_of_a_resource(bed: DiagnosisTestBed) -> None:
    """A resource claim of the pod does not exist."""
    claims = [{"name": "gpu", "resourceClaimName": "missing"}]
    bed.one("FL-PEND-17", a_task_pod(resourceClaims=claims))


def volume_of_another_node(bed: DiagnosisTestBed) -> None:
    bed.add_node("with-disk", taints=[_RESERVED])
    bed.add_node("without-disk", taints=[_RESERVED])
    ns = bed.namespace("FL-VOL-09")
    term = {"matchExpressions": [{"key": "purpose", "operator": "In", "values": ["with-disk"]}]}
    common = {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {"namespace": ns.namespace, "name": "disk"},
    }
    bed.plane.admin.post("/api/v1/persistentvolumes", {"metadata": {"name": ns.namespace}, "spec": volume})
    claim = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": ns.namespace}
    bed.plane.admin.post(ns.path("persistentvolumeclaims"), {"metadata": {"name": "disk"}, "spec": claim})
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    bed.one("FL-VOL-09", a_pod_on("without-disk", volumes=volumes))


def claim_missing(bed: DiagnosisTestBed) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    bed.one("FL-VOL-04", a_task_pod(volumes=volumes))


# Situations of admission.


def quota_exceeded(bed: DiagnosisTestBed) -> None:
    ns = bed.namespace("FL-ADM-01")
    quotas = ns.path("resourcequotas")
    bed.plane.admin.post(quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    ns.until(lambda: bed.plane.admin.get(f"{quotas}/few").get("status") or None, "the quota is counted")
    bed.one("FL-ADM-01", a_task_pod(), tasks=3)


def over_a_limit_range(bed: DiagnosisTestBed) -> None:
    ns = bed.namespace("FL-ADM-02")
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    bed.plane.admin.post(ns.path("limitranges"), {"metadata": {"name": "small"}, "spec": limits})
    bed.one("FL-ADM-02", a_task_pod(containers=requesting(cpu="2")))


def against_pod_security(bed: DiagnosisTestBed) -> None:
    ns = bed.namespace("FL-ADM-03")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    bed.plane.admin.patch(f"/api/v1/namespaces/{ns.namespace}", {"metadata": {"labels": labels}})
    bed.one("FL-ADM-03", a_task_pod())


def denied_by_a_policy(bed: DiagnosisTestBed) -> None:
    ns = bed.namespace("FL-ADM-04")
    validation = {"expression": "false", "message": "pods need a cost center"}
    policies, bindings = (f"{_ADMISSION}/validatingadmissionpolic{each}" for each in ("ies", "ybindings"))
    spec = {"matchConstraints": {"resourceRules": [_POD_RULE]}, "validations": [validation]}
    bed.plane.admin.post(policies, {"metadata": {"name": "cost-center"}, "spec": spec})
    binding = {
        "policyName": "cost-center",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": in_this_namespace(ns.namespace)},
    }
    bed.plane.admin.post(bindings, {"metadata": {"name": "cost-center"}, "spec": binding})
    pod = {"metadata": {"name": "probe"}, "spec": a_task_pod()["spec"]}
    path = f"{ns.path('pods')}?dryRun=All"
    ns.until(lambda: bed.plane.admin.request("POST", path, pod).status >= 400 or None, "the policy applies")
    bed.one("FL-ADM-04", a_task_pod())


def webhook_unreachable(bed: DiagnosisTestBed) -> None:
    ns = bed.namespace("FL-ADM-05")
    webhook = {
        "name": "policy.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
        "rules": [_POD_RULE],
        "namespaceSelector": in_this_namespace(ns.namespace),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = f"{_ADMISSION}/validatingwebhookconfigurations"
    bed.plane.admin.post(path, {"metadata": {"name": "unreachable"}, "webhooks": [webhook]})
    pod = {"metadata": {"name": "probe"}, "spec": a_task_pod()["spec"]}
    ns.until(
        lambda: bed.plane.admin.request("POST", f"{ns.path('pods')}?dryRun=All", pod).status >= 400 or None,
        "the webhook is called",
    )
    bed.one("FL-ADM-05", a_task_pod())


def name_taken(bed: DiagnosisTestBed) -> None:
    ns = bed.namespace("FL-ADM-08")
    pod = {"metadata": {"name": bed.pod_name("FL-ADM-08")}, "spec": a_task_pod()["spec"]}
    bed.plane.admin.post(ns.path("pods"), pod)
    bed.one("FL-ADM-08", a_task_pod())


def invalid_spec(bed: DiagnosisTestBed) -> None:
    bed.create("FL-ADM-09", a_role(tasks=1, pod=a_task_pod()), roleSequence=["worker", "missing"])


def priority_class_missing(bed: DiagnosisTestBed) -> None:
    bed.one("FL-ADM-11", a_task_pod(priorityClassName="urgent"))


def forbidden_for_another_reason(bed: DiagnosisTestBed) -> None:
    """The plugin Priority rejects a priority that differs from that of its class."""
    bed.one("FL-ADM-12", a_task_pod(priority=7))


# Situations of pods and Frameworks that are deleted.


def held_by_a_finalizer(bed: DiagnosisTestBed) -> None:
    metadata = {"finalizers": ["example.com/backup"]}
    ns = bed.one("FL-LIFE-08", a_task_pod("succeeded"), metadata=metadata)
    ns.wait_completed(framework_name("FL-LIFE-08"))
    ns.delete_without_waiting("framework", framework_name("FL-LIFE-08"))


def pod_held_by_a_finalizer(bed: DiagnosisTestBed) -> None:
    ns = bed.one("FL-LIFE-10", a_task_pod())
    name = bed.pod_name("FL-LIFE-10")
    ns.wait_running(name)
    bed.plane.admin.patch(ns.path("pods", name), {"metadata": {"finalizers": ["example.com/hold"]}})
    ns.delete_without_waiting("pod", name, "--grace-period=1")


def stopped_by_kubectl(bed: DiagnosisTestBed) -> None:
    ns = bed.one("FL-LIFE-02", a_task_pod())
    ns.wait_running(bed.pod_name("FL-LIFE-02"))
    change = '{"spec":{"executionType":"Stop"}}'
    ns.kubectl("patch", "fw", framework_name("FL-LIFE-02"), "--type=merge", "-p", change)


#: What creates the situation of a cause, a keyword of the summary, an evidence (object, field, keyword of the value),
#: and a keyword of the next step.
Situation = tuple[Callable[[DiagnosisTestBed], object], str, tuple[str, str, str], str]
SITUATIONS: dict[str, Situation] = {
    "FL-PEND-04": (
        tainted,
        "taint gpu=only, which the pod does not tolerate: tainted",
        ("pod/pend04-worker-0", "status.conditions[PodScheduled].message", "untolerated taint"),
        "spec.taskRoles[worker].task.pod.spec.tolerations: {key: gpu, operator: Exists}",
    ),
    "FL-PEND-09": (
        cordoned,
        "every suitable node is cordoned: cordoned",
        ("node/cordoned", "spec.unschedulable", "true"),
        "kubectl uncordon NODE",
    ),
    "FL-PEND-14": (
        lambda bed: bed.one("FL-PEND-14", a_task_pod(schedulerName="hived")),
        "its schedulerName is hived",
        ("pod/pend14-worker-0", "spec.schedulerName", "hived"),
        "start a scheduler of that name",
    ),
    "FL-PEND-15": (
        not_ready,
        "nodes are not ready: unready",
        ("node/unready", "status.conditions[Ready]", "starting"),
        "kubectl get nodes",
    ),
    "FL-PEND-16": (
        spread,
        "topology spread",
        ("", "status.conditions[PodScheduled].message", "topology spread"),
        "topologySpreadConstraints",
    ),
    "FL-PEND-17": (
        claim_of_a_resource,
        "waits for its resource claims: missing",
        ("pod/pend17-worker-0", "spec.resourceClaims", "missing"),
        "get resourceclaims",
    ),
    "FL-VOL-04": (
        claim_missing,
        "PersistentVolumeClaim missing does not exist",
        ("pod/vol04-worker-0", "status.conditions[PodScheduled].message", "persistentvolumeclaim"),
        "get pvc",
    ),
    "FL-VOL-09": (
        volume_of_another_node,
        "cannot be attached",
        ("pod/vol09-worker-0", "status.conditions[PodScheduled].message", "node"),
        "get pvc",
    ),
    "FL-ADM-01": (
        quota_exceeded,
        "few, requested: pods=1, used: pods=1, limited: pods=1",
        ("resourcequota/few", "status.used.pods", "1 of 1"),
        "describe quota",
    ),
    "FL-ADM-02": (
        over_a_limit_range,
        "maximum cpu usage per Container is 1, but limit is 2",
        ("framework/adm02", "", "maximum cpu usage"),
        "describe limitrange",
    ),
    "FL-ADM-03": (
        against_pod_security,
        "runAsNonRoot != true",
        ("framework/adm03", "", "violates PodSecurity"),
        "change securityContext",
    ),
    "FL-ADM-04": (
        denied_by_a_policy,
        "pods need a cost center",
        ("framework/adm04", "", "cost-center"),
        "change the pod in spec.taskRoles[worker].task.pod.spec",
    ),
    "FL-ADM-05": (
        webhook_unreachable,
        "policy.example.com",
        ("framework/adm05", "", "failed calling webhook"),
        "validatingwebhookconfigurations",
    ),
    "FL-ADM-06": (
        lambda bed: bed.one("FL-ADM-06", a_task_pod(dnsPolicy="None")),
        "spec.dnsConfig: Required value",
        ("framework/adm06", "", "spec.dnsConfig"),
        "launcher validate FILE",
    ),
    "FL-ADM-07": (
        lambda bed: bed.one("FL-ADM-07", a_task_pod(serviceAccountName="robot")),
        "/robot does not exist",
        ("framework/adm07", "", "robot"),
        "serviceAccountName",
    ),
    "FL-ADM-08": (
        name_taken,
        "another owner",
        ("framework/adm08", "", "belongs to another owner"),
        "get pod adm08-worker-0 -o yaml",
    ),
    "FL-ADM-09": (
        invalid_spec,
        "spec.roleSequence[1]",
        ("framework/adm09", "status.conditions[Valid].message", "missing"),
        "edit framework adm09",
    ),
    "FL-ADM-11": (
        priority_class_missing,
        "priority class urgent does not exist",
        ("framework/adm11", "", "urgent"),
        "priorityClassName",
    ),
    "FL-ADM-12": (
        forbidden_for_another_reason,
        "rejects the pod",
        ("framework/adm12", "", "priority"),
        "describe framework adm12",
    ),
    "FL-LIFE-02": (
        stopped_by_kubectl,
        "set by kubectl",
        ("framework/life02", "spec.executionType", "Stop"),
        "submit the Framework again",
    ),
    "FL-LIFE-08": (
        held_by_a_finalizer,
        "example.com/backup",
        ("framework/life08", "metadata.finalizers", "example.com/backup"),
        "edit framework life08",
    ),
    "FL-LIFE-10": (
        pod_held_by_a_finalizer,
        "example.com/hold",
        ("pod/life10-worker-0", "metadata.finalizers", "example.com/hold"),
        "edit pod life10-worker-0",
    ),
    "FL-NODE-01": (
        no_longer_ready,
        "node failing is not ready: container runtime is down",
        ("node/failing", "status.conditions[Ready]", "container runtime is down"),
        "kubectl describe node failing",
    ),
    "FL-RUN-08": (
        lambda bed: bed.one("FL-RUN-08", a_task_pod("oom-killed", containers=requesting(memory="64Mi"))),
        "ran out of memory (limit 64Mi)",
        ("pod/run08-worker-0", "status.containerStatuses[main].state.terminated.reason", "OOMKilled"),
        "resources.limits.memory",
    ),
}


@pytest.fixture(scope="module")
def bed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiagnosisTestBed]:
    """A control plane of its own, since its nodes are changed, with every situation."""
    directory = tmp_path_factory.mktemp("diagnosis")
    with ControlPlane(directory / "plane", programs, nodes=1) as plane:
        define_frameworks(plane)
        launcher = KubeLauncher(directory / "launcher", launcher_account(plane).kubeconfig)
        try:
            test_bed = DiagnosisTestBed(plane, launcher, directory)
            for create, *_ in SITUATIONS.values():
                create(test_bed)
            yield test_bed
        finally:
            launcher.end()


@pytest.mark.parametrize("cause", list(SITUATIONS))
def test_the_cause_of_a_real_situation_is_found(bed: DiagnosisTestBed, cause: str) -> None:
    _, words, evidence, step = SITUATIONS[cause]

    finding = bed.expect(cause, words, evidence, step)

    shown = bed.why(cause)
    assert f"{cause}  {finding['severity']}, " in shown
    assert f"  next: {finding['nextStep']}\n" in shown


def test_a_user_who_may_not_read_nodes_gets_the_reason_of_the_scheduler(bed: DiagnosisTestBed) -> None:
    finding = bed.finding("FL-PEND-04", "FL-PEND-03", bed.namespace_reader)
    (missing,) = bed.diagnosis("FL-PEND-04", bed.namespace_reader)["missingEvidence"]

    assert "no node matches nodeSelector purpose=tainted; " in finding["summary"]
    assert missing["resource"] == "nodes"
    assert "is forbidden" in missing["reason"]


def test_a_terminating_namespace_is_named(bed: DiagnosisTestBed) -> None:
    cause = "FL-ADM-10"
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns = bed.create(cause, role)
    ns.wait_running(bed.pod_name(cause))

    # The namespace controller would delete the Framework, too.
    with bed.plane.paused(Component.CONTROLLER_MANAGER):
        bed.plane.admin.delete(f"/api/v1/namespaces/{ns.namespace}")
        bed.plane.admin.delete(ns.path("pods", bed.pod_name(cause)))
        finding = bed.finding(cause)

    assert finding["nextStep"] == "submit the Framework in another namespace"
    assert "because it is being terminated" in finding["evidence"][0]["value"]


def test_a_task_on_a_removed_node_is_named_with_its_node(bed: DiagnosisTestBed) -> None:
    cause = "FL-NODE-02"
    bed.add_node("removed", taints=[_RESERVED])
    ns = bed.one(cause, a_pod_on("removed"))
    ns.wait_running(bed.pod_name(cause))

    # The garbage collector would delete the pod.
    with bed.plane.paused(Component.CONTROLLER_MANAGER):
        bed.plane.admin.delete("/api/v1/nodes/removed")
        finding = bed.finding(cause)

    assert finding["summary"] == "worker-0: node removed no longer exists"
    assert finding["evidence"] == [
        {"object": f"pod/{bed.pod_name(cause)}", "field": "spec.nodeName", "value": "removed"}
    ]
    assert f"delete pod {bed.pod_name(cause)} --force" in finding["nextStep"]


def test_a_status_that_no_launcher_wrote_is_named(bed: DiagnosisTestBed) -> None:
    cause = "FL-SYS-05"
    ns = bed.one(cause, a_task_pod(), executionType="Create")
    bed.launcher.pause()
    try:
        bed.plane.admin.patch(f"{ns.frameworks}/{framework_name(cause)}/status", {"status": {"state": "Odd"}})
    finally:
        bed.launcher.resume()

    finding = bed.finding(cause)

    assert finding["evidence"][0]["field"] == "status"
    assert finding["nextStep"] == "delete the Framework and submit it again"


def test_a_cluster_without_nodes_is_named(bed: DiagnosisTestBed) -> None:
    nodes = bed.plane.admin.get("/api/v1/nodes")["items"]
    for each in nodes:
        bed.plane.admin.delete(f"/api/v1/nodes/{each['metadata']['name']}")
    try:
        bed.one("FL-PEND-10", a_task_pod())
        finding = bed.finding("FL-PEND-10")
    finally:
        for each in nodes:
            del each["metadata"]["resourceVersion"], each["metadata"]["uid"]
            bed.plane.admin.post("/api/v1/nodes", each)

    assert "no nodes available to schedule pods" in finding["evidence"][0]["value"]
    assert finding["nextStep"].startswith("add a node: ")
