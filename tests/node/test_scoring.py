"""Which of the nodes that a pod fits it goes to."""

from typing import Any

import pytest

from launcher.scheduling.cluster_state import ClusterState, NodeAttributes, PodInfo
from launcher.scheduling.scoring import highest_scoring
from tests.node.scheduling import a_guest, a_node, a_taint, about

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def choice(guest: PodInfo, *nodes: NodeAttributes, placed: dict[str, list[PodInfo]] | None = None) -> str:
    """Where *guest* goes, with these pods *placed* already."""
    site = ClusterState()
    for facts in nodes:
        site.set_node(facts)
    for name, guests in (placed or {}).items():
        for one in guests:
            site.place(one, name)
    site.crowds.ask(guest.demand.terms)
    return highest_scoring(guest, list(site.nodes.values()), site).facts.name


def test_the_emptier_node_is_better() -> None:
    taken = {"a": [a_guest("x", requests={"cpu": 1, "memory": "2Gi"})]}

    assert choice(a_guest(), a_node("a"), a_node("b"), placed=taken) == "b"


def test_the_larger_node_is_better() -> None:
    assert choice(a_guest(), a_node("a", cpu=4), a_node("b", cpu=64)) == "b"


def test_cpu_and_memory_are_used_up_evenly() -> None:
    hungry = a_guest("p", requests={"cpu": 2})
    taken = {
        "a": [a_guest("x", requests={"cpu": 2, "memory": "1Mi"})],
        "b": [a_guest("y", requests={"cpu": "1m", "memory": "4Gi"})],
    }

    assert choice(hungry, a_node("a"), a_node("b"), placed=taken) == "b"


def test_pods_that_ask_for_nothing_count_a_little() -> None:
    taken = {"a": [a_guest(f"x{n}") for n in range(3)], "b": [a_guest("y")]}

    assert choice(a_guest(), a_node("a"), a_node("b"), placed=taken) == "b"


def test_of_equal_nodes_the_first_by_name_is_taken() -> None:
    assert choice(a_guest(), a_node("b"), a_node("a"), a_node("c")) == "a"


def test_pods_of_one_owner_are_spread_over_nodes_even_if_one_is_fuller() -> None:
    taken = {
        "a": [a_guest("t0", owner="mnist")],
        "b": [a_guest("x", requests={"cpu": 2, "memory": "4Gi"})],
    }

    assert choice(a_guest("t1", owner="mnist"), a_node("a"), a_node("b"), placed=taken) == "b"
    assert choice(a_guest("t1", owner="other"), a_node("a"), a_node("b"), placed=taken) == "a"


def test_a_node_that_the_pod_prefers_is_better() -> None:
    def prefers(zone: str, weight: int) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        return {"weight": weight, "preference": term}

    wishes = {"nodeAffinity": {PREFERRED: [prefers("a", 10), prefers("b", 50)]}}
    nodes = (a_node("n1", labels={"zone": "a"}), a_node("n2", labels={"zone": "b"}), a_node("n3"))

    assert choice(a_guest(affinity=wishes), *nodes) == "n2"


@pytest.mark.parametrize(
    ("kind", "where"), [("podAffinity", "b"), ("podAntiAffinity", "a")], ids=["near", "apart"]
)
def test_company_that_the_pod_would_like_counts(kind: str, where: str) -> None:
    wishes = {kind: {PREFERRED: [{"weight": 100, "podAffinityTerm": about({"app": "web"}, "zone")}]}}
    nodes = (a_node("a", labels={"zone": "1"}), a_node("b", labels={"zone": "2"}))
    taken = {"b": [a_guest("web", labels={"app": "web"})], "a": [a_guest("x")]}

    assert choice(a_guest(affinity=wishes), *nodes, placed=taken) == where


def test_a_node_without_the_label_of_the_place_gives_no_company() -> None:
    wishes = {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": about({"app": "web"}, "zone")}]}}
    taken = {"a": [a_guest("web", labels={"app": "web"})]}

    assert choice(a_guest(affinity=wishes), a_node("a"), a_node("b"), placed=taken) == "b"


def test_a_taint_that_only_prefers_makes_a_node_worse_unless_tolerated() -> None:
    tainted = a_node("a", taints=[a_taint(effect="PreferNoSchedule")])
    tolerant = a_guest(tolerations=[{"key": "k", "operator": "Exists"}])

    assert choice(a_guest(), tainted, a_node("b")) == "b"
    assert choice(tolerant, tainted, a_node("b")) == "a"


def test_a_node_without_any_cpu_is_the_worst() -> None:
    assert choice(a_guest(), a_node("a", cpu=0), a_node("b")) == "b"
