"""Two replicas on one store, in virtual time: no fault of the leader violates an invariant."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import TypeVar

import pytest

from launcher.controller.framework_controller import FrameworkController
from launcher.controller.leader_election import LeaderElector
from launcher.core.planning.options import PlannerOptions
from launcher.store.fenced_store import FencedStore, LeaderTerm
from launcher.store.interface import FRAMEWORKS, PODS, ResourceKind
from tests.controller.simulation.audit import Auditor
from tests.controller.simulation.cluster import SimulatedCluster, SimulatedStore
from tests.controller.simulation.faults import Faults, FaultyStore
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run

pytestmark = pytest.mark.usefixtures("quiet_log")

T = TypeVar("T")


class FreezableStore(FaultyStore):
    """A connection that can be interrupted; sent requests arrive when it is restored, even if their sender stopped."""

    def __init__(self, store: SimulatedStore, random: Random) -> None:
        super().__init__(store, Faults(slow=0.05), random)
        self.connected = asyncio.Event()
        self.connected.set()
        self.writes = 0

    async def _send(self, call: Callable[[], Awaitable[T]]) -> T:
        self.writes += 1
        await self.connected.wait()
        return await super()._send(call)

    async def _pause(self) -> None:
        await self.connected.wait()
        await super()._pause()


class ControllerReplica:
    """A leader elector with its controller."""

    def __init__(self, store: SimulatedStore, identity: str, random: Random) -> None:
        self.connection = FreezableStore(store, random)
        self.leader = LeaderElector(
            self.connection,
            namespace="replicas",
            identity=identity,
            clock=store.clock,
            jitter=random.random,
            monotonic=lambda: asyncio.get_running_loop().time(),
        )

        def new_worker(term: LeaderTerm) -> FrameworkController:
            return FrameworkController(
                FencedStore(self.connection, term), clock=store.clock, jitter=random.random
            )

        self.task = asyncio.create_task(self.leader.run(new_worker))

    async def cancel(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class FailoverHarness:
    """A store, its nodes, and replicas of the launcher."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = SimulatedStore(self.random)
        self.auditor = Auditor()
        self.store.audit = self.auditor
        cluster = SimulatedCluster(
            self.store, self.random, lambda _: (self.random.random() * 20, self._exit_code())
        )
        self.nodes = asyncio.create_task(cluster.run())
        self.replicas: list[ControllerReplica] = []
        for name in ("a", "b"):
            self.start_replica(name)

    def _exit_code(self) -> int:
        return self.random.choice((0, 0, 0, 1, 137))

    def start_replica(self, identity: str) -> None:
        self.replicas.append(ControllerReplica(self.store, identity, self.random))

    async def wait_for_leader(self) -> ControllerReplica:
        """Returns the leader, once there is one."""
        async with asyncio.timeout(60):
            while not (leaders := [replica for replica in self.replicas if replica.leader.is_leader]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert len(leaders) == 1
        return leaders[0]

    async def check_completion(self) -> None:
        """Waits until all Frameworks are completed, and checks the final state."""
        async with asyncio.timeout(3600):
            while not await self._all_completed():  # noqa: ASYNC110  virtual time costs nothing
                await asyncio.sleep(10)
        await asyncio.sleep(120)
        for replica in self.replicas:
            await replica.cancel()
        self.nodes.cancel()
        frameworks, pods = await self.store.list(FRAMEWORKS), await self.store.list(PODS)
        self.auditor.check_end(list(frameworks.items), list(pods.items), self.store.clock(), PlannerOptions())

    async def _all_completed(self) -> bool:
        frameworks = (await self.store.list(FRAMEWORKS)).items
        return all((obj.get("status") or {}).get("state") == "Completed" for obj in frameworks)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]
)
def test_no_invariant_is_violated_if_the_leader_stops_crashes_or_is_disconnected_at_any_time(
    seed: int,
) -> None:
    async def scenario() -> None:
        harness = FailoverHarness(seed)
        for number in range(4):
            roles = a_role("ps", 2), a_role("worker", 8, retries=3)
            await harness.store.create(FRAMEWORKS, a_framework(f"f{number}", *roles, retries=2))
        for number in range(6):
            leader_replica = await harness.wait_for_leader()
            await asyncio.sleep(harness.random.random() * 8)
            match harness.random.choice(("disconnect", "stop", "crash")):
                case "disconnect":
                    leader_replica.connection.connected.clear()
                    await asyncio.sleep(5 + harness.random.random() * 40)
                    leader_replica.connection.connected.set()
                case "stop":
                    leader_replica.leader.stop()
                    await leader_replica.task
                    harness.replicas.remove(leader_replica)
                    harness.start_replica(f"stopped{number}")
                case "crash":
                    leader_replica.connection.connected.clear()
                    await leader_replica.cancel()
                    harness.replicas.remove(leader_replica)
                    harness.start_replica(f"crashed{number}")

        await harness.check_completion()

    run(scenario())


def test_a_replica_that_resumes_after_its_term_writes_nothing() -> None:
    async def scenario() -> None:
        harness = FailoverHarness(1)
        await harness.store.create(FRAMEWORKS, a_framework("f", a_role("w", 2, retries=100)))
        old = await harness.wait_for_leader()
        await asyncio.sleep(60)
        old.connection.connected.clear()
        await asyncio.sleep(20)
        new = await harness.wait_for_leader()
        sent = old.connection.writes
        old.connection.connected.set()
        await asyncio.sleep(60)

        assert new is not old
        assert old.connection.writes == sent
        assert old.leader.holder == new.leader.holder != ""
        await harness.check_completion()

    run(scenario())


def test_every_term_starts_with_a_new_controller() -> None:
    async def scenario() -> None:
        harness = FailoverHarness(2)
        lists: list[ResourceKind] = []
        leader_replica = await harness.wait_for_leader()
        original = leader_replica.connection.list

        async def record_list(kind: ResourceKind, *args: object, **kwargs: object) -> object:
            lists.append(kind)
            return await original(kind, *args, **kwargs)  # type: ignore[arg-type]  # forwarded

        leader_replica.connection.list = record_list  # type: ignore[method-assign, assignment]  # records the kinds
        harness.replicas = [leader_replica]  # the other replica keeps running
        await asyncio.sleep(5)
        lists.clear()
        for _ in range(2):
            leader_replica.connection.connected.clear()
            await asyncio.sleep(12)
            leader_replica.connection.connected.set()
            async with asyncio.timeout(60):
                while not leader_replica.leader.is_leader:  # noqa: ASYNC110  virtual time costs nothing
                    await asyncio.sleep(0.1)
            await asyncio.sleep(5)

        assert lists == [PODS, FRAMEWORKS] * 2

    run(scenario())
