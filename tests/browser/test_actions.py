"""Actions on Frameworks: every one is confirmed and shows the equivalent command."""

from playwright.sync_api import expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server

TFJOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"


def confirm(dashboard: DashboardTab, action: str, command: str, label: str | None = None) -> None:
    """Clicks the button of *action*, checks the shown command, and confirms."""
    dashboard.page.locator(".page-head, .bulk").get_by_role("button", name=action, exact=True).click()
    dialog = dashboard.page.get_by_role("dialog")
    expect(dialog).to_contain_text(command)
    dialog.get_by_role("button", name=label or action, exact=True).click()
    expect(dialog).not_to_be_visible()


def test_a_suspended_framework_is_started_scaled_and_stopped(dashboard: DashboardTab, server: Server) -> None:
    job = framework("acts", "sleep 600", tasks=1)
    job["spec"]["executionType"] = "Create"
    server.post(FRAMEWORKS, job)
    dashboard.open("frameworks/default/acts")
    badge = dashboard.page.locator(".head-badge")

    confirm(dashboard, "Start", "launcher start acts")
    dashboard.state(badge, "Running")

    dashboard.button("Scale").click()
    dialog = dashboard.page.get_by_role("dialog")
    dialog.get_by_label("worker").fill("3")
    expect(dialog).to_contain_text("launcher scale acts worker=3")
    dialog.get_by_role("button", name="Scale", exact=True).click()
    expect(dashboard.page.locator(".legend")).to_contain_text("Running 3")

    confirm(dashboard, "Stop", "launcher stop acts")
    dashboard.state(badge, "Stopped")
    expect(dashboard.button("Stop")).to_have_count(0)


def test_a_completed_framework_is_run_again_and_deleted(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("again", "true"))
    first = server.completed("again")["metadata"]["uid"]
    dashboard.open("frameworks/default/again")

    confirm(dashboard, "Re-run", "launcher submit again.yaml")
    until(lambda: server.framework("again")["metadata"].get("uid") not in (None, first), "a new Framework")
    server.completed("again")
    dashboard.open("frameworks/default/again")
    confirm(dashboard, "Delete", "launcher delete again")

    expect(dashboard.page.get_by_text("This Framework was deleted.")).to_be_visible()


def test_the_framework_of_a_job_is_deleted_with_the_job(dashboard: DashboardTab, server: Server) -> None:
    container = {"name": "tensorflow", "image": "train", "command": ["sleep", "600"]}
    worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "owner"}}
    server.post(TFJOBS, {**job, "spec": {"tfReplicaSpecs": {"Worker": worker}}})
    until(lambda: server.framework("owner").get("status"), "the Framework of the job")
    dashboard.open("frameworks/default/owner")
    dashboard.state(dashboard.page.locator(".head-badge"), "Running")

    # Its controller would revert any other change.
    expect(dashboard.page.locator(".page-head").get_by_role("button")).to_have_text(["Stop", "Delete"])
    confirm(dashboard, "Delete", "TFJob owner owns this Framework")

    until(lambda: server.get(f"{TFJOBS}/owner")["kind"] == "Status", "the job is deleted")


def test_a_canceled_action_changes_nothing(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("stays", "true"))
    server.completed("stays")
    dashboard.open("frameworks/default/stays")

    dashboard.button("Delete").click()
    dashboard.button("Cancel").click()

    assert "deletionTimestamp" not in server.framework("stays")["metadata"]


def test_a_rejected_action_shows_the_reason(dashboard: DashboardTab, server: Server) -> None:
    server.post(FRAMEWORKS, framework("vanishes", "true"))
    server.completed("vanishes")
    dashboard.open("frameworks/default/vanishes")
    dashboard.button("Delete").click()
    server.delete(f"{FRAMEWORKS}/vanishes")
    until(lambda: server.framework("vanishes")["kind"] == "Status", "it is deleted")

    dialog = dashboard.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete", exact=True).click()

    expect(dialog.get_by_role("alert")).to_contain_text("not found")


def test_selected_frameworks_are_stopped_and_deleted_together(
    dashboard: DashboardTab, server: Server
) -> None:
    for name in ("bulk-a", "bulk-b"):
        server.post(FRAMEWORKS, framework(name, "sleep 600"))
    dashboard.open("frameworks?name=bulk-")
    for name in ("bulk-a", "bulk-b"):
        dashboard.state(dashboard.row(name), "Running")

    for name in ("bulk-a", "bulk-b"):
        dashboard.row(name).get_by_role("checkbox").check()
    confirm(dashboard, "Stop", "launcher stop bulk-a", "Stop 2 Frameworks")
    for name in ("bulk-a", "bulk-b"):
        dashboard.state(dashboard.row(name), "Stopped")
    dashboard.page.get_by_role("checkbox", name="Select all rows of this page").check()
    confirm(dashboard, "Delete", "launcher delete bulk-", "Delete 2 Frameworks")

    expect(dashboard.page.get_by_text("No Framework matches the filter.")).to_be_visible()
