"""Everything by keyboard, and on a narrow screen."""

import re

from playwright.sync_api import Browser, expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.local.server import FRAMEWORKS, Server


def test_a_framework_is_found_opened_and_deleted_without_a_mouse(
    dashboard: DashboardTab, server: Server
) -> None:
    for name in ("keys-a", "keys-b"):
        server.post(FRAMEWORKS, framework(name, "true"))
        server.completed(name)
    dashboard.open()
    dashboard.heading("Frameworks")
    keyboard = dashboard.page.keyboard
    dashboard.state(dashboard.row("keys-a"), "Succeeded")

    keyboard.press("/")
    keyboard.type("keys-")
    expect(dashboard.page.locator("tbody tr")).to_have_count(2)
    keyboard.press("Escape")
    first = dashboard.page.evaluate("document.activeElement.textContent")
    keyboard.press("ArrowDown")
    second = dashboard.page.evaluate("document.activeElement.textContent")
    keyboard.press("Enter")

    dashboard.heading(second)
    assert {first, second} == {"keys-a", "keys-b"}
    keyboard.press("3")
    expect(dashboard.page.get_by_role("tab", name="Stragglers")).to_have_attribute("aria-selected", "true")
    dashboard.button("Delete").focus()
    keyboard.press("Enter")
    expect(dashboard.page.get_by_role("dialog")).to_be_visible()
    dashboard.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).focus()
    keyboard.press("Enter")
    expect(dashboard.page.get_by_text("This Framework was deleted.")).to_be_visible()


def test_keys_work_before_the_data_of_a_page_are_read(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("early", "true"))
    with dashboard.held(re.compile(r"/frameworks/early(\?|$)")) as requests:
        dashboard.open("frameworks/default/early")
        dashboard.heading("early")
        requests.wait()

        dashboard.page.keyboard.press("3")

    expect(dashboard.page.get_by_role("tabpanel")).to_contain_text("0 tasks of 1")
    expect(dashboard.page.get_by_role("tab", name="Stragglers")).to_have_attribute("aria-selected", "true")


def test_the_focus_stays_where_the_user_moves_it_while_a_page_loads(
    dashboard: DashboardTab, server: Server
) -> None:
    server.post(FRAMEWORKS, framework("loading", "true"))
    dashboard.open("frameworks?name=loading")
    dashboard.row("loading").get_by_role("link").focus()
    with dashboard.held(re.compile("/frameworks/loading/diagnosis")) as requests:
        dashboard.page.keyboard.press("Enter")
        expect(dashboard.heading("loading")).to_be_focused()
        requests.wait()
        dashboard.page.get_by_role("tab", name="Tasks").focus()

    expect(dashboard.page.locator(".finding, .findings .muted").first).not_to_have_text("Loading…")
    dashboard.settle()
    expect(dashboard.page.get_by_role("tab", name="Tasks")).to_be_focused()


def test_a_link_is_followed_although_the_filter_changes(dashboard: DashboardTab) -> None:
    dashboard.open()
    dashboard.heading("Frameworks")

    dashboard.page.evaluate(
        "() => { location.hash = '#/submit';"
        " document.querySelector('.filters').dispatchEvent(new Event('change')); }"
    )

    dashboard.heading("Submit")


def test_the_help_lists_the_keys_and_switches_them_off(dashboard: DashboardTab) -> None:
    dashboard.open()
    dashboard.heading("Frameworks")
    dashboard.page.keyboard.press("?")
    dialog = dashboard.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Filter by name")
    assert dashboard.violations() == []

    dialog.get_by_role("checkbox").uncheck()
    dialog.get_by_role("button", name="Close").click()
    dashboard.page.keyboard.press("?")

    expect(dialog).not_to_be_visible()


def test_the_first_tab_stop_skips_to_the_content(dashboard: DashboardTab) -> None:
    dashboard.open()
    dashboard.heading("Frameworks")

    dashboard.page.keyboard.press("Tab")
    dashboard.page.keyboard.press("Enter")

    assert dashboard.page.evaluate("document.activeElement.id") == "main"


def test_a_narrow_screen_has_no_horizontal_scrolling(chromium: Browser, server: Server) -> None:
    server.post(FRAMEWORKS, framework("narrow-" + "x" * 40, "exit 3"))
    server.completed("narrow-" + "x" * 40)
    with DashboardTab(chromium, server.url, width=360, height=740) as dashboard:
        for path in ("frameworks", f"frameworks/default/narrow-{'x' * 40}"):
            dashboard.open(path)
            dashboard.page.locator(".badge").first.wait_for()

            assert dashboard.page.evaluate("document.documentElement.scrollWidth") <= 360, path
            expect(dashboard.page.locator("#time-zone")).to_contain_text("UTC+0")
            expect(dashboard.page.get_by_text("UTC+0")).to_be_visible()
        # Rows of tables are blocks, so that no part of them is hidden.
        dashboard.open(f"frameworks/default/narrow-{'x' * 40}?tab=events")
        events = dashboard.page.get_by_role("region", name="Events")
        expect(events).to_contain_text("Scheduled")
        assert events.evaluate("element => element.scrollWidth <= element.clientWidth")
        assert dashboard.violations() == []
        dashboard.check()


def test_the_dark_theme_is_accessible(chromium: Browser, server: Server) -> None:
    server.post(FRAMEWORKS, framework("dark", "exit 3"))
    with DashboardTab(chromium, server.url, dark=True) as dashboard:
        dashboard.open("frameworks/default/dark")
        dashboard.state(dashboard.page.locator(".head-badge"), "Failed")
        assert dashboard.violations() == []

        dashboard.button("Theme: system").click()

        assert dashboard.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
