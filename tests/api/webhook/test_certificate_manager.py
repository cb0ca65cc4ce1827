"""The launcher's own certificate, kept by any number of replicas on a store in memory."""

import asyncio
import logging
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from launcher.api.webhook.certificate_manager import KEPT_IN, CertificateManager
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


class HurriedStore(MemoryStore):
    """As its parent, except that others get their turn before every call; and it may refuse."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock, uids())
        self.refusal: Callable[[ResourceKind], Exception | None] = lambda _: None
        #: How often it was told to change something.
        self.writes = 0

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        await self._turn(kind)
        return await super().get(kind, namespace, name)

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        await self._turn(kind)
        self.writes += 1
        return await super().create(kind, obj, dry_run=dry_run)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        await self._turn(kind)
        self.writes += 1
        return await super().update(kind, obj, dry_run=dry_run)

    async def _turn(self, kind: ResourceKind) -> None:
        await asyncio.sleep(0)
        if (error := self.refusal(kind)) is not None:
            raise error


class World:
    """A cluster in which there is nothing but what a test puts there."""

    def __init__(self, begin: float, *, ticking: bool = False) -> None:
        """Its clock stands still, unless it is *ticking* with that of the event loop."""
        self._begin, self._ticking = begin, ticking
        #: Seconds that have gone by beside that.
        self.waited = 0.0
        self.store = HurriedStore(lambda: self.now)

    @property
    def waiting(self) -> float:
        """Seconds since the event loop began."""
        return asyncio.get_running_loop().time() if self._ticking else 0.0

    @property
    def now(self) -> float:
        return self._begin + self.waited + self.waiting

    def keeper(self, *names: str, **others: Any) -> CertificateManager:
        return CertificateManager(
            self.store, NAMESPACE, names=names, clock=lambda: self.now, chance=lambda: 0.5, **others
        )

    async def secret(self) -> Object:
        return await self.store.get(SECRETS, NAMESPACE, KEPT_IN)

    async def kept(self, name: str) -> bytes:
        return b64decode((await self.secret())["data"][name])

    async def change(self, **data: str | None) -> None:
        """Put *data* into the Secret behind everybody's back; ``tls_key`` is ``tls.key``."""
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
def world() -> World:
    return World(time.time())


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
async def test_the_first_launcher_makes_a_certificate_that_its_clients_can_check(
    world: World, name: str
) -> None:
    keeper = world.keeper("launcher.example.com", "127.0.0.1")

    await keeper.prepare()

    shown(keeper.context, await world.kept("ca.crt"), name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shown(keeper.context, await world.kept("ca.crt"), "kubernetes.default.svc")


async def test_it_is_kept_in_a_secret_of_the_launchers_own_namespace(world: World) -> None:
    await world.keeper().prepare()

    secret = await world.secret()

    assert secret["type"] == "kubernetes.io/tls"
    assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt", "ca.key"}


async def test_launchers_that_start_at_once_show_the_same_certificate(world: World) -> None:
    keepers = [world.keeper() for _ in range(5)]

    await asyncio.gather(*(keeper.look() for keeper in keepers))

    assert len({shown(keeper.context) for keeper in keepers}) == 1


async def test_launchers_that_renew_at_once_show_the_same_certificate(world: World) -> None:
    keepers = [world.keeper() for _ in range(5)]
    await asyncio.gather(*(keeper.prepare() for keeper in keepers))
    old = shown(keepers[0].context)
    version = version_of(await world.secret())
    world.waited += 61 * DAY

    await asyncio.gather(*(keeper.look() for keeper in keepers))

    assert {shown(keeper.context) for keeper in keepers} != {old}
    assert len({shown(keeper.context) for keeper in keepers}) == 1
    assert version_of(await world.secret()) == version + 1


async def test_a_look_that_finds_everything_well_writes_nothing(world: World) -> None:
    keeper = world.keeper()
    await world.configure(VALIDATING_WEBHOOKS)
    await keeper.prepare()
    await keeper.look()
    writes = world.store.writes

    await keeper.look()

    assert world.store.writes == writes


# When something is wrong with it.


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"tls_crt": b64encode(b"no PEM").decode()}, id="a certificate that is none"),
        pytest.param({"tls_key": b64encode(b"no PEM").decode()}, id="a key that is none"),
        pytest.param({"tls_key": "%%%"}, id="a key that is not even base64"),
        pytest.param({"tls_crt": None, "tls_key": None}, id="nothing"),
        pytest.param({"tls_crt": None, "tls_key": None, "ca_crt": None, "ca_key": None}, id="nothing at all"),
    ],
)
async def test_a_damaged_certificate_is_replaced_with_a_word(
    world: World, caplog: pytest.LogCaptureFixture, damage: dict[str, str | None]
) -> None:
    keeper = world.keeper()
    await keeper.prepare()
    await world.change(**damage)

    with caplog.at_level(logging.INFO):
        await keeper.look()

    shown(keeper.context, await world.kept("ca.crt"), "framework-launcher")
    assert [line.levelname for line in caplog.records if line.message == "certificate renewed"] == ["WARNING"]


