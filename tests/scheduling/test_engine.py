"""Decisions of the scheduling engine."""

import heapq
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from launcher.scheduling.bin_packing import Assignment
from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.engine import SchedulingEngine
from launcher.scheduling.feasibility import insufficient_resources, static_mismatch
from launcher.scheduling.pod_info import pod_info
from launcher.scheduling.reservation import move_reservation, reserve
from launcher.scheduling.scheduling_queue import EquivalenceClass, QueuedPod, SchedulingUnit
from tests.hypothesis_examples import examples
from tests.scheduling.builders import (
    a_node,
    a_pod_info,
    affinity,
    an_engine,
    pod_json,
    pod_term,
    schedule,
    submit_and_schedule,
)

RESERVED = "0/1 nodes are available: 1 node(s) reserved for a pod that has waited longer."


def a_pod_with(cpu: Any, name: str = "p", **parts: Any) -> PodInfo:
    return a_pod_info(name, requests={"cpu": cpu}, **parts)


def test_pods_get_nodes_while_capacity_is_left() -> None:
    engine = an_engine(a_node("n1", cpu=2), a_node("n2", cpu=1))

    given_nodes = submit_and_schedule(engine, *(a_pod_with(1, f"p{n}") for n in range(4)))

    assert sorted(given_nodes.values()) == ["n1", "n1", "n2"]
    assert engine.unschedulable_reason(("default", "p3")) == "0/2 nodes are available: 2 Insufficient cpu."


def test_an_assumed_pod_uses_resources_before_its_binding_is_observed() -> None:
    engine = an_engine(a_node(cpu=1))

    assert submit_and_schedule(engine, a_pod_with(1, "a")) == {"a": "n1"}
    assert submit_and_schedule(engine, a_pod_with(1, "b")) == {}


def test_a_removed_pod_releases_its_resources() -> None:
    engine = an_engine(a_node(cpu=1))
    submit_and_schedule(engine, first := a_pod_with(1, "a"), a_pod_with(1, "b"))
    engine.pod_bound(first, "n1")

    engine.remove_pod(first.key)

    assert schedule(engine) == {"b": "n1"}


def test_a_pod_whose_binding_failed_is_pending_again() -> None:
    engine = an_engine(a_node(cpu=1))
    submit_and_schedule(engine, pod := a_pod_with(1, "a"), a_pod_with(1, "b"))

    engine.forget_assumed(pod)

    assert schedule(engine) == {"a": "n1"}


def test_a_pod_observed_on_its_node_is_not_forgotten() -> None:
    engine = an_engine(a_node(cpu=1))
    submit_and_schedule(engine, pod := a_pod_with(1, "a"))
    engine.pod_bound(pod, "n1")

    engine.forget_assumed(pod)

    assert submit_and_schedule(engine, a_pod_with(1, "b")) == {}


def test_a_new_pod_of_the_same_name_replaces_the_old_one() -> None:
    engine = an_engine(a_node(cpu=1))
    submit_and_schedule(engine, first := a_pod_with(1, "a"))
    engine.add_pending(second := a_pod_with(1, "a"), 0, 0.0)

    engine.forget_assumed(first)

    assert [binding.pod for binding in engine.schedule(0.0, 10)] == [second]


def test_pods_bound_by_other_clients_use_resources() -> None:
    engine = an_engine(a_node("n1", cpu=1), a_node("n2", cpu=1))
    engine.pod_bound(a_pod_with(1, "other"), "n1")

    assert submit_and_schedule(engine, a_pod_with(1, "a")) == {"a": "n2"}


def test_pods_on_an_unknown_node_count_once_the_node_is_added() -> None:
    engine = an_engine()
    engine.pod_bound(a_pod_with(1, "other"), "n1")
    submit_and_schedule(engine, a_pod_with(1, "a"))

    engine.set_node(a_node("n1", cpu=1))

    assert schedule(engine) == {}
    assert engine.unschedulable_reason(("default", "a")) == "0/1 nodes are available: 1 Insufficient cpu."


