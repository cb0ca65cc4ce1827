"""Capacity checks and reservations for several pods at once."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.scheduling.capacity import ClusterCapacity
from launcher.store.interface import Object
from tests import builders


def a_node(name: str, cpu: int = 4, **fields: Any) -> Object:
    return builders.a_node(name, cpu=cpu, memory="64Gi", **fields)


def a_pod(name: str, cpu: str = "1", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod that requests so much CPU."""
    container = builders.a_container(resources={"requests": {"cpu": cpu}})
    return builders.a_pod(name, container, metadata={"uid": f"uid-{name}", "labels": labels or {}}, **spec)


def pods(count: int, cpu: str = "1", **spec: Any) -> list[Object]:
    return [a_pod(f"p{number}", cpu, **spec) for number in range(count)]


def a_cluster(*nodes: Object) -> ClusterCapacity:
    capacity = ClusterCapacity()
    for node in nodes:
        capacity.set_node(node)
    return capacity


def test_pods_that_fit_on_several_nodes_fit() -> None:
    assert a_cluster(a_node("a", 2), a_node("b", 2)).reserve(pods(4), 4) is None


def test_a_pod_larger_than_every_node_does_not_fit() -> None:
    rejection = a_cluster(a_node("a", 2), a_node("b", 2)).reserve([a_pod("p", "3")], 1)

    assert (
        rejection
        == "Capacity for 0 of 1 tasks (minTasks 1): pod p: 0/2 nodes are available: 2 Insufficient cpu."
    )


def test_a_rejected_set_of_pods_reserves_nothing() -> None:
    capacity = a_cluster(a_node("a", 4))
    assert capacity.reserve(pods(5), 5) is not None

    assert capacity.reserve([a_pod(f"q{number}") for number in range(4)], 4) is None


def test_a_reservation_is_held_until_the_pod_is_removed() -> None:
    capacity = a_cluster(a_node("a", 2))
    assert capacity.reserve(pods(2), 2) is None
    assert capacity.reserve([a_pod("q")], 1) is not None

    capacity.remove_pod(("default", "p0"))

    assert capacity.reserve([a_pod("q")], 1) is None


def test_a_bound_pod_replaces_its_reservation() -> None:
    capacity = a_cluster(a_node("a", 1), a_node("b", 3))
    assert capacity.reserve([a_pod("p")], 1) is None

    capacity.add_pod(a_pod("p", nodeName="a"))

    assert capacity.reserve([a_pod("q", "3")], 1) is None


def test_an_earlier_reservation_does_not_count_against_the_same_pods() -> None:
    capacity = a_cluster(a_node("a", 2))
    assert capacity.reserve(pods(2), 2) is None

    assert capacity.reserve(pods(2), 2) is None
    assert capacity.reserve([a_pod("q")], 1) is not None


def test_a_reserved_pod_keeps_capacity_when_another_takes_its_node() -> None:
    capacity = a_cluster(a_node("a", 1), a_node("b", 2))
    assert capacity.reserve([a_pod("p0"), a_pod("p1")], 2) is None
    assumed = {name: capacity._cluster.assigned_node(("default", name)) for name in ("p0", "p1")}
    assert set(assumed.values()) == {"a", "b"}

    # The bindings are swapped: for a moment two pods are counted on the small node and none on the large one.
    (on_b,) = [name for name, node in assumed.items() if node == "b"]
    capacity.add_pod(a_pod(on_b, nodeName="a"))

    assert capacity.reserve([a_pod("q0"), a_pod("q1")], 2) is not None


def test_new_capacity_serves_reserved_pods_first() -> None:
    capacity = a_cluster(a_node("a", 1))
    assert capacity.reserve(pods(2), 1) is None

    capacity.set_node(a_node("b", 1))

    assert capacity.reserve([a_pod("q")], 1) is not None


def test_a_pod_with_a_node_is_not_reserved_elsewhere() -> None:
    capacity = a_cluster(a_node("a", 1), a_node("b", 3))
    capacity.add_pod(a_pod("p", nodeName="a"))

    assert capacity.reserve([a_pod("p")], 0) is None  # observed before its node

    assert capacity.reserve([a_pod("q", "3")], 1) is None


def test_running_pods_use_capacity() -> None:
    capacity = a_cluster(a_node("a", 2))
    capacity.add_pod(a_pod("there", "2", nodeName="a"))

    assert capacity.reserve([a_pod("p")], 1) is not None


def test_a_recreated_pod_replaces_the_old_one_of_the_same_name() -> None:
    capacity = a_cluster(a_node("a", 2))
    capacity.add_pod(a_pod("there", "2", nodeName="a"))
    other = a_pod("there", "1", nodeName="a")
    other["metadata"]["uid"] = "another"

    capacity.add_pod(other)

    assert capacity.reserve([a_pod("p")], 1) is None


def test_the_minimum_suffices_and_other_pods_reserve_what_is_left() -> None:
    capacity = a_cluster(a_node("a", 3))

    assert capacity.reserve(pods(5), 2) is None
    assert capacity.reserve([a_pod("q")], 1) is not None


def test_pods_admitted_earlier_reserve_whatever_capacity_exists() -> None:
    assert a_cluster(a_node("a", 1)).reserve(pods(3), 0) is None


