"""The node agent: runs the pods that are bound to the nodes of this machine, each in its own worker."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field

from launcher.core.errors import NotFound, Unavailable
from launcher.core.events import ObjectEvent
from launcher.core.pods.observed_pod import has_terminated, is_deleted, node_name
from launcher.node.agent.container_starter import ContainerStarter
from launcher.node.agent.container_stop import kill_and_remove_runs
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.agent.pod_worker import PodWorker
from launcher.node.agent.status_manager import PodDeleted, PodStatusManager
from launcher.node.container_runtime import ContainerRun, RunId
from launcher.node.logs.log_retention import FrameworkOwner, LogRetention, owner_of
from launcher.node.pods.pod_spec import parse_run_id, uid_of
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout
from launcher.store.informer import SharedInformers
from launcher.store.interface import FRAMEWORKS, NODES, PODS, Key, Object, key_of
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: Seconds between an interruption of the exit stream and the next attempt to read it.
_RECONNECT_SECONDS = 0.5
_COMPONENT, _WORKER = "node-agent", "pod-worker"

#: Called with a run that changed, or with None if runs may have changed unobserved.
_RunHandler = Callable[[ContainerRun | None], None]


@dataclass(slots=True)
class _PodEntry:
    """A pod with its worker."""

    pod: Object
    task: "asyncio.Task[None] | None" = None
    worker: PodWorker | None = None
    #: The pod was deleted from the store.
    deleted: bool = False
    #: Set if the pod or one of its runs has changed while it has no worker.
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, pod: Object) -> None:
        self.pod = pod
        if self.worker:
            self.worker.update_pod(pod)
        else:
            self.changed.set()

    def delete(self) -> None:
        """Ends the worker: the pod no longer exists in the store."""
        self.deleted = True
        self.changed.set()
        if self.worker:
            self.worker.pod_deleted()

    def update_run(self, run: ContainerRun | None) -> None:
        if self.worker:
            self.worker.update_run(run)
        else:
            self.changed.set()


class NodeAgent:
    """Runs pods. All of its state is recovered from the store and the runtime."""

    def __init__(
        self, dependencies: AgentDependencies, informers: SharedInformers, nodes: Collection[str]
    ) -> None:
        """
        *nodes* are the names of the nodes whose pods it runs.

        The caller runs *informers*, after ``run`` has started.
        """
        self._dependencies, self._nodes = dependencies, frozenset(nodes)
        self._runtime, self._hosts = dependencies.runtime, dependencies.hosts
        self._pods = informers.add_event_handler(PODS, self, component=_COMPONENT)
        self._log_retention = LogRetention(
            dependencies.store, dependencies.logs, lambda key: key in self._owners
        )
        self._frameworks = informers.add_event_handler(FRAMEWORKS, self._log_retention, component=_COMPONENT)
        #: The owner of every pod of these nodes, also of those that have terminated.
        self._owners: dict[Key, FrameworkOwner | None] = {}
        self._entries: dict[Key, _PodEntry] = {}
        #: By the pod's uid.
        self._run_handlers: dict[str, _RunHandler] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Runs pods until cancelled; their containers continue, and the next agent recovers them."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._watch_exits())
            # The exit stream is open before pods are read, so that no exit is missed.
            await asyncio.sleep(0)
            tasks.create_task(self._hosts.run())
            if self._dependencies.image_manager is not None:
                tasks.create_task(self._dependencies.image_manager.run())
            await self._pods.synced.wait()
            await self._frameworks.synced.wait()
            tasks.create_task(self._log_retention.run())
            self._clean_up(tasks)

    def on_upsert(self, key: Key, pod: Object) -> None:
        """Handles a pod that was created or changed."""
        if node_name(pod) not in self._nodes:
            return
        self._owners[key] = owner_of(pod)
        # An error in the pod's names must not prevent it from running or ending.
        with object_errors.handling("hosts-files", PODS.plural, key):
            self._hosts.update_pod(key, pod)
        entry = self._entries.get(key)
        if entry is not None and uid_of(entry.pod) == uid_of(pod):
            entry.update(pod)
        elif not _is_finished(pod):
            self._add_entry(key, pod, entry)

    def on_delete(self, key: Key) -> None:
        """Handles a pod that no longer exists in the store."""
        with object_errors.handling("hosts-files", PODS.plural, key):
            self._hosts.remove_pod(key)
        if key in self._owners:
            self._log_retention.pod_deleted(key, self._owners.pop(key))
        if entry := self._entries.get(key):
            entry.delete()

    def _add_entry(self, key: Key, pod: Object, previous: _PodEntry | None) -> None:
        assert self._tasks is not None
        entry = _PodEntry(pod)
        self._entries[key] = entry
        if previous is not None:
            previous.delete()
        entry.task = self._tasks.create_task(self._run_pod(key, entry, previous.task if previous else None))

    async def _run_pod(self, key: Key, entry: _PodEntry, previous: "asyncio.Task[None] | None") -> None:
        """Runs the pod until it terminates; errors are retried."""
        if previous is not None:
            # Two pods of one name are two instances of one task, which must not run at the same time.
            await asyncio.wait([previous])
        uid = uid_of(entry.pod)
        self._run_handlers[uid] = entry.update_run
        backoff = ExponentialBackoff(initial=1.0, maximum=60.0)
        try:
            while not await self._try_to_run(entry):
                await wait_or_timeout(entry.changed, backoff.next_delay())
        finally:
            object_errors.resolve(_WORKER, PODS.plural, key)
            del self._run_handlers[uid]
            if self._entries.get(key) is entry:
                del self._entries[key]

    async def _try_to_run(self, entry: _PodEntry) -> bool:
        """Runs the pod in a worker. Returns whether it has terminated; False if its node is missing or on an error."""
        entry.changed.clear()
        try:
            starter = await self._container_starter(entry)
            if starter is None:
                message = f"Node {node_name(entry.pod)} is not registered; waiting for it"
                self._dependencies.record(entry.pod, ObjectEvent("NodeNotReady", message, warning=True))
                return False
            entry.worker = PodWorker(entry.pod, starter, self._dependencies, self._pods.upsert)
            if entry.deleted:
                entry.worker.pod_deleted()
            await entry.worker.run()
        except Exception as error:  # an error of one pod must not affect the others
            if object_errors.record(_WORKER, PODS.plural, key_of(entry.pod), error):
                message = f"Error syncing pod: {error!r}"
                self._dependencies.record(entry.pod, ObjectEvent("FailedSync", message, warning=True))
            return await self._remove_if_deleted(entry)
        finally:
            entry.worker = None
        return True

    async def _remove_if_deleted(self, entry: _PodEntry) -> bool:
        """Kills the runs of a deleted pod whose worker failed, and removes it. Returns False for other pods."""
        if not entry.deleted and not is_deleted(entry.pod):
            return False
        uid = uid_of(entry.pod)
        names = ((run, parse_run_id(run)) for run in self._runtime.list_containers())
        runs = [run for run, name in names if name is not None and name.uid == uid]
        await kill_and_remove_runs(self._runtime, runs, entry.changed)
        self._dependencies.devices.release(uid)
        await self._dependencies.sandboxes.remove(uid)
        if not entry.deleted:
            with suppress(PodDeleted):
                await PodStatusManager(entry.pod, self._dependencies, self._pods.upsert).remove()
        return True

    async def _container_starter(self, entry: _PodEntry) -> ContainerStarter | None:
        """The starter for the pod's containers; None while its node does not exist."""
        try:
            node = await self._dependencies.store.get(NODES, "", node_name(entry.pod) or "")
        except (NotFound, Unavailable):
            node = {}
        status = node.get("status") or {}
        addresses = [
            address["address"] for address in status.get("addresses") or () if address["type"] == "InternalIP"
        ]
        # A deleted pod starts no container, so its node is not needed.
        if not addresses and not entry.deleted:
            return None
        host_address = next(iter(addresses), "")
        pod_address = await self._dependencies.network.add(entry.pod, host_address)
        return ContainerStarter(
            self._dependencies, host_address, pod_address, status.get("allocatable") or {}
        )

    async def _watch_exits(self) -> None:
        """Passes every run that ends, or has a process killed for memory, to the worker of its pod."""
        while True:
            try:
                async for run in self._runtime.get_container_events():
                    name = parse_run_id(run.id)
                    if name is not None and (handler := self._run_handlers.get(name.uid)):
                        handler(run)
            except Unavailable as error:
                log.warning("container exit stream interrupted", extra={"error": str(error)})
                self._report_unavailable(str(error))
            await asyncio.sleep(_RECONNECT_SECONDS)
            # Exits during the interruption were not received.
            for handler in list(self._run_handlers.values()):
                handler(None)

    def _report_unavailable(self, reason: str) -> None:
        """Records an event of each pod: nothing is known of its containers until the runtime responds."""
        message = f"Containers are not observed until the container runtime responds again: {reason}"
        for entry in self._entries.values():
            self._dependencies.record(entry.pod, ObjectEvent("RuntimeUnavailable", message, warning=True))

    def _clean_up(self, tasks: asyncio.TaskGroup) -> None:
        """Removes the files and runs of pods that were deleted, or have terminated, while no launcher ran."""
        managers = (self._dependencies.volumes, self._dependencies.devices, self._dependencies.network)
        uids = [uid for manager in managers for uid in manager.pod_uids()]
        remaining: dict[str, list[RunId]] = {uid: [] for uid in uids}
        for run in {*self._runtime.list_containers(), *self._dependencies.termination_messages.runs()}:
            if (name := parse_run_id(run)) is not None:
                remaining.setdefault(name.uid, []).append(run)
        # Including pods that are being replaced by another of the same name.
        active = {uid_of(entry.pod) for entry in self._entries.values()} | self._run_handlers.keys()
        for uid, runs in remaining.items():
            if uid not in active:
                tasks.create_task(self._clean_up_pod(uid, runs))
        self._dependencies.volumes.unmount_unused()
        self._hosts.recover()
        self._log_retention.check_stored_logs()

    async def _clean_up_pod(self, uid: str, runs: list[RunId]) -> None:
        changed = asyncio.Event()
        self._run_handlers[uid] = lambda _: changed.set()
        try:
            known = [run for run in runs if run in self._runtime.list_containers()]
            await kill_and_remove_runs(self._runtime, known, changed)
            for run in runs:
                self._dependencies.termination_messages.remove(run)
            self._dependencies.devices.release(uid)
            await self._dependencies.sandboxes.remove(uid)
            await asyncio.to_thread(self._dependencies.volumes.remove_directory, uid)
        except (OSError, Unavailable) as error:
            log.warning("files of a pod not removed", extra={"uid": uid, "error": str(error)})
        finally:
            del self._run_handlers[uid]


def _is_finished(pod: Object) -> bool:
    """Whether nothing remains to be done: the pod has terminated, and its deletion does not wait for the agent."""
    is_waiting = is_deleted(pod) and pod["metadata"].get("deletionGracePeriodSeconds")
    return has_terminated(pod) and not is_waiting
