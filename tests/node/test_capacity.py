"""Many pods at once fit the nodes of a cluster, or it is told why not, and nothing is taken."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.scheduling.capacity import ClusterCapacity
from launcher.store.interface import Object


def a_node(name: str, cpu: int = 4, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    has = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": has},
    }


def a_pod(name: str, cpu: str = "1", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}}
    return {"metadata": meta, "spec": {"containers": [container], **spec}}


def pods(count: int, cpu: str = "1", **spec: Any) -> list[Object]:
    return [a_pod(f"p{number}", cpu, **spec) for number in range(count)]


def a_cluster(*nodes: Object) -> ClusterCapacity:
    capacity = ClusterCapacity()
    for node in nodes:
        capacity.set_node(node)
    return capacity


def test_pods_that_fit_on_several_nodes_fit() -> None:
    assert a_cluster(a_node("a", 2), a_node("b", 2)).reserve(pods(4), 4) is None


def test_what_is_enough_in_sum_but_on_no_node_does_not_fit() -> None:
    why = a_cluster(a_node("a", 2), a_node("b", 2)).reserve([a_pod("p", "3")], 1)

    assert why == "0 of 1 tasks fit now, 1 have to: pod p: 0/2 nodes are available: 2 Insufficient cpu."


def test_what_does_not_fit_takes_nothing() -> None:
    capacity = a_cluster(a_node("a", 4))
    assert capacity.reserve(pods(5), 5) is not None

    assert capacity.reserve([a_pod(f"q{number}") for number in range(4)], 4) is None


def test_what_fits_takes_it_until_it_goes() -> None:
    capacity = a_cluster(a_node("a", 2))
    assert capacity.reserve(pods(2), 2) is None
    assert capacity.reserve([a_pod("q")], 1) is not None

    capacity.drop(("default", "p0"))

    assert capacity.reserve([a_pod("q")], 1) is None


def test_who_comes_to_a_node_takes_what_it_takes_there_and_no_longer_what_was_thought() -> None:
    capacity = a_cluster(a_node("a", 1), a_node("b", 3))
    assert capacity.reserve([a_pod("p")], 1) is None

    capacity.put(a_pod("p", nodeName="a"))

    assert capacity.reserve([a_pod("q", "3")], 1) is None


def test_pods_that_are_tried_again_are_not_in_their_own_way() -> None:
    capacity = a_cluster(a_node("a", 2))
    assert capacity.reserve(pods(2), 2) is None

    assert capacity.reserve(pods(2), 2) is None
    assert capacity.reserve([a_pod("q")], 1) is not None


def test_who_was_promised_room_keeps_it_when_another_takes_the_place() -> None:
    capacity = a_cluster(a_node("a", 1), a_node("b", 2))
    assert capacity.reserve([a_pod("p0"), a_pod("p1")], 2) is None
    thought = {name: capacity._site.node_of(("default", name)) for name in ("p0", "p1")}
    assert set(thought.values()) == {"a", "b"}

    # The other way round than was thought: for a moment, two are counted on the small node and none on the large one.
    (on_b,) = [name for name, node in thought.items() if node == "b"]
    capacity.put(a_pod(on_b, nodeName="a"))

    assert capacity.reserve([a_pod("q0"), a_pod("q1")], 2) is not None


def test_room_that_comes_is_first_of_all_for_those_who_were_let_through() -> None:
    capacity = a_cluster(a_node("a", 1))
    assert capacity.reserve(pods(2), 1) is None

    capacity.set_node(a_node("b", 1))

    assert capacity.reserve([a_pod("q")], 1) is not None


def test_who_is_known_to_have_a_node_is_not_thought_to_be_elsewhere() -> None:
    capacity = a_cluster(a_node("a", 1), a_node("b", 3))
    capacity.put(a_pod("p", nodeName="a"))

    assert capacity.reserve([a_pod("p")], 0) is None  # heard of before its node was

    assert capacity.reserve([a_pod("q", "3")], 1) is None


def test_pods_that_are_there_already_count() -> None:
    capacity = a_cluster(a_node("a", 2))
    capacity.put(a_pod("there", "2", nodeName="a"))

    assert capacity.reserve([a_pod("p")], 1) is not None


def test_a_pod_that_is_replaced_by_another_of_its_name_counts_as_the_other() -> None:
    capacity = a_cluster(a_node("a", 2))
    capacity.put(a_pod("there", "2", nodeName="a"))
    other = a_pod("there", "1", nodeName="a")
    other["metadata"]["uid"] = "another"

    capacity.put(other)

    assert capacity.reserve([a_pod("p")], 1) is None


def test_enough_are_enough_and_the_rest_take_what_there_is() -> None:
    capacity = a_cluster(a_node("a", 3))

    assert capacity.reserve(pods(5), 2) is None
    assert capacity.reserve([a_pod("q")], 1) is not None


def test_those_who_were_let_through_before_take_what_there_is_whatever_that_is() -> None:
    assert a_cluster(a_node("a", 1)).reserve(pods(3), 0) is None


def test_the_greediest_are_placed_first() -> None:
    capacity = a_cluster(a_node("a", 4), a_node("b", 4))

    assert capacity.reserve([*pods(4), a_pod("z-large", "4")], 5) is None


@pytest.mark.parametrize(
    ("node", "pod", "why"),
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
            "a pod cannot be read: spec.containers.resources.requests.cpu: 'many' is not a quantity",
            id="a pod that makes no sense",
        ),
    ],
)
def test_what_keeps_a_pod_from_a_node_is_told(node: Object, pod: Object, why: str) -> None:
    told = a_cluster(node).reserve([pod], 1)

    assert told is not None
    assert why in told


def test_pods_that_want_to_be_apart_need_as_many_nodes() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    gang = pods(3, labels={"app": "x"}, affinity=apart)

    assert a_cluster(a_node("a"), a_node("b"), a_node("c")).reserve(gang, 3) is None
    told = a_cluster(a_node("a"), a_node("b")).reserve(gang, 3)
    assert told is not None
    assert told.startswith("2 of 3 tasks fit now")


def test_a_node_that_goes_takes_its_room_along() -> None:
    capacity = a_cluster(a_node("a"), a_node("b"))
    capacity.drop_node("b")

    assert capacity.reserve(pods(5), 5) is not None
    assert a_cluster().reserve(pods(1), 1) == (
        "0 of 1 tasks fit now, 1 have to: pod p0: no nodes available to schedule pods"
    )


def test_what_cannot_be_counted_is_left_out() -> None:
    capacity = a_cluster(a_node("a", 1))
    broken = a_node("a")
    broken["status"]["allocatable"]["cpu"] = "many"

    capacity.set_node(broken)
    capacity.put(a_pod("there", "many", nodeName="a"))

    assert capacity.reserve(pods(1), 1) is not None


_SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=8)


@given(nodes=_SIZES, gangs=st.lists(st.tuples(_SIZES, st.integers(0, 8)), max_size=6))
def test_nodes_are_never_promised_more_than_they_have(
    nodes: list[int], gangs: list[tuple[list[int], int]]
) -> None:
    capacity = a_cluster(*(a_node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    taken = 0
    for number, (sizes, wish) in enumerate(gangs):
        least = min(wish, len(sizes))
        gang = [a_pod(f"g{number}-{index}", str(cpu)) for index, cpu in enumerate(sizes)]

        if capacity.reserve(gang, least) is None:
            assert least == 0 or sum(sorted(sizes)[:least]) <= sum(nodes) - taken
        taken = _used(capacity)

        for node in capacity._site.nodes.values():
            assert node.used.get("cpu", 0) <= node.facts.allocatable["cpu"]


def _used(capacity: ClusterCapacity) -> int:
    nodes = capacity._site.nodes.values()
    return sum(node.used.get("cpu", 0) for node in nodes) // 1000


@given(
    nodes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    first=st.integers(2, 6),
    second=st.integers(1, 3),
    seed=st.randoms(use_true_random=False),
)
def test_whichever_nodes_a_gang_comes_to_the_next_fits_only_if_both_do(
    nodes: list[int], first: int, second: int, seed: Random
) -> None:
    capacity = a_cluster(*(a_node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    if capacity.reserve([a_pod(f"a{number}") for number in range(first)], first) is not None:
        return
    places = [f"n{number}" for number, cpu in enumerate(nodes) for _ in range(cpu)]
    seed.shuffle(places)

    for number, place in enumerate(places[: seed.randint(0, first)]):
        capacity.put(a_pod(f"a{number}", nodeName=place))

    fits = capacity.reserve([a_pod(f"b{number}") for number in range(second)], second) is None
    assert fits == (first + second <= sum(nodes))


@given(nodes=_SIZES, there=_SIZES, gang=_SIZES)
def test_a_gang_that_is_refused_leaves_everything_as_it_was(
    nodes: list[int], there: list[int], gang: list[int]
) -> None:
    capacity = a_cluster(*(a_node(f"n{number}", cpu) for number, cpu in enumerate(nodes)))
    capacity.reserve([a_pod(f"t{number}", str(cpu)) for number, cpu in enumerate(there)], 0)
    before = _used(capacity)

    why = capacity.reserve([a_pod(f"g{number}", str(cpu)) for number, cpu in enumerate(gang)], len(gang))

    assert _used(capacity) == before + (sum(gang) if why is None else 0)
