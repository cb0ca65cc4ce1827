"""One leader at a time, in virtual time on a store in memory: who works when, and what the lease says."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest

from launcher.controller.leader_election import LeaderElector, LeaseTimings
from launcher.core.errors import Conflict, Forbidden, OutcomeUnknown, Unavailable
from launcher.store.fenced_store import LeaderTerm
from launcher.store.interface import LEASES, DeleteOptions, MergePatch, Object, ResourceKind
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.virtual_time import run

NAMESPACE, NAME = "launchers", "framework-launcher"


class Leases(SimulatedStore):
    """A store whose writes of the lease can be made to fail, before or after they have taken effect."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.before: Callable[[Object], Awaitable[None]] = _nothing
        self.after: Callable[[Object], Awaitable[None]] = _nothing

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(kind, obj, super().create)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(kind, obj, super().update)

    async def _write(
        self, kind: ResourceKind, obj: Object, write: Callable[..., Awaitable[Object]]
    ) -> Object:
        if kind == LEASES:
            await self.before(obj)
        answer = await write(kind, obj)
        if kind == LEASES:
            await self.after(obj)
        return answer

    async def spec(self) -> Object:
        spec: Object = (await self.get(LEASES, NAMESPACE, NAME))["spec"]
        return spec


async def _nothing(_: Object) -> None:
    pass


def fails(error: Exception, identity: str = "") -> Callable[[Object], Awaitable[None]]:
    """Raises *error* for writes of that launcher, or of all."""

    async def fail(lease: Object) -> None:
        if identity in ("", lease["spec"]["holderIdentity"]):
            raise error

    return fail


class Work:
    """Remembers when it was done, and never twice at the same time as anybody else's."""

    busy: int = 0

    def __init__(self, stories: list[str], name: str, term: LeaderTerm) -> None:
        self.term, self._stories, self._name = term, stories, name
        self._stopped = asyncio.Event()
        self.saves = 1.0

    async def run(self) -> None:
        self._stories.append(f"{self._name} begins")
        Work.busy += 1
        assert Work.busy == 1, "two work at the same time"
        try:
            await self._stopped.wait()
            await asyncio.sleep(self.saves)
            self._stories.append(f"{self._name} saves")
        except asyncio.CancelledError:
            self._stories.append(f"{self._name} is cut short")
            raise
        finally:
            Work.busy -= 1

    def stop(self) -> None:
        self._stopped.set()


