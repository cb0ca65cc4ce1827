"""Gangs: as many as are needed get their nodes in one decision, or none does."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any

import pytest

from launcher.scheduling.cluster_state import GangMembership, NodeInfo, PodInfo
from launcher.scheduling.engine import Binding, SchedulingEngine
from launcher.scheduling.feasibility import insufficient_resources
from launcher.scheduling.pod_info import GANG, GANG_MIN, gang_of
from tests.node.scheduling import a_guest, a_node, a_placer, about, affinity, places, pod_json

ONE = "uid-of-attempt"


def member(name: str, cpu: Any, gang: str = "g", need: int = 1, **parts: Any) -> PodInfo:
    guest = a_guest(name, requests={"cpu": cpu, **parts.pop("requests", {})}, **parts)
    return replace(guest, gang=GangMembership(gang, need))


def a_gang(name: str, *cpus: Any, need: int | None = None, **parts: Any) -> list[PodInfo]:
    """A pod for each of these, which are placed together."""
    need = len(cpus) if need is None else need
    return [member(f"{name}{number}", cpu, name, need, **parts) for number, cpu in enumerate(cpus)]


def come(placer: SchedulingEngine, guests: Iterable[PodInfo], now: float = 0.0, priority: int = 0) -> None:
    for guest in guests:
        placer.add_pending(guest, priority, now)


def place(
    placer: SchedulingEngine, guests: Iterable[PodInfo], now: float = 0.0, priority: int = 0
) -> dict[str, str]:
    come(placer, guests, now, priority)
    return places(placer, now)


def why(placer: SchedulingEngine, name: str) -> str | None:
    return placer.unschedulable_reason(("default", name))


def single(name: str, cpu: Any) -> PodInfo:
    return a_guest(name, requests={"cpu": cpu})


# All or nothing.


def test_a_gang_that_fits_is_placed_in_one_decision() -> None:
    placer = a_placer(a_node("n1", cpu=2), a_node("n2", cpu=1))
    come(placer, a_gang("g", 1, 1, 1))

    found = placer.decide(0.0, most=1)

    assert sorted(binding.node for binding in found) == ["n1", "n1", "n2"]


def test_of_a_gang_that_does_not_fit_nobody_is_placed() -> None:
    placer = a_placer(a_node("n1", cpu=2))

    assert place(placer, a_gang("g", 1, 1, 1)) == {}
    assert why(placer, "g0") == "gang of 3: 2 fit now; 0/1 nodes are available: 1 Insufficient cpu."
    assert sorted(placer.untold()) == [("default", f"g{number}") for number in range(3)]


def test_once_room_comes_all_of_it_are_placed() -> None:
    placer = a_placer(a_node("n1", cpu=3))
    placer.pod_bound(other := single("other", 1), "n1")
    assert place(placer, a_gang("g", 1, 1, 1)) == {}

    placer.leave(other.key)

    assert sorted(places(placer)) == ["g0", "g1", "g2"]


def test_what_a_gang_does_not_get_is_there_for_others() -> None:
    placer = a_placer(a_node("n1", cpu=2))

    assert place(placer, [*a_gang("g", 1, 1, 1), single("small", 2)]) == {"small": "n1"}


def test_a_gang_waits_until_its_pods_are_there() -> None:
    placer = a_placer(a_node("n1", cpu=3))
    pods = a_gang("g", 1, 1, 1)

    assert place(placer, pods[:2]) == {}
    assert why(placer, "g0") == "gang of 3: waits for 1 more of its pods to be created"
    assert list(placer.untold()) == []
    assert sorted(placer.waiting()) == [("default", "g0"), ("default", "g1")]

    assert sorted(place(placer, pods[2:])) == ["g0", "g1", "g2"]


def test_some_may_be_enough_and_the_rest_come_when_they_can() -> None:
    placer = a_placer(a_node("n1", cpu=3))
    placer.pod_bound(other := single("other", 1), "n1")

    assert len(place(placer, a_gang("g", 1, 1, 1, 1, need=3))) == 0
    assert (
        why(placer, "g0") == "gang of 4, 3 at least: 2 fit now; 0/1 nodes are available: 1 Insufficient cpu."
    )

    placer.leave(other.key)
    first = places(placer)
    placer.leave(("default", "g0"))

    assert sorted(first) == ["g0", "g1", "g2"]
    assert places(placer) == {"g3": "n1"}


def test_all_of_a_gang_are_placed_when_they_fit_and_not_only_as_many_as_are_needed() -> None:
    placer = a_placer(a_node("n1", cpu=4))

    assert len(place(placer, a_gang("g", 1, 1, 1, 1, need=2))) == 4


def test_two_gangs_that_each_fit_alone_come_one_after_the_other() -> None:
    placer = a_placer(a_node("n1", cpu=2), a_node("n2", cpu=2))
    one, two = a_gang("a", 1, 1, 1), a_gang("b", 1, 1, 1)

    # Their pods come by turns, as two controllers would create them.
    first = place(placer, [guest for pair in zip(one, two, strict=True) for guest in pair])
    for name in first:
        placer.leave(("default", name))
    second = places(placer)

    assert (sorted(first), sorted(second)) == (["a0", "a1", "a2"], ["b0", "b1", "b2"])


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    placer = a_placer(a_node("n1", cpu=2))

    come(placer, [member("a", 1, need=2, namespace="x"), member("b", 1, need=2, namespace="y")])

    assert places(placer) == {}


def test_higher_priority_goes_first() -> None:
    placer = a_placer(a_node("n1", cpu=2))
    come(placer, a_gang("late", 1, 1), now=0.0)
    come(placer, a_gang("urgent", 1, 1), now=5.0, priority=1)

    assert sorted(places(placer, 5.0)) == ["urgent0", "urgent1"]


# Pods that ask for different things.


def test_the_large_ones_of_a_gang_get_their_nodes_before_the_small_ones() -> None:
    placer = a_placer(a_node("n1", cpu=4), a_node("n2", cpu=4))

    given_nodes = place(placer, a_gang("g", 1, 1, 1, 1, 4))

    assert len(given_nodes) == 5
    assert [name for name, node in given_nodes.items() if node == given_nodes["g4"]] == ["g4"]


def test_a_gang_is_packed_where_spreading_it_would_not_do() -> None:
    # Spread, the three go to three nodes, and there is none left for both of the others.
    placer = a_placer(*(a_node(f"n{number}", cpu=6) for number in range(3)))

    given_nodes = place(placer, a_gang("g", 3, 3, 2, 2, 2, 2, 2, 2))

    assert len(given_nodes) == 8


def test_the_ports_of_a_gang_are_had_once_on_each_node() -> None:
    placer = a_placer(a_node("n1"), a_node("n2"))
    ports: dict[str, Any] = {
        "hostNetwork": True,
        "containers": [{"name": "c", "ports": [{"containerPort": 80}]}],
    }

    assert sorted(place(placer, a_gang("g", 0, 0, **ports)).values()) == ["n1", "n2"]
    assert place(placer, a_gang("h", 0, 0, **ports)) == {}


def test_a_gang_that_wants_to_be_apart_gets_a_node_each() -> None:
    placer = a_placer(a_node("n1"), a_node("n2"), a_node("n3"))
    apart: dict[str, Any] = {
        "labels": {"app": "w"},
        "affinity": affinity("podAntiAffinity", about({"app": "w"})),
    }

    assert sorted(place(placer, a_gang("g", 1, 1, 1, **apart)).values()) == ["n1", "n2", "n3"]
    assert place(placer, a_gang("h", 1, 1, **apart)) == {}


def test_a_gang_that_wants_to_be_together_gets_one_place() -> None:
    placer = a_placer(a_node("n1", cpu=2), a_node("n2", cpu=4))
    near: dict[str, Any] = {"labels": {"app": "w"}, "affinity": affinity("podAffinity", about({"app": "w"}))}

    assert set(place(placer, a_gang("g", 1, 1, 1, **near)).values()) == {"n2"}


def test_who_follows_another_of_its_gang_comes_after_it() -> None:
    placer = a_placer(a_node("n1", cpu=8), a_node("n2", cpu=8))
    near = affinity("podAffinity", about({"app": "lead"}))
    follower = member("follower", 4, need=2, affinity=near)
    leader = member("leader", 1, need=2, labels={"app": "lead"})

    given_nodes = place(placer, [follower, leader])

    assert given_nodes["follower"] == given_nodes["leader"]


# What was decided before.


def test_a_gang_of_which_some_have_their_nodes_is_completed_first() -> None:
    """As after a launcher that ended between two bindings."""
    placer = a_placer(a_node("n1", cpu=3))
    come(placer, [single("old", 1)], now=0.0)
    come(placer, [single("urgent", 1)], now=0.0, priority=9)
    first, *others = a_gang("g", 1, 1, 1)
    placer.pod_bound(first, "n1")
    come(placer, others, now=5.0)

    assert sorted(places(placer, 5.0)) == ["g1", "g2"]


def test_what_is_left_of_a_gang_that_runs_is_placed_one_by_one() -> None:
    placer = a_placer(a_node("n1", cpu=2))
    first, *others = a_gang("g", 1, 1, 1)
    placer.pod_bound(first, "n1")

    assert len(place(placer, others)) == 1


def test_those_who_come_to_a_gang_that_is_complete_wait_their_turn() -> None:
    placer = a_placer(a_node("n1", cpu=3))
    place(placer, a_gang("g", 1, 1))
    come(placer, [single("old", 1)], now=1.0)

    assert place(placer, [member("g2", 1, "g", 2)], now=2.0) == {"old": "n1"}


def test_who_has_ended_was_placed() -> None:
    placer = a_placer(a_node("n1", cpu=1))
    first, second = a_gang("g", 1, 1)
    placer.pod_bound(first, "n1")

    placer.end(first.key, first.gang)

    assert place(placer, [second]) == {"g1": "n1"}


def test_when_one_binding_fails_the_others_stand_and_it_is_tried_again_first() -> None:
    placer = a_placer(a_node("n1", cpu=2))
    come(placer, a_gang("g", 1, 1))
    found = placer.decide(0.0, 10)
    come(placer, [single("other", 1)])

    placer.forget_assumed(found[0].guest)

    assert places(placer) == {found[0].guest.key[1]: "n1"}


def test_when_all_bindings_fail_it_is_a_gang_again() -> None:
    placer = a_placer(a_node("n1", cpu=2))
    come(placer, a_gang("g", 1, 1))
    for binding in placer.decide(0.0, 10):
        placer.forget_assumed(binding.guest)
    placer.pod_bound(single("other", 1), "n1")

    assert places(placer) == {}
    assert why(placer, "g0") == "gang of 2: 1 fit now; 0/1 nodes are available: 1 Insufficient cpu."


def test_who_leaves_is_not_waited_for_by_a_gang_that_needs_fewer() -> None:
    placer = a_placer(a_node("n1", cpu=2))
    pods = a_gang("g", 1, 1, 1)
    assert place(placer, pods) == {}
    placer.leave(pods[2].key)
    assert places(placer) == {}

    for guest in pods[:2]:
        placer.add_pending(replace(guest, gang=GangMembership("g", 2)), 0, 0.0)

    assert sorted(places(placer)) == ["g0", "g1"]


def test_a_gang_that_is_told_to_need_more_waits_for_them() -> None:
    placer = a_placer(a_node("n1", cpu=2))
    placer.pod_bound(other := single("other", 1), "n1")
    pods = a_gang("g", 1, 1)
    place(placer, pods)
    for guest in pods:
        placer.add_pending(replace(guest, gang=GangMembership("g", 3)), 0, 0.0)

    placer.leave(other.key)

    assert places(placer) == {}
    assert why(placer, "g0") == "gang of 3: waits for 1 more of its pods to be created"


def test_a_pod_that_is_no_longer_of_a_gang_goes_alone() -> None:
    placer = a_placer(a_node("n1", cpu=1))
    pods = a_gang("g", 1, 1)
    place(placer, pods)

    placer.add_pending(replace(pods[0], gang=None), 0, 0.0)

    assert places(placer) == {"g0": "n1"}


# Room is kept for a gang that has waited long.


def test_a_gang_that_has_waited_long_is_not_passed_over_by_small_pods_any_more() -> None:
    placer = a_placer(a_node("n1", cpu=2), a_node("n2", cpu=2), patience=60)
    olds = [single(f"old{number}", 1) for number in range(4)]
    place(placer, olds)
    assert place(placer, a_gang("g", 1, 1, 1, 1), now=1) == {}
    placer.leave(olds[0].key)
    young = single("young", 1)
    assert list(place(placer, [young], now=30)) == ["young"]

    assert places(placer, 61) == {}
    placer.leave(olds[1].key)
    assert place(placer, [single("small", 1)], now=62) == {}
    assert why(placer, "small") is not None
    for guest in (olds[2], olds[3], young):
        placer.leave(guest.key)

    assert sorted(places(placer, 63)) == ["g0", "g1", "g2", "g3"]


def test_others_may_use_what_the_gang_leaves_over() -> None:
    placer = a_placer(a_node("n1", cpu=3), a_node("n2", cpu=3), patience=60)
    place(placer, olds := [single("old0", 2), single("old1", 2)])
    place(placer, a_gang("g", 2, 2), now=0)
    places(placer, 60)

    assert sorted(place(placer, [single("a", 1), single("b", 1)], now=61)) == ["a", "b"]
    for old in olds:
        placer.leave(old.key)
    assert sorted(places(placer, 62)) == ["g0", "g1"]


def test_a_gang_that_is_tried_in_vain_takes_nothing_of_what_it_leaves_over() -> None:
    placer = a_placer(a_node("n1", cpu=6), patience=60)
    placer.pod_bound(single("old", 4), "n1")
    placer.pod_bound(brief := single("brief", 1), "n1")
    place(placer, a_gang("g", 2, 2), now=0)
    places(placer, 60)
    placer.leave(brief.key)
    assert places(placer, 61) == {}

    assert place(placer, [single("small", 2)], now=62) == {"small": "n1"}


def test_no_room_is_kept_for_a_gang_that_would_not_fit_an_empty_site() -> None:
    placer = a_placer(a_node("n1", cpu=2), patience=60)
    place(placer, [old := single("old", 2)])
    place(placer, a_gang("g", 1, 1, 1), now=0)
    places(placer, 60)
    placer.leave(old.key)

    assert place(placer, [single("small", 1)], now=61) == {"small": "n1"}


def test_room_for_a_gang_is_given_up_when_one_of_its_nodes_is_gone() -> None:
    placer = a_placer(a_node("n1", cpu=2), a_node("n2", cpu=2), patience=60)
    placer.pod_bound(single("half", 1), "n1")
    placer.pod_bound(single("whole", 2), "n2")
    place(placer, a_gang("g", 2, 2), now=0)
    places(placer, 60)
    assert place(placer, [single("small", 1)], now=61) == {}

    placer.drop_node("n2")

    assert places(placer, 62) == {"small": "n1"}


# In any mix.


@dataclass
class Wish:
    """Pods that come together and, if they are a gang, need each other."""

    name: str
    guests: list[PodInfo]
    need: int
    since: float
    is_gang: bool
    placed: set[str] = field(default_factory=set)


def fits_alone(cpus: list[tuple[int, int]], nodes: list[tuple[int, int]], need: int) -> bool:
    """Whether so many of these pods have room on the empty nodes, by trying everything."""
    for chosen in product(range(-1, len(nodes)), repeat=len(cpus)):
        left = [list(node) for node in nodes]
        for (cpu, gpu), at in zip(cpus, chosen, strict=True):
            if at >= 0:
                left[at][0] -= cpu
                left[at][1] -= gpu
        if sum(at >= 0 for at in chosen) >= need and min(map(min, left)) >= 0:
            return True
    return False


class Mix:
    """Gangs and pods of many shapes that come, run and end in virtual time on a small site."""

    patience, longest_run = 30, 40

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes = [
            (self.random.randint(2, 6), self.random.randint(0, 2)) for _ in range(self.random.randint(1, 3))
        ]
        self.facts = {
            f"n{number}": a_node(f"n{number}", cpu=cpu, gpu=gpu)
            for number, (cpu, gpu) in enumerate(self.nodes)
        }
        self.placer = a_placer(*self.facts.values(), patience=self.patience)
        self.wishes: dict[str, Wish] = {}
        self.impossible: set[str] = set()
        self.running: dict[str, tuple[PodInfo, str, float]] = {}
        self.of: dict[str, Wish] = {}

    def run(self, seconds: int, longest: int) -> None:
        """Wishes come for so long; then it goes on until nobody runs and nobody can be placed."""
        for now in range(longest):
            for name in [name for name, (_, _, end) in self.running.items() if end <= now]:
                self._end(name)
            if now < seconds and self.random.random() < 0.2:
                self._come(f"f{now}", now)
            if not self._decide(now) and now > seconds and not self.running:
                return
        raise AssertionError("it does not come to an end")

    def _come(self, name: str, now: int) -> None:
        is_gang = self.random.random() < 0.6
        count = self.random.randint(1, 4) if is_gang else 1
        shapes = [(self.random.randint(1, 3), self.random.choice((0, 0, 1))) for _ in range(2)]
        asked = [self.random.choice(shapes) for _ in range(count)]
        need = self.random.choice((count, count, self.random.randint(1, count)))
        guests = []
        for number, (cpu, gpu) in enumerate(asked):
            guest = a_guest(f"{name}-{number}", requests={"cpu": cpu, "nvidia.com/gpu": gpu})
            guests.append(replace(guest, gang=GangMembership(name, need)) if is_gang else guest)
        wish = self.wishes[name] = Wish(name, guests, need, now, is_gang)
        if not fits_alone(asked, self.nodes, need):
            self.impossible.add(name)
        for guest in guests:
            self.of[guest.key[1]] = wish
            self.placer.add_pending(guest, 0, float(now))

    def _decide(self, now: int) -> bool:
        """Whether anybody was placed."""
        found = self.placer.decide(float(now), 8)
        failing = self.random.random() < 0.1
        together: dict[str, int] = {}
        for binding in found:
            name = binding.guest.key[1]
            wish = self.of[name]
            if not wish.placed:
                together[wish.name] = together.get(wish.name, 0) + 1
            end = now + self.random.uniform(1, self.longest_run)
            self.running[name] = binding.guest, binding.node, end
        for name, count in together.items():
            assert count >= self.wishes[name].need, "fewer than the gang needs"
        for binding in found:
            self.of[binding.guest.key[1]].placed.add(binding.guest.key[1])
        self._no_node_is_overfull()
        if failing and found:
            self._fail(self.random.choice(found))
        return bool(found)

    def _fail(self, binding: Binding) -> None:
        """The binding could not be written; or it was, and the pod is seen there."""
        name = binding.guest.key[1]
        if self.random.random() < 0.5:
            del self.running[name]
            self.of[name].placed.discard(name)
            self.placer.forget_assumed(binding.guest)
        else:
            self.placer.pod_bound(binding.guest, binding.node)

    def _end(self, name: str) -> None:
        guest, _, _ = self.running.pop(name)
        self.placer.end(guest.key, guest.gang)

    def _no_node_is_overfull(self) -> None:
        for name, facts in self.facts.items():
            node = NodeInfo(facts)
            for guest, at, _ in self.running.values():
                if at == name:
                    assert not insufficient_resources(guest.demand, node), "overfull"
                    node.take(guest)


@pytest.mark.parametrize("seed", range(300))
def test_in_any_mix_every_gang_that_fits_alone_is_placed_at_last(seed: int) -> None:
    mix = Mix(seed)

    mix.run(400, longest=10_000)

    for wish in mix.wishes.values():
        if wish.name in mix.impossible:
            assert not wish.placed
        else:
            assert len(wish.placed) >= wish.need, f"{wish.name} starves"
            # Each pod of its own that fits an empty node comes at last too.
            for guest in wish.guests:
                alone = any(
                    not insufficient_resources(guest.demand, NodeInfo(facts)) for facts in mix.facts.values()
                )
                assert (guest.key[1] in wish.placed) == alone


class Flow:
    """Small pods that nearly fill the nodes without end, and now and then a gang that needs most of all of them."""

    longest_run = 60.0

    def __init__(self, seed: int, patience: float) -> None:
        self._random = Random(seed)
        self._placer = a_placer(*(a_node(f"n{number}", cpu=8) for number in range(4)), patience=patience)
        self._ends: list[tuple[float, str]] = []
        self._came: dict[str, float] = {}
        #: How long each gang has waited, once all of it was placed.
        self.waits: dict[str, float] = {}
        self.longest_of_the_small = 0.0

    def run(self, seconds: int) -> None:
        for now in range(seconds):
            while self._ends and self._ends[0][0] <= now:
                self._placer.leave(("default", heapq.heappop(self._ends)[1]))
            if self._random.random() < 0.85:
                self._come(f"small-{now}", [single(f"small-{now}", 1)], now)
            if now % 600 == 100:
                self._come(f"gang-{now}-", a_gang(f"gang-{now}-", *[2] * 12), now)
            self._decide(now)

    def _come(self, name: str, guests: list[PodInfo], now: float) -> None:
        self._came[name] = now
        come(self._placer, guests, now)

    def _decide(self, now: float) -> None:
        for binding in self._placer.decide(now, 1000):
            name, guest = binding.guest.key[1], binding.guest
            heapq.heappush(self._ends, (now + self._random.uniform(5, self.longest_run), name))
            if guest.gang is not None:
                self.waits[guest.gang.name] = now - self._came[guest.gang.name]
            else:
                self.longest_of_the_small = max(self.longest_of_the_small, now - self._came[name])


@pytest.mark.parametrize("seed", range(4))
def test_gangs_do_not_starve_among_small_pods_nor_do_these(seed: int) -> None:
    flow = Flow(seed, patience=30)

    flow.run(3000)

    # Its patience, and the time that those may run who were there before.
    assert max(flow.waits.values()) <= 30 + flow.longest_run
    assert len(flow.waits) == 5
    assert flow.longest_of_the_small <= 30 + 2 * flow.longest_run


def test_without_room_kept_gangs_would_starve() -> None:
    flow = Flow(seed=0, patience=1e9)

    flow.run(3000)

    assert flow.waits == {}


# What pods carry.


def marked(annotations: Mapping[str, str]) -> dict[str, Any]:
    pod = pod_json()
    pod["metadata"]["annotations"] = dict(annotations)
    return pod


def test_a_pod_says_which_gang_it_belongs_to_and_how_many_are_needed() -> None:
    assert gang_of(marked({GANG: ONE, GANG_MIN: "8"})) == GangMembership(ONE, 8)
    assert gang_of(marked({})) is None
    assert gang_of(marked({GANG_MIN: "8"})) is None


@pytest.mark.parametrize("need", ["", "0", "-1", "many", "1.5", "²", "9" * 30])
def test_a_number_that_makes_no_sense_is_told(need: str) -> None:
    with pytest.raises(ValueError, match=GANG_MIN):
        gang_of(marked({GANG: ONE, GANG_MIN: need}))
