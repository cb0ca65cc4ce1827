"""The list of Frameworks."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.local.server import FRAMEWORKS, Server

USER = "launcher.microsoft.com/user"


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


@pytest.fixture(scope="module")
def filtered(server: Server) -> tuple[str, str]:
    """The names of a Framework that runs and of one that has failed; they differ in everything that filters select."""
    running = framework("filter-runs", "sleep 600", labels={"team": "vision", USER: "admin"})
    failed = framework("filter-fails", "exit 3", labels={"team": "speech", USER: "ada-example.com"})
    for job in (running, failed):
        server.post(FRAMEWORKS, job)
    server.completed("filter-fails")
    server.runs("filter-runs-worker-0")
    return "filter-runs", "filter-fails"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("name=r-runs", [0], id="part of the name"),
        pytest.param("state=Running", [0], id="state of a running one"),
        pytest.param("state=Failed", [1], id="state of a completed one"),
        pytest.param("state=Succeeded", [], id="state of none"),
        pytest.param("label=team%3Dspeech", [1], id="label"),
        pytest.param("label=team+in+(speech,vision)", [0, 1], id="labels"),
        pytest.param("node=machine", [0, 1], id="node"),
        pytest.param("node=other", [], id="node without pods"),
        pytest.param("namespace=default", [0, 1], id="namespace"),
        pytest.param("namespace=other", [], id="namespace without Frameworks"),
        pytest.param("mine=true", [0], id="mine"),
        pytest.param("mine=true&state=Failed", [], id="two filters"),
    ],
)
def test_each_filter_of_the_url_is_applied_by_the_server(
    dashboard: DashboardTab, filtered: tuple[str, str], query: str, found: list[int]
) -> None:
    dashboard.open(f"frameworks?name=filter-&{query}" if "name=r" not in query else f"frameworks?{query}")
    dashboard.until_streams(1)

    rows = dashboard.page.locator("tbody tr td.name-cell a")
    expect(rows).to_have_count(len(found))
    assert set(rows.all_inner_texts()) == {filtered[index] for index in found}


def test_a_user_name_that_is_no_label_value_selects_its_frameworks(
    dashboard: DashboardTab, filtered: tuple[str, str]
) -> None:
    review = {"status": {"userInfo": {"username": "ada@example.com"}}}
    dashboard.page.route(re.compile("selfsubjectreviews"), lambda route: route.fulfill(json=review))
    dashboard.open("frameworks?name=filter-")
    expect(dashboard.page.locator("tbody tr")).to_have_count(2)

    dashboard.page.get_by_role("checkbox", name="Mine").check()

    expect(dashboard.page.locator("tbody tr")).to_have_count(1)
    expect(dashboard.row("filter-fails")).to_be_visible()
    expect(dashboard.page.get_by_title(f"{USER}=ada-example.com")).to_be_visible()


def test_logs_and_diagnosis_of_a_row_are_opened_by_keys(
    dashboard: DashboardTab, filtered: tuple[str, str]
) -> None:
    for key, heading in (("l", "Logs of filter-fails"), ("w", "filter-fails")):
        dashboard.open("frameworks?name=filter-fails")
        dashboard.row("filter-fails").get_by_role("link").focus()
        dashboard.page.keyboard.press(key)
        dashboard.heading(heading)

    expect(dashboard.page.locator("section").filter(has_text="Why").first).to_be_focused()


def test_the_heading_shows_the_order_of_the_rows(dashboard: DashboardTab, filtered: tuple[str, str]) -> None:
    dashboard.open("frameworks?name=filter-")
    age = dashboard.page.get_by_role("columnheader", name="Age", exact=True)
    # The newest one is first: the lowest age.
    expect(age).to_have_attribute("aria-sort", "ascending")

    dashboard.button("Name").click()

    expect(age).not_to_have_attribute("aria-sort", re.compile(".*"))
    expect(dashboard.page.locator("tbody tr td.name-cell a")).to_have_text(["filter-fails", "filter-runs"])


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
