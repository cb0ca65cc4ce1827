"""The serving certificate, managed by several replicas on a store in memory."""

import asyncio
import logging
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from launcher.api.webhook.certificate_manager import SECRET_NAME, CertificateManager
from launcher.core.errors import Forbidden, LauncherError, Unavailable
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Object,
    ResourceKind,
    version_of,
)
from tests.api.webhook.handshakes import shown
from tests.controller.simulation.virtual_time import run
from tests.store.builders import uids

#: In seconds.
DAY = 86_400.0
NAMESPACE = "launchers"


class ConflictingStore(MemoryStore):
    """As its parent, except that others get their turn before every call; and it may refuse."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock, uids())
        self.refusal: Callable[[ResourceKind], Exception | None] = lambda _: None
        #: The number of writes.
        self.writes = 0

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        await self._yield(kind)
        return await super().get(kind, namespace, name)

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        await self._yield(kind)
        self.writes += 1
        return await super().create(kind, obj, dry_run=dry_run)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        await self._yield(kind)
        self.writes += 1
        return await super().update(kind, obj, dry_run=dry_run)

    async def _yield(self, kind: ResourceKind) -> None:
        await asyncio.sleep(0)
        if (error := self.refusal(kind)) is not None:
            raise error


class CertificateHarness:
    """A cluster with the objects of a test, and its clock."""

    def __init__(self, begin: float, *, ticking: bool = False) -> None:
        """The clock stops unless it is *ticking* with the event loop."""
        self._begin, self._ticking = begin, ticking
        #: Seconds that were added to the clock.
        self.waited = 0.0
        self.store = ConflictingStore(lambda: self.now)

    @property
    def waiting(self) -> float:
        """Seconds since the event loop began."""
        return asyncio.get_running_loop().time() if self._ticking else 0.0

    @property
    def now(self) -> float:
        return self._begin + self.waited + self.waiting

    def manager(self, *names: str, **others: Any) -> CertificateManager:
        return CertificateManager(
            self.store, NAMESPACE, names=names, clock=lambda: self.now, jitter=lambda: 0.5, **others
        )

    async def secret(self) -> Object:
        return await self.store.get(SECRETS, NAMESPACE, SECRET_NAME)

    async def kept(self, name: str) -> bytes:
        return b64decode((await self.secret())["data"][name])

    async def change(self, **data: str | None) -> None:
        """Writes *data* to the Secret directly; ``tls_key`` is ``tls.key``."""
        secret = await self.secret()
        changed = secret["data"] | {name.replace("_", "."): value for name, value in data.items()}
        kept = {name: value for name, value in changed.items() if value is not None}
        await self.store.update(SECRETS, {**secret, "data": kept})

    async def configure(self, kind: ResourceKind) -> None:
        """Apply the webhook's configuration, as an admin does."""
        webhook = {"name": "a", "clientConfig": {"service": {"name": "framework-launcher"}}}
        await self.store.create(
            kind,
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": "framework-launcher"},
                "webhooks": [webhook, {**webhook, "name": "b"}],
            },
        )

    async def bundles(self, kind: ResourceKind) -> list[bytes]:
        stored = await self.store.get(kind, "", "framework-launcher")
        return [b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in stored["webhooks"]]


@pytest.fixture
def harness() -> CertificateHarness:
    return CertificateHarness(time.time())


# One certificate for all.


