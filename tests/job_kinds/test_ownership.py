"""The launcher runs job kinds with its own CustomResourceDefinition."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deploy.generate.job_crd import job_crd
from launcher.core.errors import Forbidden, LauncherError, NotFound, NotServed, Unavailable
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.job_kinds.ownership import DEFINITIONS, JobKindOwnership
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import Object, ResourceKind
from tests.controller.simulation.virtual_time import run
from tests.eventually import eventually

(TFJOB,) = [job_kind for job_kind in JOB_KINDS if job_kind.kind.kind == "TFJob"]
LAUNCHER_CRD = job_crd(TFJOB)
OTHER_CRD = {
    **LAUNCHER_CRD,
    "metadata": {"name": "tfjobs.kubeflow.org", "labels": {"app": "training-operator"}},
}


class FakeCluster(MemoryStore):
    """A cluster with one definition, without one, or with one that may not be read."""

    def __init__(self, definition: Object | LauncherError | None) -> None:
        super().__init__(lambda: 0.0, lambda: "")
        self.definition = definition
        self.paths: list[str] = []

    async def discover(self, path: str) -> Object:
        self.paths.append(path)
        if isinstance(self.definition, Unavailable):
            raise self.definition
        if self.definition is None:
            raise NotServed("not served")
        return {"resources": [{"name": "tfjobs"}]}

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        assert (kind, name) == (DEFINITIONS, "tfjobs.kubeflow.org")
        if isinstance(self.definition, LauncherError):
            raise self.definition
        if self.definition is None:
            raise NotFound("not found")
        return self.definition


@asynccontextmanager
async def run_ownership(cluster: FakeCluster) -> AsyncIterator[JobKindOwnership]:
    ownership = JobKindOwnership(cluster.discover, cluster, [TFJOB], interval_seconds=0.001)
    task = asyncio.create_task(ownership.run())
    try:
        yield ownership
    finally:
        task.cancel()
        await asyncio.wait([task])


async def wait_for_checks(cluster: FakeCluster, number: int) -> None:
    """Returns after that many more checks."""
    expected = len(cluster.paths) + number
    await eventually(lambda: len(cluster.paths) >= expected)


@pytest.mark.parametrize(
    ("definition", "messages"),
    [
        pytest.param(
            LAUNCHER_CRD, ["jobs of this kind are run as Frameworks"], id="the launcher's definition"
        ),
        pytest.param(
            OTHER_CRD,
            ["job kind is served by another operator, not handled"],
            id="another operator's definition",
        ),
        pytest.param(
            Forbidden("no"),
            ["job kind is served by another operator, not handled"],
            id="a definition that may not be read",
        ),
        pytest.param(None, ["job kind not installed"], id="no definition"),
    ],
)
async def test_the_owner_of_a_job_kind_is_logged_once(
    definition: Any, messages: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster(definition)
    with caplog.at_level(logging.DEBUG, "launcher.job_kinds.ownership"):
        async with run_ownership(cluster) as ownership:
            await wait_for_checks(cluster, 5)

    assert ownership.is_owned(TFJOB) is (definition is LAUNCHER_CRD)
    assert caplog.messages == messages


async def test_ownership_follows_the_definition() -> None:
    cluster = FakeCluster(None)
    async with asyncio.timeout(20), run_ownership(cluster) as ownership:
        cluster.definition = LAUNCHER_CRD
        await ownership.wait_until(TFJOB, owned=True)
        cluster.definition = OTHER_CRD
        await ownership.wait_until(TFJOB, owned=False)


async def test_an_unavailable_cluster_does_not_change_the_ownership() -> None:
    cluster = FakeCluster(LAUNCHER_CRD)
    async with asyncio.timeout(20), run_ownership(cluster) as ownership:
        await ownership.wait_until(TFJOB, owned=True)
        cluster.definition = Unavailable("down")
        await wait_for_checks(cluster, 5)

        assert ownership.is_owned(TFJOB)


async def test_all_waiters_are_notified() -> None:
    cluster = FakeCluster(None)
    async with asyncio.timeout(20), run_ownership(cluster) as ownership:
        waiters = [asyncio.create_task(ownership.wait_until(TFJOB, owned=True)) for _ in range(3)]
        await wait_for_checks(cluster, 2)
        cluster.definition = LAUNCHER_CRD

        await asyncio.gather(*waiters)


def test_an_unavailable_cluster_is_checked_again_soon() -> None:
    async def scenario() -> float:
        cluster = FakeCluster(Unavailable("down"))
        ownership = JobKindOwnership(cluster.discover, cluster, [TFJOB])
        task = asyncio.create_task(ownership.run())
        await asyncio.sleep(0.5)
        cluster.definition = LAUNCHER_CRD
        await ownership.wait_until(TFJOB, owned=True)
        task.cancel()
        return asyncio.get_running_loop().time()

    assert run(scenario()) < 2
