"""Texts of users are never markup: no script runs, and nothing breaks."""

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.local.server import FRAMEWORKS, Server

SCRIPT = '<img src=x onerror="window.hacked=1;alert(1)"><script>window.hacked=1</script>'
#: Marks that reverse the direction of texts, control characters, and a long word.
ODD = "\u202egnirts\u2066 \u0007 \u0000".replace("\u0000", "") + "x" * 3000
HOSTILE = [SCRIPT, ODD, "${7*7}{{7*7}}", "javascript:alert(1)", "]]>\"'&lt;"]


@pytest.fixture(scope="module")
def hostile(server: Server) -> str:
    """A Framework with hostile texts wherever the API accepts any text; its task prints and fails with them."""
    job = framework("hostile", "true")
    job["metadata"]["annotations"] = {"note": SCRIPT}
    job["spec"]["description"] = "\n".join(HOSTILE)
    container = job["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
    container["env"] = [{"name": "TEXT", "value": "\n".join(HOSTILE)}]
    container["command"] = ["sh", "-c", 'echo "$TEXT"; echo "$TEXT" > /dev/termination-log; exit 5']
    server.post(FRAMEWORKS, job)
    server.completed("hostile")
    return "hostile"


@pytest.mark.parametrize(
    "path",
    [
        "frameworks?name=hostile",
        "frameworks/default/hostile",
        "frameworks/default/hostile?view=table",
        "frameworks/default/hostile?tab=timeline",
        "frameworks/default/hostile?tab=events",
        "frameworks/default/hostile?tab=yaml&part=all",
        "frameworks/default/hostile/tasks/worker/0",
    ],
)
def test_no_text_of_a_user_is_markup(dashboard: DashboardTab, hostile: str, path: str) -> None:
    dashboard.open(path)
    dashboard.page.locator(".badge").first.wait_for()
    expect(dashboard.page.locator("main")).to_contain_text("hostile")
    dashboard.page.wait_for_load_state("load")

    assert dashboard.page.evaluate("window.hacked") is None
    assert dashboard.page.locator("main img, main script").count() == 0


@pytest.mark.parametrize(
    "path",
    [
        "%3Cimg src=x onerror=alert(1)%3E",
        "frameworks/%3Cscript%3E/..%2f..",
        "frameworks?name=%3Cimg%20src=x%20onerror=alert(1)%3E&label=%00",
        "%E0%A4%A",
    ],
)
def test_no_part_of_the_url_is_markup(dashboard: DashboardTab, path: str) -> None:
    dashboard.open(path)
    dashboard.page.locator("h1").wait_for()

    assert dashboard.page.evaluate("window.hacked") is None
    assert dashboard.page.locator("main img, main script").count() == 0
