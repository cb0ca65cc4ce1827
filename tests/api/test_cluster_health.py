"""A cluster that cannot be worked with is told of in one line, waited for, and shown at ``/readyz``."""

import asyncio
import logging

import pytest

from launcher.api.cluster_health import ClusterHealth
from launcher.core.errors import Forbidden, LauncherError, NotServed, Unavailable
from launcher.store.interface import Page, ResourceKind
from tests.api.conftest import memory_store


class Cluster:
    """Answers as it is told to, and counts how often it was asked."""

    def __init__(self, says: LauncherError | None = None) -> None:
        self.says, self.asked, self._store = says, 0, memory_store()
        self.asked_often = asyncio.Event()

    async def list(self, kind: ResourceKind, **options: int) -> Page:
        self.asked += 1
        if self.asked > 2:
            self.asked_often.set()
        if self.says is not None:
            raise self.says
        return await self._store.list(kind)


def reach(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, fresh: float = 0.0) -> ClusterHealth:
    monkeypatch.setattr("launcher.api.cluster_health._FRESH", fresh)
    return ClusterHealth(cluster)  # type: ignore[arg-type]  # it is asked for lists alone


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        pytest.param(Unavailable("https://c: refused"), "https://c: refused", id="nobody there"),
        pytest.param(NotServed("404"), "kubectl apply --server-side -f", id="no CRD"),
        pytest.param(Forbidden("cannot list"), "deploy/kubernetes/base/rbac.yaml", id="no rights"),
    ],
)
async def test_each_trouble_is_one_line_with_the_way_out(
    trouble: LauncherError,
    words: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = reach(Cluster(trouble), monkeypatch)

    for _ in range(3):
        with pytest.raises(type(trouble)):
            await asyncio.gather(asked.cluster(), asked.frameworks())

    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert words in str(vars(record))


async def test_it_is_told_which_of_the_two_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody, unknown = Cluster(Unavailable("down")), Cluster(NotServed("404"))

    await reach(nobody, monkeypatch).frameworks()
    await reach(unknown, monkeypatch).cluster()
    with pytest.raises(Unavailable):
        await reach(nobody, monkeypatch).cluster()
    with pytest.raises(NotServed):
        await reach(unknown, monkeypatch).frameworks()


async def test_whoever_waits_goes_on_as_soon_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(NotServed("404"))
    waiting = asyncio.create_task(reach(cluster, monkeypatch).granted())
    await cluster.asked_often.wait()
    assert not waiting.done()

    cluster.says = None

    async with asyncio.timeout(10):
        await waiting


async def test_many_who_ask_at_once_cost_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    asked = reach(cluster, monkeypatch, fresh=60.0)

    await asyncio.gather(*(asked.cluster() for _ in range(100)))

    assert cluster.asked == 1


async def test_a_cluster_that_is_silent_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Cluster):
        async def list(self, kind: ResourceKind, **options: int) -> Page:
            await asyncio.Event().wait()
            return await super().list(kind, **options)

    monkeypatch.setattr("launcher.api.cluster_health._PATIENCE", 0.01)

    with pytest.raises(Unavailable, match="has not answered within"):
        await reach(Silent(), monkeypatch).cluster()
