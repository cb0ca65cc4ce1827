"""A control plane of one's own for gangs: what places them is there for all who use it."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.cluster.users import User
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.rights import beyond, launcher_rights, of_launcher, refused
from tests.kubernetes.world import World, a_task_pod

BACKEND = "launcher.microsoft.com/gang-backend"
PLACED = "GangPlaced"


@dataclass
class Ground:
    """The control plane, whom launchers run as there, and those that run."""

    plane: ControlPlane
    account: User
    directory: Path
    launchers: list[KubeLauncher] = field(default_factory=list)

    def launch(self) -> KubeLauncher:
        """One more launcher, which leads as soon as no other does."""
        directory = self.directory / f"launcher{len(self.launchers)}"
        self.launchers.append(KubeLauncher(directory, self.account.kubeconfig))
        return self.launchers[-1]

    def world(self) -> World:
        """An empty namespace."""
        return World(self.plane, self.plane.new_namespace())

    def give(self, node: str, resource: str, amount: int) -> None:
        """That node has so much of it from now on."""
        has = {resource: str(amount)}
        change = {"status": {"capacity": has, "allocatable": has}}
        self.plane.admin.patch(f"/api/v1/nodes/{node}/status", change)


@contextmanager
def ground(directory: Path, programs: Path, **flags: tuple[str, ...]) -> Iterator[Ground]:
    """Two nodes and a control plane whose parts have these flags; in the end, the launcher's rights were enough."""
    plane = ControlPlane(directory / "plane", programs, nodes=2)
    for part, said in flags.items():
        plane.tell(Part[part], *said)
    with plane:
        define_frameworks(plane)
        mark = plane.audit.mark()
        made = Ground(plane, launcher_account(plane), directory)
        try:
            yield made
        finally:
            for launcher in made.launchers:
                launcher.end()
        asked = of_launcher(plane.audit.since(mark))
        assert not refused(asked), refused(asked)
        assert not beyond(launcher_rights(), asked), beyond(launcher_rights(), asked)


def a_hungry_pod(resource: str, ends: str | None = None, **spec: Any) -> Json:
    """A pod that asks for one of *resource*."""
    pod = a_task_pod(ends, **spec)
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    return pod


def a_gang(tasks: int, pod: Json, *, name: str = "mnist", gang: Json | None = None, **spec: Any) -> Json:
    """A Framework of so many workers that start together."""
    return a_framework(a_role(tasks=tasks, pod=pod), name=name, gang=gang or {}, **spec)


def names(tasks: int, framework: str = "mnist") -> list[str]:
    return [f"{framework}-worker-{index}" for index in range(tasks)]


def condition(world: World, kind: str, framework: str = "mnist") -> Any:
    """That condition of the Framework; ``{}`` while there is none."""
    conditions = world.framework(framework).get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


def hindrances(world: World) -> dict[str, str]:
    """Why each pod has no node."""
    return {name: _hindrance(pod) for name, pod in world.pods().items()}


def _hindrance(pod: Any) -> str:
    conditions = pod["status"].get("conditions") or ()
    return next(
        (one["reason"] for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"),
        "",
    )


def retrying(framework: Json) -> Json:
    """That Framework, whose tasks are retried once."""
    for role in framework["spec"]["taskRoles"]:
        role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    return framework


def owner_of(obj: Any) -> tuple[str, str, str]:
    """Kind, name and uid of what controls it."""
    (owner,) = [one for one in obj["metadata"]["ownerReferences"] if one["controller"]]
    return owner["kind"], owner["name"], owner["uid"]


def unused(own: Ground, mark: int, groups: Collection[str]) -> set[str]:
    """Rights of the launcher on kinds of these groups that it has not used since *mark*."""
    asked = of_launcher(own.plane.audit.since(mark))
    return {
        str(right)
        for right in launcher_rights()
        if right.group in groups and not any(right.covers(one) and one.status < 300 for one in asked)
    }
