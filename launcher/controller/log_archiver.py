"""
Archives the logs of containers before their pods are deleted.

The log of a terminated container is archived as soon as its end is observed. A pod whose deletion removes it at once
is deleted after that, or after a limit. A container that still runs when its pod is deleted is followed to its end.
After a change of the leader, logs that are archived already are recognized.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from launcher.controller.log_copier import ArchiveFault, ContainerLogCopier, CopyFailed
from launcher.controller.retry_state import TIMER_TOLERANCE_SECONDS
from launcher.core.events import ObjectEvent, framework_reference
from launcher.core.json_access import as_object
from launcher.core.names import KIND
from launcher.core.owner_references import controller_of
from launcher.core.pods.container_runs import ObservedRun, container_runs
from launcher.core.pods.observed_pod import has_terminated, is_deleted
from launcher.core.replicas import as_int
from launcher.core.spec import PodName
from launcher.log_archive.interface import ArchivedPod, LogKey
from launcher.log_archive.log_text import starts_after
from launcher.store.backoff import wait_or_timeout
from launcher.store.interface import PODS, Key, Object
from launcher.store.object_errors import object_errors
from launcher.store.work_queue import WorkQueue, run_workers

log = logging.getLogger(__name__)

_COMPONENT = "log-archiver"
_FAILED_REASON = "LogArchiveFailed"
#: Logs that are copied concurrently, and as many of pods whose deletion waits for them.
_MAX_COPIES = 16
#: Logs that are followed concurrently, and the bytes that they may use in memory.
_MAX_FOLLOWED, _MAX_FOLLOWED_BYTES = 128, 128 * 1024 * 1024
#: After the end of a followed log, the container's end is observed within this time; otherwise it was interrupted.
_STATUS_SECONDS = 3.0
#: Reported causes that are remembered, so that each is reported once per Framework.
_MAX_REPORTED = 10_000

_MESSAGES: Mapping[ArchiveFault, str] = {
    ArchiveFault.ARCHIVE_UNAVAILABLE: "the log archive cannot be reached, or fails",
    ArchiveFault.ARCHIVE_FORBIDDEN: "the log archive denies access",
    ArchiveFault.ARCHIVE_TIMEOUT: "the log archive is too slow",
    ArchiveFault.LOG_UNAVAILABLE: "the nodes do not return them",
    ArchiveFault.LOG_FORBIDDEN: "the launcher has no permission to get pods/log",
    ArchiveFault.POD_DELETED: "their pods were deleted before they were read",
}


@dataclass(slots=True, eq=False)
class _Pod:
    """An existing pod of a Framework, or one that was deleted while its logs are archived."""

    key: Key
    archived: ArchivedPod
    #: The name and uid of its Framework.
    framework: tuple[str, str]
    runs: dict[tuple[str, int], "_Run"] = field(default_factory=dict)
    #: The running containers.
    running: list[ObservedRun] = field(default_factory=list)
    #: The observed restarts of each container.
    restarts: dict[str, int] = field(default_factory=dict)
    #: A deletion removes it at once, with its logs.
    is_removed_at_once: bool = False
    grace_seconds: float = 0.0
    is_gone: bool = False
    #: On the event loop's clock: the latest time of its deletion, once that was requested.
    deletion_due: float | None = None


@dataclass(slots=True, eq=False)
class _Run:
    """One run of a container whose log is archived."""

    pod: _Pod
    key: LogKey
    #: It runs while its pod is deleted.
    is_followed: bool
    #: It ended before this launcher observed it, so an earlier leader may have archived it.
    may_be_stored: bool
    finished_at: str
    #: Set when its end is observed, or when its pod is gone.
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_active: bool = False
    is_pending: bool = True
    first_attempt: float | None = None
    fault: ArchiveFault | None = None


class LogArchiver:
    """Archives the logs of all pods of Frameworks while it runs."""

    def __init__(
        self,
        copier: ContainerLogCopier,
        *,
        record: Callable[[Object, Iterable[ObjectEvent]], None],
        read_pod_uid: Callable[[Key], Awaitable[str | None]],
        on_deletable: Callable[[Key, PodName], None],
    ) -> None:
        """
        *record* records events of a Framework. *read_pod_uid* reads the uid of a pod from the store; None if there is
        no such pod.

        *on_deletable* is called with a Framework and a pod that was not deletable, when that has to be checked again.
        """
        self._copier, self._counts = copier, copier.counts
        self._record, self._read_pod_uid, self._on_deletable = record, read_pod_uid, on_deletable
        self._timeout = copier.options.timeout_seconds
        self._pods: dict[Key, _Pod] = {}
        #: Those to archive.
        self._runs: dict[LogKey, _Run] = {}
        self._queue: WorkQueue[LogKey] = WorkQueue("log-archive")
        #: Logs for which a deletion waits, so that it does not wait for others.
        self._urgent: WorkQueue[LogKey] = WorkQueue("log-archive-urgent")
        self._followed: WorkQueue[LogKey] = WorkQueue("log-archive-follow")
        self._reported: set[tuple[str, ArchiveFault]] = set()

    async def run(self) -> None:
        """Archives logs until cancelled."""
        followers = min(_MAX_FOLLOWED, max(1, _MAX_FOLLOWED_BYTES // self._copier.options.tail_bytes))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run_workers(self._queue, self._archive, _MAX_COPIES))
                group.create_task(run_workers(self._urgent, self._archive, _MAX_COPIES))
                group.create_task(run_workers(self._followed, self._archive, followers))
        finally:
            self._counts.pending = 0

    def is_deletable(self, key: Key, uid: str) -> bool:
        """
        Returns whether the pod may be deleted now: its logs are archived, or stay readable while it is deleted.

        Otherwise its deletion is delayed, at most for the configured time.
        """
        pod = self._pods.get(key)
        if pod is None or pod.archived.uid != uid or not pod.is_removed_at_once:
            return True
        for observed in pod.running:
            self._add_run(pod, observed, is_followed=False)
        pending = [run for run in pod.runs.values() if run.is_pending]
        if not pending:
            return True
        now = asyncio.get_running_loop().time()
        if pod.deletion_due is None:
            pod.deletion_due = now + self._timeout
            asyncio.get_running_loop().call_at(pod.deletion_due, self._notify, pod)
            for run in pending:
                self._queue_of(run).add(run.key)
        if now < pod.deletion_due - TIMER_TOLERANCE_SECONDS:
            return False
        for run in pending:
            run.fault = run.fault or ArchiveFault.ARCHIVE_TIMEOUT
            self._report(run, run.fault)
        return True

    def _notify(self, pod: _Pod) -> None:
        if not pod.is_gone:
            self._on_deletable((pod.key[0], pod.framework[0]), PodName(pod.key[1]))

    # Event handler of the informer.

    def on_pod_upsert(self, key: Key, obj: Object) -> None:
        metadata = obj["metadata"]
        pod = self._pods.get(key)
        is_new = pod is None or pod.archived.uid != metadata["uid"]
        if pod is None or is_new:
            self.on_pod_delete(key)
            owner = controller_of(metadata)
            if owner.get("kind") != KIND:
                return
            archived = ArchivedPod(*key, metadata["uid"])
            pod = self._pods[key] = _Pod(key, archived, (owner["name"], owner["uid"]))
        grace = as_object(obj.get("spec")).get("terminationGracePeriodSeconds")
        pod.grace_seconds = as_int(metadata.get("deletionGracePeriodSeconds", grace))
        # As in kube-apiserver: such a pod is deleted without a grace period.
        pod.is_removed_at_once = not is_deleted(obj) and (has_terminated(obj) or grace == 0)
        self._observe_runs(pod, list(container_runs(obj)), is_new=is_new, is_deleting=is_deleted(obj))

    def _observe_runs(self, pod: _Pod, runs: list[ObservedRun], *, is_new: bool, is_deleting: bool) -> None:
        pod.running = [run for run in runs if not run.terminated]
        for run in runs:
            pod.restarts[run.container] = max(run.restart, pod.restarts.get(run.container, 0))
            if run.terminated:
                known = pod.runs.get((run.container, run.restart))
                if known is None:
                    self._add_run(pod, run, is_followed=False, may_be_stored=is_new)
                else:
                    self._observe_end(known, run.finished_at)
            elif is_deleting:
                self._add_run(pod, run, is_followed=True)

    def _observe_end(self, run: _Run, finished_at: str) -> None:
        run.finished_at = finished_at
        run.ended.set()
        if run.is_followed and run.is_pending and not run.is_active:
            # It waits for its turn to be followed, which is no longer necessary.
            run.is_followed = False
            self._queue_of(run).add(run.key)

    def _add_run(
        self, pod: _Pod, observed: ObservedRun, *, is_followed: bool, may_be_stored: bool = False
    ) -> None:
        if (observed.container, observed.restart) in pod.runs:
            return
        key = LogKey(pod.archived, observed.container, observed.restart)
        run = _Run(pod, key, is_followed, may_be_stored, observed.finished_at)
        pod.runs[observed.container, observed.restart] = self._runs[key] = run
        self._counts.pending = len(self._runs)
        self._queue_of(run).add(key)

    def _queue_of(self, run: _Run) -> WorkQueue[LogKey]:
        if run.is_followed:
            return self._followed
        return self._queue if run.pod.deletion_due is None else self._urgent

    def on_pod_delete(self, key: Key) -> None:
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        pod.is_gone = True
        for run in pod.runs.values():
            run.ended.set()
            # What an active one has read is still stored.
            if run.is_pending and not run.is_active:
                self._give_up(run, run.fault or ArchiveFault.POD_DELETED)

    # Workers.

    async def _archive(self, key: LogKey) -> None:
        """Archives one log. A log that fails is tried again as long as its pod exists."""
        run = self._runs.get(key)
        if run is None or run.is_active:
            return
        run.is_active = True
        if run.first_attempt is None:
            run.first_attempt = asyncio.get_running_loop().time()
        try:
            await self._copy(run)
            object_errors.resolve(_COMPONENT, PODS.plural, run.pod.key)
        except CopyFailed as failure:
            self._handle_failure(run, failure)
        except Exception as error:  # a bug concerns one log, and must neither block a pod nor stop the others
            object_errors.record(_COMPONENT, PODS.plural, run.pod.key, error)
            self._give_up(run, ArchiveFault.LOG_UNAVAILABLE)
        else:
            self._finish(run)
        finally:
            run.is_active = False

    async def _copy(self, run: _Run) -> None:
        if run.may_be_stored and await self._copier.is_stored(run.key):
            return
        text = await self._read(run)
        if await self._copier.store(run.key, text):
            self._counts.stored += 1
            self._counts.stored_bytes += len(text)

    async def _read(self, run: _Run) -> bytes:
        pod, container = run.pod, run.key.container
        while True:
            current = pod.restarts[container]
            if current > run.key.restart + 1:
                message = f"only the logs of restarts {current - 1} and {current} exist"
                raise CopyFailed(ArchiveFault.LOG_UNAVAILABLE, message, is_final=True)
            text = await self._read_log(run, previous=current > run.key.restart)
            if run.is_followed:
                # The end of the stream can also be that of a connection between servers.
                await wait_or_timeout(run.ended, _STATUS_SECONDS)
                if run.ended.is_set():
                    return text
            elif pod.restarts[container] == current:
                # It may have restarted before the restart is observed.
                is_of_next_run = current == run.key.restart and starts_after(text, run.finished_at)
                return await self._read_previous(run, text) if is_of_next_run else text

    async def _read_previous(self, run: _Run, text: bytes) -> bytes:
        """Returns the log before a restart; *text* if there was none, so that its lines were only written late."""
        try:
            return await self._read_log(run, previous=True)
        except CopyFailed as failure:
            if failure.is_final and failure.fault is ArchiveFault.LOG_UNAVAILABLE:
                return text
            raise

    async def _read_log(self, run: _Run, *, previous: bool) -> bytes:
        return await self._copier.read(
            run.key,
            previous=previous,
            follow_seconds=run.pod.grace_seconds if run.is_followed else None,
            is_replaced=lambda: self._is_replaced(run),
        )

    async def _is_replaced(self, run: _Run) -> bool:
        """Returns whether another pod has the name. It is read, because the watch may be late."""
        if self._pods.get(run.pod.key, run.pod) is not run.pod:
            return True
        return await self._read_pod_uid(run.pod.key) not in (None, run.key.pod.uid)

    def _handle_failure(self, run: _Run, failure: CopyFailed) -> None:
        self._counts.failures[failure.fault] += 1
        if run.fault is None or failure.fault is not ArchiveFault.POD_DELETED:
            run.fault = failure.fault  # otherwise the pod was deleted because of the earlier one
        extra = {"pod": run.pod.key, "container": run.key.container, "reason": failure.fault}
        log.info("log not archived", extra={**extra, "error": str(failure)})
        if failure.is_final or run.pod.is_gone:
            self._give_up(run, run.fault)
            return
        if run.ended.is_set():
            run.is_followed = False
        now = asyncio.get_running_loop().time()
        if run.first_attempt is not None and now >= run.first_attempt + self._timeout:
            self._report(run, run.fault)
        self._queue_of(run).add_rate_limited(run.key)

    def _give_up(self, run: _Run, fault: ArchiveFault) -> None:
        self._counts.lost += 1
        self._report(run, fault)
        self._finish(run)

    def _finish(self, run: _Run) -> None:
        run.is_pending = False
        self._runs.pop(run.key, None)
        self._counts.pending = len(self._runs)
        for queue in (self._queue, self._urgent, self._followed):
            queue.forget(run.key)
        pod = run.pod
        if pod.deletion_due is not None and not any(each.is_pending for each in pod.runs.values()):
            self._notify(pod)

    def _report(self, run: _Run, fault: ArchiveFault) -> None:
        """Records an event and a warning, once per Framework and cause."""
        name, uid = run.pod.framework
        if (uid, fault) in self._reported:
            return
        if len(self._reported) >= _MAX_REPORTED:
            self._reported.clear()
        self._reported.add((uid, fault))
        log.warning("logs are not archived", extra={"framework": (run.pod.key[0], name), "reason": fault})
        event = ObjectEvent(_FAILED_REASON, f"Logs are not archived: {_MESSAGES[fault]}.", warning=True)
        self._record(framework_reference(run.pod.key[0], name, uid), [event])
