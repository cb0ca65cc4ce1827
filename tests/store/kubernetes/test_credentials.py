"""Who the launcher is to a cluster, as that changes."""

import asyncio
import os
from pathlib import Path

import pytest

from launcher.core.errors import Unavailable
from launcher.store.kubernetes.credentials import FixedHeader, Issued, Plugin, TokenFile


async def test_what_is_fixed_stays_and_is_not_to_be_had_otherwise() -> None:
    assert await FixedHeader("Bearer a").header() == "Bearer a"
    assert not await FixedHeader("Bearer a").renewed("Bearer a")
    assert await FixedHeader().header() is None


async def test_a_token_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    token = TokenFile(file)
    assert await token.header() == "Bearer first"

    (tmp_path / "new").write_text("second")
    os.replace(tmp_path / "new", file)

    assert await token.header() == "Bearer second"


async def test_a_token_whose_file_is_away_for_a_moment_is_still_used(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file)
    await token.header()

    file.unlink()
    away = await token.header()
    file.write_text("")
    empty = await token.header()
    file.write_text("second")

    assert (away, empty, await token.header()) == ("Bearer first", "Bearer first", "Bearer second")


@pytest.mark.parametrize("content", [None, "", "\n"])
async def test_without_any_token_nothing_is_sent(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)

    with pytest.raises(Unavailable, match="token"):
        await TokenFile(tmp_path / "token").header()


async def test_a_refused_token_is_replaced_only_by_another(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file)

    assert not await token.renewed("Bearer first")
    assert await token.renewed("Bearer older")


class Issuer:
    """A plugin whose answers are numbered; the clock is the test's."""

    def __init__(self, lasts: float | None) -> None:
        self.now, self.asked, self._lasts = 1000.0, 0, lasts
        self.broken = False
        self.plugin = Plugin(self._issue, lambda: self.now)

    async def _issue(self) -> Issued:
        self.asked += 1
        await asyncio.sleep(0)
        if self.broken:
            raise Unavailable("broken")
        return Issued(f"Bearer {self.asked}", None if self._lasts is None else self.now + self._lasts)


async def test_a_plugin_is_asked_once_by_all_who_need_it_and_again_before_it_runs_out() -> None:
    issuer = Issuer(lasts=600)

    first = await asyncio.gather(*(issuer.plugin.header() for _ in range(5)))
    issuer.now += 530
    before = await issuer.plugin.header()
    issuer.now += 20
    await asyncio.gather(*(issuer.plugin.header() for _ in range(5)))

    assert first == ["Bearer 1"] * 5
    assert before == "Bearer 1"
    assert await issuer.plugin.header() == "Bearer 2"
    assert issuer.asked == 2


async def test_a_plugin_whose_answers_never_last_is_not_asked_all_the_time() -> None:
    issuer = Issuer(lasts=5)

    for _ in range(5):
        await issuer.plugin.header()
        issuer.now += 1

    assert issuer.asked == 1


async def test_a_plugin_is_asked_when_its_answer_is_refused_and_then_not_at_once_again() -> None:
    issuer = Issuer(lasts=None)
    refused = await issuer.plugin.header()

    issuer.now += 3600
    renewed = await asyncio.gather(*(issuer.plugin.renewed(refused) for _ in range(5)))
    at_once = await issuer.plugin.renewed("Bearer 2")

    assert renewed == [True] * 5
    assert await issuer.plugin.header() == "Bearer 2"
    assert not at_once
    assert issuer.asked == 2


async def test_what_a_plugin_gave_is_used_to_the_end_when_it_gives_no_more() -> None:
    issuer = Issuer(lasts=600)
    await issuer.plugin.header()
    issuer.broken = True

    issuer.now += 590

    assert await issuer.plugin.header() == "Bearer 1"
    assert issuer.asked == 2


async def test_a_plugin_that_gives_nothing_at_all_says_so() -> None:
    issuer = Issuer(lasts=600)
    issuer.broken = True

    with pytest.raises(Unavailable, match="broken"):
        await issuer.plugin.header()
