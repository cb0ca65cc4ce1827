"""Two launchers for one store, in virtual time: whatever happens to the one that leads, every promise is kept."""

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
from tests.controller.simulation.cluster import Cluster, SimulatedStore
from tests.controller.simulation.faults import Faults, FaultyStore
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run

pytestmark = pytest.mark.usefixtures("quiet_log")

T = TypeVar("T")


class Freezing(FaultyStore):
    """A connection that stands still at times; what was sent arrives when it thaws, even if its sender is gone."""

    def __init__(self, store: SimulatedStore, random: Random) -> None:
        super().__init__(store, Faults(slow=0.05), random)
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.writes = 0

    async def _send(self, call: Callable[[], Awaitable[T]]) -> T:
        self.writes += 1
        await self.thawed.wait()
        return await super()._send(call)

    async def _pause(self) -> None:
        await self.thawed.wait()
        await super()._pause()


class Launcher:
    """A leader and its controllers."""

    def __init__(self, store: SimulatedStore, identity: str, random: Random) -> None:
        self.wire = Freezing(store, random)
        self.leader = LeaderElector(
            self.wire,
            namespace="launchers",
            identity=identity,
            clock=store.clock,
            chance=random.random,
            steady=lambda: asyncio.get_running_loop().time(),
        )

        def begin(term: LeaderTerm) -> FrameworkController:
            return FrameworkController(FencedStore(self.wire, term), clock=store.clock, chance=random.random)

        self.task = asyncio.create_task(self.leader.run(begin))

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class World:
    """A store, its nodes, and some launchers beside each other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = SimulatedStore(self.random)
        self.auditor = Auditor()
        self.store.audit = self.auditor
        cluster = Cluster(self.store, self.random, lambda _: (self.random.random() * 20, self._code()))
        self.nodes = asyncio.create_task(cluster.run())
        self.launchers: list[Launcher] = []
        for name in ("a", "b"):
            self.launch(name)

    def _code(self) -> int:
        return self.random.choice((0, 0, 0, 1, 137))

    def launch(self, identity: str) -> None:
        self.launchers.append(Launcher(self.store, identity, self.random))

    async def leading(self) -> Launcher:
        """Who leads, as soon as somebody does."""
        async with asyncio.timeout(60):
            while not (leading := [each for each in self.launchers if each.leader.is_leader]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert len(leading) == 1
        return leading[0]

    async def end(self) -> None:
        """All Frameworks have come to their end, and as they should."""
        async with asyncio.timeout(3600):
            while not await self._is_at_rest():  # noqa: ASYNC110  virtual time costs nothing
                await asyncio.sleep(10)
        await asyncio.sleep(120)
        for launcher in self.launchers:
            await launcher.end()
        self.nodes.cancel()
        frameworks, pods = await self.store.list(FRAMEWORKS), await self.store.list(PODS)
        self.auditor.check_end(list(frameworks.items), list(pods.items), self.store.clock(), PlannerOptions())

    async def _is_at_rest(self) -> bool:
        frameworks = (await self.store.list(FRAMEWORKS)).items
        return all((obj.get("status") or {}).get("state") == "Completed" for obj in frameworks)


@pytest.mark.parametrize("seed", range(8))
def test_a_leader_may_die_or_freeze_or_be_told_to_stop_at_any_moment(seed: int) -> None:
    async def story() -> None:
        world = World(seed)
        for number in range(4):
            roles = a_role("ps", 2), a_role("worker", 8, retries=3)
            await world.store.create(FRAMEWORKS, a_framework(f"f{number}", *roles, retries=2))
        for number in range(6):
            leading = await world.leading()
            await asyncio.sleep(world.random.random() * 8)
            match world.random.choice(("freezes", "is stopped", "dies")):
                case "freezes":
                    leading.wire.thawed.clear()
                    await asyncio.sleep(5 + world.random.random() * 40)
                    leading.wire.thawed.set()
                case "is stopped":
                    leading.leader.stop()
                    await leading.task
                    world.launchers.remove(leading)
                    world.launch(f"stopped{number}")
                case "dies":
                    leading.wire.thawed.clear()
                    await leading.end()
                    world.launchers.remove(leading)
                    world.launch(f"died{number}")

        await world.end()

    run(story())


def test_one_that_wakes_after_its_term_writes_nothing_more() -> None:
    async def story() -> None:
        world = World(1)
        await world.store.create(FRAMEWORKS, a_framework("f", a_role("w", 2, retries=100)))
        old = await world.leading()
        await asyncio.sleep(60)
        old.wire.thawed.clear()
        await asyncio.sleep(20)
        new = await world.leading()
        sent = old.wire.writes
        old.wire.thawed.set()
        await asyncio.sleep(60)

        assert new is not old
        assert old.wire.writes == sent
        assert old.leader.holder == new.leader.holder != ""
        await world.end()

    run(story())


def test_every_term_begins_with_a_controller_that_knows_nothing() -> None:
    async def story() -> None:
        world = World(2)
        lists: list[ResourceKind] = []
        leading = await world.leading()
        seen = leading.wire.list

        async def counted(kind: ResourceKind, *args: object, **more: object) -> object:
            lists.append(kind)
            return await seen(kind, *args, **more)  # type: ignore[arg-type]  # handed through

        leading.wire.list = counted  # type: ignore[method-assign, assignment]  # the same, and counts
        world.launchers = [leading]  # the other one is left to itself
        await asyncio.sleep(5)
        lists.clear()
        for _ in range(2):
            leading.wire.thawed.clear()
            await asyncio.sleep(12)
            leading.wire.thawed.set()
            async with asyncio.timeout(60):
                while not leading.leader.is_leader:  # noqa: ASYNC110  virtual time costs nothing
                    await asyncio.sleep(0.1)
            await asyncio.sleep(5)

        assert lists == [PODS, FRAMEWORKS] * 2

    run(story())