@pytest.mark.parametrize(
    "name",
    [
        "framework-launcher",
        "framework-launcher.launchers",
        "framework-launcher.launchers.svc",
        "framework-launcher.launchers.svc.cluster.local",
        "launcher.example.com",
        "127.0.0.1",
    ],
)
async def test_the_first_launcher_creates_a_valid_certificate(harness: CertificateHarness, name: str) -> None:
    manager = harness.manager("launcher.example.com", "127.0.0.1")

    await manager.prepare()

    shown(manager.context, await harness.kept("ca.crt"), name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shown(manager.context, await harness.kept("ca.crt"), "kubernetes.default.svc")


async def test_the_certificate_is_stored_in_a_secret_of_the_launchers_namespace(
    harness: CertificateHarness,
) -> None:
    await harness.manager().prepare()

    secret = await harness.secret()

    assert secret["type"] == "kubernetes.io/tls"
    assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt", "ca.key"}


async def test_launchers_that_start_together_use_the_same_certificate(harness: CertificateHarness) -> None:
    managers = [harness.manager() for _ in range(5)]

    await asyncio.gather(*(manager.reconcile() for manager in managers))

    assert len({shown(manager.context) for manager in managers}) == 1


async def test_launchers_that_rotate_together_use_the_same_certificate(harness: CertificateHarness) -> None:
    managers = [harness.manager() for _ in range(5)]
    await asyncio.gather(*(manager.prepare() for manager in managers))
    old = shown(managers[0].context)
    version = version_of(await harness.secret())
    harness.waited += 61 * DAY

    await asyncio.gather(*(manager.reconcile() for manager in managers))

    assert {shown(manager.context) for manager in managers} != {old}
    assert len({shown(manager.context) for manager in managers}) == 1
    assert version_of(await harness.secret()) == version + 1


async def test_a_reconcile_of_a_valid_certificate_writes_nothing(harness: CertificateHarness) -> None:
    manager = harness.manager()
    await harness.configure(VALIDATING_WEBHOOKS)
    await manager.prepare()
    await manager.reconcile()
    writes = harness.store.writes

    await manager.reconcile()

    assert harness.store.writes == writes


# When something is wrong with it.


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"tls_crt": b64encode(b"no PEM").decode()}, id="an invalid certificate"),
        pytest.param({"tls_key": b64encode(b"no PEM").decode()}, id="an invalid key"),
        pytest.param({"tls_key": "%%%"}, id="a key that is not even base64"),
        pytest.param({"tls_crt": None, "tls_key": None}, id="nothing"),
        pytest.param({"tls_crt": None, "tls_key": None, "ca_crt": None, "ca_key": None}, id="no data"),
    ],
)
async def test_a_damaged_certificate_is_replaced_and_logged(
    harness: CertificateHarness, caplog: pytest.LogCaptureFixture, damage: dict[str, str | None]
) -> None:
    manager = harness.manager()
    await manager.prepare()
    await harness.change(**damage)

    with caplog.at_level(logging.INFO):
        await manager.reconcile()

    shown(manager.context, await harness.kept("ca.crt"), "framework-launcher")
    assert [line.levelname for line in caplog.records if line.message == "certificate rotated"] == ["WARNING"]


async def test_a_key_of_another_certificate_is_replaced(harness: CertificateHarness) -> None:
    manager = harness.manager()
    await manager.prepare()
    authority_key = (await harness.secret())["data"]["ca.key"]
    await harness.change(tls_key=authority_key)

    await manager.reconcile()

    shown(manager.context, await harness.kept("ca.crt"), "framework-launcher")
    assert (await harness.secret())["data"]["tls.key"] != authority_key


async def test_an_authority_without_its_key_is_trusted_until_its_successor_is_published(
    harness: CertificateHarness,
) -> None:
    manager = harness.manager()
    await manager.prepare()
    old = shown(manager.context)
    await harness.change(ca_key=None)

    await manager.reconcile()

    assert (await harness.kept("ca.crt")).count(b"BEGIN CERTIFICATE") == 2
    assert shown(manager.context, await harness.kept("ca.crt"), "framework-launcher") == old


async def test_a_deleted_secret_is_recreated(harness: CertificateHarness) -> None:
    manager = harness.manager()
    await manager.prepare()
    old = shown(manager.context)
    await harness.store.delete(SECRETS, NAMESPACE, SECRET_NAME)

    await manager.reconcile()

    assert shown(manager.context, await harness.kept("ca.crt"), "framework-launcher") != old


async def secret_of_another_owner(harness: CertificateHarness) -> Object:
    """A Secret of another owner, such as cert-manager."""
    other = CertificateHarness(time.time())
    await other.manager().prepare()
    foreign = (await other.secret())["data"]
    metadata = {"namespace": NAMESPACE, "name": "foreign"}
    data = {name: foreign[name] for name in ("tls.crt", "tls.key", "ca.crt")}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    return await harness.store.create(SECRETS, secret)


