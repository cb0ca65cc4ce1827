"""
Fifty tabs at once: what they cost the launcher.

All are tabs of one process of the browser. It opens six connections per origin, so each five tabs have their own one.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.dashboard import load
from tests.browser.figures import record_figure
from tests.browser.prefix_proxy import PrefixProxy
from tests.browser.samples import framework
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server
from tests.rig.measured_launcher import ApiConnection, connected, processor_seconds

TABS = 50
TABS_PER_ORIGIN = 5
SECONDS = 3
CHANGES_PER_SECOND = 10
#: Of one processor; far above what is measured, also on a busy machine.
MAX_IDLE_PERCENT = 25.0
PAGES = {"the list": "frameworks", "a Framework": "frameworks/default/watched"}


@pytest.fixture(scope="module")
def tabs(chromium: Browser, server: Server) -> Iterator[list[Page]]:
    """Fifty tabs with the list, in which a Framework waits to be started."""
    watched = framework("watched", "sleep 600")
    watched["spec"]["executionType"] = "Create"
    server.post(FRAMEWORKS, watched)
    with ExitStack() as stack:
        proxies = [stack.enter_context(PrefixProxy(server.url, "")) for _ in range(TABS // TABS_PER_ORIGIN)]
        context = stack.enter_context(chromium.new_context())
        first = context.new_page()
        load(first, f"{proxies[0].url}/")
        first.evaluate("number => { for (let i = 1; i < number; i++) window.open('about:blank'); }", TABS)

        def are_open() -> bool:
            # Only a call of Playwright processes the events of the browser.
            first.wait_for_timeout(50)
            return len(context.pages) == TABS

        until(are_open, "all tabs are open")
        interrupted: set[str] = set()
        context.on("requestfailed", lambda request: interrupted.add(f"{request.failure} {request.url}"))
        urls = [f"{proxies[number // TABS_PER_ORIGIN].url}/" for number in range(TABS)]
        for page, url in zip(context.pages, urls, strict=True):
            load(page, url, until="commit")
        for page, url in zip(context.pages, urls, strict=True):
            show(page, url, interrupted)
        yield context.pages


def show(page: Page, url: str, interrupted: set[str]) -> None:
    """Waits for the heading; loads the page again if a change of the network interrupted its scripts."""
    try:
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    except AssertionError:
        reasons = {each for each in interrupted if url in each}
        assert any("ERR_NETWORK_CHANGED" in each for each in reasons), reasons
        load(page, url)
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def percent(server: Server, api: ApiConnection, changes_per_second: int) -> float:
    """The share of a processor that the launcher needs while its Framework changes so often."""
    before, start = processor_seconds(server.pid), time.perf_counter()
    for number in range(SECONDS * changes_per_second):
        change = {"metadata": {"labels": {"user": f"user-{number}"}}}
        api.object("PATCH", f"{FRAMEWORKS}/watched", change, "application/merge-patch+json")
        time.sleep(max(0.0, start + (number + 1) / changes_per_second - time.perf_counter()))
    time.sleep(max(0.0, start + SECONDS - time.perf_counter()))
    return (processor_seconds(server.pid) - before) / (time.perf_counter() - start) * 100


@pytest.mark.parametrize("page", PAGES)
def test_fifty_tabs_are_cheap_for_the_launcher(tabs: list[Page], server: Server, page: str) -> None:
    for tab in tabs:
        tab.evaluate("path => { location.hash = `#/${path}`; }", PAGES[page])
    for tab in tabs:
        expect(tab.get_by_role("heading", level=1)).to_have_text(
            "watched" if "watched" in PAGES[page] else "Frameworks"
        )
        expect(tab.locator("#connection")).to_have_text("Live")

    with connected(server) as api:
        idle = percent(server, api, 0)
        busy = percent(server, api, CHANGES_PER_SECOND)

    for tab in tabs:
        expect(tab.locator("main")).to_contain_text(f"user-{SECONDS * CHANGES_PER_SECOND - 1}")
    name = f"{TABS} tabs on {page}"
    record_figure(f"{name}, no changes: processor of the launcher", idle, "%")
    record_figure(f"{name}, {CHANGES_PER_SECOND} changes per second: processor of the launcher", busy, "%")
    assert idle < MAX_IDLE_PERCENT
