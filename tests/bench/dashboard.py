"""
The dashboard: the first rows of a long list in a browser, the bytes of a large Framework, the load of open tabs.

A browser is needed for the first one only; without chromium it is left out. A tab is one watch of the list as a table.
"""

import gzip
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from playwright.sync_api import sync_playwright

from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner
from launcher.core.serialization.status_json import status_to_json
from launcher.core.status import FrameworkStatus
from tests.bench import Row, row
from tests.bench.plan import NOW, RUNNING, UID, F, an_observed_pod
from tests.bench.plan import a_framework as a_large_framework
from tests.browser.prepare import chromium_path
from tests.local.server import FRAMEWORKS, GROUP, Server
from tests.rig.filled_store import completed_framework, fill
from tests.rig.measured_launcher import (
    ApiConnection,
    a_framework,
    connected,
    directory,
    processor_seconds,
    running_launcher,
    seconds_since,
    wait_until_idle,
)
from tests.rig.watch_clients import watch_clients

STORED = 10_000
TASKS = 10_000
NODES = 100
TASKS_PER_SECOND = 100
TABS = 50
ROUNDS = 3
CHANGES_PER_SECOND = 10
SECONDS = 5
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
#: A text that occurs once in every change.
_MARK = '"bench":"'


def rows() -> list[Row]:
    """Measures a launcher with many Frameworks, and the status of one with many tasks."""
    with directory() as data:
        fill(data / "data" / "store.db", STORED, completed_framework())
        with running_launcher(data) as server, connected(server) as api:
            wait_until_idle(server)
            found = [*_first_rows(server), *_tab_rows(server, api)]
    return [*found, *_size_rows()]


def _first_rows(server: Server) -> Iterator[Row]:
    browser = chromium_path()
    if browser is None:
        return
    list_seconds = min(_list_seconds(server) for _ in range(ROUNDS))
    paint = min(_first_row_seconds(server, browser) for _ in range(ROUNDS))
    name = f"list of {STORED} Frameworks: first rows in a new browser after"
    yield row(name, paint * 1e3, "ms", at_most=3000)
    yield row(f"{name} / one GET of the first page", paint / list_seconds, "ratio")


def _list_seconds(server: Server) -> float:
    start = time.perf_counter()
    server.curl(f"{GROUP}/frameworks?limit=500", "-H", f"Accept: {TABLE}")
    return seconds_since(start)


def _first_row_seconds(server: Server, browser: Path) -> float:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser)
        page = chromium.new_page()
        page.goto(f"{server.url}/")
        page.locator("tbody tr").first.wait_for()
        # Since the start of the navigation; drawn at the latest in the next frame.
        seconds: float = page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => done(performance.now() / 1000)))"
        )
        chromium.close()
    return seconds


def _tab_rows(server: Server, api: ApiConnection) -> Iterator[Row]:
    watched = a_framework("watched", execution="Create")
    api.object("POST", FRAMEWORKS, watched)
    version = api.object("GET", f"{FRAMEWORKS}?limit=1")["metadata"]["resourceVersion"]
    path = f"{GROUP}/frameworks?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
    request = f"GET {path} HTTP/1.1\r\nHost: {server.url[7:]}\r\nAccept: {TABLE}\r\n\r\n"
    alone = _load(server, api)
    with watch_clients(server.url, TABS, _MARK, request) as tabs:
        tabs.all_ready()
        before = processor_seconds(server.pid)
        time.sleep(SECONDS)
        idle = (processor_seconds(server.pid) - before) / SECONDS
        busy = _load(server, api)
    yield row(f"{TABS} tabs, no changes: processor of the launcher", idle * 100, "%", at_most=5)
    name = f"{TABS} tabs, {CHANGES_PER_SECOND} changes per second: processor of the launcher"
    yield row(name, busy * 100, "%")
    yield row(f"{name} / without tabs", busy / max(alone, 0.001), "ratio")


def _load(server: Server, api: ApiConnection) -> float:
    """The share of a processor that the launcher needs while a Framework changes."""
    before, start = processor_seconds(server.pid), time.perf_counter()
    for number in range(SECONDS * CHANGES_PER_SECOND):
        change = {"metadata": {"annotations": {"bench": str(number)}}}
        api.object("PATCH", f"{FRAMEWORKS}/watched", change, "application/merge-patch+json")
        time.sleep(max(0.0, start + (number + 1) / CHANGES_PER_SECOND - time.perf_counter()))
    return (processor_seconds(server.pid) - before) / seconds_since(start)


def _size_rows() -> Iterator[Row]:
    """Measures the status of a Framework whose tasks run on many nodes, since different times."""
    body = orjson.dumps(status_to_json(_running_status(), F, UID))
    name = f"Framework of {TASKS} running tasks"
    yield row(f"{name}: status", len(body) / 1024, "KiB")
    yield row(f"{name}: status with gzip", len(gzip.compress(body, 1)) / 1024, "KiB", at_most=100)


def _running_status() -> FrameworkStatus:
    numbers = random.Random(1)
    planner = Planner(a_large_framework(TASKS), PlannerOptions())
    planner.plan(NOW)
    pods = [
        replace(an_observed_pod(index), uid=str(uuid.UUID(int=numbers.getrandbits(128))))
        for index in range(TASKS)
    ]
    for pod in pods:
        planner.observe_pod(pod)
    planner.plan(NOW)
    numbers.shuffle(pods)
    for number, pod in enumerate(pods):
        node = number % NODES
        ip = f"10.{node}.{number // 250 % 250}.{number % 250}"
        running: dict[str, Any] = {**RUNNING, "version": 2, "node": f"node-{node}", "ip": ip}
        planner.observe_pod(replace(pod, **running))
        if number % TASKS_PER_SECOND == 0:
            planner.plan(NOW + number // TASKS_PER_SECOND)
    planner.plan(NOW + TASKS // TASKS_PER_SECOND)
    return planner.status()
