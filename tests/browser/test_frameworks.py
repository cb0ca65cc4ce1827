"""The list of Frameworks."""

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.local.server import FRAMEWORKS, Server


def test_an_empty_list_shows_how_to_submit_a_framework(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open("frameworks?name=no-such-framework")

    expect(dashboard.page.get_by_text("No Framework matches the filter.")).to_be_visible()

    dashboard.open("frameworks?namespace=empty")
    dashboard.button("Clear the filter").click()
    dashboard.heading("Frameworks")


def test_a_framework_appears_and_completes_without_a_reload(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open()
    dashboard.heading("Frameworks")

    server.post(FRAMEWORKS, framework("appears", "sleep 1"))

    dashboard.state(dashboard.row("appears"), "Succeeded")
    server.delete(f"{FRAMEWORKS}/appears")
    expect(dashboard.row("appears")).to_have_count(0)


def test_a_click_during_an_update_of_the_row_is_not_lost(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("pressed", "sleep 600"))
    dashboard.open("frameworks?name=pressed&sort=name")
    dashboard.state(dashboard.row("pressed"), "Running")
    box = dashboard.row("pressed").get_by_role("checkbox")
    box.hover()
    dashboard.page.mouse.down()

    server.patch(f"{FRAMEWORKS}/pressed", {"metadata": {"labels": {"user": "ada"}}})
    expect(dashboard.row("pressed")).to_contain_text("ada")
    server.post(FRAMEWORKS, framework("pressed-too", "sleep 600"))
    expect(dashboard.row("pressed-too")).to_be_visible()
    dashboard.page.mouse.up()

    expect(box).to_be_checked()


def test_the_list_is_accessible(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("accessible", "true"))
    dashboard.open()
    dashboard.state(dashboard.row("accessible"), "Succeeded")

    assert dashboard.violations() == []


def test_a_launcher_that_has_rejected_a_page_is_connected(dashboard: DashboardTab) -> None:
    dashboard.open("frameworks/default/missing")
    dashboard.heading("Not found")

    expect(dashboard.page.locator("#connection")).to_have_text("Live")


@pytest.mark.parametrize("path", ["nothing", "frameworks/default/missing"])
def test_a_page_that_does_not_exist_links_to_the_list(dashboard: DashboardTab, path: str) -> None:
    dashboard.open(path)

    dashboard.page.get_by_role("link", name="All Frameworks").click()
    dashboard.heading("Frameworks")
