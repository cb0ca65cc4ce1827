"""Who goes where and who waits: the scheduler's decisions, without a store."""

import heapq
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from launcher.scheduling.bin_packing import Assignment
from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.engine import SchedulingEngine
from launcher.scheduling.feasibility import insufficient_resources, static_mismatch
from launcher.scheduling.pod_info import guest_of
from launcher.scheduling.reservation import moved, reserve
from launcher.scheduling.scheduling_queue import EquivalenceClass, QueuedPod, SchedulingUnit
from tests.node.scheduling import a_guest, a_node, a_placer, about, affinity, place, places, pod_json

KEPT = "0/1 nodes are available: 1 node(s) kept room for a pod that has waited longer."


def asking(cpu: Any, name: str = "p", **parts: Any) -> PodInfo:
    return a_guest(name, requests={"cpu": cpu}, **parts)


def test_pods_get_nodes_as_long_as_there_is_room() -> None:
    placer = a_placer(a_node("n1", cpu=2), a_node("n2", cpu=1))

    given_nodes = place(placer, *(asking(1, f"p{n}") for n in range(4)))

    assert sorted(given_nodes.values()) == ["n1", "n1", "n2"]
    assert placer.unschedulable_reason(("default", "p3")) == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_pod_that_was_given_a_node_takes_its_room_before_it_is_seen_there() -> None:
    placer = a_placer(a_node(cpu=1))

    assert place(placer, asking(1, "a")) == {"a": "n1"}
    assert place(placer, asking(1, "b")) == {}


def test_what_a_pod_took_is_free_when_it_leaves() -> None:
    placer = a_placer(a_node(cpu=1))
    place(placer, first := asking(1, "a"), asking(1, "b"))
    placer.pod_bound(first, "n1")

    placer.leave(first.key)

    assert places(placer) == {"b": "n1"}


def test_a_pod_whose_binding_failed_waits_as_before() -> None:
    placer = a_placer(a_node(cpu=1))
    place(placer, guest := asking(1, "a"), asking(1, "b"))

    placer.forget_assumed(guest)

    assert places(placer) == {"a": "n1"}


def test_a_pod_that_was_seen_on_its_node_is_not_given_back() -> None:
    placer = a_placer(a_node(cpu=1))
    place(placer, guest := asking(1, "a"))
    placer.pod_bound(guest, "n1")

    placer.forget_assumed(guest)

    assert place(placer, asking(1, "b")) == {}


def test_another_pod_of_the_same_name_takes_the_place_of_the_one_before() -> None:
    placer = a_placer(a_node(cpu=1))
    place(placer, first := asking(1, "a"))
    placer.add_pending(second := asking(1, "a"), 0, 0.0)

    placer.forget_assumed(first)

    assert [binding.guest for binding in placer.decide(0.0, 10)] == [second]


def test_pods_bound_by_others_are_counted_where_they_are() -> None:
    placer = a_placer(a_node("n1", cpu=1), a_node("n2", cpu=1))
    placer.pod_bound(asking(1, "other"), "n1")

    assert place(placer, asking(1, "a")) == {"a": "n2"}


def test_pods_on_a_node_that_is_not_known_yet_are_counted_when_it_comes() -> None:
    placer = a_placer()
    placer.pod_bound(asking(1, "other"), "n1")
    place(placer, asking(1, "a"))

    placer.set_node(a_node("n1", cpu=1))

    assert places(placer) == {}
    assert placer.unschedulable_reason(("default", "a")) == "0/1 nodes are available: 1 Insufficient cpu."


def test_those_who_wait_are_tried_again_when_a_node_comes_or_changes() -> None:
    placer = a_placer()
    assert place(placer, asking(2, "a")) == {}
    assert placer.unschedulable_reason(("default", "a")) == "no nodes available to schedule pods"

    placer.set_node(a_node(cpu=1))
    assert places(placer) == {}

    placer.set_node(a_node(cpu=2))
    assert places(placer) == {"a": "n1"}


def test_a_node_that_is_gone_takes_nobody() -> None:
    placer = a_placer(a_node("n1"), a_node("n2"))
    placer.drop_node("n1")

    assert place(placer, asking(1, "a"), asking(1, "b")) == {"a": "n2", "b": "n2"}


