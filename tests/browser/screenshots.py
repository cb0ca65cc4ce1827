"""
Takes the pictures of docs/dashboard.md: ``python -m tests.browser.screenshots``.

Run it with ``make screenshots`` after a change of the dashboard. With a directory as argument it takes every page
there instead, in both themes and three widths, to look at: ``python -m tests.browser.screenshots build/screenshots``.
Names of pages after it select those.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.browser.dashboard import DashboardTab
from tests.browser.prepare import chromium_path
from tests.browser.samples import framework
from tests.launcher_process import PROJECT
from tests.local.server import FRAMEWORKS, Server

IMAGES = PROJECT / "docs" / "images"
PAGES = {
    "list": "frameworks",
    "list-help": "frameworks",
    "list-empty": "frameworks?name=nothing",
    "list-bulk": "frameworks",
    "framework": "frameworks/default/segmentation",
    "timeline": "frameworks/default/segmentation?tab=timeline",
    "stragglers": "frameworks/default/resnet50-sweep?tab=stragglers",
    "events": "frameworks/default/segmentation?tab=events",
    "yaml": "frameworks/default/segmentation?tab=yaml",
    "grid": "frameworks/default/resnet50-sweep",
    "table": "frameworks/default/resnet50-sweep?view=table",
    "bands": "frameworks/default/hyperparameters?tab=timeline",
    "re-run": "frameworks/default/segmentation",
    "task": "frameworks/default/segmentation/tasks/worker/2",
    "logs": "logs/default/resnet50-sweep",
    "logs-split": "logs/default/resnet50-sweep?task=worker-0&task=worker-1&task=worker-2&layout=split&times=true",
    "logs-merged": "logs/default/resnet50-sweep?task=worker-0&task=worker-1&times=true&search=7",
    "nodes": "nodes",
    "node": "nodes?node=cpu0",
    "submit": "submit",
    "submit-valid": "submit",
    "submit-invalid": "submit",
}
#: The width and height of each window.
_HEIGHTS = {390: 844, 1280: 800, 2560: 1440}


def _submit(tab: DashboardTab, text: str) -> None:
    tab.button("Example").click()
    editor = tab.page.get_by_role("textbox", name="Manifest")
    editor.fill(text.join(editor.input_value().split("taskNumber")))


def _mark_rows(tab: DashboardTab) -> None:
    for name in ("hello", "resnet50-sweep"):
        tab.row(name).get_by_role("checkbox").check()


#: What is done on a page before its picture is taken.
_STEPS: Mapping[str, Callable[[DashboardTab], None]] = {
    "list-help": lambda tab: tab.page.keyboard.press("?"),
    "list-bulk": _mark_rows,
    "re-run": lambda tab: tab.button("Re-run").click(),
    "submit-valid": lambda tab: _submit(tab, "taskNumber"),
    "submit-invalid": lambda tab: _submit(tab, "taskNumer"),
}


def samples() -> Iterator[dict[str, Any]]:
    """Frameworks in different states."""
    yield framework("hello", "echo hello", tasks=2, labels={"user": "ada"})
    yield framework(
        "resnet50-sweep",
        "for i in $(seq 900); do echo step $i; sleep 1; done",
        tasks=24,
        labels={"user": "grace"},
    )
    segmentation = framework(
        "segmentation",
        "sleep $((taskindex + 1)); [ $taskindex != 2 ] || { echo CUDA out of memory >&2; exit 1; }; sleep 9",
        tasks=6,
        labels={"user": "ada"},
    )
    segmentation["spec"]["taskRoles"][0]["task"]["retryPolicy"] = {"maxRetryCount": 1}
    yield segmentation
    large = framework("bert-pretrain", "sleep 900", tasks=4, labels={"user": "linus"})
    task = large["spec"]["taskRoles"][0]["task"]
    task["failFast"] = False
    task["pod"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8}}
    yield large
    yield framework(
        "preprocess-shards", "echo shard $taskindex", tasks=26, role="map", labels={"user": "grace"}
    )
    yield framework(
        "hyperparameters",
        "sleep $((taskindex % 7 + 1)); exit $((taskindex % 90 == 7))",
        tasks=320,
        role="trial",
    )
    held = framework("nightly-report", "sleep 900", role="report", labels={"user": "cron"})
    held["spec"]["executionType"] = "Create"
    yield held


@contextmanager
def filled_server(directory: Path) -> Iterator[Server]:
    """A launcher with all samples, of which the failing one has completed."""
    nodes = ("--node", "gpu0,cpu=16,memory=64Gi,nvidia.com/gpu=4", "--node", "cpu0,cpu=16,memory=64Gi")
    server = Server(directory, *nodes)
    try:
        server.ready()
        for sample in samples():
            server.post(FRAMEWORKS, sample)
        server.completed("segmentation")
        yield server
    finally:
        server.end()


def take(browser: Browser, url: str, page: str, file: Path, *, width: int = 1280, dark: bool = False) -> None:
    """Writes a picture of *page* to *file*."""
    with DashboardTab(browser, url, width=width, height=_HEIGHTS[width], dark=dark) as tab:
        tab.open(PAGES[page])
        tab.page.locator("h1").wait_for()
        tab.page.wait_for_timeout(2500)  # the first changes have arrived, and fonts are loaded
        if page in _STEPS:
            _STEPS[page](tab)
            tab.page.wait_for_timeout(1500)  # the preview is shown
        tab.page.screenshot(path=file, full_page=True)


def main(directory: Path | None, *chosen: str) -> None:
    path = chromium_path()
    assert path is not None, "chromium is missing: run make test-browser"
    with (
        tempfile.TemporaryDirectory() as data,
        sync_playwright() as playwright,
        filled_server(Path(data)) as server,
    ):
        browser = playwright.chromium.launch(executable_path=path)
        if directory is None:
            take(browser, server.url, "list", IMAGES / "dashboard-list.png")
            take(browser, server.url, "timeline", IMAGES / "dashboard-framework.png", dark=True)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            for page in chosen or PAGES:
                for width in _HEIGHTS:
                    for theme in ("light", "dark"):
                        file = directory / f"{page}-{width}-{theme}.png"
                        take(browser, server.url, page, file, width=width, dark=theme == "dark")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None, *sys.argv[2:])
