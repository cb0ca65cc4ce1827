"""A namespace with Frameworks under faults, and the checks after them."""

import os
import time
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from random import Random
from typing import Any

from launcher.store.interface import PODS
from tests.chaos.history import History
from tests.chaos.invariants import violations
from tests.chaos.workloads import Job
from tests.cluster.controlplane import ControlPlane
from tests.eventually import until
from tests.kubernetes.account import LAUNCHER_NAMESPACE
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LAUNCHER_NAMESPACE}/leases/framework-launcher"


class ChaosHarness:
    """One namespace from its creation."""

    def __init__(self, cluster: ControlPlane, namespace: str, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.client = NamespaceClient(cluster, namespace)
        self.jobs: list[Job] = []
        #: The uids of pods deleted by other clients.
        self.deleted: set[str] = set()
        self._history = History(cluster, namespace)

    # Actions of users.

    def submit(self, jobs: Iterable[Job]) -> None:
        """Creates the Frameworks, with retries while the API server is unavailable."""
        for job in jobs:
            until(lambda: self._submit(job), f"{job.name} is submitted")  # noqa: B023 - called at once
            self.jobs.append(job)

    def _submit(self, job: Job) -> bool | None:
        try:
            response = self.cluster.admin.request("POST", self.client.frameworks, job.framework)
        except OSError:
            return None
        # An earlier request whose response was lost may have created it.
        return True if response.status in {201, 409} else None

    def frameworks(self) -> dict[str, Any]:
        """Returns every Framework by name, with retries."""

        def list_frameworks() -> Any:
            try:
                response = self.cluster.admin.request("GET", self.client.frameworks)
            except OSError:
                return None
            return response.body["items"] if response.status == 200 else None

        return {obj["metadata"]["name"]: obj for obj in until(list_frameworks, "the Frameworks are listed")}

    # Faults.

    def pause(self, max_seconds: float) -> None:
        """Waits for a random time, so that faults occur at any moment."""
        time.sleep(self.random.uniform(0, max_seconds))

    def release_lease(self) -> None:
        """Expires the lease of a killed leader, instead of waiting 15 seconds."""
        self.set_lease_holder("")

    def set_lease_holder(self, holder: str) -> None:
        """Sets the holder of the lease; an empty one releases it."""
        response = self.cluster.admin.request(
            "PATCH", LEASE, {"spec": {"holderIdentity": holder}}, content_type="application/merge-patch+json"
        )
        assert response.status in {200, 404}, response

    def lease_holder(self) -> str:
        """Returns the holder of the lease; empty without one."""
        response = self.cluster.admin.request("GET", LEASE)
        assert response.status in {200, 404}, response
        return response.body["spec"].get("holderIdentity") or "" if response.status == 200 else ""

    def record_pods_lost_with(self, nodes: AbstractSet[str]) -> None:
        """Records pods removed with these nodes as deleted by other clients."""
        for write in self._history.writes():
            if write.kind == PODS and write.deleted and write.obj["spec"].get("nodeName") in nodes:
                self.deleted.add(write.obj["metadata"]["uid"])

    # Checks.

    def wait_for_completion(self, timeout_seconds: float) -> None:
        """Waits until every Framework has completed and no pod runs."""

        def is_complete() -> bool | None:
            time.sleep(0.5)  # frequent polling would be an additional load
            return True if self._incomplete() == [] else None

        try:
            until(is_complete, "every Framework has completed", timeout_seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._incomplete()}") from None

    def _incomplete(self) -> list[str]:
        """Returns the Frameworks that have not completed; afterwards the pods that still exist."""
        frameworks = self.frameworks()
        names = [job.name for job in self.jobs]
        running = [name for name in names if frameworks[name].get("status", {}).get("state") != "Completed"]
        return running or [name for name, pod in self.client.pods().items() if is_being_deleted(pod)]

    def check(
        self, *launchers: KubeLauncher, two_leaders: bool = False, responses_lost: bool = False
    ) -> None:
        """
        Checks all invariants.

        With *two_leaders*, a leader may get a 409 because the other was faster. With *responses_lost*, a write may take
        effect after its outcome was read, and then the next one gets a 409.
        """
        frameworks, pods = self.frameworks(), self.client.pods()
        found = violations(
            self.jobs, self._history.writes(), frameworks, pods, self.deleted, two_leaders=two_leaders
        )
        writes = self.client.launcher_requests("update", "frameworks", "status")
        assert writes, "the audit log is empty"
        conflicts = [write for write in writes if write.status == 409]
        if conflicts and not (two_leaders or responses_lost):
            found.append(f"conflicts between the launcher's own writes: {conflicts}")
        for launcher in launchers:
            if "Traceback" in launcher.log():
                found.append(f"the launcher logged an exception: {launcher.errors()}")
        assert not found, "\n".join(found)


def is_being_deleted(pod: Any) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def memory(launcher: KubeLauncher) -> int:
    """Returns the memory in use, in bytes."""
    pages = int(Path(f"/proc/{launcher.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(launcher: KubeLauncher) -> int:
    """Returns the number of open files and connections."""
    return len(list(Path(f"/proc/{launcher.pid}/fd").iterdir()))
