"""Errors of the cluster are logged once, retried, and shown at ``/readyz``."""

import asyncio
import logging

import pytest

from launcher.api.cluster_health import ClusterHealth
from launcher.core.errors import Forbidden, LauncherError, NotServed, Unavailable
from launcher.store.interface import Page, ResourceKind
from tests.api.conftest import memory_store


class FailingStore:
    """A store that raises *error*, and counts requests."""

    def __init__(self, error: LauncherError | None = None) -> None:
        self.error, self.requests, self._store = error, 0, memory_store()
        self.requested_often = asyncio.Event()

    async def list(self, kind: ResourceKind, **options: int) -> Page:
        self.requests += 1
        if self.requests > 2:
            self.requested_often.set()
        if self.error is not None:
            raise self.error
        return await self._store.list(kind)


def make_health(cluster: FailingStore, monkeypatch: pytest.MonkeyPatch, fresh: float = 0.0) -> ClusterHealth:
    monkeypatch.setattr("launcher.api.cluster_health._CACHE_SECONDS", fresh)
    return ClusterHealth(cluster)  # type: ignore[arg-type]  # it is asked for lists alone


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        pytest.param(Unavailable("https://c: refused"), "https://c: refused", id="unreachable"),
        pytest.param(NotServed("404"), "kubectl apply --server-side -f", id="no CRD"),
        pytest.param(Forbidden("cannot list"), "deploy/kubernetes/base/rbac.yaml", id="no rights"),
    ],
)
async def test_each_error_is_logged_once_with_its_solution(
    failure: LauncherError,
    words: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = make_health(FailingStore(failure), monkeypatch)

    for _ in range(3):
        with pytest.raises(type(failure)):
            await asyncio.gather(requests.cluster(), requests.frameworks())

    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert words in str(vars(record))


async def test_a_missing_crd_is_distinguished_from_an_unreachable_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unreachable, unknown = FailingStore(Unavailable("down")), FailingStore(NotServed("404"))

    await make_health(unreachable, monkeypatch).frameworks()
    await make_health(unknown, monkeypatch).cluster()
    with pytest.raises(Unavailable):
        await make_health(unreachable, monkeypatch).cluster()
    with pytest.raises(NotServed):
        await make_health(unknown, monkeypatch).frameworks()


async def test_waiting_ends_as_soon_as_the_cluster_is_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FailingStore(NotServed("404"))
    waiting = asyncio.create_task(make_health(cluster, monkeypatch).wait_until_healthy())
    await cluster.requested_often.wait()
    assert not waiting.done()

    cluster.error = None

    async with asyncio.timeout(10):
        await waiting


async def test_concurrent_checks_send_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FailingStore()
    requests = make_health(cluster, monkeypatch, fresh=60.0)

    await asyncio.gather(*(requests.cluster() for _ in range(100)))

    assert cluster.requests == 1


async def test_a_check_of_a_silent_cluster_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class UnresponsiveStore(FailingStore):
        async def list(self, kind: ResourceKind, **options: int) -> Page:
            await asyncio.Event().wait()
            return await super().list(kind, **options)

    monkeypatch.setattr("launcher.api.cluster_health._TIMEOUT_SECONDS", 0.01)

    with pytest.raises(Unavailable, match="no response from the cluster"):
        await make_health(UnresponsiveStore(), monkeypatch).cluster()
