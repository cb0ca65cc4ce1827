"""Re-run: the Framework is deleted, its pods end in their own time, and it is submitted again."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server

#: Ignores SIGTERM, so that it is killed after the grace period. Each run writes a line; a file ends it.
STUBBORN = "trap '' TERM; echo started >> {runs}; until [ -e {end} ]; do sleep 0.1; done"


def stubborn(name: str, directory: Path, grace_seconds: int) -> dict[str, Any]:
    """A Framework with such a container; *directory* has its files ``runs`` and ``end``."""
    job = framework(name, STUBBORN.format(runs=directory / "runs", end=directory / "end"))
    job["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["terminationGracePeriodSeconds"] = grace_seconds
    return job


def start(dashboard: DashboardTab, server: Server, job: dict[str, Any], runs: Path) -> str:
    """Submits the Framework, waits until its container has started, shows its page, and returns its UID."""
    name = job["metadata"]["name"]
    server.post(FRAMEWORKS, job)
    until(runs.exists, "the container has started")
    dashboard.open(f"frameworks/default/{name}")
    dashboard.state(dashboard.page.locator(".head-badge"), "Running")
    uid: str = server.framework(name)["metadata"]["uid"]
    return uid


def confirm(dashboard: DashboardTab) -> Locator:
    """Confirms the action, and returns its dialog."""
    dashboard.page.locator(".page-head").get_by_role("button", name="Re-run").click()
    dialog = dashboard.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Re-run").click()
    return dialog


def test_a_re_run_waits_for_pods_that_ignore_sigterm(
    dashboard: DashboardTab, server: Server, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    first = start(dashboard, server, stubborn("stubborn", tmp_path, 4), runs)

    dialog = confirm(dashboard)
    expect(dialog.get_by_role("status")).to_contain_text("Waiting until its pods have ended")
    expect(dialog).to_contain_text("within 4s")
    assert dashboard.violations() == []
    # The pod of the first run exists until it is killed; another one would have the same name.
    assert server.get(f"{PODS}/stubborn-worker-0")["metadata"]["ownerReferences"][0]["uid"] == first
    assert runs.read_text() == "started\n"
    expect(dialog).not_to_be_visible()

    until(lambda: runs.read_text() == "started\n" * 2, "the second run")
    assert server.framework("stubborn")["metadata"]["uid"] != first
    expect(dashboard.page.get_by_text("This Framework was deleted.")).not_to_be_visible()
    expect(dashboard.page.locator(".page-head").get_by_role("button")).to_have_text(
        ["Stop", "Scale", "Re-run", "Delete"]
    )


def test_a_re_run_continues_after_a_restart_of_the_launcher(
    dashboard: DashboardTab, server: Server, tmp_path: Path
) -> None:
    first = start(dashboard, server, stubborn("restarted", tmp_path, 5), tmp_path / "runs")
    dialog = confirm(dashboard)
    expect(dialog.get_by_role("status")).to_contain_text("Waiting")

    server.kill()
    expect(dashboard.page.locator("#connection")).to_have_text("Reconnecting…")
    server.start()
    server.ready()

    expect(dialog).not_to_be_visible()
    assert server.framework("restarted")["metadata"]["uid"] != first


def test_a_user_who_does_not_wait_gets_the_manifest(
    dashboard: DashboardTab, server: Server, tmp_path: Path
) -> None:
    start(dashboard, server, stubborn("impatient", tmp_path, 600), tmp_path / "runs")
    dialog = confirm(dashboard)
    expect(dialog.get_by_role("status")).to_contain_text("Waiting")

    dialog.get_by_role("button", name="Stop waiting").click()

    expect(dialog.get_by_role("alert")).to_contain_text("was not submitted again")
    (tmp_path / "end").touch()
    until(lambda: server.framework("impatient")["kind"] == "Status", "it is deleted")
    dialog.get_by_role("button", name="Open its manifest in Submit").click()
    dashboard.heading("Submit")
    expect(dashboard.page.get_by_text("1 object, valid")).to_be_visible()
    dashboard.button("Submit").click()
    dashboard.heading("impatient")
    server.completed("impatient")


def test_nothing_is_deleted_if_the_new_framework_would_be_rejected(
    dashboard: DashboardTab, server: Server
) -> None:
    server.post(FRAMEWORKS, framework("rejected", "true"))
    server.completed("rejected")
    dashboard.open("frameworks/default/rejected")
    rejection = {"kind": "Status", "code": 403, "message": "exceeded quota"}
    dashboard.page.route(re.compile("dryRun=All"), lambda route: route.fulfill(status=403, json=rejection))

    dialog = confirm(dashboard)

    expect(dialog.get_by_role("alert")).to_contain_text("exceeded quota")
    assert "deletionTimestamp" not in server.framework("rejected")["metadata"]


def test_actions_are_shown_after_a_re_run_that_ends_in_the_same_state(
    dashboard: DashboardTab, server: Server
) -> None:
    server.post(FRAMEWORKS, framework("repeated", "true"))
    server.completed("repeated")
    dashboard.open("frameworks/default/repeated")

    for _ in range(2):
        uid = server.framework("repeated")["metadata"]["uid"]
        dialog = confirm(dashboard)
        expect(dialog).not_to_be_visible()
        assert server.completed("repeated")["metadata"]["uid"] != uid

    expect(dashboard.page.locator(".page-head").get_by_role("button", name="Re-run")).to_be_visible()