def test_nobody_is_tried_again_before_something_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    placer = a_placer(a_node(cpu=1))
    place(placer, guest := asking(1, "a"))
    tried: list[PodInfo] = []
    original = SchedulingEngine._try

    def counted(self: SchedulingEngine, party: SchedulingUnit, line: EquivalenceClass) -> Assignment:
        tried.append(party.members[0].guest)
        return original(self, party, line)

    monkeypatch.setattr(SchedulingEngine, "_try", counted)

    place(placer, *(asking(1, f"p{n}") for n in range(1000)))
    places(placer)

    assert len(tried) == 1

    placer.leave(guest.key)
    places(placer)

    assert len(tried) == 3  # the one that fits, and the next to see that nobody else does


def test_higher_priority_goes_first_then_longer_wait() -> None:
    placer = a_placer(a_node(cpu=1))
    for name, priority, since in (("late", 0, 2.0), ("early", 0, 1.0), ("urgent", 9, 3.0)):
        placer.add_pending(asking(1, name), priority, since)

    order = []
    while found := placer.decide(3.0, 10):
        order += [binding.guest.key[1] for binding in found]
        placer.leave(found[0].guest.key)

    assert order == ["urgent", "early", "late"]


def test_a_pod_that_does_not_fit_does_not_hold_up_others() -> None:
    placer = a_placer(a_node(cpu=2))

    assert place(placer, asking(3, "big"), asking(1, "small")) == {"small": "n1"}


