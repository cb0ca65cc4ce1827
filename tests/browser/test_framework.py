"""The page of a Framework and that of a task."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server

LOG_LINK = re.compile(r"#/logs/default/broken\?task=worker-[01]&attempt=[12]&container=main")
FAILING = "echo loading; echo no such dataset >&2; exit 7"


@pytest.fixture(scope="module")
def failed(server: Server) -> str:
    """The name of a Framework that has failed after a retry of a task."""
    job = framework("broken", FAILING, tasks=2)
    job["spec"]["taskRoles"][0]["task"]["retryPolicy"] = {"maxRetryCount": 1}
    server.post(FRAMEWORKS, job)
    server.completed("broken")
    return "broken"


def test_the_diagnosis_names_the_failed_task_and_the_next_step(dashboard: DashboardTab, failed: str) -> None:
    dashboard.open(f"frameworks/default/{failed}")

    finding = dashboard.page.locator(".finding").first
    expect(finding).to_contain_text("exited with code 7")
    expect(finding).to_contain_text("launcher logs broken worker/")
    finding.locator("summary").click()
    expect(finding.locator(".evidence")).to_contain_text("exitCode")


def test_every_tab_shows_its_content_and_is_accessible(dashboard: DashboardTab, failed: str) -> None:
    dashboard.open(f"frameworks/default/{failed}")
    content = {
        "Tasks": "2 failed",
        "Timeline": "container main exited with code 7",
        "Stragglers": "0 tasks of 2",
        "Events": "At least one task is running.",
        "YAML": "taskRoles:",
    }
    panel = dashboard.page.get_by_role("tabpanel")

    dashboard.button("Table").click()
    expect(panel.get_by_role("row")).to_have_count(3)
    for tab, text in content.items():
        dashboard.page.get_by_role("tab", name=tab).click()
        if tab != "Tasks":
            expect(panel).to_contain_text(text)
        assert dashboard.violations() == []


def test_the_events_of_pods_are_shown_with_those_of_the_framework(
    dashboard: DashboardTab, failed: str
) -> None:
    dashboard.open(f"frameworks/default/{failed}?tab=events")

    rows = dashboard.page.get_by_role("region", name="Events").get_by_role("row")
    expect(rows.filter(has_text="At least one task is running.")).to_contain_text("Framework")
    scheduled = rows.filter(has=dashboard.page.get_by_role("link", name="worker-1")).filter(
        has_text="Scheduled"
    )
    scheduled.first.get_by_role("link").click()
    dashboard.heading("worker-1")


def test_a_link_shows_the_same_tab_and_part(dashboard: DashboardTab, failed: str) -> None:
    dashboard.open(f"frameworks/default/{failed}?tab=yaml")
    dashboard.button("status").click()
    expect(dashboard.page.locator("pre.yaml")).to_contain_text("taskCounts:")
    url = dashboard.page.url

    dashboard.page.goto("about:blank")
    dashboard.page.goto(url)

    expect(dashboard.page.locator("pre.yaml")).to_contain_text("taskCounts:")
    expect(dashboard.page.locator("pre.yaml")).not_to_contain_text("taskRoles:")


def test_a_task_shows_its_attempts_and_its_pod(dashboard: DashboardTab, failed: str) -> None:
    dashboard.open(f"frameworks/default/{failed}?view=table")
    retried = dashboard.page.get_by_role("row").filter(has_text="exited with code 7").first
    retried.get_by_role("link").click()

    attempts = dashboard.page.get_by_role("region", name="Attempts")
    expect(attempts).to_contain_text("container main exited with code 7")
    expect(attempts.get_by_role("link", name="main").first).to_have_attribute("href", LOG_LINK)
    expect(dashboard.page.get_by_role("region", name="Containers")).to_contain_text("exited with 7")
    assert dashboard.violations() == []


def test_the_page_of_a_running_framework_follows_its_tasks(
    dashboard: DashboardTab, server: Server, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    server.post(FRAMEWORKS, framework("follows", f"until [ -e {end} ]; do sleep 0.1; done", tasks=3))
    dashboard.open("frameworks/default/follows")
    dashboard.state(dashboard.page.locator(".head-badge"), "Running")

    end.touch()

    dashboard.state(dashboard.page.locator(".head-badge"), "Succeeded")
    expect(dashboard.page.locator(".legend")).to_contain_text("Succeeded 3")


def test_an_earlier_attempt_of_the_framework_can_be_selected(dashboard: DashboardTab, server: Server) -> None:
    job = framework("retried", "echo try $FC_FRAMEWORK_ATTEMPT_ID; sleep 1; exit 9", tasks=1)
    job["spec"]["retryPolicy"] = {"maxRetryCount": 1}
    server.post(FRAMEWORKS, job)
    server.completed("retried")
    dashboard.open("frameworks/default/retried?view=table")

    dashboard.page.get_by_role("combobox", name="Attempt").select_option("1")

    expect(dashboard.page.get_by_role("tabpanel")).to_contain_text("code 9")
    assert "attempt=1" in dashboard.page.url

    # The task has its attempts in both, each with its log.
    dashboard.open("frameworks/default/retried/tasks/worker/0")
    attempts = dashboard.page.get_by_role("region", name="Attempts").locator("tbody tr")
    expect(attempts).to_have_count(2)
    expect(attempts.first).to_contain_text("2.1")
    attempts.nth(1).get_by_role("link", name="main").click()
    expect(dashboard.page.get_by_role("combobox", name="Attempt")).to_have_value("1.1")
    expect(dashboard.page.locator(".log-line")).to_have_text(["try 0"])
    dashboard.page.get_by_role("combobox", name="Attempt").select_option("current attempt")
    expect(dashboard.page.locator(".log-line")).to_have_text(["try 1"])


def test_the_grid_has_the_colours_of_the_theme(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("painted", "exit 7"))
    server.completed("painted")
    dashboard.open("frameworks/default/painted")
    expect(dashboard.page.locator("canvas")).to_be_visible()
    pixel = """() => {
        const context = new OffscreenCanvas(9, 40).getContext("2d", { willReadFrequently: true });
        context.drawImage(document.querySelector("canvas"), 0, 0);
        return [...context.getImageData(3, 30, 1, 1).data];
    }"""
    colours = {"light": [0xDE, 0x4B, 0x48, 255], "dark": [0xE0, 0x52, 0x4E, 255]}

    for name in ("system", "light"):
        until(lambda: dashboard.page.evaluate(pixel) == colours["light"], "the colour of the light theme")
        dashboard.button(f"Theme: {name}").click()

    until(lambda: dashboard.page.evaluate(pixel) == colours["dark"], "the colour of the dark theme")


def test_the_grid_is_used_by_keyboard(dashboard: DashboardTab, failed: str) -> None:
    dashboard.open(f"frameworks/default/{failed}")
    canvas = dashboard.page.locator("canvas")
    canvas.focus()

    canvas.press("ArrowRight")
    expect(dashboard.page.locator("#announcements")).to_contain_text("worker-1 · ")
    canvas.press("Enter")

    dashboard.heading("worker-1")


def test_bands_of_the_timeline_have_a_legend_and_numbers(dashboard: DashboardTab, server: Server) -> None:
    job = framework("bands", "sleep 600", tasks=301)
    job["spec"]["executionType"] = "Create"
    server.post(FRAMEWORKS, job)
    dashboard.open("frameworks/default/bands?tab=timeline")
    server.patch(f"{FRAMEWORKS}/bands", {"spec": {"executionType": "Start"}})
    legend = dashboard.page.locator(".timeline .legend")
    expect(legend).to_contain_text("Running")
    server.patch(f"{FRAMEWORKS}/bands", {"spec": {"executionType": "Stop"}})
    server.completed("bands")
    dashboard.state(dashboard.page.locator(".head-badge"), "Stopped")
    expect(legend).to_have_text(re.compile("Preparing.*Stopped"))

    dashboard.page.locator(".timeline canvas").hover(position={"x": 600, "y": 60})

    expect(dashboard.page.locator(".tooltip")).to_have_text(re.compile(r"worker at \d\d:\d\d:\d\d: \d+ \w+"))


def test_an_update_draws_only_the_tasks_that_have_changed(
    dashboard: DashboardTab, server: Server, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    command = (
        f"[ $taskindex != 7 ] || until [ -e {end} ]; do sleep 0.1; done; [ $taskindex = 7 ] || sleep 600"
    )
    server.post(FRAMEWORKS, framework("amended", command, tasks=64))
    dashboard.open("frameworks/default/amended")
    legend = dashboard.page.locator(".legend")
    expect(legend).to_have_text(re.compile(r"^\W*Running 64$"))
    dashboard.settle()
    dashboard.page.evaluate(
        """() => {
            const draw = CanvasRenderingContext2D.prototype.fillRect;
            window.drawn = 0;
            CanvasRenderingContext2D.prototype.fillRect = function (...box) { window.drawn++; draw.apply(this, box); };
        }"""
    )

    end.touch()
    expect(legend).to_have_text(re.compile(r"Running 63\W*Succeeded 1$"))
    dashboard.settle()

    assert dashboard.page.evaluate("window.drawn") <= 5
    # Any attribute of the root may change the theme: everything is drawn anew, and looks the same.
    picture = "document.querySelector('canvas').toDataURL()"
    amended = dashboard.page.evaluate(picture)
    dashboard.page.evaluate("document.documentElement.setAttribute('data-drawn', 'anew')")
    dashboard.settle()
    assert dashboard.page.evaluate("window.drawn") > 60
    assert dashboard.page.evaluate(picture) == amended
