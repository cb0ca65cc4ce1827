"""Pods without a node: the scheduler reports only the first reason of each node, so the nodes themselves decide."""

from typing import Any

import pytest

from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.finding import Finding
from tests.builders import a_container, a_node
from tests.core.diagnosis.situations import (
    WORKER,
    Json,
    a_pod,
    a_role,
    a_situation,
    a_status,
    a_task,
    unschedulable,
)

#: As kube-scheduler reports them: it checks whether a node is cordoned, then its taints, then its labels.
MIXED = (
    "0/8 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) were unschedulable, "
    "5 node(s) had untolerated taint(s). preemption: 0/8 nodes are available: 8 Preemption is not helpful."
)
GPU: Json = {"nodeSelector": {"gpu": "a100"}}
GPU_AFFINITY: Json = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}
                ]
            }
        }
    }
}
LABELLED = {"gpu": "a100"}
TAINT = {"key": "dedicated", "value": "research", "effect": "NoSchedule"}
CORDONED_OTHER = a_node("cordoned", unschedulable=True)
TAINTED_OTHER = a_node("control-plane", taints=[{"key": "control", "effect": "NoSchedule"}])


def unready(name: str) -> Json:
    conditions = [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting."}]
    node = a_node(name, labels=LABELLED)
    return {**node, "status": {**node["status"], "conditions": conditions}}


def explained(message: str, spec: Json, nodes: list[Json] | None, **fields: Any) -> Finding:
    role = a_role(WORKER, 1, a_container("python", **fields), pod_spec=spec)
    (finding,) = diagnose(
        a_situation(a_status([a_task()]), unschedulable(message, role), roles=[role], nodes=nodes)
    )
    return finding


@pytest.mark.parametrize("spec", [GPU, GPU_AFFINITY], ids=["nodeSelector", "nodeAffinity"])
@pytest.mark.parametrize(
    ("node", "cause", "words"),
    [
        pytest.param(
            a_node("n9", labels=LABELLED, taints=[TAINT]), "FL-PEND-04", "dedicated=research", id="tainted"
        ),
        pytest.param(a_node("n9", labels=LABELLED, unschedulable=True), "FL-PEND-09", ": n9", id="cordoned"),
        pytest.param(unready("n9"), "FL-PEND-15", ": n9", id="not ready"),
        pytest.param(
            a_node("n9", labels={"gpu": "h100"}), "FL-PEND-03", "no node matches", id="no such label"
        ),
    ],
)
def test_only_nodes_that_the_pod_selects_are_blamed(spec: Json, node: Json, cause: str, words: str) -> None:
    finding = explained(MIXED, spec, [node, CORDONED_OTHER, TAINTED_OTHER])

    assert finding.cause.id == cause
    assert words in finding.summary
    assert "cordoned, " not in finding.summary


def test_nodes_that_accept_the_pod_decide_before_those_that_do_not() -> None:
    message = (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, 1 node(s) had taints."
    )
    requests = {"requests": {"cpu": "3"}}

    small = explained(message, {}, [a_node("n1", cpu=2), CORDONED_OTHER, TAINTED_OTHER], resources=requests)
    busy = explained(message, {}, [a_node("n1", cpu=4), CORDONED_OTHER, TAINTED_OTHER], resources=requests)

    assert small.summary == "worker-0: no node has 3 cpu; the largest (n1) has 2"
    assert busy.summary == "worker-0: no node has 3 cpu free"


def test_a_larger_node_with_a_taint_does_not_help() -> None:
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    nodes = [a_node("n1", cpu=2), a_node("n2", cpu=64, taints=[TAINT])]

    finding = explained(message, {}, nodes, resources={"requests": {"cpu": "3"}})

    assert finding.cause.id == "FL-PEND-02"
    assert "the largest (n1) has 2" in finding.summary


@pytest.mark.parametrize(
    ("message", "cause", "words"),
    [
        pytest.param(
            MIXED, "FL-PEND-03", "gpu=a100; 7 other nodes cannot be used", id="taints without names"
        ),
        pytest.param(
            "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
            "3 node(s) didn't match Pod's node affinity/selector.",
            "FL-PEND-03",
            "1 other node cannot",
            id="only the control plane is tainted",
        ),
        pytest.param(
            "0/4 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, "
            "3 node(s) didn't match Pod's node affinity/selector.",
            "FL-PEND-04",
            "the taint nvidia.com/gpu=present",
            id="a taint of nodes for tasks",
        ),
        pytest.param(
            "0/2 nodes are available: 2 node(s) had untolerated taint(s).",
            "FL-PEND-04",
            "taints that the pod does not tolerate",
            id="only taints",
        ),
        pytest.param(
            "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, "
            "1 node(s) didn't match Pod's node affinity/selector.",
            "FL-VOL-09",
            "cannot be attached",
            id="a volume of another node",
        ),
    ],
)
def test_without_nodes_the_message_decides(message: str, cause: str, words: str) -> None:
    finding = explained(message, GPU, None)

    assert (finding.cause.id, words in finding.summary) == (cause, True), finding.summary


def test_a_pod_that_waits_for_its_resource_claims_is_not_without_a_scheduler() -> None:
    role = a_role(WORKER, 1, pod_spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "a100"}]})

    (finding,) = diagnose(a_situation(a_status([a_task()]), a_pod(0, role, None), roles=[role]))

    assert finding.cause.id == "FL-PEND-17"
    assert "waits for its resource claims: a100" in finding.summary


def test_a_template_that_cannot_be_compared_with_nodes_is_explained_by_the_message() -> None:
    spec = {"tolerations": [{"key": "a", "operator": "Odd"}]}

    finding = explained("0/1 nodes are available: 1 node(s) were unschedulable.", spec, [a_node()])

    assert finding.cause.id == "FL-PEND-09"