def test_no_more_are_decided_at_once_than_asked_for() -> None:
    placer = a_placer(a_node(cpu=9))
    for n in range(5):
        placer.add_pending(asking(1, f"p{n}"), 0, float(n))

    assert [len(placer.decide(0.0, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_those_who_must_wait_are_told_once() -> None:
    placer = a_placer(a_node(cpu=1))
    place(placer, asking(1, "a"), asking(1, "b"), asking(2, "c"))

    assert sorted(placer.untold()) == [("default", "b"), ("default", "c")]
    assert list(placer.untold()) == []
    assert sorted(placer.waiting()) == [("default", "b"), ("default", "c")]


def test_a_pod_said_to_wait_again_keeps_its_place() -> None:
    placer = a_placer(a_node(cpu=1))
    guest = asking(1, "a")
    placer.add_pending(guest, 0, 5.0)
    placer.add_pending(asking(1, "b"), 0, 6.0)

    placer.add_pending(replace(guest, labels={"new": "label"}), 0, 7.0)

    assert places(placer, 7.0) == {"a": "n1"}


def test_company_that_comes_lets_those_go_who_waited_for_it() -> None:
    placer = a_placer(a_node("n1"), a_node("n2"))
    follower = a_guest("follower", affinity=affinity("podAffinity", about({"app": "web"})))
    assert place(placer, follower) == {}

    assert place(placer, a_guest("leader", labels={"app": "web"})) == {"leader": "n1", "follower": "n1"}


def test_one_pod_that_is_kept_away_for_its_labels_does_not_stop_others_of_the_same_demand() -> None:
    placer = a_placer(a_node())
    loner = a_guest("loner", affinity=affinity("podAntiAffinity", about({"app": "web"})))
    place(placer, loner)

    given_nodes = place(placer, a_guest("web", labels={"app": "web"}), a_guest("db", labels={"app": "db"}))

    assert given_nodes == {"db": "n1"}
    assert placer.unschedulable_reason(("default", "web")) == (
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    )

    placer.leave(loner.key)

    assert places(placer) == {"web": "n1"}


def test_pods_that_want_to_be_apart_from_each_other_get_a_node_each() -> None:
    placer = a_placer(a_node("n1"), a_node("n2"), a_node("n3"))
    apart = affinity("podAntiAffinity", about({"app": "ps"}))

    given_nodes = place(placer, *(a_guest(f"p{n}", labels={"app": "ps"}, affinity=apart) for n in range(4)))

    assert sorted(given_nodes.values()) == ["n1", "n2", "n3"]


# Room is kept for those who have waited long.


def test_a_big_pod_that_has_waited_long_is_not_passed_over_by_small_ones_any_more() -> None:
    placer = a_placer(a_node(cpu=4), patience=60)
    place(placer, *(asking(1, f"old{n}") for n in range(4)), now=0)
    assert place(placer, asking(4, "big"), now=1) == {}
    placer.leave(("default", "old0"))
    assert place(placer, asking(1, "young"), now=30) == {"young": "n1"}

    assert places(placer, 61) == {}  # its time has come: from now on the node is for the big one
    placer.leave(("default", "old1"))
    assert place(placer, asking(1, "small"), now=62) == {}
    assert placer.unschedulable_reason(("default", "small")) == KEPT

    for name in ("old2", "old3", "young"):
        placer.leave(("default", name))
    assert places(placer, 63) == {"big": "n1"}

    placer.leave(("default", "big"))
    assert places(placer, 64) == {"small": "n1"}


def test_others_may_use_what_the_one_who_waits_leaves_over() -> None:
    placer = a_placer(a_node(cpu=4), patience=60)
    place(placer, asking(2, "old"), now=0)
    place(placer, asking(3, "big"), now=0)
    places(placer, 60)

    assert place(placer, asking(1, "beside"), asking(1, "instead"), now=61) == {"beside": "n1"}

    placer.leave(("default", "old"))
    assert places(placer, 62) == {"big": "n1"}


def test_room_that_a_small_one_gave_back_is_for_other_small_ones() -> None:
    placer = a_placer(a_node(cpu=4), patience=60)
    place(placer, asking(2, "old"), asking(3, "big"), now=0)
    places(placer, 60)
    place(placer, asking(1, "beside"), now=61)

    placer.leave(("default", "beside"))

    assert place(placer, asking(1, "next"), now=62) == {"next": "n1"}


def test_higher_priority_may_take_room_that_is_kept() -> None:
    placer = a_placer(a_node(cpu=2), patience=60)
    place(placer, asking(1, "old"), asking(2, "big"), now=0)
    places(placer, 60)

    assert place(placer, asking(1, "urgent"), now=61, priority=1) == {"urgent": "n1"}


def test_room_is_kept_where_least_has_to_end() -> None:
    placer = a_placer(a_node("n1", cpu=4), a_node("n2", cpu=4), patience=60)
    placer.pod_bound(asking(3, "most"), "n1")
    placer.pod_bound(asking(2, "half"), "n2")
    place(placer, asking(4, "big"), now=0)
    places(placer, 60)

    assert place(placer, asking(1, "a"), asking(1, "b"), now=61) == {"a": "n1"}


def test_those_on_their_way_out_do_not_count_for_where_room_is_kept() -> None:
    placer = a_placer(a_node("n1", cpu=4), a_node("n2", cpu=4), patience=60)
    placer.pod_bound(replace(asking(3, "most"), leaving=True), "n1")
    placer.pod_bound(asking(2, "half"), "n2")
    place(placer, asking(4, "big"), now=0)
    places(placer, 60)

    assert place(placer, asking(1, "a"), now=61) == {"a": "n2"}


def test_no_room_is_kept_for_a_pod_that_fits_no_empty_node() -> None:
    placer = a_placer(a_node(cpu=4), patience=60)
    place(
        placer, asking(4, "old"), asking(9, "giant"), asking(1, "picky", nodeSelector={"no": "where"}), now=0
    )
    places(placer, 60)
    placer.leave(("default", "old"))

    assert place(placer, asking(1, "small"), now=61) == {"small": "n1"}


@pytest.mark.parametrize("happens", ["the pod is deleted", "the node is gone"])
def test_room_is_given_up_when_it_is_of_no_use_any_more(happens: str) -> None:
    placer = a_placer(a_node("n1", cpu=3), a_node("n2", cpu=4), patience=60)
    placer.pod_bound(asking(2, "a"), "n1")
    placer.pod_bound(asking(3, "b"), "n2")
    place(placer, asking(4, "big"), asking(2, "small"), now=0)
    places(placer, 60)
    placer.leave(("default", "b"))
    placer.pod_bound(asking(2, "c"), "n2")
    assert places(placer, 61) == {}

    if happens == "the pod is deleted":
        placer.leave(("default", "big"))
        assert places(placer, 62) == {"small": "n2"}
    else:
        placer.drop_node("n2")
        placer.leave(("default", "a"))
        assert places(placer, 62) == {"small": "n1"}


def test_a_pod_that_must_be_apart_is_not_kept_waiting_by_those_who_come_after() -> None:
    placer = a_placer(a_node(cpu=4), patience=60)
    apart = affinity("podAntiAffinity", about({"app": "web"}))
    placer.pod_bound(a_guest("web0", labels={"app": "web"}), "n1")
    place(placer, a_guest("loner", affinity=apart), now=0)
    places(placer, 60)

    given_nodes = place(placer, a_guest("web1", labels={"app": "web"}), a_guest("db"), now=61)
    assert given_nodes == {"db": "n1"}

    placer.leave(("default", "web0"))
    assert places(placer, 62) == {"loner": "n1"}


def test_the_next_look_is_when_somebody_has_waited_long_enough() -> None:
    placer = a_placer(a_node(cpu=1), patience=60)
    assert placer.next_look(0.0) is None
    place(placer, asking(1, "a"), asking(1, "b"), now=5)

    assert placer.next_look(5.0) == 65.0


def test_room_moves_to_a_node_that_is_much_sooner() -> None:
    placer = a_placer(a_node("n1", cpu=4), a_node("n2", cpu=4), patience=60)
    placer.pod_bound(asking(3, "stays"), "n1")
    placer.pod_bound(asking(4, "goes"), "n2")
    place(placer, asking(4, "big"), now=0)
    places(placer, 60)  # on n1: less has to end there

    placer.leave(("default", "goes"))
    placer.pod_bound(asking(1, "new"), "n2")
    places(placer, placer.next_look(61.0) or 0.0)

    assert place(placer, asking(1, "small"), now=130) == {"small": "n1"}


def test_each_move_of_the_room_makes_the_next_later() -> None:
    site = ClusterState()
    for name in ("n1", "n2"):
        site.set_node(a_node(name, cpu=4))
    site.place(asking(4, "there"), "n1")
    room = reserve(SchedulingUnit((QueuedPod(asking(4, "big"), 0, 0.0, 1),)), site, now=0.0, patience=60.0)
    assert room is not None
    assert (list(room.claims), room.review) == (["n2"], 60.0)

    site.remove(("default", "there"))
    site.place(asking(4, "other"), "n2")
    room = moved(room, site, now=60.0, patience=60.0)
    assert room is not None
    assert (list(room.claims), room.review) == (["n1"], 180.0)

    assert moved(room, site, now=180.0, patience=60.0) is None
    assert room.review == 300.0


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
def test_a_pod_on_its_node_is_read_again_only_when_something_that_counts_has_changed(
    change: dict[str, Any], known: bool
) -> None:
    placer = a_placer(a_node())
    pod = pod_json()
    pod["metadata"]["uid"] = "u"
    placer.pod_bound(guest_of(pod), "n1")

    pod["metadata"] |= change

    assert placer.knows(pod, "n1") is known
    assert not placer.knows(pod, "n2")


@dataclass
class Mill:
    """Pods that come, run and end, in virtual time: small ones nearly fill the nodes, some take a whole one."""

    seed: int
    patience: float
    cpus: tuple[int, ...] = (24, 24, 8)
    longest_run: float = 100.0
    waits: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    _ends: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        nodes = (a_node(f"n{number}", cpu=cpu) for number, cpu in enumerate(self.cpus))
        self._placer = a_placer(*nodes, patience=self.patience)

    def run(self, seconds: int) -> None:
        # So that small pods alone use most of everything.
        mean_run, mean_cpu = (5 + self.longest_run) / 2, 4 / 3
        rate = 0.85 * sum(self.cpus) / mean_run / mean_cpu
        number = 0
        for second in range(seconds):
            self._end_until(second)
            for _ in range(self._poisson(rate)):
                self._come(f"small-{number}", self._random.choice((1, 1, 2)), second)
                number += 1
            if second % 1000 == 300:
                self._come(f"big-{second}", max(self.cpus), second)
            self._decide(second)

    def _poisson(self, rate: float) -> int:
        count, at = 0, self._random.expovariate(rate)
        while at < 1:
            count, at = count + 1, at + self._random.expovariate(rate)
        return count

    def _come(self, name: str, cpu: int, now: float) -> None:
        self.waiting[name] = now
        self._placer.add_pending(asking(cpu, name, owner=f"f{self._random.randrange(5)}"), 0, now)

    def _end_until(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            self._placer.leave(("default", heapq.heappop(self._ends)[1]))

    def _decide(self, now: float) -> None:
        for binding in self._placer.decide(now, 1000):
            name = binding.guest.key[1]
            self.waits[name] = now - self.waiting.pop(name)
            heapq.heappush(self._ends, (now + self._random.uniform(5, self.longest_run), name))


@pytest.mark.parametrize("seed", range(8))
def test_in_any_mix_everybody_is_placed_within_bounds(seed: int) -> None:
    mill = Mill(seed, patience=60)

    mill.run(seconds=4000)

    # Patience, and the time that those may run who were there before; once more for those behind a big one.
    bound = 60 + 2 * mill.longest_run
    assert max(mill.waits.values()) <= bound
    assert all(since >= 4000 - bound for since in mill.waiting.values())
    assert sum(name.startswith("big") for name in mill.waits) == 4


def test_without_room_kept_big_pods_would_starve() -> None:
    mill = Mill(seed=0, patience=1e9)

    mill.run(seconds=4000)

    assert [name for name in mill.waiting if name.startswith("big")] == [
        "big-300",
        "big-1300",
        "big-2300",
        "big-3300",
    ]


COMPANY: list[dict[str, Any]] = [
    {},
    {"labels": {"g": "1"}, "affinity": affinity("podAntiAffinity", about({"g": "1"}))},
    {"labels": {"g": "1"}},
    {"labels": {"g": "2"}, "affinity": affinity("podAffinity", about({"g": "2"}))},
]
NAMES = st.sampled_from([f"p{number}" for number in range(10)])


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens in whatever order: no node is overfull, and nobody waits who would fit."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = {name: a_node(name, cpu=6) for name in ("n1", "n2")}
        self.placer = a_placer(*self.nodes.values())
        self.placed: dict[str, tuple[PodInfo, str]] = {}
        self.given: set[str] = set()
        self.waiting: dict[str, PodInfo] = {}

    @rule(name=NAMES, cpu=st.integers(1, 5), company=st.sampled_from(COMPANY))
    def come(self, name: str, cpu: int, company: dict[str, Any]) -> None:
        if name not in self.placed:
            self.waiting[name] = asking(cpu, name, **company)
            self.placer.add_pending(self.waiting[name], 0, 0.0)

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        self.placed.pop(name, None)
        self.waiting.pop(name, None)
        self.given.discard(name)
        self.placer.leave(("default", name))

    @rule(name=NAMES)
    def fail(self, name: str) -> None:
        if name in self.given:
            self.given.discard(name)
            self.waiting[name], _ = self.placed.pop(name)
            self.placer.forget_assumed(self.waiting[name])

    @rule(name=NAMES)
    def be_seen(self, name: str) -> None:
        if name in self.placed:
            self.given.discard(name)
            self.placer.pod_bound(*self.placed[name])

    @rule(cordoned=st.booleans())
    def cordon(self, cordoned: bool) -> None:
        self.nodes["n1"] = a_node("n1", cpu=6, unschedulable=cordoned)
        self.placer.set_node(self.nodes["n1"])

    @rule()
    def decide(self) -> None:
        for binding in self.placer.decide(0.0, 100):
            assert static_mismatch(binding.guest.demand, self.nodes[binding.node]) is None
            name = binding.guest.key[1]
            self.placed[name] = self.waiting.pop(name), binding.node
            self.given.add(name)
        for name, guest in self.waiting.items():
            assert self.placer.unschedulable_reason(guest.key) is not None, name
            if not guest.labels:
                assert not any(self._fits(guest, node) for node in self._real())

    def _fits(self, guest: PodInfo, node: NodeInfo) -> bool:
        return static_mismatch(guest.demand, node.facts) is None and not insufficient_resources(
            guest.demand, node
        )

    def _real(self) -> list[NodeInfo]:
        """The nodes with all who are on them, counted anew."""
        nodes = {name: NodeInfo(facts) for name, facts in self.nodes.items()}
        for guest, name in self.placed.values():
            nodes[name].take(guest)
        return list(nodes.values())

    @invariant()
    def no_node_is_overfull(self) -> None:
        for node in self._real():
            assert node.used.get("cpu", 0) <= 6000
            groups = [guest.labels.get("g") for guest in node.guests.values() if guest.demand.anti_affinity]
            assert not groups or sum(guest.labels.get("g") == "1" for guest in node.guests.values()) == 1


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=40)
