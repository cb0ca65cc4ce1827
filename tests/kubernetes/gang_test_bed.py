"""A control plane for gang scheduling tests."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders import Json, a_framework, a_role
from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod
from tests.kubernetes.permissions import launcher_permissions, launcher_requests, rejected, unpermitted

BACKEND = "launcher.microsoft.com/gang-backend"
GANG_PLACED = "GangPlaced"


@dataclass
class GangTestBed:
    """The control plane, the launcher's account, and the running launchers."""

    plane: ControlPlane
    account: User
    directory: Path
    launchers: list[KubeLauncher] = field(default_factory=list)

    def launch(self) -> KubeLauncher:
        """Starts another launcher, which leads when no other does."""
        directory = self.directory / f"launcher{len(self.launchers)}"
        self.launchers.append(KubeLauncher(directory, self.account.kubeconfig))
        return self.launchers[-1]

    def new_namespace(self) -> NamespaceClient:
        """Creates an empty namespace."""
        return NamespaceClient(self.plane, self.plane.new_namespace())

    def set_capacity(self, node: str, resource: str, amount: int) -> None:
        """Sets the node's capacity of *resource*."""
        capacity = {resource: str(amount)}
        change = {"status": {"capacity": capacity, "allocatable": capacity}}
        self.plane.admin.patch(f"/api/v1/nodes/{node}/status", change)


@contextmanager
def gang_test_bed(directory: Path, programs: Path, **flags: tuple[str, ...]) -> Iterator[GangTestBed]:
    """A control plane with two nodes; finally checks that the launcher's permissions sufficed."""
    plane = ControlPlane(directory / "plane", programs, nodes=2)
    for component, arguments in flags.items():
        plane.add_flags(Component[component], *arguments)
    with plane:
        define_frameworks(plane)
        mark = plane.audit.mark()
        bed = GangTestBed(plane, launcher_account(plane), directory)
        try:
            yield bed
        finally:
            for launcher in bed.launchers:
                launcher.end()
        requests = launcher_requests(plane.audit.since(mark))
        assert not rejected(requests), rejected(requests)
        assert not unpermitted(launcher_permissions(), requests), unpermitted(
            launcher_permissions(), requests
        )


def a_pod_requesting(resource: str, ends: str | None = None, **spec: Any) -> Json:
    """Returns a pod that requests one of *resource*."""
    pod = a_task_pod(ends, **spec)
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    return pod


def a_gang(tasks: int, pod: Json, *, name: str = "mnist", gang: Json | None = None, **spec: Any) -> Json:
    """Returns a Framework with this number of workers in a gang."""
    return a_framework(a_role(tasks=tasks, pod=pod), name=name, gang=gang or {}, **spec)


def worker_names(tasks: int, framework: str = "mnist") -> list[str]:
    return [f"{framework}-worker-{index}" for index in range(tasks)]


def condition(ns: NamespaceClient, kind: str, framework: str = "mnist") -> Any:
    """Returns that condition of the Framework, ``{}`` if there is none."""
    conditions = ns.framework(framework).get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


def pending_reasons(ns: NamespaceClient) -> dict[str, str]:
    """Returns the reason why each pod is pending."""
    return {name: _pending_reason(pod) for name, pod in ns.pods().items()}


def _pending_reason(pod: Any) -> str:
    conditions = pod["status"].get("conditions") or ()
    return next(
        (one["reason"] for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"),
        "",
    )


def with_task_retry(framework: Json) -> Json:
    """Returns the Framework with one retry per task."""
    for role in framework["spec"]["taskRoles"]:
        role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    return framework


def controller_of(obj: Any) -> tuple[str, str, str]:
    """Returns kind, name and uid of the controller."""
    (owner,) = [one for one in obj["metadata"]["ownerReferences"] if one["controller"]]
    return owner["kind"], owner["name"], owner["uid"]


def unused_permissions(bed: GangTestBed, mark: int, groups: Collection[str]) -> set[str]:
    """Returns the launcher's permissions on these groups that were not used since *mark*."""
    requests = launcher_requests(bed.plane.audit.since(mark))
    return {
        str(permission)
        for permission in launcher_permissions()
        if permission.group in groups
        and not any(permission.covers(request) and request.status < 300 for request in requests)
    }
