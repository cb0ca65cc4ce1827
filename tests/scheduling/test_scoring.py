"""Scoring of feasible nodes."""

from typing import Any

import pytest

from launcher.scheduling.cluster_state import ClusterState, NodeAttributes, PodInfo
from launcher.scheduling.scoring import highest_scoring
from tests.scheduling.builders import a_node, a_pod_info, a_taint, pod_term

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def choice(pod: PodInfo, *nodes: NodeAttributes, assigned: dict[str, list[PodInfo]] | None = None) -> str:
    """Returns the node chosen for *pod*, with these pods *assigned* already."""
    cluster = ClusterState()
    for attributes in nodes:
        cluster.set_node(attributes)
    for name, pods in (assigned or {}).items():
        for one in pods:
            cluster.assign(one, name)
    cluster.affinity_counts.track(pod.requirements.terms)
    return highest_scoring(pod, list(cluster.nodes.values()), cluster).attributes.name


def test_the_less_used_node_is_chosen() -> None:
    taken = {"a": [a_pod_info("x", requests={"cpu": 1, "memory": "2Gi"})]}

    assert choice(a_pod_info(), a_node("a"), a_node("b"), assigned=taken) == "b"


def test_the_larger_node_is_chosen() -> None:
    assert choice(a_pod_info(), a_node("a", cpu=4), a_node("b", cpu=64)) == "b"


def test_cpu_and_memory_usage_are_balanced() -> None:
    large = a_pod_info("p", requests={"cpu": 2})
    taken = {
        "a": [a_pod_info("x", requests={"cpu": 2, "memory": "1Mi"})],
        "b": [a_pod_info("y", requests={"cpu": "1m", "memory": "4Gi"})],
    }

    assert choice(large, a_node("a"), a_node("b"), assigned=taken) == "b"


def test_pods_without_requests_count_with_defaults() -> None:
    taken = {"a": [a_pod_info(f"x{n}") for n in range(3)], "b": [a_pod_info("y")]}

    assert choice(a_pod_info(), a_node("a"), a_node("b"), assigned=taken) == "b"


def test_of_equal_nodes_the_first_by_name_is_taken() -> None:
    assert choice(a_pod_info(), a_node("b"), a_node("a"), a_node("c")) == "a"


def test_pods_of_one_owner_are_spread_over_nodes_even_if_one_is_fuller() -> None:
    taken = {
        "a": [a_pod_info("t0", owner="mnist")],
        "b": [a_pod_info("x", requests={"cpu": 2, "memory": "4Gi"})],
    }

    assert choice(a_pod_info("t1", owner="mnist"), a_node("a"), a_node("b"), assigned=taken) == "b"
    assert choice(a_pod_info("t1", owner="other"), a_node("a"), a_node("b"), assigned=taken) == "a"


def test_a_preferred_node_is_chosen() -> None:
    def prefers(zone: str, weight: int) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        return {"weight": weight, "preference": term}

    jobs = {"nodeAffinity": {PREFERRED: [prefers("a", 10), prefers("b", 50)]}}
    nodes = (a_node("n1", labels={"zone": "a"}), a_node("n2", labels={"zone": "b"}), a_node("n3"))

    assert choice(a_pod_info(affinity=jobs), *nodes) == "n2"


@pytest.mark.parametrize(
    ("kind", "where"), [("podAffinity", "b"), ("podAntiAffinity", "a")], ids=["near", "apart"]
)
def test_preferred_pod_affinity_counts(kind: str, where: str) -> None:
    jobs = {kind: {PREFERRED: [{"weight": 100, "podAffinityTerm": pod_term({"app": "web"}, "zone")}]}}
    nodes = (a_node("a", labels={"zone": "1"}), a_node("b", labels={"zone": "2"}))
    taken = {"b": [a_pod_info("web", labels={"app": "web"})], "a": [a_pod_info("x")]}

    assert choice(a_pod_info(affinity=jobs), *nodes, assigned=taken) == where


def test_a_node_without_the_topology_label_gets_no_affinity_score() -> None:
    jobs = {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": pod_term({"app": "web"}, "zone")}]}}
    taken = {"a": [a_pod_info("web", labels={"app": "web"})]}

    assert choice(a_pod_info(affinity=jobs), a_node("a"), a_node("b"), assigned=taken) == "b"


def test_a_prefer_no_schedule_taint_lowers_the_score_unless_tolerated() -> None:
    tainted = a_node("a", taints=[a_taint(effect="PreferNoSchedule")])
    tolerant = a_pod_info(tolerations=[{"key": "k", "operator": "Exists"}])

    assert choice(a_pod_info(), tainted, a_node("b")) == "b"
    assert choice(tolerant, tainted, a_node("b")) == "a"


def test_a_node_without_cpu_has_the_lowest_score() -> None:
    assert choice(a_pod_info(), a_node("a", cpu=0), a_node("b")) == "b"
