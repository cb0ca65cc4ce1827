"""Nodes, Submit and Logs in Kubernetes mode, with the rights of the user."""

import json

from playwright.sync_api import Browser, expect

from tests.browser.dashboard import DashboardTab
from tests.browser.test_kubernetes import enter_token
from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.conftest import account, cluster, launch, launcher, namespace, user
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import a_task_pod, frameworks_path

__all__ = ["account", "cluster", "launch", "launcher", "namespace", "user"]


def test_a_user_submits_in_its_namespace_only(
    chromium: Browser, cluster: ControlPlane, launcher: KubeLauncher, namespace: str, user: User
) -> None:
    job = a_framework(a_role("worker", 2, pod=a_task_pod()), name="mnist")
    with DashboardTab(chromium, launcher.url) as dashboard:
        dashboard.open(f"submit?namespace={namespace}")
        enter_token(dashboard, user.token)
        dashboard.page.get_by_role("textbox", name="Manifest").fill(json.dumps(job))
        expect(dashboard.page.get_by_text("1 object, valid")).to_be_visible()
        dashboard.page.get_by_role("textbox", name="Namespace").fill("default")
        expect(dashboard.page.get_by_role("alert")).to_contain_text("list frameworks")
        expect(dashboard.button("Submit")).to_be_disabled()
        dashboard.page.get_by_role("textbox", name="Namespace").fill(namespace)
        expect(dashboard.button("Submit")).to_be_enabled()

        dashboard.button("Submit").click()

        dashboard.heading("mnist")
        assert cluster.admin.get(f"{frameworks_path(namespace)}/mnist")["metadata"]["name"] == "mnist"
        dashboard.check()


def test_nodes_are_shown_to_a_user_who_may_not_list_pods(
    chromium: Browser, cluster: ControlPlane, launcher: KubeLauncher
) -> None:
    reader = cluster.new_user()
    cluster.grant(reader, [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])
    with DashboardTab(chromium, launcher.url) as dashboard:
        dashboard.open("nodes")
        enter_token(dashboard, reader.token)
        dashboard.heading("Nodes")

        expect(dashboard.page.get_by_text("You may not list pods of all namespaces")).to_be_visible()
        expect(dashboard.page.get_by_role("heading", name="10 nodes")).to_be_visible()
        dashboard.check()


def test_a_log_that_cannot_be_read_has_a_reason(
    chromium: Browser, cluster: ControlPlane, launcher: KubeLauncher, namespace: str, user: User
) -> None:
    cluster.admin.post(
        frameworks_path(namespace), a_framework(a_role("worker", 1, pod=a_task_pod()), name="silent")
    )
    with DashboardTab(chromium, launcher.url) as dashboard:
        dashboard.open(f"frameworks/{namespace}/silent")
        enter_token(dashboard, user.token)
        expect(dashboard.page.locator(".legend")).to_contain_text("Running 1")

        dashboard.open(f"logs/{namespace}/silent")

        # The simulated nodes serve no logs.
        expect(dashboard.page.locator(".log-state")).to_contain_text("worker-0: ")
        dashboard.check()
