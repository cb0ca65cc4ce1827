"""
The log archive on a real control plane.

Simulated nodes have no logs, so that the archive stores none: nothing waits longer than its limit, and the failure is
reported. Logs that are in the archive are served with the rights of the caller.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod

UID = "8f4c2a9e-0000-4000-8000-000000000001"
POD = "mnist-worker-0"
LINES = b"2026-01-31T12:00:01.000000000Z one\n2026-01-31T12:00:02.000000000Z two\n"

Start = Callable[..., KubeLauncher]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of the archive."""
    result = tmp_path / "archive"
    result.mkdir()
    return result


@pytest.fixture
def start(launch: Launch, directory: Path) -> Start:
    """Starts a launcher with the archive."""
    return lambda *flags: launch(f"--log-archive=file://{directory}", *flags)


def test_a_log_that_no_node_returns_delays_a_retry_by_the_limit_and_is_reported(
    start: Start, directory: Path, ns: NamespaceClient
) -> None:
    launcher = start("--log-archive-timeout=2s")
    role = a_role(tasks=3, pod=a_task_pod("failed"))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 2}
    ns.submit(a_framework(role))

    framework = ns.wait_completed()

    # On a busy machine another log may be requested only after the launcher has deleted the pod.
    message = "Logs are not archived: the nodes do not return them."
    ns.until(lambda: message in ns.events("LogArchiveFailed") or None, "the failure is reported")
    assert framework["status"]["attemptStatus"]["completionStatus"]["code"] == 1
    assert ns.launcher_requests("get", "pods", "log") != []
    assert launcher.metric('launcher_log_archive_failures_total{reason="LogUnavailable"}') > 0
    assert list(directory.iterdir()) == []


def test_without_an_archive_no_log_is_requested(launch: Launch, ns: NamespaceClient) -> None:
    launch()
    role = a_role(tasks=1, pod=a_task_pod("failed"))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    ns.submit(a_framework(role))

    ns.wait_completed()

    assert ns.launcher_requests("get", "pods", "log") == []


def test_an_archived_log_is_served_to_a_user_with_the_right_to_get_it(
    start: Start, directory: Path, cluster: ControlPlane, namespace: str, user: User
) -> None:
    launcher = start()
    path = directory / namespace / POD / UID / "main" / "0.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(LINES)
    other, unknown = cluster.new_user(), User("unknown", Path(), "no-such-token")
    cluster.grant(other, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}], namespace=namespace)
    cluster.until_allowed(other, verb="get", group="", resource="pods", namespace=namespace)
    log = f"/api/v1/namespaces/{namespace}/pods/{POD}/log?uid={UID}"

    def get(who: User, query: str = "") -> tuple[int, str]:
        options = ("-H", f"Authorization: Bearer {who.token}", "--write-out", "\n%{http_code}")
        body, _, code = launcher.curl(log + query, *options).rpartition("\n")
        return int(code), body

    assert get(user) == (200, "one\ntwo\n")
    assert get(user, "&tailLines=1&timestamps=true") == (200, LINES.decode().splitlines()[1] + "\n")
    code, body = get(other)
    assert (code, bool(re.search(r"forbidden: cannot get resource .*pods/log", body))) == (403, True)
    assert get(unknown)[0] == 401


def test_the_log_of_an_existing_pod_is_requested_from_its_node(
    start: Start, ns: NamespaceClient, user: User
) -> None:
    launcher = start()
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    ns.wait_running(POD)
    uid = ns.pods()[POD]["metadata"]["uid"]

    status = launcher.get(
        ns.path("pods", f"{POD}/log?uid={uid}"), "-H", f"Authorization: Bearer {user.token}"
    )
    gone = launcher.get(ns.path("pods", f"{POD}/log?uid={UID}"), "-H", f"Authorization: Bearer {user.token}")

    # The API server reports that the simulated node does not respond.
    assert (status["kind"], status["code"] in {500, 502, 503, 504}) == ("Status", True), status
    assert gone["code"] == 404
    assert "no archived log" in gone["message"]