def test_pending_pods_are_retried_when_a_node_is_added_or_changes() -> None:
    engine = an_engine()
    assert submit_and_schedule(engine, a_pod_with(2, "a")) == {}
    assert engine.unschedulable_reason(("default", "a")) == "no nodes available to schedule pods"

    engine.set_node(a_node(cpu=1))
    assert schedule(engine) == {}

    engine.set_node(a_node(cpu=2))
    assert schedule(engine) == {"a": "n1"}


def test_a_removed_node_gets_no_pods() -> None:
    engine = an_engine(a_node("n1"), a_node("n2"))
    engine.remove_node("n1")

    assert submit_and_schedule(engine, a_pod_with(1, "a"), a_pod_with(1, "b")) == {"a": "n2", "b": "n2"}


def test_pods_are_not_retried_before_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = an_engine(a_node(cpu=1))
    submit_and_schedule(engine, pod := a_pod_with(1, "a"))
    checked: list[PodInfo] = []
    original = SchedulingEngine._find_nodes

    def counted(
        self: SchedulingEngine, unit: SchedulingUnit, equivalence_class: EquivalenceClass
    ) -> Assignment:
        checked.append(unit.members[0].pod)
        return original(self, unit, equivalence_class)

    monkeypatch.setattr(SchedulingEngine, "_find_nodes", counted)

    submit_and_schedule(engine, *(a_pod_with(1, f"p{n}") for n in range(1000)))
    schedule(engine)

    assert len(checked) == 1

    engine.remove_pod(pod.key)
    schedule(engine)

    assert len(checked) == 3  # the pod that fits, and the next one, which does not


def test_higher_priority_goes_first_then_longer_wait() -> None:
    engine = an_engine(a_node(cpu=1))
    for name, priority, since in (("late", 0, 2.0), ("early", 0, 1.0), ("urgent", 9, 3.0)):
        engine.add_pending(a_pod_with(1, name), priority, since)

    order = []
    while found := engine.schedule(3.0, 10):
        order += [binding.pod.key[1] for binding in found]
        engine.remove_pod(found[0].pod.key)

    assert order == ["urgent", "early", "late"]


def test_a_pod_that_does_not_fit_does_not_hold_up_others() -> None:
    engine = an_engine(a_node(cpu=2))

    assert submit_and_schedule(engine, a_pod_with(3, "big"), a_pod_with(1, "small")) == {"small": "n1"}


