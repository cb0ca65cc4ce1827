"""Two launchers on a real control plane: one leads, the other takes over, and no pod is created twice."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import a_framework, a_role
from tests.cluster.audit import AuditedRequest
from tests.cluster.client import MERGE_PATCH
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pods import path
from tests.cluster.users import User
from tests.eventually import until
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod
from tests.local.server import ended

#: The lease duration, the retry period, and a reserve for a slow machine.
TAKEOVER_SECONDS = 15 + 2 + 8
WRITE_VERBS = frozenset({"create", "update", "patch", "delete"})


@dataclass
class LauncherPair:
    """Two launchers of one lease; the first leads."""

    cluster: ControlPlane
    namespace: str
    users: tuple[User, User]
    leader: KubeLauncher
    standby: KubeLauncher
    mark: int

    @property
    def lease_path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/framework-launcher"

    def lease_spec(self) -> Any:
        """The spec of the Lease."""
        return self.cluster.admin.get(self.lease_path)["spec"]

    def wait_for_takeover(self, old_holder: str, within: float = TAKEOVER_SECONDS) -> float:
        """Waits until the lease has a new holder, and returns the seconds that this took."""
        start = time.monotonic()
        until(
            lambda: self.lease_spec()["holderIdentity"] not in ("", old_holder) or None,
            "another launcher leads",
            within,
        )
        return time.monotonic() - start

    def requests(self, user: User | None = None, since: int | None = None) -> list[AuditedRequest]:
        """The requests of one launcher, or of both."""
        names = {each.name for each in ([user] if user else self.users)}
        return [request for request in self.cluster.audit.since(since or self.mark) if request.user in names]

    def created_once(self, names: Iterable[str]) -> bool:
        """Whether exactly these pods exist, and each was created once."""
        requests = [
            request
            for request in self.requests()
            if (request.resource, request.namespace) == ("pods", self.namespace)
        ]
        # A second creation is rejected with another status.
        creations = Counter(
            request.name for request in requests if (request.verb, request.status) == ("create", 201)
        )
        existing = {pod["metadata"]["name"] for pod in self.cluster.admin.get(path(self.namespace))["items"]}
        deleted = [request for request in requests if request.verb == "delete"]
        return existing == set(names) and set(creations.values()) == {1} and not deleted


@pytest.fixture
def pair(cluster: ControlPlane, namespace: str, launch: Launch, tmp_path: Path) -> LauncherPair:
    users = tuple(cluster.certified_user(f"{name}-{namespace}", "system:masters") for name in ("a", "b"))
    mark = cluster.audit.mark()
    first = launch(kubeconfig=_kubeconfig_in(users[0], namespace, tmp_path))
    first.wait_for_log("leading")
    second = launch(kubeconfig=_kubeconfig_in(users[1], namespace, tmp_path))
    second.wait_for_log("lease has a new holder")
    return LauncherPair(cluster, namespace, (users[0], users[1]), first, second, mark)


def _kubeconfig_in(user: User, namespace: str, directory: Path) -> Path:
    """A kubeconfig with the test's namespace, so that the lease is not shared with other tests."""
    config = yaml.safe_load(user.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    path = directory / f"{user.name}.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_only_the_leader_reports_object_counts(pair: LauncherPair, ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")

    def are_counted() -> bool | None:
        # Objects of other tests may be counted, too.
        frameworks = pair.leader.metric('launcher_frameworks{state="AttemptRunning"}')
        return (frameworks >= 1 and pair.leader.metric('launcher_pods{phase="Running"}') >= 2) or None

    ns.until(are_counted, "they are counted")
    assert "launcher_frameworks{" not in pair.standby.curl("/metrics")


def test_a_killed_leader_is_replaced_and_its_frameworks_continue(
    pair: LauncherPair, ns: NamespaceClient
) -> None:
    old_holder = pair.lease_spec()["holderIdentity"]
    ns.submit(a_framework(a_role(tasks=60, pod=a_task_pod())))
    ns.until(lambda: len(ns.pods()) > 5 or None, "pods are being created")

    pair.leader.kill()
    takeover_seconds = pair.wait_for_takeover(old_holder)
    names = [f"mnist-worker-{index}" for index in range(60)]
    ns.wait_running(*names)
    for name in names:
        ns.end_pod(name, "succeeded")

    assert ended(ns.wait_completed()) == "Succeeded"
    assert takeover_seconds < TAKEOVER_SECONDS
    assert pair.lease_spec()["leaseTransitions"] == 1
    assert pair.created_once(names)


