"""The dashboard in Kubernetes mode: the token is that of a user of the cluster, whose rights decide."""

from playwright.sync_api import Browser, expect

from tests.browser.dashboard import DashboardTab
from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.conftest import account, cluster, launch, launcher, namespace, user
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import a_task_pod, frameworks_path

__all__ = ["account", "cluster", "launch", "launcher", "namespace", "user"]


def enter_token(dashboard: DashboardTab, token: str) -> None:
    dialog = dashboard.page.get_by_role("dialog")
    dialog.get_by_label("Token").fill(token)
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog).not_to_be_visible()


def test_a_user_watches_scales_and_deletes_in_its_namespace(
    chromium: Browser, cluster: ControlPlane, launcher: KubeLauncher, namespace: str, user: User
) -> None:
    with DashboardTab(chromium, launcher.url) as dashboard:
        dashboard.open(f"frameworks?namespace={namespace}")
        enter_token(dashboard, user.token)
        expect(dashboard.page.get_by_text("No Framework matches the filter.")).to_be_visible()

        job = a_framework(a_role("worker", 2, pod=a_task_pod()), name="mnist")
        cluster.admin.post(frameworks_path(namespace), job)
        dashboard.state(dashboard.row("mnist"), "Running")
        expect(dashboard.row("mnist").locator(".task-bar")).to_have_attribute("aria-label", "2 running")
        dashboard.page.get_by_role("searchbox", name="Name").fill("mni")
        dashboard.page.get_by_role("combobox", name="State").select_option("Running")
        dashboard.row("mnist").get_by_role("link").click()
        dashboard.heading("mnist")
        dashboard.button("Scale").click()
        dialog = dashboard.page.get_by_role("dialog")
        dialog.get_by_label("worker").fill("3")
        dialog.get_by_role("button", name="Scale", exact=True).click()

        expect(dashboard.page.locator(".legend")).to_contain_text("Running 3")
        dashboard.page.get_by_role("tab", name="YAML").click()
        expect(dashboard.page.locator("pre.yaml")).to_contain_text("taskNumber: 3")
        assert dashboard.violations() == []
        dashboard.button("Delete").click()
        dashboard.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
        expect(dashboard.page.get_by_text("This Framework was deleted.")).to_be_visible()
        dashboard.check()


def test_a_running_framework_is_run_again(
    chromium: Browser, cluster: ControlPlane, launcher: KubeLauncher, namespace: str, user: User
) -> None:
    path = f"{frameworks_path(namespace)}/mnist"
    job = a_framework(a_role("worker", 2, pod=a_task_pod()), name="mnist")
    cluster.admin.post(frameworks_path(namespace), job)
    with DashboardTab(chromium, launcher.url) as dashboard:
        dashboard.open(f"frameworks/{namespace}/mnist")
        enter_token(dashboard, user.token)
        expect(dashboard.page.locator(".legend")).to_contain_text("Running 2")
        first = cluster.admin.get(path)["metadata"]["uid"]

        dashboard.button("Re-run").click()
        dialog = dashboard.page.get_by_role("dialog")
        dialog.get_by_role("button", name="Re-run").click()
        expect(dialog).not_to_be_visible()

        assert cluster.admin.get(path)["metadata"]["uid"] != first
        expect(dashboard.page.locator(".legend")).to_contain_text("Running 2")
        expect(dashboard.button("Re-run")).to_be_visible()
        dashboard.check()


def test_a_user_who_may_only_read_gets_no_actions(
    chromium: Browser, cluster: ControlPlane, launcher: KubeLauncher, namespace: str
) -> None:
    reader = cluster.new_user()
    rules = [{"apiGroups": ["launcher.microsoft.com"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    cluster.grant(reader, rules, namespace=namespace)
    job = a_framework(a_role("worker", 1, pod=a_task_pod("Succeeded")), name="readable")
    cluster.admin.post(frameworks_path(namespace), job)
    with DashboardTab(chromium, launcher.url) as dashboard:
        dashboard.open(f"frameworks/{namespace}/readable")
        enter_token(dashboard, reader.token)
        dashboard.heading("readable")

        expect(dashboard.page.locator(".page-head").get_by_role("link", name="Logs")).to_be_visible()
        expect(dashboard.page.locator(".page-head").get_by_role("button")).to_have_count(0)
        dashboard.open("frameworks")
        expect(dashboard.page.get_by_role("alert").filter(has_text="forbidden")).to_be_visible()
        dashboard.check()
