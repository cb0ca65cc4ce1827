"""Ten thousand tasks, and ten thousand Frameworks. The figures depend on the machine; limits are far above them."""

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from launcher.core.completion_codes import Code, completion_for
from launcher.core.status import Condition, State
from tests.browser.dashboard import DashboardTab
from tests.browser.figures import record_figure
from tests.browser.samples import framework
from tests.core.builders import START
from tests.core.statuses import F, a_status, half_failed_with_long_messages, stored_json
from tests.eventually import TIMEOUT_SECONDS
from tests.local.server import FRAMEWORKS, Server
from tests.rig.filled_store import fill

pytestmark = pytest.mark.browser

TASKS = 10_000
LARGE = f"{FRAMEWORKS}/framework-0"
#: A frame must not take longer, even on a slow and busy machine without a graphics card. Those of a blocked page do.
MAX_FRAME_MS = 1000.0
#: Scrolls the grid down, one step per frame; returns the milliseconds between frames and of each drawing.
_SCROLL = """async () => {
  const scroller = document.querySelector(".canvas-scroll");
  const canvas = scroller.querySelector("canvas");
  canvas.frameTimes.length = 0;
  const gaps = [];
  let last = performance.now();
  for (let i = 0; i < 120; i++) {
    scroller.scrollTop = (i * 23) % Math.max(1, scroller.scrollHeight - scroller.clientHeight);
    await new Promise(requestAnimationFrame);
    gaps.push(performance.now() - last);
    last = performance.now();
  }
  return [gaps, [...canvas.frameTimes]];
}"""


