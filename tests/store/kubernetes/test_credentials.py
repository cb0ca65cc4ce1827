"""Credentials for a cluster: fixed, from a file, and from a plugin."""

import asyncio
import os
from pathlib import Path

import pytest

from launcher.core.errors import Unavailable
from launcher.store.kubernetes.credentials import CredentialPlugin, FixedHeader, IssuedCredentials, TokenFile


async def test_a_fixed_header_never_changes() -> None:
    assert await FixedHeader("Bearer a").header() == "Bearer a"
    assert not await FixedHeader("Bearer a").refresh("Bearer a")
    assert await FixedHeader().header() is None


async def test_a_token_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    token = TokenFile(file)
    assert await token.header() == "Bearer first"

    (tmp_path / "new").write_text("second")
    os.replace(tmp_path / "new", file)

    assert await token.header() == "Bearer second"


async def test_a_token_is_used_while_its_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file)
    await token.header()

    file.unlink()
    unreadable = await token.header()
    file.write_text("")
    empty = await token.header()
    file.write_text("second")

    assert (unreadable, empty, await token.header()) == ("Bearer first", "Bearer first", "Bearer second")


@pytest.mark.parametrize("content", [None, "", "\n"])
async def test_an_empty_token_file_sends_no_header(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)

    with pytest.raises(Unavailable, match="token"):
        await TokenFile(tmp_path / "token").header()


async def test_a_rejected_token_is_replaced_only_by_another(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file)

    assert not await token.refresh("Bearer first")
    assert await token.refresh("Bearer older")


class FakePlugin:
    """A plugin whose tokens are numbered, with a clock of the test."""

    def __init__(self, lasts: float | None) -> None:
        self.now, self.calls, self._lasts = 1000.0, 0, lasts
        self.broken = False
        self.plugin = CredentialPlugin(self._issue, lambda: self.now)

    async def _issue(self) -> IssuedCredentials:
        self.calls += 1
        await asyncio.sleep(0)
        if self.broken:
            raise Unavailable("broken")
        return IssuedCredentials(
            f"Bearer {self.calls}", None if self._lasts is None else self.now + self._lasts
        )


async def test_a_plugin_runs_once_for_concurrent_calls_and_again_before_expiry() -> None:
    plugin = FakePlugin(lasts=600)

    first = await asyncio.gather(*(plugin.plugin.header() for _ in range(5)))
    plugin.now += 530
    before = await plugin.plugin.header()
    plugin.now += 20
    await asyncio.gather(*(plugin.plugin.header() for _ in range(5)))

    assert first == ["Bearer 1"] * 5
    assert before == "Bearer 1"
    assert await plugin.plugin.header() == "Bearer 2"
    assert plugin.calls == 2


async def test_a_plugin_with_short_lived_tokens_is_rate_limited() -> None:
    plugin = FakePlugin(lasts=5)

    for _ in range(5):
        await plugin.plugin.header()
        plugin.now += 1

    assert plugin.calls == 1


async def test_a_plugin_runs_again_after_a_rejection_with_a_rate_limit() -> None:
    plugin = FakePlugin(lasts=None)
    rejected = await plugin.plugin.header()

    plugin.now += 3600
    refresh = await asyncio.gather(*(plugin.plugin.refresh(rejected) for _ in range(5)))
    immediately = await plugin.plugin.refresh("Bearer 2")

    assert refresh == [True] * 5
    assert await plugin.plugin.header() == "Bearer 2"
    assert not immediately
    assert plugin.calls == 2


async def test_issued_credentials_are_used_while_the_plugin_fails() -> None:
    plugin = FakePlugin(lasts=600)
    await plugin.plugin.header()
    plugin.broken = True

    plugin.now += 590

    assert await plugin.plugin.header() == "Bearer 1"
    assert plugin.calls == 2


async def test_a_plugin_that_never_succeeds_is_unavailable() -> None:
    plugin = FakePlugin(lasts=600)
    plugin.broken = True

    with pytest.raises(Unavailable, match="broken"):
        await plugin.plugin.header()
