"""The stream of a tab: interruptions, hidden tabs, tokens and path prefixes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.dashboard import DashboardTab
from tests.browser.prefix_proxy import PrefixProxy
from tests.browser.samples import framework
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server

TOKEN = "0123456789abcdef0123"


def test_a_restart_of_the_launcher_loses_nothing(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open()
    dashboard.heading("Frameworks")
    connection = dashboard.page.locator("#connection")
    expect(connection).to_have_text("Live")

    server.kill()
    expect(connection).to_have_text("Reconnecting…")
    server.start()
    server.ready()
    server.post(FRAMEWORKS, framework("after-restart", "true"))

    dashboard.state(dashboard.row("after-restart"), "Succeeded")
    expect(connection).to_have_text("Live")


def test_a_page_whose_script_was_interrupted_is_shown_when_the_launcher_responds(
    dashboard: DashboardTab,
) -> None:
    dashboard.open()
    dashboard.heading("Frameworks")
    dashboard.page.route("**/pages/nodes.js", lambda route: route.abort(), times=1)

    dashboard.page.get_by_role("link", name="Nodes", exact=True).click()

    dashboard.heading("Nodes")


def test_a_page_whose_script_cannot_be_loaded_has_an_error(dashboard: DashboardTab) -> None:
    dashboard.open()
    dashboard.heading("Frameworks")
    dashboard.page.route("**/pages/nodes.js", lambda route: route.abort())

    dashboard.page.get_by_role("link", name="Nodes", exact=True).click()

    dashboard.heading("This page cannot be shown")
    # The browser reports the module.
    dashboard.errors.clear()


def test_a_tab_has_one_stream_and_none_while_it_is_hidden(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open()
    dashboard.until_streams(1)

    dashboard.hide(hidden=True)
    dashboard.until_streams(0)
    server.post(FRAMEWORKS, framework("while-hidden", "true"))
    server.completed("while-hidden")
    dashboard.hide(hidden=False)

    dashboard.state(dashboard.row("while-hidden"), "Succeeded")
    dashboard.row("while-hidden").get_by_role("link").click()
    dashboard.heading("while-hidden")
    dashboard.until_streams(1)


def test_a_stream_is_resumed_by_its_resource_version(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open()
    dashboard.until_streams(1)
    lists = sum("limit=500" in url and "frameworks" in url for url in dashboard.requests)

    dashboard.hide(hidden=True)
    dashboard.until_streams(0)
    dashboard.hide(hidden=False)
    dashboard.until_streams(1)

    assert sum("limit=500" in url and "frameworks" in url for url in dashboard.requests) == lists


def test_every_request_goes_to_the_launcher(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open()
    dashboard.until_streams(1)

    assert [url for url in dashboard.requests if not url.startswith(f"{server.url}/")] == []


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Server]:
    """A launcher with a token."""
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "--token-file", str(token))
    yield server
    server.end()


def test_the_token_is_entered_once_and_is_in_no_url(chromium: Browser, secured: Server) -> None:
    with DashboardTab(chromium, secured.url) as dashboard:
        dashboard.open()
        dialog = dashboard.page.get_by_role("dialog")
        dialog.get_by_label("Token").fill("wrong")
        dialog.get_by_role("button", name="Continue").click()
        expect(dialog.get_by_role("alert")).to_contain_text("does not accept")
        assert dashboard.violations() == []

        dialog.get_by_label("Token").fill(TOKEN)
        dialog.get_by_role("button", name="Continue").click()

        expect(dashboard.page.get_by_text("There are no Frameworks yet")).to_be_visible()
        dashboard.page.reload()
        expect(dashboard.page.get_by_text("There are no Frameworks yet")).to_be_visible()
        assert dashboard.violations() == []
        assert not any(TOKEN in url for url in dashboard.requests)
        assert dashboard.page.context.cookies() == []
        dashboard.check()


def test_the_dashboard_works_below_a_path_prefix(chromium: Browser, server: Server) -> None:
    server.post(FRAMEWORKS, framework("prefixed", "true"))
    with PrefixProxy(server.url, "/tools/launcher") as proxy, DashboardTab(chromium, proxy.url) as dashboard:
        dashboard.open()

        dashboard.state(dashboard.row("prefixed"), "Succeeded")
        dashboard.row("prefixed").get_by_role("link").click()
        dashboard.heading("prefixed")
        dashboard.button("Delete").click()
        dashboard.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
        until(lambda: server.framework("prefixed")["kind"] == "Status", "it is deleted")
        dashboard.check()


def test_without_the_dashboard_a_browser_gets_the_list_of_paths(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "--dashboard", "off")
    try:
        assert "paths" in server.get("/", "-H", "Accept: text/html")
        assert server.get("/dashboard/app.js")["code"] == 404
    finally:
        server.end()