async def test_a_key_of_another_certificate_is_replaced(world: World) -> None:
    keeper = world.keeper()
    await keeper.prepare()
    authority_key = (await world.secret())["data"]["ca.key"]
    await world.change(tls_key=authority_key)

    await keeper.look()

    shown(keeper.context, await world.kept("ca.crt"), "framework-launcher")
    assert (await world.secret())["data"]["tls.key"] != authority_key


async def test_an_authority_without_its_key_is_trusted_until_its_successor_is_known(world: World) -> None:
    keeper = world.keeper()
    await keeper.prepare()
    old = shown(keeper.context)
    await world.change(ca_key=None)

    await keeper.look()

    assert (await world.kept("ca.crt")).count(b"BEGIN CERTIFICATE") == 2
    assert shown(keeper.context, await world.kept("ca.crt"), "framework-launcher") == old


async def test_a_deleted_secret_is_made_anew(world: World) -> None:
    keeper = world.keeper()
    await keeper.prepare()
    old = shown(keeper.context)
    await world.store.delete(SECRETS, NAMESPACE, KEPT_IN)

    await keeper.look()

    assert shown(keeper.context, await world.kept("ca.crt"), "framework-launcher") != old


async def from_somebody_else(world: World) -> Object:
    """A Secret that the launcher has not made, such as cert-manager's."""
    other = World(time.time())
    await other.keeper().prepare()
    theirs = (await other.secret())["data"]
    metadata = {"namespace": NAMESPACE, "name": "theirs"}
    data = {name: theirs[name] for name in ("tls.crt", "tls.key", "ca.crt")}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    return await world.store.create(SECRETS, secret)


async def test_the_secret_of_somebody_else_is_followed_and_never_written(world: World) -> None:
    theirs = await from_somebody_else(world)
    authority = b64decode(theirs["data"]["ca.crt"])
    await world.configure(VALIDATING_WEBHOOKS)
    keeper = world.keeper("not-in-theirs.example.com", secret="theirs")

    await keeper.prepare()
    world.waited += 80 * DAY
    await keeper.look()

    assert await world.store.get(SECRETS, NAMESPACE, "theirs") == theirs
    assert await world.bundles(VALIDATING_WEBHOOKS) == [authority] * 2
    shown(keeper.context, authority, "framework-launcher")


