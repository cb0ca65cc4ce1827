"""
One pod, from the moment it is bound to its end.

Level-driven: whatever happened, look at what is known, do what is due, write down what is so, and wait. Starting is
done before it is written down, because a run has its name: a start that is repeated finds what was started before.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from launcher.core.errors import Unavailable
from launcher.core.planning.actions import ObjectEvent
from launcher.core.pods.observed_pod import has_terminated
from launcher.core.timestamps import parse_rfc3339
from launcher.node.agent.container_manager import ContainerManager, Stop
from launcher.node.agent.container_starter import START_ERROR, ContainerStarter
from launcher.node.agent.container_termination import kill_and_remove_runs
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.agent.status_manager import PodDeleted, PodStatusManager
from launcher.node.container_runtime import ContainerRun, RunId, StartFailed
from launcher.node.pods.container_state import (
    ContainerExit,
    ContainerState,
    RunState,
    WaitingReason,
    observed,
    restore_state,
    unknown_end,
)
from launcher.node.pods.pod_lifecycle import PodActions, PodState, compute_pod_actions
from launcher.node.pods.pod_spec import (
    Container,
    ContainerRole,
    containers_of,
    full_name,
    grace_ends,
    grace_of,
    is_deleted,
    restart_policy,
    run_id,
    uid_of,
)
from launcher.node.pods.pod_status import PodFailure, StatusInputs, status_of
from launcher.node.volumes.volume_manager import PreparedVolumes, VolumeFailed, limited_volumes
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout
from launcher.store.interface import Object

log = logging.getLogger(__name__)

#: Seconds until the next try of a start that the pod's spec or the runtime stood in the way of.
_AGAIN = 10.0
_SOON = 1.0
#: Seconds between two looks at the size of volumes.
_MEASURE = 10.0
#: Seconds that the containers of an evicted pod have to end.
_EVICTION_GRACE = 1.0
#: What a sidecar has at least, since others have used the grace before it.
_SIDECAR_GRACE = 2.0
#: The exit code of a container whose program could not be started.
_START_ERROR_CODE = 128
_EVICTED = "Evicted"
_TOO_LONG = PodFailure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class PodWorker:
    """Runs one pod."""

    def __init__(self, pod: Object, starter: ContainerStarter, tools: AgentDependencies) -> None:
        self._stored = PodStatusManager(pod, tools)
        self._starter, self._tools = starter, tools
        self._uid = uid_of(pod)
        self._containers = containers_of(pod)
        self._policy = restart_policy(pod)
        self._records: dict[str, ContainerState] = {}
        self._volumes: PreparedVolumes | None = None
        self._mount_pauses = ExponentialBackoff(first=0.5, most=122.0)
        self._since = tools.clock()
        self._verdict: PodFailure | None = None
        #: When the pod as a whole began to end.
        self._ending: float | None = None
        self._gone = False
        #: By run: how many of its processes were killed for memory, as far as events say so.
        self._oom_kills: dict[RunId, int] = {}
        self._changed = asyncio.Event()

    def update_pod(self, pod: Object) -> None:
        """The pod has a new version."""
        if self._stored.saw(pod):
            self.wake()

    def gone(self) -> None:
        """The pod is no longer in the store: nothing of it may go on."""
        self._gone = True
        self.wake()

    def wake(self) -> None:
        """Something may have changed: look again."""
        self._changed.set()

    async def run(self) -> None:
        """See the pod to its end; then nothing of it is left here, but its logs."""
        self._restore_state()
        async with asyncio.TaskGroup() as tasks:
            care = ContainerManager(self._tools.runtime, self._starter.address, tasks, self._tell, self.wake)
            measuring = tasks.create_task(self._measure()) if limited_volumes(self._stored.object) else None
            with suppress(PodDeleted):
                await self._live(care)
            care.close()
            if measuring:
                measuring.cancel()
        await kill_and_remove_runs(self._tools.runtime, self._runs(), self._changed)
        for run in self._runs():
            self._tools.last_words.remove(run)
        await self._tools.volumes.remove(self._stored.object)

    def _restore_state(self) -> None:
        """Begin with what the store and the runtime know already."""
        pod, now = self._stored.object, self._tools.clock()
        status = pod.get("status") or {}
        for container in self._containers:
            run_of = partial(self._starter.run_of, pod, container)
            self._records[container.name] = restore_state(container, status, run_of, self._end_of, now)
        if status.get("startTime"):
            self._since = float(parse_rfc3339(status["startTime"]))
        if status.get("reason"):
            self._verdict = PodFailure(status["reason"], status.get("message") or "")

    async def _live(self, care: ContainerManager) -> None:
        """Until the pod is over. Raises PodDeleted."""
        if has_terminated(self._stored.object):
            await self._let_go()
            return
        for container in self._containers:
            if self._records[container.name].running:
                self._take_on(care, container, fresh=False)
        while not self._gone:
            self._changed.clear()
            now = self._tools.clock()
            self._refresh_container_states(care, now)
            todo = self._decide(now)
            if todo.over:
                await self._finish()
                return
            if todo.start:
                await self._start(care, todo.start, now)
                continue  # what was started, or could not be, may lead to more: look before telling
            look_again = await self._stop(care, todo.stop, now)
            await self._report(todo)
            await self._forget_old()
            await self._wait(todo.look_again, look_again, self._deadline())

    def _refresh_container_states(self, care: ContainerManager, now: float) -> None:
        """Bring the records to what the runtime and the probes say now."""
        for container in self._containers:
            record = self._records[container.name]
            if not record.running:
                self._adopt(care, container, record)
                continue
            assert record.attempt is not None
            run = self._starter.run_of(self._stored.object, container, record.attempt.restart)
            if run is not None:
                self._report_oom_kills(container, run)
            if run is not None and run.ended is None:
                self._records[container.name] = care.seen(container, record)
                continue
            end = unknown_end(now) if run is None else observed(self._end_of(container, run), now)
            ended = replace(record.attempt, end=end)
            self._records[container.name] = replace(record, attempt=ended, started=False, ready=False)
            care.leave(container)

    def _report_oom_kills(self, container: Container, run: ContainerRun) -> None:
        if run.oom_kills > self._oom_kills.get(run.id, 0):
            self._oom_kills[run.id] = run.oom_kills
            limit = ((container.spec.get("resources") or {}).get("limits") or {}).get("memory")
            message = f"A process of container {container.name} was killed: out of memory"
            self._tell(
                ObjectEvent("OOMKilling", f"{message} (limit {limit})" if limit else message, warning=True)
            )

    def _adopt(self, care: ContainerManager, container: Container, record: ContainerState) -> None:
        """Take on the next run of the container if it is there: the answer to its start may have been lost."""
        run = self._starter.run_of(self._stored.object, container, record.next_restart)
        if run is not None:
            self._started(care, container, run, fresh=False)

    def _decide(self, now: float) -> PodActions:
        todo = compute_pod_actions(self._situation(), now)
        if todo.over or self._ends():
            return todo
        deadline = self._deadline()
        if deadline is not None and now >= deadline:
            self._verdict = _TOO_LONG
            self._tell(ObjectEvent(_TOO_LONG.reason, _TOO_LONG.message, warning=True))
            return compute_pod_actions(self._situation(), now)
        return todo

    def _situation(self) -> PodState:
        return PodState(self._containers, self._records, self._policy, self._ends(), self._tools.backoff)

    def _ends(self) -> bool:
        """Whether the pod has to end, whatever its containers do."""
        return self._verdict is not None or is_deleted(self._stored.object)

    def _deadline(self) -> float | None:
        """When the pod will have been active for too long."""
        seconds = self._stored.object["spec"].get("activeDeadlineSeconds")
        return self._since + seconds if seconds is not None and self._verdict is None else None

    async def _start(self, care: ContainerManager, containers: Iterable[Container], now: float) -> None:
        if self._volumes is None and not await self._prepare(containers, now):
            return
        for container in containers:
            await self._start_one(care, container, now)

    async def _prepare(self, containers: Iterable[Container], now: float) -> bool:
        """Make the volumes ready. Whether they are; if not, *containers* wait with the reason."""
        try:
            self._volumes = await self._starter.prepare(self._stored.object)
        except (VolumeFailed, Unavailable) as error:
            self._tell(ObjectEvent("FailedMount", str(error), warning=True))
            again = now + self._mount_pauses.next_delay()
            for name, record in self._records.items():
                self._records[name] = replace(record, not_before=again)
            for container in containers:
                record = self._records[container.name]
                self._records[container.name] = replace(record, hindrance=WaitingReason("", str(error)))
            return False
        return True

    async def _start_one(self, care: ContainerManager, container: Container, now: float) -> None:
        assert self._volumes is not None
        record = self._records[container.name]
        try:
            pod = self._stored.object
            run = await self._starter.start(pod, container, record.next_restart, self._volumes)
        except StartFailed as error:
            self._tell(ObjectEvent("Failed", f"Error: {error}", warning=True))
            self._records[container.name] = self._not_started(record, error)
        except Unavailable as error:
            log.info(
                "container not started", extra={"pod": full_name(self._stored.object), "why": str(error)}
            )
            self._records[container.name] = replace(
                record, hindrance=WaitingReason("", str(error)), not_before=now + _SOON
            )
        else:
            self._started(care, container, run, fresh=True)

    def _not_started(self, record: ContainerState, error: StartFailed) -> ContainerState:
        now = self._tools.clock()
        if error.reason != START_ERROR:
            return replace(record, hindrance=WaitingReason(error.reason, str(error)), not_before=now + _AGAIN)
        end = ContainerExit(_START_ERROR_CODE, START_ERROR, now, str(error))
        return self._next(record, RunState(record.next_restart, None, end))

    def _started(
        self, care: ContainerManager, container: Container, run: ContainerRun, *, fresh: bool
    ) -> None:
        record = self._records[container.name]
        self._records[container.name] = self._next(record, RunState(record.next_restart, run.started))
        self._take_on(care, container, fresh=fresh)

    def _next(self, record: ContainerState, attempt: RunState) -> ContainerState:
        streak = self._tools.backoff.streak(record) + 1 if record.attempt else 0
        return ContainerState(attempt, last=record.attempt, streak=streak)

    def _take_on(self, care: ContainerManager, container: Container, *, fresh: bool) -> None:
        record = self._records[container.name]
        assert record.attempt is not None
        age = self._tools.clock() - (record.attempt.started or 0.0)
        run = run_id(self._uid, container.name, record.attempt.restart)
        self._records[container.name] = care.take_on(container, run, record, fresh=fresh, age=age)

    async def _stop(
        self, care: ContainerManager, containers: Iterable[Container], now: float
    ) -> float | None:
        """See to everything that has to end. When to look again."""
        for container in self._containers:
            if (unhealthy := care.unhealthy(container)) is not None:
                self._tell(ObjectEvent("Killing", unhealthy.why))
                grace = grace_of(self._stored.object) if unhealthy.grace is None else unhealthy.grace
                care.stop(container, self._run(container), now, float(grace))
        for container in containers:
            if self._ending is None:
                self._ending = now
            if not care.is_stopping(container):
                self._tell(ObjectEvent("Killing", f"Stopping container {container.name}"))
                care.stop(container, self._run(container), now)
        return await care.step(now, self._kill_at)

    def _kill_at(self, stop: Stop) -> float:
        """When a container that is being ended is ended by force."""
        pod = self._stored.object
        alone = stop.began + stop.grace if stop.grace is not None else None
        if self._ending is None:
            assert alone is not None
            return alone
        evicted = self._verdict is not None and self._verdict.reason == _EVICTED
        together = self._ending + (_EVICTION_GRACE if evicted else grace_of(pod))
        if is_deleted(pod):
            together = min(together, grace_ends(pod))
        if stop.container.role is ContainerRole.SIDECAR:
            together = max(together, stop.began + _SIDECAR_GRACE)
        return together if alone is None else min(together, alone)

    def _run(self, container: Container) -> RunId:
        attempt = self._records[container.name].attempt
        assert attempt is not None
        return run_id(self._uid, container.name, attempt.restart)

    async def _report(self, todo: PodActions, *, over: bool = False) -> None:
        """Have the store say what is so."""
        for container, _ in todo.pausing:
            where = f"{container.name} in pod {full_name(self._stored.object)}"
            self._tell(ObjectEvent("BackOff", f"Back-off restarting failed container {where}", warning=True))
        pausing = {container.name: pause for container, pause in todo.pausing}
        await self._stored.report(lambda pod: self._status(pod, pausing, over=over))

    def _status(self, pod: Object, pausing: dict[str, float], *, over: bool) -> Object:
        prepared = self._volumes is not None or any(record.attempt for record in self._records.values())
        known = StatusInputs(
            pod,
            self._situation(),
            self._since,
            self._starter.address,
            prepared=prepared,
            over=over,
            verdict=self._verdict,
            pausing=pausing,
        )
        return status_of(known, self._tools.clock())

    async def _finish(self) -> None:
        """Write down how it ended, and let go of it."""
        # A pod that was deleted before anything of it ran has nothing to tell.
        if not is_deleted(self._stored.object) or any(record.attempt for record in self._records.values()):
            await self._report(PodActions(), over=True)
        await self._let_go()

    async def _let_go(self) -> None:
        """Let the store drop the pod if it is deleted."""
        if is_deleted(self._stored.object):
            await self._stored.remove()

    async def _forget_old(self) -> None:
        """Let the runtime drop what is in the status for good: the attempts before the last."""
        for name, record in self._records.items():
            if record.last is None:
                continue
            old = run_id(self._uid, name, record.last.restart)
            if old in self._tools.runtime.runs():
                with suppress(Unavailable):  # it is tried again after the next report
                    await self._tools.runtime.remove(old)
                    self._tools.last_words.remove(old)

    def _runs(self) -> Iterator[RunId]:
        """Every run of the pod that there may be."""
        for name, record in self._records.items():
            for restart in range(max(0, record.next_restart - 2), record.next_restart + 1):
                yield run_id(self._uid, name, restart)

    async def _wait(self, *times: float | None) -> None:
        """Until something changes, or the first of these times."""
        due = min((time for time in times if time is not None), default=None)
        await wait_or_timeout(self._changed, None if due is None else max(0.0, due - self._tools.clock()))

    async def _measure(self) -> None:
        """Evict the pod once one of its volumes is too big."""
        while True:
            pod = self._stored.object
            said = await asyncio.to_thread(self._tools.volumes.too_big, pod)
            if said and self._verdict is None:
                self._verdict = PodFailure(_EVICTED, said)
                self._tell(ObjectEvent(_EVICTED, said, warning=True))
                self.wake()
                return
            await asyncio.sleep(_MEASURE)

    def _end_of(self, container: Container, run: ContainerRun) -> ContainerExit:
        return self._starter.ending(self._stored.object, len(self._containers), container, run)

    def _tell(self, notice: ObjectEvent) -> None:
        self._tools.tell(self._stored.object, notice)