def test_a_resumed_former_leader_writes_nothing(pair: LauncherPair, ns: NamespaceClient) -> None:
    old_holder = pair.lease_spec()["holderIdentity"]
    role = a_role(tasks=3, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 9}
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")
    ns.until(lambda: _state(ns) == "AttemptRunning" or None, "the status is AttemptRunning")
    uid = ns.pods()["mnist-worker-0"]["metadata"]["uid"]
    pair.leader.pause()
    pair.wait_for_takeover(old_holder)

    # The resumed launcher observes these changes and those of the new leader, and must not act on them.
    ns.end_pod("mnist-worker-0", "failed")
    ns.wait_replaced("mnist-worker-0", uid)
    ns.end_pod("mnist-worker-1", "failed")
    mark = pair.cluster.audit.mark()
    pair.leader.resume()
    pair.leader.wait_for_log("leadership lost")

    assert ended(_complete_all_pods(ns)) == "Succeeded"
    resumed = pair.requests(pair.users[0], mark)
    assert resumed, "the resumed launcher sends requests"
    assert [request for request in resumed if request.verb in WRITE_VERBS and request.status < 400] == []


def _state(ns: NamespaceClient) -> Any:
    return ns.framework().get("status", {}).get("state")


def _complete_all_pods(ns: NamespaceClient) -> Any:
    """Ends each pod and each replacement with success, and returns the completed Framework."""

    def probe() -> Any:
        for name, pod in ns.pods().items():
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                # The pod may be deleted at any time.
                change = {"metadata": {"annotations": {"launcher.test/ends": "succeeded"}}}
                ns.cluster.admin.request("PATCH", ns.path("pods", name), change, content_type=MERGE_PATCH)
        return ns.framework() if _state(ns) == "Completed" else None

    return ns.until(probe, "its pods have succeeded")


def test_a_leader_suspended_while_creating_pods_duplicates_none(
    pair: LauncherPair, ns: NamespaceClient
) -> None:
    old_holder = pair.lease_spec()["holderIdentity"]
    ns.submit(a_framework(a_role(tasks=60, pod=a_task_pod())))
    ns.until(lambda: len(ns.pods()) > 5 or None, "pods are being created")
    pair.leader.pause()
    pair.wait_for_takeover(old_holder)
    names = [f"mnist-worker-{index}" for index in range(60)]
    ns.wait_running(*names)

    mark = pair.cluster.audit.mark()
    pair.leader.resume()
    pair.leader.wait_for_log("leadership lost")
    for name in names:
        ns.end_pod(name, "succeeded")

    assert ended(ns.wait_completed()) == "Succeeded"
    assert pair.created_once(names)
    late_writes = [request for request in pair.requests(pair.users[0], mark) if request.verb in WRITE_VERBS]
    assert [request for request in late_writes if request.status < 400] == [], "late writes are rejected"


def test_a_leader_that_stops_releases_its_lease(pair: LauncherPair, ns: NamespaceClient) -> None:
    before = pair.lease_spec()["holderIdentity"]
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0")

    assert pair.leader.stop() == 0
    takeover_seconds = pair.wait_for_takeover(before)
    ns.end_pod("mnist-worker-0", "succeeded")

    assert ended(ns.wait_completed()) == "Succeeded"
    assert takeover_seconds < 5
    assert pair.created_once(["mnist-worker-0"])


def test_a_lease_taken_manually_stops_the_leader(pair: LauncherPair, ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0")
    ns.until(lambda: _state(ns) == "AttemptRunning" or None, "the status is AttemptRunning")

    change = '{"spec": {"holderIdentity": "another"}}'
    ns.kubectl("patch", "lease", "framework-launcher", "--type=merge", "-p", change)
    pair.leader.wait_for_log("leadership lost", within=TAKEOVER_SECONDS)
    mark = pair.cluster.audit.mark()
    ns.end_pod("mnist-worker-0", "succeeded")
    pair.wait_for_takeover("another")
    requests = [request for request in pair.requests(since=mark) if request.namespace == pair.namespace]
    writes = [request for request in requests if request.verb in WRITE_VERBS]
    first = next(number for number, request in enumerate(writes) if request.resource == "leases")

    assert first == 0, "nothing is written without a lease"
    assert ended(ns.wait_completed()) == "Succeeded"


def test_kubectl_shows_the_leader(pair: LauncherPair, ns: NamespaceClient) -> None:
    shown = ns.kubectl("get", "lease", "framework-launcher", "--no-headers").split()
    spec = pair.lease_spec()

    assert shown[:2] == ["framework-launcher", spec["holderIdentity"]]
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)
    renewed_before = spec["renewTime"]
    until(lambda: pair.lease_spec()["renewTime"] > renewed_before or None, "it is renewed", TAKEOVER_SECONDS)
    assert {request.status for request in pair.requests() if request.resource == "leases"} <= {200, 201, 404}