def test_the_largest_pods_are_assigned_first() -> None:
    capacity = a_cluster(a_node("a", 4), a_node("b", 4))

    assert capacity.reserve([*pods(4), a_pod("z-large", "4")], 5) is None


@pytest.mark.parametrize(
    ("node", "pod", "rejection"),
    [
        pytest.param(
            a_node("a", unschedulable=True),
            a_pod("p"),
            "1 node(s) were unschedulable",
            id="a node that is closed",
        ),
        pytest.param(
            a_node("a", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
            a_pod("p"),
            "untolerated taint {gpu: }",
            id="a taint",
        ),
        pytest.param(
            a_node("a"),
            a_pod("p", nodeSelector={"disk": "ssd"}),
            "node affinity/selector",
            id="another label",
        ),
        pytest.param(
            a_node("a"),
            a_pod("p", initContainers=[{"name": "i", "resources": {"requests": {"cpu": "5"}}}]),
            "1 Insufficient cpu",
            id="an init container that asks for more",
        ),
        pytest.param(
            a_node("a"),
            a_pod("p", "many"),
            "Invalid pod: spec.containers.resources.requests.cpu: 'many' is not a quantity",
            id="a pod that makes no sense",
        ),
    ],
)
def test_the_rejection_names_the_reason(node: Object, pod: Object, rejection: str) -> None:
    message = a_cluster(node).reserve([pod], 1)

    assert message is not None
    assert rejection in message


def test_pods_with_anti_affinity_need_one_node_each() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    gang = pods(3, labels={"app": "x"}, affinity=anti_affinity)

    assert a_cluster(a_node("a"), a_node("b"), a_node("c")).reserve(gang, 3) is None
    message = a_cluster(a_node("a"), a_node("b")).reserve(gang, 3)
    assert message is not None
    assert message.startswith("Capacity for 2 of 3 tasks")


def test_a_removed_node_offers_no_capacity() -> None:
    capacity = a_cluster(a_node("a"), a_node("b"))
    capacity.remove_node("b")

    assert capacity.reserve(pods(5), 5) is not None
    assert a_cluster().reserve(pods(1), 1) == (
        "Capacity for 0 of 1 tasks (minTasks 1): pod p0: no nodes available to schedule pods"
    )


def test_invalid_nodes_and_pods_are_rejected_and_have_no_capacity() -> None:
    capacity = a_cluster(a_node("a", 1))
    broken = a_node("a")
    broken["status"]["allocatable"]["cpu"] = "many"

    with pytest.raises(ValueError, match=r"status\.allocatable\.cpu"):
        capacity.set_node(broken)
    with pytest.raises(ValueError, match=r"spec\.containers"):
        capacity.add_pod(a_pod("there", "many", nodeName="a"))

    assert capacity.reserve(pods(1), 1) is not None


_SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=8)


@given(nodes=_SIZES, gangs=st.lists(st.tuples(_SIZES, st.integers(0, 8)), max_size=6))
def test_reservations_never_exceed_the_nodes(nodes: list[int], gangs: list[tuple[list[int], int]]) -> None:
    capacity = a_cluster(*(a_node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    taken = 0
    for number, (sizes, required) in enumerate(gangs):
        minimum = min(required, len(sizes))
        gang = [a_pod(f"g{number}-{index}", str(cpu)) for index, cpu in enumerate(sizes)]

        if capacity.reserve(gang, minimum) is None:
            assert minimum == 0 or sum(sorted(sizes)[:minimum]) <= sum(nodes) - taken
        taken = _used(capacity)

        for node in capacity._cluster.nodes.values():
            assert node.used.get("cpu", 0) <= node.attributes.allocatable["cpu"]


def _used(capacity: ClusterCapacity) -> int:
    nodes = capacity._cluster.nodes.values()
    return sum(node.used.get("cpu", 0) for node in nodes) // 1000


@given(
    nodes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    first=st.integers(2, 6),
    second=st.integers(1, 3),
    seed=st.randoms(use_true_random=False),
)
def test_a_second_gang_fits_only_if_both_fit_on_any_nodes(
    nodes: list[int], first: int, second: int, seed: Random
) -> None:
    capacity = a_cluster(*(a_node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    if capacity.reserve([a_pod(f"a{number}") for number in range(first)], first) is not None:
        return
    slots = [f"n{number}" for number, cpu in enumerate(nodes) for _ in range(cpu)]
    seed.shuffle(slots)

    for number, node in enumerate(slots[: seed.randint(0, first)]):
        capacity.add_pod(a_pod(f"a{number}", nodeName=node))

    fits = capacity.reserve([a_pod(f"b{number}") for number in range(second)], second) is None
    assert fits == (first + second <= sum(nodes))


@given(nodes=_SIZES, there=_SIZES, gang=_SIZES)
def test_a_rejected_gang_changes_nothing(nodes: list[int], there: list[int], gang: list[int]) -> None:
    capacity = a_cluster(*(a_node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    capacity.reserve([a_pod(f"t{number}", str(cpu)) for number, cpu in enumerate(there)], 0)
    before = _used(capacity)

    rejection = capacity.reserve(
        [a_pod(f"g{number}", str(cpu)) for number, cpu in enumerate(gang)], len(gang)
    )

    assert _used(capacity) == before + (sum(gang) if rejection is None else 0)
