"""Leader election in virtual time on a store in memory: which replica leads when, and what its Lease contains."""

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


class LeaseStore(SimulatedStore):
    """A store with hooks that run before and after each write of the lease, and can make it fail."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.before_write: Callable[[Object], Awaitable[None]] = _do_nothing
        self.after_write: Callable[[Object], Awaitable[None]] = _do_nothing

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(kind, obj, super().create)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(kind, obj, super().update)

    async def _write(
        self, kind: ResourceKind, obj: Object, write: Callable[..., Awaitable[Object]]
    ) -> Object:
        if kind == LEASES:
            await self.before_write(obj)
        stored = await write(kind, obj)
        if kind == LEASES:
            await self.after_write(obj)
        return stored

    async def spec(self) -> Object:
        spec: Object = (await self.get(LEASES, NAMESPACE, NAME))["spec"]
        return spec


async def _do_nothing(_: Object) -> None:
    pass


def raising(error: Exception, identity: str = "") -> Callable[[Object], Awaitable[None]]:
    """A hook that raises *error* for writes of that replica, or of all."""

    async def hook(lease: Object) -> None:
        if identity in ("", lease["spec"]["holderIdentity"]):
            raise error

    return hook


class RecordingWorker:
    """Records its start and end, and fails the test if another worker runs at the same time."""

    running: int = 0

    def __init__(self, history: list[str], name: str, term: LeaderTerm) -> None:
        self.term, self._history, self._name = term, history, name
        self._stopped = asyncio.Event()
        self.shutdown_seconds = 1.0

    async def run(self) -> None:
        self._history.append(f"{self._name} starts")
        RecordingWorker.running += 1
        assert RecordingWorker.running == 1, "two workers run at the same time"
        try:
            await self._stopped.wait()
            await asyncio.sleep(self.shutdown_seconds)
            self._history.append(f"{self._name} returns")
        except asyncio.CancelledError:
            self._history.append(f"{self._name} is cancelled")
            raise
        finally:
            RecordingWorker.running -= 1

    def stop(self) -> None:
        self._stopped.set()


class Replica:
    """The leader elector of one replica."""

    def __init__(self, store: SimulatedStore, name: str, history: list[str], **options: Any) -> None:
        self.leader = LeaderElector(
            store,
            namespace=NAMESPACE,
            identity=name,
            clock=store.clock,
            jitter=Random(name).random,
            monotonic=lambda: asyncio.get_running_loop().time(),
            **options,
        )
        self.workers: list[RecordingWorker] = []

        def new_worker(term: LeaderTerm) -> RecordingWorker:
            self.workers.append(RecordingWorker(history, name, term))
            return self.workers[-1]

        self.task = asyncio.create_task(self.leader.run(new_worker))

    async def wait_until_leader(self, *, timeout_seconds: float = 60.0) -> float:
        """Returns the seconds until the replica led."""
        started = asyncio.get_running_loop().time()
        async with asyncio.timeout(timeout_seconds):
            while not self.leader.is_leader:  # noqa: ASYNC110  virtual time costs nothing
                await asyncio.sleep(0.05)
        return asyncio.get_running_loop().time() - started

    async def cancel(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@asynccontextmanager
async def replicas(store: SimulatedStore) -> AsyncIterator[tuple[Replica, Replica, list[str]]]:
    """Two replicas, of which ``a`` leads, and the history of their workers."""
    history: list[str] = []
    RecordingWorker.running = 0
    a = Replica(store, "a", history)
    await a.wait_until_leader()
    b = Replica(store, "b", history)
    await asyncio.sleep(5)
    try:
        yield a, b, history
    finally:
        await a.cancel()
        await b.cancel()


def test_the_first_replica_leads_and_the_second_waits() -> None:
    async def scenario() -> None:
        async with replicas(LeaseStore()) as (a, b, history):
            await asyncio.sleep(600)

            assert (a.leader.is_leader, b.leader.is_leader) == (True, False)
            assert (a.leader.holder, b.leader.holder) == ("a", "a")
            assert history == ["a starts"]

    run(scenario())


def test_every_replica_knows_the_leader_and_how_long_its_lease_is_unrenewed() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        new = Replica(store, "new", [])
        before = new.leader.leadership
        await new.cancel()
        async with replicas(store) as (a, b, _):
            healthy = [each.leader.leadership for each in (a, b)]
            store.before_write = raising(Unavailable("no response"))
            await asyncio.sleep(12)
            failed = b.leader.leadership

        assert before is None
        assert all(each is not None and each.unrenewed_seconds <= 3 for each in healthy)
        assert [each and each.holder for each in healthy] == ["a", "a"]
        assert failed is not None
        assert (failed.namespace, failed.holder, failed.duration_seconds) == (NAMESPACE, "a", 15)
        assert failed.unrenewed_seconds >= 10

    run(scenario())


def test_the_lease_has_the_fields_and_formats_of_kubernetes() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        async with replicas(store):
            first = await store.spec()
            await asyncio.sleep(60)
            renewed = await store.spec()

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
        assert renewed == first | {"renewTime": renewed["renewTime"]}
        assert renewed["renewTime"] > first["renewTime"]

    run(scenario())


def test_a_stopped_leader_finishes_its_work_and_another_replica_takes_over_at_once() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        async with replicas(store) as (a, b, history):
            a.leader.stop()
            await a.task
            released = await store.spec()

            assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)
            assert await b.wait_until_leader() < 2.0
            assert (await store.spec())["leaseTransitions"] == 1
            assert history == ["a starts", "a returns", "b starts"]

    run(scenario())


def test_a_stopped_leader_renews_its_lease_until_its_worker_has_returned() -> None:
    async def scenario() -> None:
        async with replicas(LeaseStore()) as (a, b, history):
            a.workers[0].shutdown_seconds = 60.0
            a.leader.stop()
            await a.task
            await b.wait_until_leader()

            assert history == ["a starts", "a returns", "b starts"]

    run(scenario())


def test_a_cancelled_leader_releases_its_lease() -> None:
    async def scenario() -> None:
        async with replicas(LeaseStore()) as (a, b, history):
            await a.cancel()

            assert await b.wait_until_leader() < 2.0
            assert history == ["a starts", "a is cancelled", "b starts"]

    run(scenario())


def test_a_candidate_can_be_stopped() -> None:
    async def scenario() -> None:
        async with replicas(LeaseStore()) as (_, b, history):
            b.leader.stop()
            await asyncio.wait_for(b.task, 0.1)

            assert history == ["a starts"]

    run(scenario())


def test_an_unreachable_leader_is_replaced_when_its_lease_has_expired_and_not_before() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        async with replicas(store) as (a, b, history):
            store.before_write = raising(Unavailable("connection lost"), "a")

            seconds = await b.wait_until_leader()

            assert 15 - 2 < seconds < 15 + 2 + 2, "the last renewal was up to two seconds ago"
            assert not a.leader.is_leader
            assert history == ["a starts", "a is cancelled", "b starts"]

    run(scenario())


def test_the_clock_of_another_machine_has_no_effect() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        async with replicas(store) as (a, b, _):
            for error in (-86_400.0, 86_400.0):
                b.leader._clock = lambda error=error: store.clock() + error  # type: ignore[misc]  # one at a time
                await asyncio.sleep(60)
                assert (a.leader.is_leader, b.leader.is_leader) == (True, False)

    run(scenario())


def test_a_new_replica_waits_for_the_whole_duration_of_a_lease_it_did_not_see_renewed() -> None:
    async def scenario() -> None:
        store, history = LeaseStore(), list[str]()
        RecordingWorker.running = 0
        unreachable = Replica(store, "unreachable", history)
        await unreachable.wait_until_leader()
        store.before_write = raising(Unavailable("connection lost"), "unreachable")
        store.after_write = raising(Unavailable("connection lost"), "unreachable")
        await asyncio.sleep(12)
        b = Replica(store, "b", history)

        seconds = await b.wait_until_leader()

        assert 15 <= seconds < 17, "the time of the last renewal is not known to a new replica"
        await unreachable.cancel()
        await b.cancel()

    run(scenario())


def test_the_lease_duration_of_the_holder_applies() -> None:
    async def scenario() -> None:
        store, history = LeaseStore(), list[str]()
        RecordingWorker.running = 0
        unreachable = Replica(store, "unreachable", history, timings=LeaseTimings(60, 40, 2))
        await unreachable.wait_until_leader()
        store.before_write = raising(Unavailable("connection lost"), "unreachable")
        b = Replica(store, "b", history)

        assert await b.wait_until_leader(timeout_seconds=120) >= 60
        await unreachable.cancel()
        await b.cancel()

    run(scenario())


@pytest.mark.parametrize("hook", ["before_write", "after_write"])
def test_errors_shorter_than_the_renew_deadline_do_not_end_a_term(hook: str) -> None:
    async def scenario() -> None:
        store = LeaseStore()
        async with replicas(store) as (a, _, history):
            for error in (
                Unavailable("down"),
                OutcomeUnknown("response lost"),
                Conflict("modified"),
                Forbidden("missing permission"),
            ):
                setattr(store, hook, raising(error, "a"))
                await asyncio.sleep(6)
                setattr(store, hook, _do_nothing)
                await asyncio.sleep(6)

            assert a.leader.is_leader
            assert history == ["a starts"]

    run(scenario())


def test_a_hanging_write_times_out_and_is_retried() -> None:
    async def scenario() -> None:
        store, hung = LeaseStore(), list[str]()

        async def hang_once(lease: Object) -> None:
            if not hung:
                hung.append(lease["spec"]["holderIdentity"])
                await asyncio.sleep(1000)

        async with replicas(store) as (a, _, history):
            store.before_write = hang_once
            await asyncio.sleep(60)

            assert (hung, a.leader.is_leader, history) == (["a"], True, ["a starts"])

    run(scenario())


def test_a_term_is_counted_from_before_the_request() -> None:
    async def delay(_: Object) -> None:
        await asyncio.sleep(4)

    async def scenario() -> None:
        store = LeaseStore()
        store.after_write = delay
        async with replicas(store) as (a, _, _):
            remaining = []
            for _ in range(100):
                await asyncio.sleep(0.1)
                remaining.append(a.workers[0].term.remaining_seconds)

            assert 3.9 < max(remaining) <= 6, "the response took four of the ten seconds"
            assert min(remaining) > 0

    run(scenario())


def test_a_replica_leads_although_the_response_to_its_acquisition_was_lost() -> None:
    async def scenario() -> None:
        store, lost = LeaseStore(), iter([True])
        history: list[str] = []
        RecordingWorker.running = 0

        async def lose_first_response(_: Object) -> None:
            if next(lost, False):
                raise OutcomeUnknown("response lost")

        store.after_write = lose_first_response
        a = Replica(store, "a", history)

        assert await a.wait_until_leader() < 2.1, "it does not wait for the expiry of its own lease"
        assert (await store.spec())["leaseTransitions"] == 0
        await a.cancel()

    run(scenario())


def test_a_changed_holder_ends_the_term_at_the_next_renewal() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        async with replicas(store) as (a, b, history):
            change = MergePatch({"spec": {"holderIdentity": "other"}})
            await store.patch(LEASES, NAMESPACE, NAME, change)
            await asyncio.sleep(3)

            assert (a.leader.is_leader, a.leader.holder) == (False, "other")
            assert history == ["a starts", "a is cancelled"]
            await asyncio.sleep(15)
            assert a.leader.is_leader or b.leader.is_leader, "the other holder did not renew the lease"

    run(scenario())


def test_a_deleted_lease_is_created_again_by_its_holder() -> None:
    async def scenario() -> None:
        store = LeaseStore()
        async with replicas(store) as (a, b, _):
            await store.delete(LEASES, NAMESPACE, NAME, DeleteOptions())
            await asyncio.sleep(10)

            assert (a.leader.is_leader, b.leader.is_leader) == (True, False)
            assert (await store.spec())["holderIdentity"] == "a"

    run(scenario())


def test_an_error_of_the_worker_is_raised_and_the_lease_is_released() -> None:
    class FailingWorker:
        async def run(self) -> None:
            raise ValueError("a bug")

        def stop(self) -> None:
            pass

    async def scenario() -> None:
        store = LeaseStore()
        leader = LeaderElector(
            store, namespace=NAMESPACE, identity="a", clock=store.clock, jitter=lambda: 0.5
        )

        with pytest.raises(ExceptionGroup, match="unhandled errors") as raised:
            await leader.run(lambda _: FailingWorker())

        assert raised.group_contains(ValueError, match="a bug")
        assert (await store.spec())["holderIdentity"] == ""

    run(scenario())
