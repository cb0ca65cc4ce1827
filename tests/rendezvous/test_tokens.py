"""A token is valid for one attempt of one Framework, and cannot be created without the launcher's key."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.core.errors import AlreadyExists, Conflict, Forbidden, LauncherError, Unavailable
from launcher.rendezvous.tokens import SECRET_NAME, Tokens, key_from_file, key_from_secret
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import SECRETS, Object, ResourceKind
from tests.api.conftest import memory_store
from tests.rendezvous.harness import UID, some_tokens


async def test_verification_returns_the_uid_of_the_framework() -> None:
    token = await some_tokens().create_token(UID, 3)

    assert await some_tokens().verify_token(token, 3) == UID


async def test_every_attempt_of_every_framework_has_its_own_token() -> None:
    tokens = {
        await some_tokens().create_token(uid, attempt) for uid in (UID, UID[::-1]) for attempt in (0, 1)
    }

    assert len(tokens) == 4


async def test_a_token_of_another_attempt_is_rejected() -> None:
    token = await some_tokens().create_token(UID, 1)

    with pytest.raises(Forbidden, match=r"the token is valid for attempt 1, not for attempt 2"):
        await some_tokens().verify_token(token, 2)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda token: token.replace("1.", "2.", 1), id="another attempt"),
        pytest.param(lambda token: token.replace(UID, UID[::-1]), id="another Framework"),
        pytest.param(lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"), id="another signature"),
        pytest.param(lambda token: token[:-1], id="truncated"),
        pytest.param(lambda token: token + "\n", id="appended"),
        pytest.param(lambda token: "", id="empty"),
        pytest.param(lambda token: "ä" * 50, id="not a token"),
    ],
)
async def test_a_changed_token_is_rejected(change: Callable[[str], str]) -> None:
    token = change(await some_tokens().create_token(UID, 1))

    for attempt in (1, 2):
        with pytest.raises(Forbidden, match="not issued by this launcher") as failure:
            await some_tokens().verify_token(token, attempt)
        assert not token or token not in str(failure.value)


async def test_a_token_with_another_key_is_rejected() -> None:
    token = await some_tokens(b"a" * 32).create_token(UID, 1)

    with pytest.raises(Forbidden):
        await some_tokens(b"b" * 32).verify_token(token, 1)


async def test_a_key_that_is_not_available_is_fetched_again() -> None:
    results: list[bytes | LauncherError] = [Unavailable("not now"), b"k" * 32]

    async def key_provider() -> bytes:
        result = results.pop(0)
        if isinstance(result, LauncherError):
            raise result
        return result

    tokens = Tokens(key_provider)
    with pytest.raises(Unavailable):
        await tokens.create_token(UID, 0)

    assert await tokens.create_token(UID, 0) == await some_tokens().create_token(UID, 0)
    assert await tokens.verify_token(await tokens.create_token(UID, 0), 0) == UID
    assert results == []


def test_only_the_owner_can_read_the_key_file(tmp_path: Path) -> None:
    path = tmp_path / "key"

    key = key_from_file(path)

    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key_from_file(path) == key
    assert key_from_file(tmp_path / "other") != key


def test_the_mode_of_an_existing_key_file_is_corrected(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = key_from_file(path)
    path.chmod(0o644)

    assert key_from_file(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_incomplete_key_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"half")
    (tmp_path / "key.new").write_bytes(b"")

    assert len(key_from_file(path)) == 32


async def test_all_replicas_share_the_key_in_the_secret() -> None:
    store = memory_store()

    assert await key_from_secret(store, "home") == await key_from_secret(store, "home")


class RacingStore(MemoryStore):
    """Another replica creates every object just before this one."""

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        data = {"key": "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg="}
        await super().create(kind, {**obj, "data": data}, dry_run=dry_run)
        raise AlreadyExists("created by another replica")


async def test_a_replica_uses_the_key_that_another_replica_created_first() -> None:
    store = RacingStore(lambda: 0.0, lambda: UID)

    assert await key_from_secret(store, "home") == b"x" * 32


@pytest.mark.parametrize(
    "data", [{}, {"key": "eA=="}, {"key": "?"}], ids=["no key", "short key", "not base64"]
)
async def test_a_secret_without_a_key_is_an_error_with_the_command_to_delete_it(data: dict[str, str]) -> None:
    store = memory_store()
    metadata = {"name": SECRET_NAME, "namespace": "home"}
    await store.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    with pytest.raises(Conflict, match="delete it to create a new one"):
        await key_from_secret(store, "home")