async def test_a_secret_of_another_owner_is_loaded_and_never_written(harness: CertificateHarness) -> None:
    foreign = await secret_of_another_owner(harness)
    authority = b64decode(foreign["data"]["ca.crt"])
    await harness.configure(VALIDATING_WEBHOOKS)
    manager = harness.manager("not-in-foreign.example.com", secret="foreign")

    await manager.prepare()
    harness.waited += 80 * DAY
    await manager.reconcile()

    assert await harness.store.get(SECRETS, NAMESPACE, "foreign") == foreign
    assert await harness.bundles(VALIDATING_WEBHOOKS) == [authority] * 2
    shown(manager.context, authority, "framework-launcher")


async def test_an_incomplete_secret_of_another_owner_is_not_loaded(
    harness: CertificateHarness, caplog: pytest.LogCaptureFixture
) -> None:
    first = await secret_of_another_owner(harness)
    manager = harness.manager(secret="foreign")
    await manager.prepare()
    old = shown(manager.context)
    await harness.store.delete(SECRETS, NAMESPACE, "foreign")
    second = await secret_of_another_owner(harness)
    half = {**second["data"], "tls.key": first["data"]["tls.key"]}
    await harness.store.update(SECRETS, {**second, "data": half})

    await manager.reconcile()

    assert shown(manager.context) == old
    assert any(line.message == "certificate cannot be loaded" for line in caplog.records)


# Publication to kube-apiserver.


@pytest.mark.parametrize("kind", [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS])
async def test_the_ca_bundle_is_published_to_every_webhook(
    harness: CertificateHarness, kind: ResourceKind
) -> None:
    await harness.configure(kind)

    await harness.manager().prepare()

    assert await harness.bundles(kind) == [await harness.kept("ca.crt")] * 2


async def test_a_published_ca_bundle_is_followed_by_a_second_update(harness: CertificateHarness) -> None:
    """kube-apiserver may have missed it, and works with what it has until something changes."""
    await harness.configure(VALIDATING_WEBHOOKS)
    manager = harness.manager()
    await manager.prepare()
    published = await harness.store.get(VALIDATING_WEBHOOKS, "", "framework-launcher")

    await manager.reconcile()

    changed = await harness.store.get(VALIDATING_WEBHOOKS, "", "framework-launcher")
    assert version_of(changed) > version_of(published)
    assert changed["webhooks"] == published["webhooks"]


async def test_a_missing_webhook_configuration_is_logged_once(
    harness: CertificateHarness, caplog: pytest.LogCaptureFixture
) -> None:
    manager = harness.manager()

    with caplog.at_level(logging.INFO):
        await manager.prepare()
        await manager.reconcile()

    lines = [line for line in caplog.records if line.message == "webhook configuration not found"]
    assert len(lines) == 2
    assert all(line.levelname == "INFO" for line in lines)


async def test_launchers_that_publish_together_agree(harness: CertificateHarness) -> None:
    await harness.configure(VALIDATING_WEBHOOKS)
    managers = [harness.manager() for _ in range(5)]

    await asyncio.gather(*(manager.prepare() for manager in managers))

    assert await harness.bundles(VALIDATING_WEBHOOKS) == [await harness.kept("ca.crt")] * 2


async def test_a_launcher_without_permission_to_publish_still_serves(harness: CertificateHarness) -> None:
    await harness.configure(VALIDATING_WEBHOOKS)
    harness.store.refusal = lambda kind: None if kind == SECRETS else Forbidden("not yours")
    manager = harness.manager()

    await manager.prepare()

    shown(manager.context, await harness.kept("ca.crt"), "framework-launcher")


