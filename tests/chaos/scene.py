"""A namespace full of Frameworks to which all kinds of things happen, and what must hold once it is quiet again."""

import os
import time
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from random import Random
from typing import Any

from launcher.store.interface import PODS
from tests.chaos.history import History
from tests.chaos.load import Job
from tests.chaos.promises import broken_promises
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.account import HOME
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import World
from tests.local.server import until

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/framework-launcher"


class Scene:
    """One namespace, from its beginning."""

    def __init__(self, cluster: ControlPlane, namespace: str, chance: Random) -> None:
        self.cluster, self.chance = cluster, chance
        self.world = World(cluster, namespace)
        self.jobs: list[Job] = []
        #: The uids of pods that were deleted behind the launcher's back.
        self.deleted: set[str] = set()
        self._history = History(cluster, namespace)

    # What users do.

    def submit(self, jobs: Iterable[Job]) -> None:
        """Create the Frameworks, as soon as there is somebody to take them."""
        for job in jobs:
            until(lambda: self._is_there(job), f"{job.name} is submitted")  # noqa: B023 - called at once
            self.jobs.append(job)

    def _is_there(self, job: Job) -> bool | None:
        try:
            answer = self.cluster.admin.ask("POST", self.world.frameworks, job.framework)
        except OSError:
            return None
        # It may have been taken by one whose answer was lost.
        return True if answer.status in {201, 409} else None

    def frameworks(self) -> dict[str, Any]:
        """Every Framework by its name, as soon as there is somebody to tell."""

        def look() -> Any:
            try:
                answer = self.cluster.admin.ask("GET", self.world.frameworks)
            except OSError:
                return None
            return answer.body["items"] if answer.status == 200 else None

        return {found["metadata"]["name"]: found for found in until(look, "the Frameworks are listed")}

    # What happens to it.

    def moment(self, longest: float) -> None:
        """Let some time go by, in the hope of nothing: any moment will do."""
        time.sleep(self.chance.uniform(0, longest))

    def free_lease(self) -> None:
        """The launcher that led is dead: its lease has run out, as it would have by itself in 15 seconds."""
        self.hand_lease("")

    def hand_lease(self, holder: str) -> None:
        """Somebody has the lease, whoever had it."""
        answer = self.cluster.admin.ask(
            "PATCH", LEASE, {"spec": {"holderIdentity": holder}}, content_type="application/merge-patch+json"
        )
        assert answer.status in {200, 404}, answer

    def holder(self) -> str:
        """Who has the lease; nobody while there is none."""
        answer = self.cluster.admin.ask("GET", LEASE)
        assert answer.status in {200, 404}, answer
        return answer.body["spec"].get("holderIdentity") or "" if answer.status == 200 else ""

    def lost_with(self, nodes: AbstractSet[str]) -> None:
        """Whatever was on these nodes and is gone was taken away with them, by nobody of ours."""
        for write in self._history.writes():
            if write.kind == PODS and write.gone and write.obj["spec"].get("nodeName") in nodes:
                self.deleted.add(write.obj["metadata"]["uid"])

    # What becomes of it.

    def settled(self, within: float) -> None:
        """Return when every Framework has ended, and nothing of it runs."""

        def look() -> bool | None:
            time.sleep(0.5)  # to be asked all the time is trouble of another kind
            return True if self._under_way() == [] else None

        try:
            until(look, "every Framework has ended", within)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._under_way()}") from None

    def _under_way(self) -> list[str]:
        """The Frameworks that have not ended; once they have, the pods that are about to go."""
        found = self.frameworks()
        names = [job.name for job in self.jobs]
        open_ = [name for name in names if found[name].get("status", {}).get("state") != "Completed"]
        return open_ or [name for name, pod in self.world.pods().items() if is_going(pod)]

    def check(self, *launchers: KubeLauncher, two_lead: bool = False, answers_lost: bool = False) -> None:
        """
        Nothing that was promised is broken.

        While *two_lead*, each may find that the other was faster, and is told so by a 409. So is one of whose writes
        *answers* are *lost*: such a write may be carried out after it was looked for and not found.
        """
        frameworks, pods = self.frameworks(), self.world.pods()
        broken = broken_promises(
            self.jobs, self._history.writes(), frameworks, pods, self.deleted, two_lead=two_lead
        )
        writes = self.world.asked("update", "frameworks", "status")
        assert writes, "the audit log tells nothing"
        conflicts = [write for write in writes if write.status == 409]
        if conflicts and not (two_lead or answers_lost):
            broken.append(f"the launcher was in its own way: {conflicts}")
        for launcher in launchers:
            if "Traceback" in launcher.log():
                broken.append(f"the launcher does not know what to do: {launcher.errors()}")
        assert not broken, "\n".join(broken)


def is_going(pod: Any) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def memory(launcher: KubeLauncher) -> int:
    """Bytes of memory that it has now."""
    pages = int(Path(f"/proc/{launcher.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(launcher: KubeLauncher) -> int:
    """How many files and connections it has open."""
    return len(list(Path(f"/proc/{launcher.pid}/fd").iterdir()))