def test_a_decision_respects_the_limit() -> None:
    engine = an_engine(a_node(cpu=9))
    for n in range(5):
        engine.add_pending(a_pod_with(1, f"p{n}"), 0, float(n))

    assert [len(engine.schedule(0.0, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_pending_pods_are_reported_once() -> None:
    engine = an_engine(a_node(cpu=1))
    submit_and_schedule(engine, a_pod_with(1, "a"), a_pod_with(1, "b"), a_pod_with(2, "c"))

    assert sorted(engine.take_newly_rejected()) == [("default", "b"), ("default", "c")]
    assert list(engine.take_newly_rejected()) == []
    assert sorted(engine.pending()) == [("default", "b"), ("default", "c")]


def test_a_pending_pod_added_again_keeps_its_position() -> None:
    engine = an_engine(a_node(cpu=1))
    pod = a_pod_with(1, "a")
    engine.add_pending(pod, 0, 5.0)
    engine.add_pending(a_pod_with(1, "b"), 0, 6.0)

    engine.add_pending(replace(pod, labels={"new": "label"}), 0, 7.0)

    assert schedule(engine, 7.0) == {"a": "n1"}


def test_a_new_pod_can_satisfy_the_affinity_of_pending_pods() -> None:
    engine = an_engine(a_node("n1"), a_node("n2"))
    follower = a_pod_info("follower", affinity=affinity("podAffinity", pod_term({"app": "web"})))
    assert submit_and_schedule(engine, follower) == {}

    assert submit_and_schedule(engine, a_pod_info("leader", labels={"app": "web"})) == {
        "leader": "n1",
        "follower": "n1",
    }


def test_a_pod_rejected_for_its_labels_does_not_block_equal_requirements() -> None:
    engine = an_engine(a_node())
    exclusive = a_pod_info("exclusive", affinity=affinity("podAntiAffinity", pod_term({"app": "web"})))
    submit_and_schedule(engine, exclusive)

    given_nodes = submit_and_schedule(
        engine, a_pod_info("web", labels={"app": "web"}), a_pod_info("db", labels={"app": "db"})
    )

    assert given_nodes == {"db": "n1"}
    assert engine.unschedulable_reason(("default", "web")) == (
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    )

    engine.remove_pod(exclusive.key)

    assert schedule(engine) == {"web": "n1"}


def test_pods_with_mutual_anti_affinity_get_one_node_each() -> None:
    engine = an_engine(a_node("n1"), a_node("n2"), a_node("n3"))
    anti_affinity = affinity("podAntiAffinity", pod_term({"app": "ps"}))

    given_nodes = submit_and_schedule(
        engine, *(a_pod_info(f"p{n}", labels={"app": "ps"}, affinity=anti_affinity) for n in range(4))
    )

    assert sorted(given_nodes.values()) == ["n1", "n2", "n3"]


# Reservations for overdue pods.


def test_small_pods_do_not_starve_a_large_pod_that_waited_long() -> None:
    engine = an_engine(a_node(cpu=4), reserve_after=60)
    submit_and_schedule(engine, *(a_pod_with(1, f"old{n}") for n in range(4)), now=0)
    assert submit_and_schedule(engine, a_pod_with(4, "big"), now=1) == {}
    engine.remove_pod(("default", "old0"))
    assert submit_and_schedule(engine, a_pod_with(1, "young"), now=30) == {"young": "n1"}

    assert schedule(engine, 61) == {}  # overdue: now the node is reserved for the large pod
    engine.remove_pod(("default", "old1"))
    assert submit_and_schedule(engine, a_pod_with(1, "small"), now=62) == {}
    assert engine.unschedulable_reason(("default", "small")) == RESERVED

    for name in ("old2", "old3", "young"):
        engine.remove_pod(("default", name))
    assert schedule(engine, 63) == {"big": "n1"}

    engine.remove_pod(("default", "big"))
    assert schedule(engine, 64) == {"small": "n1"}


def test_other_pods_may_use_unreserved_capacity() -> None:
    engine = an_engine(a_node(cpu=4), reserve_after=60)
    submit_and_schedule(engine, a_pod_with(2, "old"), now=0)
    submit_and_schedule(engine, a_pod_with(3, "big"), now=0)
    schedule(engine, 60)

    assert submit_and_schedule(engine, a_pod_with(1, "beside"), a_pod_with(1, "instead"), now=61) == {
        "beside": "n1"
    }

    engine.remove_pod(("default", "old"))
    assert schedule(engine, 62) == {"big": "n1"}


def test_capacity_released_by_an_admitted_pod_serves_other_pods() -> None:
    engine = an_engine(a_node(cpu=4), reserve_after=60)
    submit_and_schedule(engine, a_pod_with(2, "old"), a_pod_with(3, "big"), now=0)
    schedule(engine, 60)
    submit_and_schedule(engine, a_pod_with(1, "beside"), now=61)

    engine.remove_pod(("default", "beside"))

    assert submit_and_schedule(engine, a_pod_with(1, "next"), now=62) == {"next": "n1"}


def test_higher_priority_overrides_a_reservation() -> None:
    engine = an_engine(a_node(cpu=2), reserve_after=60)
    submit_and_schedule(engine, a_pod_with(1, "old"), a_pod_with(2, "big"), now=0)
    schedule(engine, 60)

    assert submit_and_schedule(engine, a_pod_with(1, "urgent"), now=61, priority=1) == {"urgent": "n1"}


def test_the_reservation_is_made_where_the_least_has_to_terminate() -> None:
    engine = an_engine(a_node("n1", cpu=4), a_node("n2", cpu=4), reserve_after=60)
    engine.pod_bound(a_pod_with(3, "most"), "n1")
    engine.pod_bound(a_pod_with(2, "half"), "n2")
    submit_and_schedule(engine, a_pod_with(4, "big"), now=0)
    schedule(engine, 60)

    assert submit_and_schedule(engine, a_pod_with(1, "a"), a_pod_with(1, "b"), now=61) == {"a": "n1"}


def test_terminating_pods_do_not_count_for_the_reservation() -> None:
    engine = an_engine(a_node("n1", cpu=4), a_node("n2", cpu=4), reserve_after=60)
    engine.pod_bound(replace(a_pod_with(3, "most"), terminating=True), "n1")
    engine.pod_bound(a_pod_with(2, "half"), "n2")
    submit_and_schedule(engine, a_pod_with(4, "big"), now=0)
    schedule(engine, 60)

    assert submit_and_schedule(engine, a_pod_with(1, "a"), now=61) == {"a": "n2"}


def test_nothing_is_reserved_for_a_pod_that_fits_no_empty_node() -> None:
    engine = an_engine(a_node(cpu=4), reserve_after=60)
    submit_and_schedule(
        engine,
        a_pod_with(4, "old"),
        a_pod_with(9, "giant"),
        a_pod_with(1, "picky", nodeSelector={"no": "where"}),
        now=0,
    )
    schedule(engine, 60)
    engine.remove_pod(("default", "old"))

    assert submit_and_schedule(engine, a_pod_with(1, "small"), now=61) == {"small": "n1"}


@pytest.mark.parametrize("happens", ["the pod is deleted", "the node is gone"])
def test_a_useless_reservation_is_dropped(happens: str) -> None:
    engine = an_engine(a_node("n1", cpu=3), a_node("n2", cpu=4), reserve_after=60)
    engine.pod_bound(a_pod_with(2, "a"), "n1")
    engine.pod_bound(a_pod_with(3, "b"), "n2")
    submit_and_schedule(engine, a_pod_with(4, "big"), a_pod_with(2, "small"), now=0)
    schedule(engine, 60)
    engine.remove_pod(("default", "b"))
    engine.pod_bound(a_pod_with(2, "c"), "n2")
    assert schedule(engine, 61) == {}

    if happens == "the pod is deleted":
        engine.remove_pod(("default", "big"))
        assert schedule(engine, 62) == {"small": "n2"}
    else:
        engine.remove_node("n2")
        engine.remove_pod(("default", "a"))
        assert schedule(engine, 62) == {"small": "n1"}


def test_later_pods_do_not_starve_a_pod_with_anti_affinity() -> None:
    engine = an_engine(a_node(cpu=4), reserve_after=60)
    anti_affinity = affinity("podAntiAffinity", pod_term({"app": "web"}))
    engine.pod_bound(a_pod_info("web0", labels={"app": "web"}), "n1")
    submit_and_schedule(engine, a_pod_info("exclusive", affinity=anti_affinity), now=0)
    schedule(engine, 60)

    given_nodes = submit_and_schedule(
        engine, a_pod_info("web1", labels={"app": "web"}), a_pod_info("db"), now=61
    )
    assert given_nodes == {"db": "n1"}

    engine.remove_pod(("default", "web0"))
    assert schedule(engine, 62) == {"exclusive": "n1"}


def test_the_next_decision_is_when_a_pod_becomes_overdue() -> None:
    engine = an_engine(a_node(cpu=1), reserve_after=60)
    assert engine.next_decision_at(0.0) is None
    submit_and_schedule(engine, a_pod_with(1, "a"), a_pod_with(1, "b"), now=5)

    assert engine.next_decision_at(5.0) == 65.0


def test_a_reservation_moves_to_a_node_that_is_free_much_earlier() -> None:
    engine = an_engine(a_node("n1", cpu=4), a_node("n2", cpu=4), reserve_after=60)
    engine.pod_bound(a_pod_with(3, "stays"), "n1")
    engine.pod_bound(a_pod_with(4, "goes"), "n2")
    submit_and_schedule(engine, a_pod_with(4, "big"), now=0)
    schedule(engine, 60)  # on n1, where less has to terminate

    engine.remove_pod(("default", "goes"))
    engine.pod_bound(a_pod_with(1, "new"), "n2")
    schedule(engine, engine.next_decision_at(61.0) or 0.0)

    assert submit_and_schedule(engine, a_pod_with(1, "small"), now=130) == {"small": "n1"}


def test_each_move_delays_the_next_move_of_a_reservation() -> None:
    cluster = ClusterState()
    for name in ("n1", "n2"):
        cluster.set_node(a_node(name, cpu=4))
    cluster.assign(a_pod_with(4, "there"), "n1")
    reservation = reserve(
        SchedulingUnit((QueuedPod(a_pod_with(4, "big"), 0, 0.0, 1),)), cluster, now=0.0, reserve_after=60.0
    )
    assert reservation is not None
    assert (list(reservation.claims), reservation.review_at) == (["n2"], 60.0)

    cluster.remove_pod(("default", "there"))
    cluster.assign(a_pod_with(4, "other"), "n2")
    reservation = move_reservation(reservation, cluster, now=60.0, reserve_after=60.0)
    assert reservation is not None
    assert (list(reservation.claims), reservation.review_at) == (["n1"], 180.0)

    assert move_reservation(reservation, cluster, now=180.0, reserve_after=60.0) is None
    assert reservation.review_at == 300.0


@pytest.mark.parametrize(
    ("change", "known"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"resourceVersion": "9"}, True, id="only its version"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False, id="its deletion"),
        pytest.param({"labels": {"a": "b"}}, False, id="its labels"),
        pytest.param({"uid": "another"}, False, id="another pod"),
    ],
)
def test_a_bound_pod_is_parsed_again_only_after_a_relevant_change(
    change: dict[str, Any], known: bool
) -> None:
    engine = an_engine(a_node())
    pod = pod_json()
    pod["metadata"]["uid"] = "u"
    engine.pod_bound(pod_info(pod), "n1")

    pod["metadata"] |= change

    assert engine.is_known(pod, "n1") is known
    assert not engine.is_known(pod, "n2")


@dataclass
class RandomLoad:
    """Pods that run and terminate in simulated time: small ones nearly fill the nodes, some need a whole node."""

    seed: int
    reserve_after: float
    cpus: tuple[int, ...] = (24, 24, 8)
    longest_run: float = 100.0
    waits: dict[str, float] = field(default_factory=dict)
    waiting_since: dict[str, float] = field(default_factory=dict)
    _ends: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        nodes = (a_node(f"n{number}", cpu=cpu) for number, cpu in enumerate(self.cpus))
        self._engine = an_engine(*nodes, reserve_after=self.reserve_after)

    def run(self, seconds: int) -> None:
        # Small pods alone use most of the capacity.
        mean_run, mean_cpu = (5 + self.longest_run) / 2, 4 / 3
        rate = 0.85 * sum(self.cpus) / mean_run / mean_cpu
        number = 0
        for second in range(seconds):
            self._end_until(second)
            for _ in range(self._poisson(rate)):
                self._submit(f"small-{number}", self._random.choice((1, 1, 2)), second)
                number += 1
            if second % 1000 == 300:
                self._submit(f"big-{second}", max(self.cpus), second)
            self._schedule(second)

    def _poisson(self, rate: float) -> int:
        count, at = 0, self._random.expovariate(rate)
        while at < 1:
            count, at = count + 1, at + self._random.expovariate(rate)
        return count

    def _submit(self, name: str, cpu: int, now: float) -> None:
        self.waiting_since[name] = now
        self._engine.add_pending(a_pod_with(cpu, name, owner=f"f{self._random.randrange(5)}"), 0, now)

    def _end_until(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            self._engine.remove_pod(("default", heapq.heappop(self._ends)[1]))

    def _schedule(self, now: float) -> None:
        for binding in self._engine.schedule(now, 1000):
            name = binding.pod.key[1]
            self.waits[name] = now - self.waiting_since.pop(name)
            heapq.heappush(self._ends, (now + self._random.uniform(5, self.longest_run), name))


@pytest.mark.parametrize("seed", range(8))
def test_in_any_mix_every_pod_is_scheduled_within_a_bound(seed: int) -> None:
    load = RandomLoad(seed, reserve_after=60)

    load.run(seconds=4000)

    # The reservation delay plus the longest run time of earlier pods, once more for pods behind a large one.
    bound = 60 + 2 * load.longest_run
    assert max(load.waits.values()) <= bound
    assert all(since >= 4000 - bound for since in load.waiting_since.values())
    assert sum(name.startswith("big") for name in load.waits) == 4


def test_without_reservations_large_pods_would_starve() -> None:
    load = RandomLoad(seed=0, reserve_after=1e9)

    load.run(seconds=4000)

    assert [name for name in load.waiting_since if name.startswith("big")] == [
        "big-300",
        "big-1300",
        "big-2300",
        "big-3300",
    ]


AFFINITIES: list[dict[str, Any]] = [
    {},
    {"labels": {"g": "1"}, "affinity": affinity("podAntiAffinity", pod_term({"g": "1"}))},
    {"labels": {"g": "1"}},
    {"labels": {"g": "2"}, "affinity": affinity("podAffinity", pod_term({"g": "2"}))},
]
NAMES = st.sampled_from([f"p{number}" for number in range(10)])


class SchedulerStateMachine(RuleBasedStateMachine):
    """Invariants after any sequence of events: no node is overcommitted, and no pending pod would fit."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = {name: a_node(name, cpu=6) for name in ("n1", "n2")}
        self.engine = an_engine(*self.nodes.values())
        self.assigned: dict[str, tuple[PodInfo, str]] = {}
        self.given: set[str] = set()
        self.waiting_since: dict[str, PodInfo] = {}

    @rule(name=NAMES, cpu=st.integers(1, 5), affinity_filter=st.sampled_from(AFFINITIES))
    def submit(self, name: str, cpu: int, affinity_filter: dict[str, Any]) -> None:
        if name not in self.assigned:
            self.waiting_since[name] = a_pod_with(cpu, name, **affinity_filter)
            self.engine.add_pending(self.waiting_since[name], 0, 0.0)

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        self.assigned.pop(name, None)
        self.waiting_since.pop(name, None)
        self.given.discard(name)
        self.engine.remove_pod(("default", name))

    @rule(name=NAMES)
    def fail(self, name: str) -> None:
        if name in self.given:
            self.given.discard(name)
            self.waiting_since[name], _ = self.assigned.pop(name)
            self.engine.forget_assumed(self.waiting_since[name])

    @rule(name=NAMES)
    def observe(self, name: str) -> None:
        if name in self.assigned:
            self.given.discard(name)
            self.engine.pod_bound(*self.assigned[name])

    @rule(cordoned=st.booleans())
    def cordon(self, cordoned: bool) -> None:
        self.nodes["n1"] = a_node("n1", cpu=6, unschedulable=cordoned)
        self.engine.set_node(self.nodes["n1"])

    @rule()
    def decide(self) -> None:
        for binding in self.engine.schedule(0.0, 100):
            assert static_mismatch(binding.pod.requirements, self.nodes[binding.node]) is None
            name = binding.pod.key[1]
            self.assigned[name] = self.waiting_since.pop(name), binding.node
            self.given.add(name)
        for name, pod in self.waiting_since.items():
            assert self.engine.unschedulable_reason(pod.key) is not None, name
            if not pod.labels:
                assert not any(self._fits(pod, node) for node in self._real())

    def _fits(self, pod: PodInfo, node: NodeInfo) -> bool:
        return static_mismatch(pod.requirements, node.attributes) is None and not insufficient_resources(
            pod.requirements, node
        )

    def _real(self) -> list[NodeInfo]:
        """Returns the nodes with their pods, computed from scratch."""
        nodes = {name: NodeInfo(attributes) for name, attributes in self.nodes.items()}
        for pod, name in self.assigned.values():
            nodes[name].add_pod(pod)
        return list(nodes.values())

    @invariant()
    def no_node_is_overfull(self) -> None:
        for node in self._real():
            assert node.used.get("cpu", 0) <= 6000
            groups = [pod.labels.get("g") for pod in node.pods.values() if pod.requirements.anti_affinity]
            assert not groups or sum(pod.labels.get("g") == "1" for pod in node.pods.values()) == 1


TestAnyOrder = SchedulerStateMachine.TestCase
TestAnyOrder.settings = examples(150, stateful_step_count=40)
