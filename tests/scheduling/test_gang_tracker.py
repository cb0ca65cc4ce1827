"""Gang scheduling: the minimum number of pods gets nodes in one decision, or none does."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any

import pytest

from launcher.core.names import GANG_ANNOTATION, GANG_MIN_ANNOTATION
from launcher.scheduling.cluster_state import GangMembership, NodeInfo, PodInfo
from launcher.scheduling.engine import Binding, SchedulingEngine
from launcher.scheduling.feasibility import insufficient_resources
from launcher.scheduling.pod_info import gang_membership
from tests.scheduling.builders import a_node, a_pod_info, affinity, an_engine, pod_json, pod_term, schedule

ONE = "uid-of-attempt"


def member(name: str, cpu: Any, gang: str = "g", min_members: int = 1, **parts: Any) -> PodInfo:
    pod = a_pod_info(name, requests={"cpu": cpu, **parts.pop("requests", {})}, **parts)
    return replace(pod, gang=GangMembership(gang, min_members))


def a_gang(name: str, *cpus: Any, min_members: int | None = None, **parts: Any) -> list[PodInfo]:
    """Builds one pod per entry of *cpus*, all in one gang."""
    min_members = len(cpus) if min_members is None else min_members
    return [member(f"{name}{number}", cpu, name, min_members, **parts) for number, cpu in enumerate(cpus)]


def submit(engine: SchedulingEngine, pods: Iterable[PodInfo], now: float = 0.0, priority: int = 0) -> None:
    for pod in pods:
        engine.add_pending(pod, priority, now)


def submit_and_schedule(
    engine: SchedulingEngine, pods: Iterable[PodInfo], now: float = 0.0, priority: int = 0
) -> dict[str, str]:
    submit(engine, pods, now, priority)
    return schedule(engine, now)


def rejection(engine: SchedulingEngine, name: str) -> str | None:
    return engine.unschedulable_reason(("default", name))


def single(name: str, cpu: Any) -> PodInfo:
    return a_pod_info(name, requests={"cpu": cpu})


# All or nothing.


def test_a_gang_that_fits_is_placed_in_one_decision() -> None:
    engine = an_engine(a_node("n1", cpu=2), a_node("n2", cpu=1))
    submit(engine, a_gang("g", 1, 1, 1))

    found = engine.schedule(0.0, limit=1)

    assert sorted(binding.node for binding in found) == ["n1", "n1", "n2"]


def test_no_pod_of_a_gang_that_does_not_fit_is_scheduled() -> None:
    engine = an_engine(a_node("n1", cpu=2))

    assert submit_and_schedule(engine, a_gang("g", 1, 1, 1)) == {}
    assert (
        rejection(engine, "g0") == "Gang of 3: 2 of 3 pods fit; 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert sorted(engine.take_newly_rejected()) == [("default", f"g{number}") for number in range(3)]


def test_the_whole_gang_is_scheduled_once_capacity_is_free() -> None:
    engine = an_engine(a_node("n1", cpu=3))
    engine.pod_bound(other := single("other", 1), "n1")
    assert submit_and_schedule(engine, a_gang("g", 1, 1, 1)) == {}

    engine.remove_pod(other.key)

    assert sorted(schedule(engine)) == ["g0", "g1", "g2"]


def test_a_rejected_gang_leaves_capacity_to_other_pods() -> None:
    engine = an_engine(a_node("n1", cpu=2))

    assert submit_and_schedule(engine, [*a_gang("g", 1, 1, 1), single("small", 2)]) == {"small": "n1"}


def test_a_gang_waits_until_its_pods_exist() -> None:
    engine = an_engine(a_node("n1", cpu=3))
    pods = a_gang("g", 1, 1, 1)

    assert submit_and_schedule(engine, pods[:2]) == {}
    assert rejection(engine, "g0") == "Gang of 3: waiting for 1 more pod(s) to be created."
    assert list(engine.take_newly_rejected()) == []
    assert sorted(engine.pending()) == [("default", "g0"), ("default", "g1")]

    assert sorted(submit_and_schedule(engine, pods[2:])) == ["g0", "g1", "g2"]


def test_pods_beyond_the_minimum_are_scheduled_when_they_fit() -> None:
    engine = an_engine(a_node("n1", cpu=3))
    engine.pod_bound(other := single("other", 1), "n1")

    assert len(submit_and_schedule(engine, a_gang("g", 1, 1, 1, 1, min_members=3))) == 0
    assert (
        rejection(engine, "g0")
        == "Gang of 4 (minimum 3): 2 of 4 pods fit; 0/1 nodes are available: 1 Insufficient cpu."
    )

    engine.remove_pod(other.key)
    first = schedule(engine)
    engine.remove_pod(("default", "g0"))

    assert sorted(first) == ["g0", "g1", "g2"]
    assert schedule(engine) == {"g3": "n1"}


def test_all_pods_of_a_gang_are_scheduled_if_they_fit() -> None:
    engine = an_engine(a_node("n1", cpu=4))

    assert len(submit_and_schedule(engine, a_gang("g", 1, 1, 1, 1, min_members=2))) == 4


def test_two_gangs_that_fit_only_alone_are_scheduled_one_after_the_other() -> None:
    engine = an_engine(a_node("n1", cpu=2), a_node("n2", cpu=2))
    one, two = a_gang("a", 1, 1, 1), a_gang("b", 1, 1, 1)

    # Pods are created alternately, as by two controllers.
    first = submit_and_schedule(engine, [pod for pair in zip(one, two, strict=True) for pod in pair])
    for name in first:
        engine.remove_pod(("default", name))
    second = schedule(engine)

    assert (sorted(first), sorted(second)) == (["a0", "a1", "a2"], ["b0", "b1", "b2"])


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    engine = an_engine(a_node("n1", cpu=2))

    submit(
        engine, [member("a", 1, min_members=2, namespace="x"), member("b", 1, min_members=2, namespace="y")]
    )

    assert schedule(engine) == {}


def test_higher_priority_goes_first() -> None:
    engine = an_engine(a_node("n1", cpu=2))
    submit(engine, a_gang("late", 1, 1), now=0.0)
    submit(engine, a_gang("urgent", 1, 1), now=5.0, priority=1)

    assert sorted(schedule(engine, 5.0)) == ["urgent0", "urgent1"]


# Pods with different requirements.


def test_the_large_pods_of_a_gang_are_assigned_first() -> None:
    engine = an_engine(a_node("n1", cpu=4), a_node("n2", cpu=4))

    given_nodes = submit_and_schedule(engine, a_gang("g", 1, 1, 1, 1, 4))

    assert len(given_nodes) == 5
    assert [name for name, node in given_nodes.items() if node == given_nodes["g4"]] == ["g4"]


def test_a_gang_is_packed_if_it_does_not_fit_spread_out() -> None:
    # Spread out, the three use three nodes and leave none with capacity for both of the others.
    engine = an_engine(*(a_node(f"n{number}", cpu=6) for number in range(3)))

    given_nodes = submit_and_schedule(engine, a_gang("g", 3, 3, 2, 2, 2, 2, 2, 2))

    assert len(given_nodes) == 8


def test_a_gang_uses_a_host_port_once_per_node() -> None:
    engine = an_engine(a_node("n1"), a_node("n2"))
    ports: dict[str, Any] = {
        "hostNetwork": True,
        "containers": [{"name": "c", "ports": [{"containerPort": 80}]}],
    }

    assert sorted(submit_and_schedule(engine, a_gang("g", 0, 0, **ports)).values()) == ["n1", "n2"]
    assert submit_and_schedule(engine, a_gang("h", 0, 0, **ports)) == {}


def test_a_gang_with_anti_affinity_gets_one_node_per_pod() -> None:
    engine = an_engine(a_node("n1"), a_node("n2"), a_node("n3"))
    anti_affinity: dict[str, Any] = {
        "labels": {"app": "w"},
        "affinity": affinity("podAntiAffinity", pod_term({"app": "w"})),
    }

    assert sorted(submit_and_schedule(engine, a_gang("g", 1, 1, 1, **anti_affinity)).values()) == [
        "n1",
        "n2",
        "n3",
    ]
    assert submit_and_schedule(engine, a_gang("h", 1, 1, **anti_affinity)) == {}


def test_a_gang_with_affinity_gets_one_topology_domain() -> None:
    engine = an_engine(a_node("n1", cpu=2), a_node("n2", cpu=4))
    near: dict[str, Any] = {
        "labels": {"app": "w"},
        "affinity": affinity("podAffinity", pod_term({"app": "w"})),
    }

    assert set(submit_and_schedule(engine, a_gang("g", 1, 1, 1, **near)).values()) == {"n2"}


def test_affinity_within_a_gang_determines_the_order() -> None:
    engine = an_engine(a_node("n1", cpu=8), a_node("n2", cpu=8))
    near = affinity("podAffinity", pod_term({"app": "lead"}))
    follower = member("follower", 4, min_members=2, affinity=near)
    leader = member("leader", 1, min_members=2, labels={"app": "lead"})

    given_nodes = submit_and_schedule(engine, [follower, leader])

    assert given_nodes["follower"] == given_nodes["leader"]


# Earlier decisions.


def test_a_partly_scheduled_gang_is_completed_first() -> None:
    """The state after a launcher stopped between two bindings."""
    engine = an_engine(a_node("n1", cpu=3))
    submit(engine, [single("old", 1)], now=0.0)
    submit(engine, [single("urgent", 1)], now=0.0, priority=9)
    first, *others = a_gang("g", 1, 1, 1)
    engine.pod_bound(first, "n1")
    submit(engine, others, now=5.0)

    assert sorted(schedule(engine, 5.0)) == ["g1", "g2"]


def test_pending_pods_of_a_running_gang_are_scheduled_individually() -> None:
    engine = an_engine(a_node("n1", cpu=2))
    first, *others = a_gang("g", 1, 1, 1)
    engine.pod_bound(first, "n1")

    assert len(submit_and_schedule(engine, others)) == 1


def test_pods_added_to_a_complete_gang_have_no_precedence() -> None:
    engine = an_engine(a_node("n1", cpu=3))
    submit_and_schedule(engine, a_gang("g", 1, 1))
    submit(engine, [single("old", 1)], now=1.0)

    assert submit_and_schedule(engine, [member("g2", 1, "g", 2)], now=2.0) == {"old": "n1"}


def test_a_terminated_pod_counts_as_scheduled() -> None:
    engine = an_engine(a_node("n1", cpu=1))
    first, second = a_gang("g", 1, 1)
    engine.pod_bound(first, "n1")

    engine.pod_completed(first.key, first.gang)

    assert submit_and_schedule(engine, [second]) == {"g1": "n1"}


def test_when_one_binding_fails_only_that_pod_is_retried_first() -> None:
    engine = an_engine(a_node("n1", cpu=2))
    submit(engine, a_gang("g", 1, 1))
    found = engine.schedule(0.0, 10)
    submit(engine, [single("other", 1)])

    engine.forget_assumed(found[0].pod)

    assert schedule(engine) == {found[0].pod.key[1]: "n1"}


def test_when_all_bindings_fail_the_gang_is_scheduled_as_a_whole_again() -> None:
    engine = an_engine(a_node("n1", cpu=2))
    submit(engine, a_gang("g", 1, 1))
    for binding in engine.schedule(0.0, 10):
        engine.forget_assumed(binding.pod)
    engine.pod_bound(single("other", 1), "n1")

    assert schedule(engine) == {}
    assert (
        rejection(engine, "g0") == "Gang of 2: 1 of 2 pods fit; 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_a_gang_with_a_lower_minimum_does_not_wait_for_removed_pods() -> None:
    engine = an_engine(a_node("n1", cpu=2))
    pods = a_gang("g", 1, 1, 1)
    assert submit_and_schedule(engine, pods) == {}
    engine.remove_pod(pods[2].key)
    assert schedule(engine) == {}

    for pod in pods[:2]:
        engine.add_pending(replace(pod, gang=GangMembership("g", 2)), 0, 0.0)

    assert sorted(schedule(engine)) == ["g0", "g1"]


def test_a_gang_with_a_raised_minimum_waits_for_more_pods() -> None:
    engine = an_engine(a_node("n1", cpu=2))
    engine.pod_bound(other := single("other", 1), "n1")
    pods = a_gang("g", 1, 1)
    submit_and_schedule(engine, pods)
    for pod in pods:
        engine.add_pending(replace(pod, gang=GangMembership("g", 3)), 0, 0.0)

    engine.remove_pod(other.key)

    assert schedule(engine) == {}
    assert rejection(engine, "g0") == "Gang of 3: waiting for 1 more pod(s) to be created."


def test_a_pod_removed_from_its_gang_is_scheduled_alone() -> None:
    engine = an_engine(a_node("n1", cpu=1))
    pods = a_gang("g", 1, 1)
    submit_and_schedule(engine, pods)

    engine.add_pending(replace(pods[0], gang=None), 0, 0.0)

    assert schedule(engine) == {"g0": "n1"}


# Reservations for overdue gangs.


def test_small_pods_do_not_starve_a_gang_that_waited_long() -> None:
    engine = an_engine(a_node("n1", cpu=2), a_node("n2", cpu=2), reserve_after=60)
    old_pods = [single(f"old{number}", 1) for number in range(4)]
    submit_and_schedule(engine, old_pods)
    assert submit_and_schedule(engine, a_gang("g", 1, 1, 1, 1), now=1) == {}
    engine.remove_pod(old_pods[0].key)
    new_pod = single("new_pod", 1)
    assert list(submit_and_schedule(engine, [new_pod], now=30)) == ["new_pod"]

    assert schedule(engine, 61) == {}
    engine.remove_pod(old_pods[1].key)
    assert submit_and_schedule(engine, [single("small", 1)], now=62) == {}
    assert rejection(engine, "small") is not None
    for pod in (old_pods[2], old_pods[3], new_pod):
        engine.remove_pod(pod.key)

    assert sorted(schedule(engine, 63)) == ["g0", "g1", "g2", "g3"]


def test_other_pods_may_use_capacity_not_reserved_for_the_gang() -> None:
    engine = an_engine(a_node("n1", cpu=3), a_node("n2", cpu=3), reserve_after=60)
    submit_and_schedule(engine, old_pods := [single("old0", 2), single("old1", 2)])
    submit_and_schedule(engine, a_gang("g", 2, 2), now=0)
    schedule(engine, 60)

    assert sorted(submit_and_schedule(engine, [single("a", 1), single("b", 1)], now=61)) == ["a", "b"]
    for old in old_pods:
        engine.remove_pod(old.key)
    assert sorted(schedule(engine, 62)) == ["g0", "g1"]


def test_a_failed_attempt_of_a_gang_uses_no_capacity() -> None:
    engine = an_engine(a_node("n1", cpu=6), reserve_after=60)
    engine.pod_bound(single("old", 4), "n1")
    engine.pod_bound(short_lived := single("short_lived", 1), "n1")
    submit_and_schedule(engine, a_gang("g", 2, 2), now=0)
    schedule(engine, 60)
    engine.remove_pod(short_lived.key)
    assert schedule(engine, 61) == {}

    assert submit_and_schedule(engine, [single("small", 2)], now=62) == {"small": "n1"}


def test_nothing_is_reserved_for_a_gang_that_does_not_fit_an_empty_cluster() -> None:
    engine = an_engine(a_node("n1", cpu=2), reserve_after=60)
    submit_and_schedule(engine, [old := single("old", 2)])
    submit_and_schedule(engine, a_gang("g", 1, 1, 1), now=0)
    schedule(engine, 60)
    engine.remove_pod(old.key)

    assert submit_and_schedule(engine, [single("small", 1)], now=61) == {"small": "n1"}


def test_a_reservation_is_dropped_when_one_of_its_nodes_is_removed() -> None:
    engine = an_engine(a_node("n1", cpu=2), a_node("n2", cpu=2), reserve_after=60)
    engine.pod_bound(single("half", 1), "n1")
    engine.pod_bound(single("whole", 2), "n2")
    submit_and_schedule(engine, a_gang("g", 2, 2), now=0)
    schedule(engine, 60)
    assert submit_and_schedule(engine, [single("small", 1)], now=61) == {}

    engine.remove_node("n2")

    assert schedule(engine, 62) == {"small": "n1"}


# Random load.


@dataclass
class SubmittedJob:
    """Pods that are submitted together; a gang if ``is_gang``."""

    name: str
    pods: list[PodInfo]
    min_members: int
    since: float
    is_gang: bool
    assigned: set[str] = field(default_factory=set)


def fits_alone(cpus: list[tuple[int, int]], nodes: list[tuple[int, int]], min_members: int) -> bool:
    """Whether *min_members* of these pods fit on the empty nodes, by exhaustive search."""
    for chosen in product(range(-1, len(nodes)), repeat=len(cpus)):
        left = [list(node) for node in nodes]
        for (cpu, gpu), at in zip(cpus, chosen, strict=True):
            if at >= 0:
                left[at][0] -= cpu
                left[at][1] -= gpu
        if sum(at >= 0 for at in chosen) >= min_members and min(map(min, left)) >= 0:
            return True
    return False


class RandomGangs:
    """Gangs and pods of many shapes that arrive, run and terminate in simulated time on a small cluster."""

    reserve_after, longest_run = 30, 40

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes = [
            (self.random.randint(2, 6), self.random.randint(0, 2)) for _ in range(self.random.randint(1, 3))
        ]
        self.attributes = {
            f"n{number}": a_node(f"n{number}", cpu=cpu, gpu=gpu)
            for number, (cpu, gpu) in enumerate(self.nodes)
        }
        self.engine = an_engine(*self.attributes.values(), reserve_after=self.reserve_after)
        self.jobs: dict[str, SubmittedJob] = {}
        self.impossible: set[str] = set()
        self.running: dict[str, tuple[PodInfo, str, float]] = {}
        self.of: dict[str, SubmittedJob] = {}

    def run(self, seconds: int, longest: int) -> None:
        """Submits jobs for *seconds*, then continues until no pod runs and none can be scheduled."""
        for now in range(longest):
            for name in [name for name, (_, _, end) in self.running.items() if end <= now]:
                self._end(name)
            if now < seconds and self.random.random() < 0.2:
                self._submit(f"f{now}", now)
            if not self._schedule(now) and now > seconds and not self.running:
                return
        raise AssertionError("it does not submit to an end")

    def _submit(self, name: str, now: int) -> None:
        is_gang = self.random.random() < 0.6
        count = self.random.randint(1, 4) if is_gang else 1
        shapes = [(self.random.randint(1, 3), self.random.choice((0, 0, 1))) for _ in range(2)]
        requested = [self.random.choice(shapes) for _ in range(count)]
        min_members = self.random.choice((count, count, self.random.randint(1, count)))
        pods = []
        for number, (cpu, gpu) in enumerate(requested):
            pod = a_pod_info(f"{name}-{number}", requests={"cpu": cpu, "nvidia.com/gpu": gpu})
            pods.append(replace(pod, gang=GangMembership(name, min_members)) if is_gang else pod)
        job = self.jobs[name] = SubmittedJob(name, pods, min_members, now, is_gang)
        if not fits_alone(requested, self.nodes, min_members):
            self.impossible.add(name)
        for pod in pods:
            self.of[pod.key[1]] = job
            self.engine.add_pending(pod, 0, float(now))

    def _schedule(self, now: int) -> bool:
        """Schedules and returns whether any pod was bound."""
        found = self.engine.schedule(float(now), 8)
        failing = self.random.random() < 0.1
        together: dict[str, int] = {}
        for binding in found:
            name = binding.pod.key[1]
            job = self.of[name]
            if not job.assigned:
                together[job.name] = together.get(job.name, 0) + 1
            end = now + self.random.uniform(1, self.longest_run)
            self.running[name] = binding.pod, binding.node, end
        for name, count in together.items():
            assert count >= self.jobs[name].min_members, "fewer than the gang needs"
        for binding in found:
            self.of[binding.pod.key[1]].assigned.add(binding.pod.key[1])
        self._no_node_is_overfull()
        if failing and found:
            self._fail(self.random.choice(found))
        return bool(found)

    def _fail(self, binding: Binding) -> None:
        """Simulates a failed binding: it was not written, or it was and is observed."""
        name = binding.pod.key[1]
        if self.random.random() < 0.5:
            del self.running[name]
            self.of[name].assigned.discard(name)
            self.engine.forget_assumed(binding.pod)
        else:
            self.engine.pod_bound(binding.pod, binding.node)

    def _end(self, name: str) -> None:
        pod, _, _ = self.running.pop(name)
        self.engine.pod_completed(pod.key, pod.gang)

    def _no_node_is_overfull(self) -> None:
        for name, attributes in self.attributes.items():
            node = NodeInfo(attributes)
            for pod, at, _ in self.running.values():
                if at == name:
                    assert not insufficient_resources(pod.requirements, node), "overfull"
                    node.add_pod(pod)


@pytest.mark.parametrize(
    "seed", [*range(15), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(15, 300))]
)
def test_in_any_mix_every_gang_that_fits_alone_is_scheduled_eventually(seed: int) -> None:
    mix = RandomGangs(seed)

    mix.run(400, longest=10_000)

    for job in mix.jobs.values():
        if job.name in mix.impossible:
            assert not job.assigned
        else:
            assert len(job.assigned) >= job.min_members, f"{job.name} starves"
            # Single pods that fit an empty node are scheduled eventually too.
            for pod in job.pods:
                alone = any(
                    not insufficient_resources(pod.requirements, NodeInfo(attributes))
                    for attributes in mix.attributes.values()
                )
                assert (pod.key[1] in job.assigned) == alone


class SteadyLoad:
    """An endless load of small pods that nearly fill the nodes, and occasionally a gang that needs most of them."""

    longest_run = 60.0

    def __init__(self, seed: int, reserve_after: float) -> None:
        self._random = Random(seed)
        self._engine = an_engine(
            *(a_node(f"n{number}", cpu=8) for number in range(4)), reserve_after=reserve_after
        )
        self._ends: list[tuple[float, str]] = []
        self._submitted_at: dict[str, float] = {}
        #: Waiting time of each gang until all of it was scheduled.
        self.waits: dict[str, float] = {}
        self.longest_of_the_small = 0.0

    def run(self, seconds: int) -> None:
        for now in range(seconds):
            while self._ends and self._ends[0][0] <= now:
                self._engine.remove_pod(("default", heapq.heappop(self._ends)[1]))
            if self._random.random() < 0.85:
                self._submit(f"small-{now}", [single(f"small-{now}", 1)], now)
            if now % 600 == 100:
                self._submit(f"gang-{now}-", a_gang(f"gang-{now}-", *[2] * 12), now)
            self._schedule(now)

    def _submit(self, name: str, pods: list[PodInfo], now: float) -> None:
        self._submitted_at[name] = now
        submit(self._engine, pods, now)

    def _schedule(self, now: float) -> None:
        for binding in self._engine.schedule(now, 1000):
            name, pod = binding.pod.key[1], binding.pod
            heapq.heappush(self._ends, (now + self._random.uniform(5, self.longest_run), name))
            if pod.gang is not None:
                self.waits[pod.gang.name] = now - self._submitted_at[pod.gang.name]
            else:
                self.longest_of_the_small = max(self.longest_of_the_small, now - self._submitted_at[name])


@pytest.mark.parametrize("seed", range(4))
def test_neither_gangs_nor_small_pods_starve(seed: int) -> None:
    flow = SteadyLoad(seed, reserve_after=30)

    flow.run(3000)

    # The reservation delay plus the longest run time of earlier pods.
    assert max(flow.waits.values()) <= 30 + flow.longest_run
    assert len(flow.waits) == 5
    assert flow.longest_of_the_small <= 30 + 2 * flow.longest_run


def test_without_reservations_gangs_would_starve() -> None:
    flow = SteadyLoad(seed=0, reserve_after=1e9)

    flow.run(3000)

    assert flow.waits == {}


# Annotations.


def annotated(annotations: Mapping[str, str]) -> dict[str, Any]:
    pod = pod_json()
    pod["metadata"]["annotations"] = dict(annotations)
    return pod


def test_annotations_name_the_gang_and_its_minimum() -> None:
    assert gang_membership(annotated({GANG_ANNOTATION: ONE, GANG_MIN_ANNOTATION: "8"})) == GangMembership(
        ONE, 8
    )
    assert gang_membership(annotated({})) is None
    assert gang_membership(annotated({GANG_MIN_ANNOTATION: "8"})) is None


@pytest.mark.parametrize("min_members", ["", "0", "-1", "many", "1.5", "²", "9" * 30])
def test_an_invalid_minimum_is_rejected(min_members: str) -> None:
    with pytest.raises(ValueError, match=GANG_MIN_ANNOTATION):
        gang_membership(annotated({GANG_ANNOTATION: ONE, GANG_MIN_ANNOTATION: min_members}))