class Replica:
    """One launcher, as far as leading goes."""

    def __init__(self, store: SimulatedStore, name: str, stories: list[str], **more: Any) -> None:
        self.leader = LeaderElector(
            store,
            namespace=NAMESPACE,
            identity=name,
            clock=store.clock,
            chance=Random(name).random,
            steady=lambda: asyncio.get_running_loop().time(),
            **more,
        )
        self.works: list[Work] = []

        def begin(term: LeaderTerm) -> Work:
            self.works.append(Work(stories, name, term))
            return self.works[-1]

        self.task = asyncio.create_task(self.leader.run(begin))

    async def leads(self, *, within: float = 60.0) -> float:
        """How long it took to lead."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(within):
            while not self.leader.is_leader:  # noqa: ASYNC110  virtual time costs nothing
                await asyncio.sleep(0.05)
        return asyncio.get_running_loop().time() - began

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def replicas(store: SimulatedStore, **more: Any) -> AsyncIterator[tuple[Replica, Replica, list[str]]]:
    """Two launchers, of which ``a`` leads."""
    stories: list[str] = []
    Work.busy = 0
    a = Replica(store, "a", stories, **more)
    await a.leads()
    b = Replica(store, "b", stories, **more)
    await asyncio.sleep(5)
    try:
        yield a, b, stories
    finally:
        await a.end()
        await b.end()


def test_the_first_leads_and_the_second_waits() -> None:
    async def story() -> None:
        async with replicas(Leases()) as (a, b, stories):
            await asyncio.sleep(600)

            assert (a.leader.is_leader, b.leader.is_leader) == (True, False)
            assert (a.leader.holder, b.leader.holder) == ("a", "a")
            assert stories == ["a begins"]

    run(story())


def test_the_lease_reads_as_any_other_in_the_cluster() -> None:
    async def story() -> None:
        store = Leases()
        async with replicas(store):
            first = await store.spec()
            await asyncio.sleep(60)
            later = await store.spec()

        assert first.keys() == {
            "holderIdentity",
            "leaseDurationSeconds",
            "acquireTime",
            "renewTime",
            "leaseTransitions",
        }
        assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == (
            "a",
            15,
            0,
        )
        assert re.fullmatch(r"2026-01-01T00:00:0\d\.\d{6}Z", first["renewTime"])
        assert later == first | {"renewTime": later["renewTime"]}
        assert later["renewTime"] > first["renewTime"]

    run(story())


def test_stopped_it_lets_the_work_end_and_the_other_takes_over_at_once() -> None:
    async def story() -> None:
        store = Leases()
        async with replicas(store) as (a, b, stories):
            a.leader.stop()
            await a.task
            given = await store.spec()

            assert (given["holderIdentity"], given["leaseDurationSeconds"]) == ("", 1)
            assert await b.leads() < 2.0
            assert (await store.spec())["leaseTransitions"] == 1
            assert stories == ["a begins", "a saves", "b begins"]

    run(story())


def test_the_lease_is_kept_while_the_work_comes_to_its_end() -> None:
    async def story() -> None:
        async with replicas(Leases()) as (a, b, stories):
            a.works[0].saves = 60.0
            a.leader.stop()
            await a.task
            await b.leads()

            assert stories == ["a begins", "a saves", "b begins"]

    run(story())


def test_cancelled_it_gives_the_lease_back_all_the_same() -> None:
    async def story() -> None:
        async with replicas(Leases()) as (a, b, stories):
            await a.end()

            assert await b.leads() < 2.0
            assert stories == ["a begins", "a is cut short", "b begins"]

    run(story())


def test_a_leader_that_waits_can_be_stopped_as_well() -> None:
    async def story() -> None:
        async with replicas(Leases()) as (_, b, stories):
            b.leader.stop()
            await asyncio.wait_for(b.task, 0.1)

            assert stories == ["a begins"]

    run(story())


def test_a_dead_leader_is_replaced_when_its_lease_has_run_out_and_not_before() -> None:
    async def story() -> None:
        store = Leases()
        async with replicas(store) as (a, b, stories):
            store.before = fails(Unavailable("the cable is cut"), "a")
            store.after = _nothing
            began = asyncio.get_running_loop().time()
            await b.leads()
            took = asyncio.get_running_loop().time() - began

            assert 15 - 2 < took < 15 + 2 + 2, "its last sign of life was up to two seconds ago"
            assert not a.leader.is_leader
            assert stories == ["a begins", "a is cut short", "b begins"]

    run(story())


def test_the_clock_on_the_other_machine_counts_for_nothing() -> None:
    async def story() -> None:
        store = Leases()
        async with replicas(store) as (a, b, _):
            for error in (-86_400.0, 86_400.0):
                b.leader._clock = lambda error=error: store.clock() + error  # type: ignore[misc]  # one at a time
                await asyncio.sleep(60)
                assert (a.leader.is_leader, b.leader.is_leader) == (True, False)

    run(story())


def test_a_lease_that_was_held_before_this_launcher_came_is_waited_for_in_full() -> None:
    async def story() -> None:
        store, stories = Leases(), list[str]()
        Work.busy = 0
        dead = Replica(store, "dead", stories)
        await dead.leads()
        store.before = fails(Unavailable("gone"), "dead")
        store.after = fails(Unavailable("gone"), "dead")
        await asyncio.sleep(12)
        b = Replica(store, "b", stories)

        took = await b.leads()

        assert 15 <= took < 17, "nobody knows when it was last renewed but by watching it"
        await dead.end()
        await b.end()

    run(story())


def test_the_holders_own_length_of_the_lease_counts() -> None:
    async def story() -> None:
        store, stories = Leases(), list[str]()
        Work.busy = 0
        dead = Replica(store, "dead", stories, durations=LeaseTimings(60, 40, 2))
        await dead.leads()
        store.before = fails(Unavailable("gone"), "dead")
        b = Replica(store, "b", stories)

        assert await b.leads(within=120) >= 60
        await dead.end()
        await b.end()

    run(story())


@pytest.mark.parametrize("when", ["before", "after"])
def test_troubles_that_pass_in_time_cost_nothing(when: str) -> None:
    async def story() -> None:
        store = Leases()
        async with replicas(store) as (a, _, stories):
            for error in (
                Unavailable("down"),
                OutcomeUnknown("lost"),
                Conflict("so it is said"),
                Forbidden("rights"),
            ):
                setattr(store, when, fails(error, "a"))
                await asyncio.sleep(6)
                setattr(store, when, _nothing)
                await asyncio.sleep(6)

            assert a.leader.is_leader
            assert stories == ["a begins"]

    run(story())


def test_a_write_that_hangs_is_given_up_and_tried_again() -> None:
    async def story() -> None:
        store, hung = Leases(), list[str]()

        async def hang(lease: Object) -> None:
            if not hung:
                hung.append(lease["spec"]["holderIdentity"])
                await asyncio.sleep(1000)

        async with replicas(store) as (a, _, stories):
            store.before = hang
            await asyncio.sleep(60)

            assert (hung, a.leader.is_leader, stories) == (["a"], True, ["a begins"])

    run(story())


def test_a_term_counts_from_before_the_lease_was_asked_for() -> None:
    async def late(_: Object) -> None:
        await asyncio.sleep(4)

    async def story() -> None:
        store = Leases()
        store.after = late
        async with replicas(store) as (a, _, _):
            lefts = []
            for _ in range(100):
                await asyncio.sleep(0.1)
                lefts.append(a.works[0].term.left)

            assert 3.9 < max(lefts) <= 6, "of the ten seconds, four were spent on waiting for the answer"
            assert min(lefts) > 0

    run(story())


def test_a_lease_taken_although_the_answer_was_lost_is_led_by_whoever_took_it() -> None:
    async def story() -> None:
        store, lost = Leases(), iter([True])
        stories: list[str] = []
        Work.busy = 0

        async def lose(_: Object) -> None:
            if next(lost, False):
                raise OutcomeUnknown("its answer was lost")

        store.after = lose
        a = Replica(store, "a", stories)

        assert await a.leads() < 2.1, "not after the length of a lease that is its own"
        assert (await store.spec())["leaseTransitions"] == 0
        await a.end()

    run(story())


def test_a_lease_that_somebody_takes_by_hand_ends_the_work_with_the_next_renewal() -> None:
    async def story() -> None:
        store = Leases()
        async with replicas(store) as (a, b, stories):
            steal = MergePatch({"spec": {"holderIdentity": "somebody"}})
            await store.patch(LEASES, NAMESPACE, NAME, steal)
            await asyncio.sleep(3)

            assert (a.leader.is_leader, a.leader.holder) == (False, "somebody")
            assert stories == ["a begins", "a is cut short"]
            await asyncio.sleep(15)
            assert a.leader.is_leader or b.leader.is_leader, "whoever it was has been silent since"

    run(story())


def test_a_lease_that_is_deleted_is_made_anew_by_its_holder() -> None:
    async def story() -> None:
        store = Leases()
        async with replicas(store) as (a, b, _):
            await store.delete(LEASES, NAMESPACE, NAME, DeleteOptions())
            await asyncio.sleep(10)

            assert (a.leader.is_leader, b.leader.is_leader) == (True, False), "its holder is there, after all"
            assert (await store.spec())["holderIdentity"] == "a"

    run(story())


def test_work_that_fails_is_not_hidden_and_leaves_the_lease_free() -> None:
    class Broken:
        async def run(self) -> None:
            raise ValueError("a bug")

        def stop(self) -> None:
            pass

    async def story() -> None:
        store = Leases()
        leader = LeaderElector(
            store, namespace=NAMESPACE, identity="a", clock=store.clock, chance=lambda: 0.5
        )

        with pytest.raises(ExceptionGroup, match="unhandled errors") as failed:
            await leader.run(lambda _: Broken())

        assert failed.group_contains(ValueError, match="a bug")
        assert (await store.spec())["holderIdentity"] == ""

    run(story())
