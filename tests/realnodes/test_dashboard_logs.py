"""The logs page of the dashboard, in Kubernetes mode, with pods of two real kubelets."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import chromium
from tests.browser.dashboard import DashboardTab
from tests.browser.prepare import chromium_path
from tests.browser.test_kubernetes import enter_token
from tests.builders import Json, a_framework, a_role
from tests.cluster.users import User
from tests.eventually import until
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient
from tests.realnodes.bed import RealNodes
from tests.realnodes.pods import a_real_pod, host_data_mount, host_data_volume
from tests.realnodes.test_log_archive import launcher, s3_server, user

__all__ = ["chromium", "launcher", "s3_server", "user"]

pytestmark = pytest.mark.skipif(
    chromium_path() is None, reason="it needs chromium, which make test-node installs"
)

#: Prints a second line when the node has a file of the namespace, and ends when it has another one.
FOLLOWED = "echo one; {second}; echo two; {third}; echo three"
WAITING = "until [ -e /host/{file} ]; do sleep 0.1; done"


def a_followed_role(name: str, node: str, namespace: str) -> Json:
    """A role with one task on that node, which prints a line for each file of the namespace on it."""
    second, third = (WAITING.format(file=f"{namespace}-{word}") for word in ("second", "third"))
    script = FOLLOWED.format(second=second, third=third)
    return a_role(name, 1, pod=a_real_pod(script, container=host_data_mount(), **host_data_volume(node)))


@pytest.fixture
def dashboard(chromium: Browser, launcher: KubeLauncher) -> Iterator[DashboardTab]:
    """A new tab on a launcher with an archive of logs."""
    with DashboardTab(chromium, launcher.url) as tab:
        yield tab
        tab.check()


def lines(dashboard: DashboardTab, pane: int = 0) -> Locator:
    return dashboard.page.locator(".log-pane").nth(pane).locator(".log-line")


def test_logs_of_tasks_on_two_nodes_are_followed_merged_and_shown_side_by_side(
    dashboard: DashboardTab, bed: RealNodes, ns: NamespaceClient, user: User
) -> None:
    left, right = (bed.nodes[node].data for node in ("node-1", "node-2"))
    roles = [a_followed_role(*each, ns.namespace) for each in (("left", "node-1"), ("right", "node-2"))]
    ns.submit(a_framework(*roles))
    ns.wait_running("mnist-left-0", "mnist-right-0")
    dashboard.open(f"logs/{ns.namespace}/mnist?task=left-0&task=right-0")
    enter_token(dashboard, user.token)
    dashboard.heading("Logs of mnist")
    expect(lines(dashboard)).to_have_count(2)

    (left / f"{ns.namespace}-second").touch()
    expect(lines(dashboard).nth(2)).to_have_text("left-0  two")
    (right / f"{ns.namespace}-second").touch()
    expect(lines(dashboard).nth(3)).to_have_text("right-0 two")

    dashboard.button("Side by side").click()
    for pane in (0, 1):
        expect(lines(dashboard, pane)).to_have_text(["one", "two"])
    for data in (left, right):
        (data / f"{ns.namespace}-third").touch()
    for pane in (0, 1):
        expect(lines(dashboard, pane)).to_have_text(["one", "two", "three"])
    expect(dashboard.page.locator(".log-state")).to_contain_text("right-0: ended: the pod has succeeded")


def test_the_log_of_a_retried_task_continues_and_its_first_attempt_is_read_from_the_archive(
    dashboard: DashboardTab, bed: RealNodes, ns: NamespaceClient, user: User
) -> None:
    script = "; ".join(
        (
            "echo attempt $FC_TASK_ATTEMPT_ID",
            WAITING.format(file=f"{ns.namespace}-$FC_TASK_ATTEMPT_ID"),
            "exit 1",
        )
    )
    role = a_role(tasks=1, pod=a_real_pod(script, container=host_data_mount(), **host_data_volume("node-1")))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0")
    dashboard.open(f"logs/{ns.namespace}/mnist?task=worker-0")
    enter_token(dashboard, user.token)
    expect(lines(dashboard)).to_have_text(["attempt 0"])

    (bed.nodes["node-1"].data / f"{ns.namespace}-0").touch()

    expect(lines(dashboard)).to_have_text(["attempt 0", "attempt 1"])
    until(lambda: len(ns.task()["attemptHistory"]) == 1, "the first attempt is recorded")
    dashboard.open(f"logs/{ns.namespace}/mnist?task=worker-0")
    expect(lines(dashboard)).to_have_text(["attempt 1"])
    dashboard.page.get_by_role("combobox", name="Attempt").select_option("1")
    expect(lines(dashboard)).to_have_text(["attempt 0"])
    expect(dashboard.page.locator(".log-state")).to_contain_text("ended")
