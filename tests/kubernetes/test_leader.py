"""Two launchers on a real control plane: one leads, the other takes over, and no pod is made twice."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.audit import Request
from tests.cluster.client import MERGE_PATCH
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pods import path
from tests.cluster.users import User
from tests.core.manifests import a_framework, a_role
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import World, a_task_pod
from tests.local.server import ended, until

#: Seconds: a lease, the pause before it is looked at again, and a slow machine.
TAKEN_OVER = 15 + 2 + 8
WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass
class Pair:
    """Two launchers of one lease; the first leads."""

    cluster: ControlPlane
    namespace: str
    users: tuple[User, User]
    leading: KubeLauncher
    waiting: KubeLauncher
    mark: int

    @property
    def lease(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/framework-launcher"

    def spec(self) -> Any:
        """What the lease says."""
        return self.cluster.admin.get(self.lease)["spec"]

    def taken_over(self, before: str, within: float = TAKEN_OVER) -> float:
        """Return when somebody else holds the lease than before: after how many seconds."""
        began = time.monotonic()
        until(lambda: self.spec()["holderIdentity"] not in ("", before) or None, "another one leads", within)
        return time.monotonic() - began

    def asked(self, user: User | None = None, since: int | None = None) -> list[Request]:
        """What one launcher, or either, has asked for."""
        names = {each.name for each in ([user] if user else self.users)}
        return [each for each in self.cluster.audit.since(since or self.mark) if each.user in names]

    def made_once(self, names: Iterable[str]) -> bool:
        """Whether each of these pods was created once, and is still there."""
        asked = [each for each in self.asked() if (each.resource, each.namespace) == ("pods", self.namespace)]
        # One that was created when nobody was left to hear of it has another status.
        made = Counter(each.name for each in asked if (each.verb, each.status) == ("create", 201))
        there = {pod["metadata"]["name"] for pod in self.cluster.admin.get(path(self.namespace))["items"]}
        deleted = [each for each in asked if each.verb == "delete"]
        return there == set(names) and set(made.values()) == {1} and not deleted


@pytest.fixture
def pair(cluster: ControlPlane, namespace: str, launch: Launch, tmp_path: Path) -> Pair:
    users = tuple(cluster.certified_user(f"{name}-{namespace}", "system:masters") for name in ("a", "b"))
    mark = cluster.audit.mark()
    first = launch(kubeconfig=_at_home(users[0], namespace, tmp_path))
    first.told("leading")
    second = launch(kubeconfig=_at_home(users[1], namespace, tmp_path))
    second.told("the lease has a new holder")
    return Pair(cluster, namespace, (users[0], users[1]), first, second, mark)


def _at_home(user: User, namespace: str, directory: Path) -> Path:
    """A kubeconfig whose namespace is that of the test, so that its lease is no other test's."""
    config = yaml.safe_load(user.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    path = directory / f"{user.name}.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_the_leader_counts_what_there_is_and_the_other_one_nothing(pair: Pair, world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))
    world.running("mnist-worker-0", "mnist-worker-1")

    def are_counted() -> bool | None:
        # In a cluster of several tests there may be more.
        frameworks = pair.leading.metric('launcher_frameworks{state="AttemptRunning"}')
        return (frameworks >= 1 and pair.leading.metric('launcher_pods{phase="Running"}') >= 2) or None

    world.until(are_counted, "they are counted")
    assert "launcher_frameworks{" not in pair.waiting.curl("/metrics")


def test_a_dead_leader_is_replaced_and_its_frameworks_go_on(pair: Pair, world: World) -> None:
    dead = pair.spec()["holderIdentity"]
    world.submit(a_framework(a_role(tasks=60, pod=a_task_pod())))
    world.until(lambda: len(world.pods()) > 5 or None, "pods are being created")

    pair.leading.kill()
    took = pair.taken_over(dead)
    names = [f"mnist-worker-{index}" for index in range(60)]
    world.running(*names)
    for name in names:
        world.end(name, "succeeded")

    assert ended(world.completed()) == "Succeeded"
    assert took < TAKEN_OVER
    assert pair.spec()["leaseTransitions"] == 1
    assert pair.made_once(names)


def test_a_leader_that_was_stopped_and_wakes_writes_nothing_any_more(pair: Pair, world: World) -> None:
    frozen = pair.spec()["holderIdentity"]
    role = a_role(tasks=3, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 9}
    world.submit(a_framework(role))
    world.running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")
    world.until(lambda: _state(world) == "AttemptRunning" or None, "that is known")
    uid = world.pods()["mnist-worker-0"]["metadata"]["uid"]
    pair.leading.pause()
    pair.taken_over(frozen)

    # It will hear of this, and of all that the other one made of it, and would have its own idea of what to do.
    world.end("mnist-worker-0", "failed")
    world.replaced("mnist-worker-0", uid)
    world.end("mnist-worker-1", "failed")
    mark = pair.cluster.audit.mark()
    pair.leading.resume()
    pair.leading.told("leadership lost")

    assert ended(_brought_to_its_end(world)) == "Succeeded"
    woken = pair.asked(pair.users[0], mark)
    assert woken, "it is awake, and asks who leads"
    assert [request for request in woken if request.verb in WRITES and request.status < 400] == []


def _state(world: World) -> Any:
    return world.framework().get("status", {}).get("state")


def _brought_to_its_end(world: World) -> Any:
    """The Framework, after each of its pods has been told to succeed, and each that came in its place."""

    def look() -> Any:
        for name, pod in world.pods().items():
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
                # A node may take the pod away at any time.
                said = {"metadata": {"annotations": {"launcher.test/ends": "succeeded"}}}
                world.cluster.admin.ask("PATCH", world.path("pods", name), said, content_type=MERGE_PATCH)
        return world.framework() if _state(world) == "Completed" else None

    return world.until(look, "its pods have succeeded")


def test_a_leader_that_was_stopped_while_it_created_pods_makes_none_twice(pair: Pair, world: World) -> None:
    frozen = pair.spec()["holderIdentity"]
    world.submit(a_framework(a_role(tasks=60, pod=a_task_pod())))
    world.until(lambda: len(world.pods()) > 5 or None, "pods are being created")
    pair.leading.pause()
    pair.taken_over(frozen)
    names = [f"mnist-worker-{index}" for index in range(60)]
    world.running(*names)

    mark = pair.cluster.audit.mark()
    pair.leading.resume()
    pair.leading.told("leadership lost")
    for name in names:
        world.end(name, "succeeded")

    assert ended(world.completed()) == "Succeeded"
    assert pair.made_once(names)
    late = [request for request in pair.asked(pair.users[0], mark) if request.verb in WRITES]
    assert [request for request in late if request.status < 400] == [], "what was on its way came too late"


def test_a_leader_that_is_told_to_stop_hands_over_at_once(pair: Pair, world: World) -> None:
    before = pair.spec()["holderIdentity"]
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    world.running("mnist-worker-0")

    assert pair.leading.stop() == 0
    took = pair.taken_over(before)
    world.end("mnist-worker-0", "succeeded")

    assert ended(world.completed()) == "Succeeded"
    assert took < 5
    assert pair.made_once(["mnist-worker-0"])


def test_a_lease_that_is_taken_by_hand_ends_the_work_of_who_had_it(pair: Pair, world: World) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    world.running("mnist-worker-0")
    world.until(lambda: _state(world) == "AttemptRunning" or None, "that is known")

    theft = '{"spec": {"holderIdentity": "somebody"}}'
    world.kubectl("patch", "lease", "framework-launcher", "--type=merge", "-p", theft)
    pair.leading.told("leadership lost", within=TAKEN_OVER)
    mark = pair.cluster.audit.mark()
    world.end("mnist-worker-0", "succeeded")
    pair.taken_over("somebody")
    here = [request for request in pair.asked(since=mark) if request.namespace == pair.namespace]
    early = [request for request in here if request.verb in WRITES]
    first = next(number for number, request in enumerate(early) if request.resource == "leases")

    assert first == 0, "nobody works before somebody has the lease again"
    assert ended(world.completed()) == "Succeeded"


def test_kubectl_shows_who_leads(pair: Pair, world: World) -> None:
    shown = world.kubectl("get", "lease", "framework-launcher", "--no-headers").split()
    spec = pair.spec()

    assert shown[:2] == ["framework-launcher", spec["holderIdentity"]]
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)
    renewed = spec["renewTime"]
    until(lambda: pair.spec()["renewTime"] > renewed or None, "it is renewed", TAKEN_OVER)
    assert {request.status for request in pair.asked() if request.resource == "leases"} <= {200, 201, 404}