def large_framework() -> dict[str, Any]:
    """A completed Framework with 10,000 tasks, of which half have failed, as the launcher stores it."""
    rng = random.Random(1)
    status = a_status(
        half_failed_with_long_messages(rng),
        state=State.COMPLETED,
        completion_time=START + 900,
        conditions=(Condition("Failed", status=True, since=START, reason="Failed"),),
    )
    completion = completion_for(Code.FRAMEWORK_ATTEMPT_COMPLETION, "ended")
    attempt = replace(status.attempt, completion=completion, completion_time=START + 900)
    obj = framework(F, "true", tasks=TASKS, role="w")
    obj["metadata"] |= {"namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    obj["spec"] |= {"executionType": "Start", "ttlSecondsAfterFinished": 1_000_000_000}
    return {**obj, "status": stored_json(replace(status, attempt=attempt))}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher with a Framework of 10,000 tasks."""
    yield from filled(tmp_path_factory.mktemp("large"), 1, large_framework())


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher with 10,000 completed Frameworks."""
    small = large_framework()
    small["spec"]["taskRoles"][0]["taskNumber"] = 2
    tasks = half_failed_with_long_messages(random.Random(1), 2)
    small["status"] |= stored_json(a_status(tasks, state=State.COMPLETED, completion_time=START + 9))
    yield from filled(tmp_path_factory.mktemp("full"), 10_000, small)


def filled(directory: Path, count: int, like: dict[str, Any]) -> Iterator[Server]:
    fill(directory / "data" / "store.db", count, like)
    server = Server(directory, "--node", "machine")
    server.ready()
    yield server
    server.end()


def scroll(page: Page) -> tuple[list[float], list[float]]:
    gaps, drawings = page.evaluate(_SCROLL)
    return gaps, drawings


def until_updated(page: Page) -> Iterator[float]:
    """Scrolls until the page shows the change, and returns the milliseconds between frames."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    is_shown = False
    while not is_shown:
        assert time.monotonic() < deadline, "the change is not shown"
        yield from scroll(page)[0]
        is_shown = page.get_by_text("changed while scrolling").is_visible()


def test_the_grid_of_ten_thousand_tasks_stays_smooth(chromium: Browser, large: Server) -> None:
    with DashboardTab(chromium, large.url) as dashboard:
        dashboard.open("frameworks/default/framework-0")
        expect(dashboard.page.locator(".legend")).to_contain_text("Failed")
        expect(dashboard.page.locator("canvas")).to_have_attribute(
            "aria-label",
            "10000 tasks. Arrow keys select a task, Enter opens it. The table shows the same tasks.",
        )

        gaps, drawings = scroll(dashboard.page)
        record_figure(
            "10,000 tasks: drawing of a frame while scrolling, median", statistics.median(drawings), "ms"
        )
        record_figure(
            "10,000 tasks: time between frames while scrolling, median", statistics.median(gaps), "ms"
        )
        large.patch(LARGE, {"spec": {"description": "changed while scrolling"}})
        updating = list(until_updated(dashboard.page))
        record_figure("10,000 tasks: longest frame while updating", max(updating), "ms")

        assert statistics.median(drawings) < MAX_FRAME_MS
        assert statistics.median(updating) < MAX_FRAME_MS
        dashboard.check()


def test_the_table_and_the_timeline_of_ten_thousand_tasks_are_usable(
    chromium: Browser, large: Server
) -> None:
    with DashboardTab(chromium, large.url) as dashboard:
        dashboard.open("frameworks/default/framework-0?view=table")
        panel = dashboard.page.get_by_role("tabpanel")
        expect(panel.get_by_role("row")).to_have_count(101)
        dashboard.button("Next").click()
        expect(panel).to_contain_text("Page 2 of 100")
        dashboard.page.get_by_role("tab", name="Timeline").click()
        expect(panel.locator("canvas")).to_be_visible()

        assert dashboard.violations() == []
        dashboard.check()


def test_a_click_during_an_update_of_the_table_is_not_lost(chromium: Browser, large: Server) -> None:
    with DashboardTab(chromium, large.url) as dashboard:
        dashboard.open("frameworks/default/framework-0?view=table")
        following = dashboard.button("Next")
        following.scroll_into_view_if_needed()
        dashboard.until_streams(1)
        following.hover()
        dashboard.page.mouse.down()
        large.patch(LARGE, {"spec": {"description": "changed during the click"}})
        # The table is drawn together with the head of the page.
        expect(dashboard.page.get_by_text("changed during the click")).to_be_visible()
        dashboard.page.mouse.up()

        expect(dashboard.page.get_by_role("tabpanel")).to_contain_text("Page 2 of 100")
        expect(following).to_be_focused()


def test_a_framework_of_ten_thousand_tasks_is_sent_compressed(large: Server) -> None:
    sizes = [
        int(
            large.curl(
                f"{LARGE}?pretty=false",
                "-H",
                f"Accept-Encoding: {coding}",
                "--output",
                "/dev/null",
                "-w",
                "%{size_download}",
            )
        )
        for coding in ("gzip", "identity")
    ]

    record_figure("10,000 tasks: bytes of the Framework, compressed", sizes[0] / 1024, "KiB")
    record_figure("10,000 tasks: bytes of the Framework, uncompressed", sizes[1] / 1024, "KiB")
    assert sizes[0] < sizes[1] / 2


def test_a_list_of_ten_thousand_frameworks_has_pages(chromium: Browser, full: Server) -> None:
    with DashboardTab(chromium, full.url) as dashboard:
        dashboard.open()
        rows = dashboard.page.locator("tbody tr")
        expect(rows).to_have_count(500)
        first = dashboard.page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        )
        listed = dashboard.page.evaluate("performance.getEntriesByName('list-shown')[0].startTime")
        record_figure("10,000 Frameworks: first paint", first, "ms")
        record_figure("10,000 Frameworks: 500 rows shown", listed, "ms")

        expect(dashboard.page.locator(".table-foot")).to_contain_text("9,500 more")
        dashboard.button("Next").click()
        expect(dashboard.page.locator(".table-foot")).to_contain_text("page 2")
        expect(rows).to_have_count(500)
        dashboard.page.get_by_role("searchbox", name="Name").fill("work-9999")
        expect(rows).to_have_count(1)
        dashboard.check()
