"""The nodes in a browser: capacity, allocation, GPUs, and what waits."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.dashboard import DashboardTab
from tests.browser.samples import framework
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server, loopback

NODES = re.compile(r"/api/v1/nodes\?")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher with a GPU node and another one; a Framework holds all GPUs, and another one waits for some."""
    nodes = (
        f"gpu-1,ip={loopback(1)},cpu=16,memory=64Gi,nvidia.com/gpu=4",
        f"cpu-1,ip={loopback(2)},cpu=8,memory=16Gi",
    )
    server = Server(tmp_path_factory.mktemp("nodes"), *(word for node in nodes for word in ("--node", node)))
    server.ready()
    for name in ("holds", "waits"):
        obj = framework(name, "sleep 600", tasks=2)
        container = obj["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}}
        server.post(FRAMEWORKS, obj)
        until(lambda: scheduled_or_rejected(server), "the scheduler has handled all pods")
    yield server
    server.end()


def scheduled_or_rejected(server: Server) -> bool:
    """Whether there are pods, and each has a node or a reason why it has none."""
    pods = server.get(PODS)["items"]
    handled = [pod for pod in pods if pod["spec"].get("nodeName") or pod.get("status", {}).get("conditions")]
    return len(pods) >= 2 and len(pods) % 2 == 0 and len(handled) == len(pods)


def test_allocation_and_holders_of_gpus_are_shown(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open("nodes")
    dashboard.heading("Nodes")

    row = dashboard.page.get_by_role("row").filter(has_text="gpu-1")
    expect(row).to_contain_text("Ready")
    expect(row).to_contain_text("1 / 16")
    expect(row).to_contain_text("2 GiB / 64 GiB")
    expect(row).to_contain_text("4 / 4")
    expect(row.get_by_role("link", name="holds-worker-1")).to_be_visible()
    expect(dashboard.page.get_by_text("2 of 2 ready")).to_be_visible()


def test_what_waits_has_a_reason_and_a_link(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open("nodes")

    row = dashboard.page.get_by_role("row").filter(has_text="waits")
    expect(row).to_contain_text("2 pods")
    expect(row).to_contain_text("Insufficient nvidia.com/gpu")
    row.get_by_role("link", name="waits").click()
    dashboard.heading("waits")


def test_a_node_has_details(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open("nodes")
    dashboard.page.get_by_role("link", name="gpu-1", exact=True).click()

    expect(dashboard.page.get_by_role("heading", level=2, name="gpu-1", exact=True)).to_be_visible()
    expect(dashboard.page.get_by_role("region", name="Conditions")).to_contain_text("MemoryPressure")
    expect(dashboard.page.get_by_role("region", name="Pods of the node")).to_contain_text("holds-worker-0")


def test_failures_on_a_node_are_counted_although_their_pods_are_gone(
    dashboard: DashboardTab, server: Server
) -> None:
    breaks = framework("breaks", "exit 3")
    task = breaks["spec"]["taskRoles"][0]["task"]
    task["retryPolicy"] = {"maxRetryCount": 1}
    task["pod"]["spec"]["nodeName"] = "cpu-1"
    server.post(FRAMEWORKS, breaks)
    server.completed("breaks")

    dashboard.open("nodes?node=cpu-1")

    row = dashboard.page.get_by_role("row").filter(has_text="cpu-1")
    expect(row).to_contain_text("2 failed attempts in 24 hours")
    failures = dashboard.page.get_by_role("region", name="Failed attempts")
    expect(failures.get_by_role("row")).to_have_count(3)
    expect(failures).to_contain_text("exited with code 3")
    assert dashboard.violations() == []
    failures.get_by_role("link", name="breaks worker-0").first.click()
    dashboard.heading("worker-0")


def test_the_filter_is_kept_in_the_url(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open("nodes")
    dashboard.heading("Nodes")

    dashboard.page.keyboard.press("/")
    dashboard.page.keyboard.type("cpu")

    expect(dashboard.page.get_by_role("heading", name="1 of 2 nodes")).to_be_visible()
    assert "filter=cpu" in dashboard.page.url


def test_the_filter_can_be_typed_while_the_nodes_are_read(dashboard: DashboardTab, server: Server) -> None:
    with dashboard.held(NODES) as requests:
        dashboard.open("nodes")
        dashboard.heading("Nodes")
        requests.wait()

        dashboard.page.keyboard.press("/")
        dashboard.page.keyboard.type("cpu")

    expect(dashboard.page.get_by_role("heading", name="1 of 2 nodes")).to_be_visible()


def test_a_click_and_the_focus_outlast_an_update(dashboard: DashboardTab, server: Server) -> None:
    dashboard.open("nodes")
    name = dashboard.page.get_by_role("link", name="gpu-1", exact=True)
    name.focus()
    with dashboard.held(NODES) as requests:
        requests.wait()
        name.hover()
        dashboard.page.mouse.down()
        with dashboard.page.expect_response(NODES):
            requests.release()
        dashboard.settle()
        expect(name).to_be_focused()
        dashboard.page.mouse.up()

    expect(dashboard.page.get_by_role("heading", level=2, name="gpu-1", exact=True)).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_accessible_and_fits(chromium: Browser, server: Server, width: int, dark: bool) -> None:
    with DashboardTab(chromium, server.url, width=width, dark=dark) as dashboard:
        dashboard.open("nodes?node=gpu-1")
        expect(dashboard.page.get_by_role("region", name="Conditions")).to_be_visible()

        assert dashboard.violations() == []
        assert dashboard.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        dashboard.check()
