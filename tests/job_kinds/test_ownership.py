"""Whose jobs are run: those whose definition is ours."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.core.errors import Forbidden, LauncherError, NotFound, NotServed, Unavailable
from launcher.job_kinds.job_kind import FOREIGN
from launcher.job_kinds.ownership import DEFINITIONS, JobKindOwnership
from launcher.job_kinds.schema import crd_of
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import Object, ResourceKind
from tests.api.client import until
from tests.controller.simulation.virtual_time import run

(TFJOB,) = [foreign for foreign in FOREIGN if foreign.kind.kind == "TFJob"]
OURS = crd_of(TFJOB)
THEIRS = {**OURS, "metadata": {"name": "tfjobs.kubeflow.org", "labels": {"app": "training-operator"}}}


class Cluster(MemoryStore):
    """A cluster with one definition, or none, or one that may not be read."""

    def __init__(self, definition: Object | LauncherError | None) -> None:
        super().__init__(lambda: 0.0, lambda: "")
        self.definition = definition
        self.asked: list[str] = []

    async def ask(self, path: str) -> Object:
        self.asked.append(path)
        if isinstance(self.definition, Unavailable):
            raise self.definition
        if self.definition is None:
            raise NotServed("not here")
        return {"resources": [{"name": "tfjobs"}]}

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        assert (kind, name) == (DEFINITIONS, "tfjobs.kubeflow.org")
        if isinstance(self.definition, LauncherError):
            raise self.definition
        if self.definition is None:
            raise NotFound("gone")
        return self.definition


@asynccontextmanager
async def looking(cluster: Cluster) -> AsyncIterator[JobKindOwnership]:
    own = JobKindOwnership(cluster.ask, cluster, [TFJOB], pause=0.001)
    task = asyncio.create_task(own.run())
    try:
        yield own
    finally:
        task.cancel()
        await asyncio.wait([task])


async def asked(cluster: Cluster, times: int) -> None:
    """Return when the cluster was asked that many times more."""
    wanted = len(cluster.asked) + times
    await until(lambda: len(cluster.asked) >= wanted)


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        pytest.param(OURS, ["jobs are run as Frameworks"], id="ours"),
        pytest.param(THEIRS, ["jobs are left alone: another operator serves their kind"], id="another's"),
        pytest.param(
            Forbidden("no"), ["jobs are left alone: another operator serves their kind"], id="not to be read"
        ),
        pytest.param(None, ["jobs are not served"], id="nobody's"),
    ],
)
async def test_whose_jobs_they_are_is_told_once(
    definition: Any, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(definition)
    with caplog.at_level(logging.DEBUG, "launcher.job_kinds.ownership"):
        async with looking(cluster) as own:
            await asked(cluster, 5)

    assert own.are_ours(TFJOB) is (definition is OURS)
    assert caplog.messages == told


async def test_a_definition_may_come_and_go() -> None:
    cluster = Cluster(None)
    async with asyncio.timeout(20), looking(cluster) as own:
        cluster.definition = OURS
        await own.turned(TFJOB, ours=True)
        cluster.definition = THEIRS
        await own.turned(TFJOB, ours=False)


async def test_a_cluster_that_is_away_changes_nothing() -> None:
    cluster = Cluster(OURS)
    async with asyncio.timeout(20), looking(cluster) as own:
        await own.turned(TFJOB, ours=True)
        cluster.definition = Unavailable("away")
        await asked(cluster, 5)

        assert own.are_ours(TFJOB)


async def test_who_waits_is_woken_whoever_else_waits() -> None:
    cluster = Cluster(None)
    async with asyncio.timeout(20), looking(cluster) as own:
        waiting = [asyncio.create_task(own.turned(TFJOB, ours=True)) for _ in range(3)]
        await asked(cluster, 2)
        cluster.definition = OURS

        await asyncio.gather(*waiting)


def test_a_cluster_that_was_away_is_asked_again_soon() -> None:
    async def story() -> float:
        cluster = Cluster(Unavailable("away"))
        own = JobKindOwnership(cluster.ask, cluster, [TFJOB])
        task = asyncio.create_task(own.run())
        await asyncio.sleep(0.5)
        cluster.definition = OURS
        await own.turned(TFJOB, ours=True)
        task.cancel()
        return asyncio.get_running_loop().time()

    assert run(story()) < 2
