"""A browser, a launcher, and pages that must not violate the Content-Security-Policy or fail with an error."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.dashboard import DashboardTab
from tests.browser.prepare import chromium_path
from tests.local.server import Server


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser, shared by all tests of a worker."""
    path = chromium_path()
    assert path is not None, "chromium is missing: run make test-browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher with one node, shared by the tests of a module."""
    server = Server(tmp_path_factory.mktemp("server"), "--node", "machine,cpu=64,memory=64Gi")
    server.ready()
    yield server
    server.end()


@pytest.fixture
def dashboard(chromium: Browser, server: Server) -> Iterator[DashboardTab]:
    """A new tab on the module's launcher; finally checks that the browser reported no error."""
    with DashboardTab(chromium, server.url) as dashboard:
        yield dashboard
        dashboard.check()
