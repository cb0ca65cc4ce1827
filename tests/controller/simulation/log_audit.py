"""The invariants of the log archive, checked while the controller runs and at the end of a run."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from launcher.controller.framework_controller import FrameworkController
from launcher.controller.log_copier import ContainerLogCopier, LogArchiveCounts, LogArchiveOptions
from launcher.core.errors import NotFound
from launcher.core.names import task_identity
from launcher.core.owner_references import controller_uid
from launcher.core.pods.observed_pod import has_terminated, is_deleted
from launcher.core.serialization.framework_json import framework_from_json
from launcher.core.status import State
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, Key, Object
from tests.controller.simulation.audit import InvariantViolation
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.logs import FaultyArchive, SimulatedLogs

LIMIT_SECONDS = 30.0
#: A deletion follows the archive's decision within this time, if only the archive fails.
_TOLERANCE_SECONDS = 2.0


@dataclass
class LogAuditor:
    """
    Checks that each log is stored once and under its own pod, and how long deletions wait for the archive.

    Violations are appended to *failures*. *is_strict* is for runs in which only the archive and the logs fail: then no
    other call delays a deletion, and no log is lost without an event.
    """

    store: SimulatedStore
    logs: SimulatedLogs
    archive: FaultyArchive
    failures: list[Exception]
    is_strict: bool
    counts: list[LogArchiveCounts] = field(default_factory=list)
    #: The uids of terminated pods of Frameworks.
    terminated: set[str] = field(default_factory=set)
    #: When each deletion first had to wait, by controller and uid.
    waits: dict[tuple[int, str], float] = field(default_factory=dict)
    checks: set[asyncio.Task[None]] = field(default_factory=set)

    def __call__(self, resource: str, deleted: bool, obj: Object) -> None:
        if resource == PODS.resource and controller_uid(obj) and has_terminated(obj):
            self.terminated.add(obj["metadata"]["uid"])

    def new_copier(self) -> ContainerLogCopier:
        """A copier for another controller."""
        copier = ContainerLogCopier(self.logs, self.archive, LogArchiveOptions(1024, LIMIT_SECONDS))
        self.counts.append(copier.counts)
        return copier

    def observe(self, controller: FrameworkController) -> None:
        """Measures how long the deletions of *controller* wait."""
        archiver = controller._log_archiver
        assert archiver is not None
        decide = archiver.is_deletable

        def observed(key: Key, uid: str) -> bool:
            is_deletable = decide(key, uid)
            if not is_deletable:
                self._check_wait((id(controller), uid), key)
            return is_deletable

        archiver.is_deletable = observed  # type: ignore[method-assign]  # measured

    def _check_wait(self, wait: tuple[int, str], pod: Key) -> None:
        now = asyncio.get_running_loop().time()
        if wait not in self.waits and self.is_strict:
            check = asyncio.get_running_loop().create_task(self._check_deleted(pod, wait[1]))
            self.checks.add(check)
            check.add_done_callback(self.checks.discard)
        if now - self.waits.setdefault(wait, now) > LIMIT_SECONDS:
            self.failures.append(InvariantViolation(f"{pod} has to wait longer than the limit"))

    async def _check_deleted(self, pod: Key, uid: str) -> None:
        """Checks that the pod is deleted after the limit, if its task still waits for that."""
        await asyncio.sleep(LIMIT_SECONDS + _TOLERANCE_SECONDS)
        try:
            live = await self.store.get(PODS, *pod)
        except NotFound:
            return
        identity = task_identity(live)
        if live["metadata"]["uid"] != uid or is_deleted(live) or identity is None:
            return
        framework = framework_from_json(await self.store.get(FRAMEWORKS, pod[0], identity.framework))
        role = framework.status.role(identity.role) if framework.status is not None else None
        if role is not None and role.tasks[identity.index].state is State.DELETION_PENDING:
            self.failures.append(InvariantViolation(f"{pod} was not deleted after the limit"))

    async def check_end(self) -> None:
        """Checks what is stored."""
        for key, text in self.archive.logs.items():
            if text and key.pod.uid.encode() not in text:
                raise InvariantViolation(f"the log of {key} is that of another pod: {text!r}")
        missing = self.terminated - {key.pod.uid for key in self.archive.logs}
        lost = sum(counts.lost for counts in self.counts)
        if self.is_strict and missing and not self.archive.faults.archive_fails:
            raise InvariantViolation(f"{len(missing)} logs are missing although nothing failed")
        if self.is_strict and len(missing) > lost:
            raise InvariantViolation(f"{len(missing)} logs are missing, {lost} are reported as lost")
        if self.is_strict and lost and not await self._events():
            raise InvariantViolation(f"{lost} logs are lost without an event")

    async def _events(self) -> list[Object]:
        events = (await self.store.list(EVENTS)).items
        return [event for event in events if event["reason"] == "LogArchiveFailed"]


Audit = Callable[[str, bool, Object], None]


def both(first: Audit, second: Audit) -> Audit:
    """An audit hook that calls both."""

    def audit(resource: str, deleted: bool, obj: Object) -> None:
        first(resource, deleted, obj)
        second(resource, deleted, obj)

    return audit