async def test_what_somebody_else_has_half_written_is_not_taken_up(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first = await from_somebody_else(world)
    keeper = world.keeper(secret="theirs")
    await keeper.prepare()
    old = shown(keeper.context)
    await world.store.delete(SECRETS, NAMESPACE, "theirs")
    second = await from_somebody_else(world)
    half = {**second["data"], "tls.key": first["data"]["tls.key"]}
    await world.store.update(SECRETS, {**second, "data": half})

    await keeper.look()

    assert shown(keeper.context) == old
    assert any(line.message == "certificate cannot be used" for line in caplog.records)


# Telling kube-apiserver.


@pytest.mark.parametrize("kind", [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS])
async def test_every_webhook_is_told_whom_to_trust(world: World, kind: ResourceKind) -> None:
    await world.configure(kind)

    await world.keeper().prepare()

    assert await world.bundles(kind) == [await world.kept("ca.crt")] * 2


async def test_what_was_told_is_followed_by_one_more_change(world: World) -> None:
    """kube-apiserver may have missed it, and works with what it has until something changes."""
    await world.configure(VALIDATING_WEBHOOKS)
    keeper = world.keeper()
    await keeper.prepare()
    told = await world.store.get(VALIDATING_WEBHOOKS, "", "framework-launcher")

    await keeper.look()

    changed = await world.store.get(VALIDATING_WEBHOOKS, "", "framework-launcher")
    assert version_of(changed) > version_of(told)
    assert changed["webhooks"] == told["webhooks"]


async def test_a_configuration_that_is_not_there_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = world.keeper()

    with caplog.at_level(logging.INFO):
        await keeper.prepare()
        await keeper.look()

    lines = [line for line in caplog.records if line.message == "no such webhook configuration"]
    assert len(lines) == 2
    assert all(line.levelname == "INFO" for line in lines)


async def test_launchers_that_tell_at_once_agree(world: World) -> None:
    await world.configure(VALIDATING_WEBHOOKS)
    keepers = [world.keeper() for _ in range(5)]

    await asyncio.gather(*(keeper.prepare() for keeper in keepers))

    assert await world.bundles(VALIDATING_WEBHOOKS) == [await world.kept("ca.crt")] * 2


async def test_a_launcher_that_may_not_tell_serves_all_the_same(world: World) -> None:
    await world.configure(VALIDATING_WEBHOOKS)
    world.store.refusal = lambda kind: None if kind == SECRETS else Forbidden("not yours")
    keeper = world.keeper()

    await keeper.prepare()

    shown(keeper.context, await world.kept("ca.crt"), "framework-launcher")


async def test_a_new_authority_is_not_used_before_kube_apiserver_knows_it(world: World) -> None:
    await world.configure(VALIDATING_WEBHOOKS)
    keeper = world.keeper()
    await keeper.prepare()
    for _ in range(121):  # to two thirds of ten years
        world.waited += 20 * DAY
        await keeper.look()
    old_bundle, old = await world.kept("ca.crt"), shown(keeper.context)

    world.store.refusal = lambda kind: Forbidden("not now") if kind == VALIDATING_WEBHOOKS else None
    world.waited += 20 * DAY
    await keeper.look()
    world.waited += 2 * DAY
    await keeper.look()
    while_untold = shown(keeper.context)
    world.store.refusal = lambda _: None
    await keeper.look()

    new_bundle = await world.kept("ca.crt")
    assert while_untold == old
    assert new_bundle.count(b"BEGIN CERTIFICATE") == 2
    assert old_bundle in new_bundle
    assert await world.bundles(VALIDATING_WEBHOOKS) == [new_bundle] * 2
    assert shown(keeper.context).issuer != old.issuer


# While it runs, in virtual time.


def beside(
    act: Callable[[World, CertificateManager], Coroutine[Any, Any, None]], *, age: float = 0.0
) -> None:
    """Let *act* happen beside a keeper that runs, on a certificate of that age."""

    async def play() -> None:
        world = World(time.time(), ticking=True)
        await world.keeper().prepare()
        world.waited = age
        keeper = world.keeper()
        await keeper.prepare()
        running = asyncio.create_task(keeper.run())
        async with asyncio.timeout(2 * DAY):
            await act(world, keeper)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()

    run(play())


def test_a_certificate_is_renewed_in_time() -> None:
    async def act(world: World, keeper: CertificateManager) -> None:
        old = shown(keeper.context)

        await asyncio.sleep(1.2 * DAY)

        assert shown(keeper.context) != old
        assert shown(keeper.context).not_valid_before_utc.timestamp() > world.now - 2 * DAY

    beside(act, age=59 * DAY)


def test_what_one_launcher_renews_the_others_take_up_at_once() -> None:
    async def act(world: World, keeper: CertificateManager) -> None:
        await asyncio.sleep(1)
        await world.change(tls_crt=None)
        other = world.keeper()

        await other.look()
        await asyncio.sleep(1)

        assert shown(keeper.context) == shown(other.context)

    beside(act)


def test_a_secret_that_was_deleted_is_there_again_at_once() -> None:
    async def act(world: World, keeper: CertificateManager) -> None:
        await asyncio.sleep(1)
        await world.store.delete(SECRETS, NAMESPACE, KEPT_IN)

        await asyncio.sleep(1)

        shown(keeper.context, await world.kept("ca.crt"), "framework-launcher")

    beside(act)


@pytest.mark.parametrize("kind", [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS])
def test_a_configuration_that_comes_later_is_told_at_once(kind: ResourceKind) -> None:
    async def act(world: World, keeper: CertificateManager) -> None:
        await asyncio.sleep(1)
        await world.configure(kind)

        await asyncio.sleep(1)

        assert await world.bundles(kind) == [await world.kept("ca.crt")] * 2

    beside(act)


def test_a_store_that_is_away_for_a_while_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def act(world: World, keeper: CertificateManager) -> None:
        old = shown(keeper.context)
        world.store.refusal = lambda _: Unavailable("nobody is there")
        await asyncio.sleep(0.6 * DAY)
        world.store.refusal = lambda _: None

        await asyncio.sleep(600)

        assert shown(keeper.context) != old

    beside(act, age=59.5 * DAY)

    assert any(line.message == "certificate not kept, trying again" for line in caplog.records)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Unavailable("nobody is there"), id="nobody answers"),
        pytest.param(Forbidden("secrets is forbidden"), id="rights are missing"),
    ],
)
def test_a_launcher_is_ready_as_soon_as_its_cluster_lets_it(error: LauncherError) -> None:
    async def play() -> None:
        world = World(time.time(), ticking=True)
        world.store.refusal = lambda _: error if world.waiting < 60 else None
        keeper = world.keeper()

        await keeper.prepare()

        assert 60 <= world.waiting < 75
        shown(keeper.context)

    run(play())
