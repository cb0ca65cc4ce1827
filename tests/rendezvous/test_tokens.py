"""A token is good for one attempt of one Framework, and nobody can make one without the launcher's key."""

import stat
from pathlib import Path

import pytest

from launcher.core.errors import AlreadyExists, Conflict, Forbidden, LauncherError, Unavailable
from launcher.rendezvous.tokens import SECRET, Tokens, filed_key, shared_key
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import SECRETS, Object, ResourceKind
from tests.api.conftest import memory_store

UID = "5a0c1bb8-7c33-4a8b-9a55-6d1f2f0f8a3e"


def tokens(key: bytes = b"k" * 32) -> Tokens:
    async def fetch() -> bytes:
        return key

    return Tokens(fetch)


async def test_a_token_tells_whose_it_is() -> None:
    token = await tokens().token(UID, 3)

    assert await tokens().verify_token(token, 3) == UID


async def test_tokens_of_other_attempts_and_frameworks_are_others() -> None:
    made = {await tokens().token(uid, attempt) for uid in (UID, UID[::-1]) for attempt in (0, 1)}

    assert len(made) == 4


async def test_a_token_for_another_attempt_is_refused_and_says_so() -> None:
    token = await tokens().token(UID, 1)

    with pytest.raises(Forbidden, match=r"this token is for attempt 1, not for attempt 2"):
        await tokens().verify_token(token, 2)


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param(lambda token: token.replace("1.", "2.", 1), id="made into one of another attempt"),
        pytest.param(lambda token: token.replace(UID, UID[::-1]), id="made into one of another Framework"),
        pytest.param(lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"), id="guessed"),
        pytest.param(lambda token: token[:-1], id="cut short"),
        pytest.param(lambda token: token + "\n", id="with more behind it"),
        pytest.param(lambda token: "", id="nothing at all"),
        pytest.param(lambda token: "ä" * 50, id="no token"),
    ],
)
async def test_a_token_that_we_did_not_make_is_refused(spoilt: object) -> None:
    assert callable(spoilt)
    token = spoilt(await tokens().token(UID, 1))

    for attempt in (1, 2):
        with pytest.raises(Forbidden, match="not made by this launcher") as refused:
            await tokens().verify_token(token, attempt)
        assert not token or token not in str(refused.value)


async def test_another_key_makes_other_tokens() -> None:
    token = await tokens(b"a" * 32).token(UID, 1)

    with pytest.raises(Forbidden):
        await tokens(b"b" * 32).verify_token(token, 1)


async def test_a_key_that_cannot_be_had_is_fetched_again_later() -> None:
    answers: list[bytes | LauncherError] = [Unavailable("not now"), b"k" * 32]

    async def fetch() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, LauncherError):
            raise answer
        return answer

    ours = Tokens(fetch)
    with pytest.raises(Unavailable):
        await ours.token(UID, 0)

    assert await ours.token(UID, 0) == await tokens().token(UID, 0)
    assert await ours.verify_token(await ours.token(UID, 0), 0) == UID
    assert answers == []


def test_the_key_of_a_machine_is_kept_where_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "key"

    key = filed_key(path)

    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert filed_key(path) == key
    assert filed_key(tmp_path / "other") != key


def test_a_key_that_others_could_read_is_theirs_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = filed_key(path)
    path.chmod(0o644)

    assert filed_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_written_half_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"half")
    (tmp_path / "key.new").write_bytes(b"")

    assert len(filed_key(path)) == 32


async def test_all_replicas_share_the_key_that_the_first_has_made() -> None:
    store = memory_store()

    assert await shared_key(store, "home") == await shared_key(store, "home")


class Racing(MemoryStore):
    """Another replica makes every object a moment before us."""

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        data = {"key": "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg="}
        await super().create(kind, {**obj, "data": data}, dry_run=dry_run)
        raise AlreadyExists("another was faster")


async def test_who_comes_second_takes_the_key_of_the_first() -> None:
    store = Racing(lambda: 0.0, lambda: UID)

    assert await shared_key(store, "home") == b"x" * 32


@pytest.mark.parametrize(
    "data", [{}, {"key": "eA=="}, {"key": "?"}], ids=["none", "a short one", "no base64"]
)
async def test_a_secret_without_a_key_is_for_an_admin_to_delete(data: dict[str, str]) -> None:
    store = memory_store()
    metadata = {"name": SECRET, "namespace": "home"}
    await store.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    with pytest.raises(Conflict, match="delete it, and it is made anew"):
        await shared_key(store, "home")