async def test_a_new_authority_is_not_used_before_it_is_published(harness: CertificateHarness) -> None:
    await harness.configure(VALIDATING_WEBHOOKS)
    manager = harness.manager()
    await manager.prepare()
    for _ in range(121):  # to two thirds of ten years
        harness.waited += 20 * DAY
        await manager.reconcile()
    old_bundle, old = await harness.kept("ca.crt"), shown(manager.context)

    harness.store.refusal = lambda kind: Forbidden("not now") if kind == VALIDATING_WEBHOOKS else None
    harness.waited += 20 * DAY
    await manager.reconcile()
    harness.waited += 2 * DAY
    await manager.reconcile()
    before_publication = shown(manager.context)
    harness.store.refusal = lambda _: None
    await manager.reconcile()

    new_bundle = await harness.kept("ca.crt")
    assert before_publication == old
    assert new_bundle.count(b"BEGIN CERTIFICATE") == 2
    assert old_bundle in new_bundle
    assert await harness.bundles(VALIDATING_WEBHOOKS) == [new_bundle] * 2
    assert shown(manager.context).issuer != old.issuer


# While it runs, in virtual time.


def run_with_replica(
    act: Callable[[CertificateHarness, CertificateManager], Coroutine[Any, Any, None]], *, age: float = 0.0
) -> None:
    """Runs *act* while a manager runs, with a certificate of that age."""

    async def scenario() -> None:
        harness = CertificateHarness(time.time(), ticking=True)
        await harness.manager().prepare()
        harness.waited = age
        manager = harness.manager()
        await manager.prepare()
        running = asyncio.create_task(manager.run())
        async with asyncio.timeout(2 * DAY):
            await act(harness, manager)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()

    run(scenario())


def test_a_certificate_is_rotated_in_time() -> None:
    async def act(harness: CertificateHarness, manager: CertificateManager) -> None:
        old = shown(manager.context)

        await asyncio.sleep(1.2 * DAY)

        assert shown(manager.context) != old
        assert shown(manager.context).not_valid_before_utc.timestamp() > harness.now - 2 * DAY

    run_with_replica(act, age=59 * DAY)


def test_a_certificate_rotated_by_one_launcher_is_loaded_by_the_others() -> None:
    async def act(harness: CertificateHarness, manager: CertificateManager) -> None:
        await asyncio.sleep(1)
        await harness.change(tls_crt=None)
        other = harness.manager()

        await other.reconcile()
        await asyncio.sleep(1)

        assert shown(manager.context) == shown(other.context)

    run_with_replica(act)


def test_a_deleted_secret_is_recreated_at_once() -> None:
    async def act(harness: CertificateHarness, manager: CertificateManager) -> None:
        await asyncio.sleep(1)
        await harness.store.delete(SECRETS, NAMESPACE, SECRET_NAME)

        await asyncio.sleep(1)

        shown(manager.context, await harness.kept("ca.crt"), "framework-launcher")

    run_with_replica(act)


@pytest.mark.parametrize("kind", [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS])
def test_the_ca_bundle_is_published_to_a_configuration_that_is_created_later(kind: ResourceKind) -> None:
    async def act(harness: CertificateHarness, manager: CertificateManager) -> None:
        await asyncio.sleep(1)
        await harness.configure(kind)

        await asyncio.sleep(1)

        assert await harness.bundles(kind) == [await harness.kept("ca.crt")] * 2

    run_with_replica(act)


def test_an_unavailable_store_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def act(harness: CertificateHarness, manager: CertificateManager) -> None:
        old = shown(manager.context)
        harness.store.refusal = lambda _: Unavailable("unreachable")
        await asyncio.sleep(0.6 * DAY)
        harness.store.refusal = lambda _: None

        await asyncio.sleep(600)

        assert shown(manager.context) != old

    run_with_replica(act, age=59.5 * DAY)

    assert any(line.message == "certificate reconcile failed, retrying" for line in caplog.records)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Unavailable("unreachable"), id="unreachable"),
        pytest.param(Forbidden("secrets is forbidden"), id="rights are missing"),
    ],
)
def test_a_launcher_is_ready_as_soon_as_it_has_permissions(error: LauncherError) -> None:
    async def scenario() -> None:
        harness = CertificateHarness(time.time(), ticking=True)
        harness.store.refusal = lambda _: error if harness.waiting < 60 else None
        manager = harness.manager()

        await manager.prepare()

        assert 60 <= harness.waiting < 75
        shown(manager.context)

    run(scenario())
