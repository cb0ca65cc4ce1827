"""
Runs one pod, from its binding to its end.

Level-driven: each sync reads the current state, computes and executes the actions, writes the status, and waits. A
container is started before its start is written to the status: runs have fixed ids, so a repeated start finds the run
that was started before.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from launcher.core.errors import Unavailable
from launcher.core.events import ObjectEvent
from launcher.core.pods.observed_pod import has_terminated, is_deleted
from launcher.core.timestamps import parse_rfc3339
from launcher.node.agent.container_manager import ContainerManager, StoppingContainer
from launcher.node.agent.container_starter import ContainerStarter
from launcher.node.agent.container_stop import kill_and_remove_runs
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.agent.status_manager import PodDeleted, PodStatusManager
from launcher.node.container_runtime import (
    START_ERROR,
    ContainerRun,
    ExitStatus,
    ImageFailed,
    RunId,
    StartFailed,
)
from launcher.node.pods.container_state import (
    ContainerState,
    RunState,
    WaitingReason,
    restore_state,
    with_plausible_time,
)
from launcher.node.pods.pod_lifecycle import PodActions, PodState, compute_pod_actions
from launcher.node.pods.pod_spec import (
    Container,
    ContainerRole,
    containers_of,
    deletion_deadline,
    full_name,
    grace_seconds,
    restart_policy,
    run_id,
    uid_of,
)
from launcher.node.pods.pod_status import PodFailure, StatusInputs, pod_status
from launcher.node.volumes.volume_manager import PreparedVolumes, VolumeFailed, limited_volumes
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout
from launcher.store.interface import Object

log = logging.getLogger(__name__)

#: Seconds until a start is retried that the runtime prevented.
_RUNTIME_RETRY_SECONDS = 1.0
_VOLUME_CHECK_SECONDS = 10.0
_EVICTION_GRACE_SECONDS = 1.0
#: The minimum for a sidecar, because the other containers use up the grace period before it.
_MIN_SIDECAR_GRACE_SECONDS = 2.0
#: The exit code of a container whose program could not be started.
_START_ERROR_CODE = 128
_EVICTED = "Evicted"
_DEADLINE_EXCEEDED = PodFailure(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)


class PodWorker:
    """Runs one pod."""

    def __init__(
        self,
        pod: Object,
        starter: ContainerStarter,
        dependencies: AgentDependencies,
        on_write: Callable[[Object], None],
    ) -> None:
        """*on_write* is called with the stored pod after each write."""
        self._pod = PodStatusManager(pod, dependencies, on_write)
        self._starter, self._dependencies = starter, dependencies
        self._uid = uid_of(pod)
        self._containers = containers_of(pod)
        self._policy = restart_policy(pod)
        self._states: dict[str, ContainerState] = {}
        self._volumes: PreparedVolumes | None = None
        self._mount_backoff = ExponentialBackoff(initial=0.5, maximum=122.0)
        self._start_time = dependencies.clock()
        self._failure: PodFailure | None = None
        #: When the first container was stopped because the pod ends.
        self._stopped_at: float | None = None
        self._deleted = False
        #: Runs received from the exit stream that are not in the containers' states yet.
        self._observed_runs: dict[RunId, ContainerRun] = {}
        #: The number of killed processes of which the pod has events, by run.
        self._reported_oom_kills: dict[RunId, int] = {}
        #: Runs that may exist although the runtime has not responded to their start.
        self._interrupted_starts: set[RunId] = set()
        self._changed = asyncio.Event()

    def update_pod(self, pod: Object) -> None:
        """Handles a new version of the pod."""
        if self._pod.update(pod):
            self.wake()

    def pod_deleted(self) -> None:
        """Ends all containers: the pod no longer exists in the store."""
        self._deleted = True
        self.wake()

    def update_run(self, run: ContainerRun | None) -> None:
        """Handles a run that ended or has a killed process; None if runs may have changed unobserved."""
        if run is not None:
            self._observed_runs[run.id] = run
        self.wake()

    def wake(self) -> None:
        """Requests a sync."""
        self._changed.set()

    async def run(self) -> None:
        """Runs the pod to its end; then only its logs are left."""
        self._restore_state()
        async with asyncio.TaskGroup() as tasks:
            containers = ContainerManager(
                self._dependencies.runtime,
                self._dependencies.network,
                self._starter.pod_address,
                tasks,
                self._record,
                self.wake,
            )
            checks = (
                tasks.create_task(self._check_volume_sizes()) if limited_volumes(self._pod.object) else None
            )
            with suppress(PodDeleted):
                await self._sync_until_terminated(containers)
            containers.close()
            if checks:
                checks.cancel()
        await kill_and_remove_runs(self._dependencies.runtime, self._existing_runs(), self._changed)
        for run in self._runs():
            self._dependencies.termination_messages.remove(run)
        if self._dependencies.image_manager is not None:
            self._dependencies.image_manager.forget(self._uid)
        self._starter.release_gpus(self._pod.object)
        await self._dependencies.sandboxes.remove(self._uid)
        await self._dependencies.volumes.remove(self._pod.object)

    def _restore_state(self) -> None:
        """Restores the containers' states from the store and the runtime."""
        pod, now = self._pod.object, self._dependencies.clock()
        status = pod.get("status") or {}
        for container in self._containers:
            get_run = partial(self._starter.get_run, pod, container)
            self._states[container.name] = restore_state(container, status, get_run, self._exit_status, now)
        if status.get("startTime"):
            self._start_time = float(parse_rfc3339(status["startTime"]))
        if status.get("reason"):
            self._failure = PodFailure(status["reason"], status.get("message") or "")

    async def _sync_until_terminated(self, containers: ContainerManager) -> None:
        """Raises PodDeleted."""
        if has_terminated(self._pod.object):
            await self._remove_if_deleted()
            return
        for container in self._containers:
            if self._states[container.name].running:
                self._manage(containers, container, just_started=False)
        while not self._deleted:
            self._changed.clear()
            now = self._dependencies.clock()
            self._refresh_container_states(containers, now)
            actions = self._compute_actions(now)
            if actions.terminated:
                await self._finish()
                return
            if actions.start:
                await self._start(containers, actions.start, now)
                continue  # what was started, or failed to start, may allow more: sync before the status is written
            next_stop = await self._stop(containers, actions.stop, now)
            await self._write_status(actions)
            await self._remove_old_runs()
            await self._wait(actions.recheck_at, next_stop, self._deadline())

    def _refresh_container_states(self, containers: ContainerManager, now: float) -> None:
        """Updates the states with the runs and the results of probes."""
        for container in self._containers:
            state = self._states[container.name]
            if not state.running:
                self._recover_run(containers, container, state)
                continue
            assert state.run is not None
            run = self._current_run(container, state.run.restart)
            if run is not None:
                self._report_oom_kills(container, run)
            if run is not None and run.ended is None:
                self._states[container.name] = containers.with_probe_results(container, state)
                continue
            status = (
                ExitStatus.unknown(now)
                if run is None
                else with_plausible_time(self._exit_status(container, run), now)
            )
            ended = replace(state.run, exit=status)
            self._states[container.name] = replace(state, run=ended, started=False, ready=False)
            containers.remove(container)

    def _current_run(self, container: Container, restart: int) -> ContainerRun | None:
        """The run as the exit stream reported it, or else as the runtime has it."""
        observed = self._observed_runs.pop(run_id(self._uid, container.name, restart), None)
        return observed or self._starter.get_run(self._pod.object, container, restart)

    def _report_oom_kills(self, container: Container, run: ContainerRun) -> None:
        if run.oom_kills > self._reported_oom_kills.get(run.id, 0):
            self._reported_oom_kills[run.id] = run.oom_kills
            limit = ((container.spec.get("resources") or {}).get("limits") or {}).get("memory")
            message = f"A process of container {container.name} was killed: out of memory"
            message = f"{message} (limit {limit})" if limit else message
            self._record(ObjectEvent("OOMKilling", message, warning=True))

    def _recover_run(self, containers: ContainerManager, container: Container, state: ContainerState) -> None:
        """Takes over the next run of the container if it exists: the response to its start may have been lost."""
        run = self._starter.get_run(self._pod.object, container, state.next_restart)
        if run is not None:
            self._run_started(containers, container, run, just_started=False)

    def _compute_actions(self, now: float) -> PodActions:
        actions = compute_pod_actions(self._pod_state(), now)
        if actions.terminated or self._is_ending():
            return actions
        deadline = self._deadline()
        if deadline is not None and now >= deadline:
            self._failure = _DEADLINE_EXCEEDED
            self._record(ObjectEvent(_DEADLINE_EXCEEDED.reason, _DEADLINE_EXCEEDED.message, warning=True))
            return compute_pod_actions(self._pod_state(), now)
        return actions

    def _pod_state(self) -> PodState:
        return PodState(
            self._containers, self._states, self._policy, self._is_ending(), self._dependencies.backoff
        )

    def _is_ending(self) -> bool:
        """Whether the pod has to end, whatever the state of its containers is."""
        return self._failure is not None or is_deleted(self._pod.object)

    def _deadline(self) -> float | None:
        """When activeDeadlineSeconds will be exceeded."""
        seconds = self._pod.object["spec"].get("activeDeadlineSeconds")
        return self._start_time + seconds if seconds is not None and self._failure is None else None

    async def _start(self, containers: ContainerManager, starting: Iterable[Container], now: float) -> None:
        if self._volumes is None and not await self._prepare_volumes(starting, now):
            return
        for container in starting:
            await self._start_container(containers, container, now)

    async def _prepare_volumes(self, starting: Iterable[Container], now: float) -> bool:
        """Returns whether the volumes are prepared; if not, the containers in *starting* wait with the reason."""
        try:
            self._volumes = await self._starter.prepare(self._pod.object)
        except (VolumeFailed, Unavailable) as error:
            self._record(ObjectEvent("FailedMount", str(error), warning=True))
            retry_at = now + self._mount_backoff.next_delay()
            for name, state in self._states.items():
                self._states[name] = replace(state, not_before=retry_at)
            for container in starting:
                state = self._states[container.name]
                self._states[container.name] = replace(state, waiting=WaitingReason("", str(error)))
            return False
        return True

    async def _start_container(self, containers: ContainerManager, container: Container, now: float) -> None:
        assert self._volumes is not None
        state = self._states[container.name]
        try:
            pod = self._pod.object
            run = await self._starter.start(pod, container, state.next_restart, self._volumes)
        except StartFailed as error:
            message = error.reason if isinstance(error, ImageFailed) else str(error)
            self._record(ObjectEvent("Failed", f"Error: {message}", warning=True))
            self._states[container.name] = self._after_failed_start(state, error)
        except Unavailable as error:
            self._interrupted_starts.add(run_id(self._uid, container.name, state.next_restart))
            log.info("container not started", extra={"pod": full_name(self._pod.object), "error": str(error)})
            self._states[container.name] = replace(
                state, waiting=WaitingReason("", str(error)), not_before=now + _RUNTIME_RETRY_SECONDS
            )
        else:
            self._run_started(containers, container, run, just_started=True)

    def _after_failed_start(self, state: ContainerState, error: StartFailed) -> ContainerState:
        now = self._dependencies.clock()
        if error.reason != START_ERROR:
            waiting = WaitingReason(error.reason, str(error))
            return replace(state, waiting=waiting, not_before=now + error.retry_seconds)
        status = ExitStatus(_START_ERROR_CODE, START_ERROR, now, str(error))
        return self._next_state(state, RunState(state.next_restart, None, status))

    def _run_started(
        self, containers: ContainerManager, container: Container, run: ContainerRun, *, just_started: bool
    ) -> None:
        state = self._states[container.name]
        self._states[container.name] = self._next_state(
            state,
            RunState(state.next_restart, run.started, container_id=run.container_id, image_ref=run.image_ref),
        )
        self._manage(containers, container, just_started=just_started)

    def _next_state(self, state: ContainerState, run: RunState) -> ContainerState:
        restarts = self._dependencies.backoff.consecutive_restarts(state) + 1 if state.run else 0
        return ContainerState(run, last_run=state.run, consecutive_restarts=restarts)

    def _manage(self, containers: ContainerManager, container: Container, *, just_started: bool) -> None:
        state = self._states[container.name]
        assert state.run is not None
        age = self._dependencies.clock() - (state.run.started or 0.0)
        run = run_id(self._uid, container.name, state.run.restart)
        self._states[container.name] = containers.add(
            container, run, state, just_started=just_started, age=age
        )

    async def _stop(
        self, containers: ContainerManager, stopping: Iterable[Container], now: float
    ) -> float | None:
        """Stops these containers, and unhealthy ones. Returns the time of the next step."""
        for container in self._containers:
            if (reason := containers.kill_reason(container)) is not None:
                self._record(ObjectEvent("Killing", reason.message))
                own = reason.grace_seconds
                grace = grace_seconds(self._pod.object) if own is None else own
                containers.stop(container, self._run_id(container), now, float(grace))
        for container in stopping:
            if self._stopped_at is None:
                self._stopped_at = now
            if not containers.is_stopping(container):
                self._record(ObjectEvent("Killing", f"Stopping container {container.name}"))
                containers.stop(container, self._run_id(container), now)
        return await containers.step(now, self._kill_at)

    def _kill_at(self, stopping: StoppingContainer) -> float:
        """When a container that is being stopped is killed."""
        pod = self._pod.object
        own = stopping.started_at + stopping.grace_seconds if stopping.grace_seconds is not None else None
        if self._stopped_at is None:
            assert own is not None
            return own
        is_evicted = self._failure is not None and self._failure.reason == _EVICTED
        kill_at = self._stopped_at + (_EVICTION_GRACE_SECONDS if is_evicted else grace_seconds(pod))
        if is_deleted(pod):
            kill_at = min(kill_at, deletion_deadline(pod))
        if stopping.container.role is ContainerRole.SIDECAR:
            kill_at = max(kill_at, stopping.started_at + _MIN_SIDECAR_GRACE_SECONDS)
        return kill_at if own is None else min(kill_at, own)

    def _run_id(self, container: Container) -> RunId:
        run = self._states[container.name].run
        assert run is not None
        return run_id(self._uid, container.name, run.restart)

    async def _write_status(self, actions: PodActions, *, terminated: bool = False) -> None:
        for container, _ in actions.backing_off:
            subject = f"{container.name} in pod {full_name(self._pod.object)}"
            message = f"Back-off restarting failed container {subject}"
            self._record(ObjectEvent("BackOff", message, warning=True))
        backing_off = {container.name: delay for container, delay in actions.backing_off}
        await self._pod.write_status(lambda pod: self._status(pod, backing_off, terminated=terminated))

    def _status(self, pod: Object, backing_off: dict[str, float], *, terminated: bool) -> Object:
        inputs = StatusInputs(
            pod,
            self._pod_state(),
            self._start_time,
            self._starter.host_address,
            self._starter.pod_address,
            prepared=self._volumes is not None or self._has_started(),
            terminated=terminated,
            failure=self._failure,
            backing_off=backing_off,
            gpus=self._starter.gpus(pod),
        )
        return pod_status(inputs, self._dependencies.clock())

    def _has_started(self) -> bool:
        return any(state.run for state in self._states.values())

    async def _finish(self) -> None:
        """Writes the final status, and removes the pod if it is deleted."""
        # Before the status is written: then the scheduler binds another pod that requests them.
        self._starter.release_gpus(self._pod.object)
        # Before the pod is removed: afterwards nothing is left of it.
        await self._dependencies.sandboxes.remove(self._uid)
        # A deleted pod of which no container was started needs no final status.
        if not is_deleted(self._pod.object) or self._has_started():
            await self._write_status(PodActions(), terminated=True)
        await self._remove_if_deleted()

    async def _remove_if_deleted(self) -> None:
        if is_deleted(self._pod.object):
            await self._pod.remove()

    async def _remove_old_runs(self) -> None:
        """Removes the runs before the current ones from the runtime: the status contains them."""
        for name, state in self._states.items():
            if state.last_run is None:
                continue
            old = run_id(self._uid, name, state.last_run.restart)
            if old in self._dependencies.runtime.list_containers():
                with suppress(Unavailable):  # retried after the next write
                    await self._dependencies.runtime.remove_container(old)
                    self._dependencies.termination_messages.remove(old)

    def _runs(self) -> Iterator[RunId]:
        """The ids of all runs of the pod that may exist."""
        for name, state in self._states.items():
            for restart in range(max(0, state.next_restart - 2), state.next_restart + 1):
                yield run_id(self._uid, name, restart)

    def _existing_runs(self) -> list[RunId]:
        """The runs that the runtime has observed, and those whose start was interrupted."""
        observed = self._dependencies.runtime.list_containers()
        return [run for run in self._runs() if run in observed or run in self._interrupted_starts]

    async def _wait(self, *times: float | None) -> None:
        """Waits until a change, or until the earliest of these times."""
        due = min((time for time in times if time is not None), default=None)
        timeout = None if due is None else max(0.0, due - self._dependencies.clock())
        await wait_or_timeout(self._changed, timeout)

    async def _check_volume_sizes(self) -> None:
        """Evicts the pod once one of its volumes exceeds its limit."""
        while True:
            message = await asyncio.to_thread(self._dependencies.volumes.exceeded_limit, self._pod.object)
            if message and self._failure is None:
                self._failure = PodFailure(_EVICTED, message)
                self._record(ObjectEvent(_EVICTED, message, warning=True))
                self.wake()
                return
            await asyncio.sleep(_VOLUME_CHECK_SECONDS)

    def _exit_status(self, container: Container, run: ContainerRun) -> ExitStatus:
        return self._starter.exit_status(self._pod.object, len(self._containers), container, run)

    def _record(self, event: ObjectEvent) -> None:
        self._dependencies.record(self._pod.object, event)
