"""The node agent: runs the pods that are bound to the nodes of this machine, each with a worker of its own."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from launcher.core.errors import NotFound, Unavailable
from launcher.core.planning.actions import ObjectEvent
from launcher.core.pods.observed_pod import has_terminated
from launcher.node.agent.container_starter import ContainerStarter
from launcher.node.agent.container_termination import kill_and_remove_runs
from launcher.node.agent.dependencies import AgentDependencies, LogRoom
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.agent.pod_worker import PodWorker
from launcher.node.agent.status_manager import PodDeleted, PodStatusManager
from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.container_runtime import RunId, Runtime
from launcher.node.logs.log_retention import FrameworkOwner, LogRetention, kept_logs, owner_of
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.node.pods.pod_spec import ImageCommands, is_deleted, node_name, run_name, uid_of
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import HostPaths, VolumeManager, any_host_path
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import Informer
from launcher.store.interface import FRAMEWORKS, NODES, PODS, Key, Object, Store, key_of
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: Seconds until the runtime is listened to again.
_DEAF = 0.5
_COMPONENT, _WORKER = "node-agent", "pod-worker"


@dataclass(slots=True)
class _PodEntry:
    """A pod that somebody works on."""

    pod: Object
    task: "asyncio.Task[None] | None" = None
    worker: PodWorker | None = None
    gone: bool = False
    #: The pod has changed while nobody works on it, or is gone.
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def saw(self, pod: Object) -> None:
        self.pod = pod
        if self.worker:
            self.worker.update_pod(pod)
        else:
            self.changed.set()

    def end(self) -> None:
        """The pod is gone from the store."""
        self.gone = True
        self.changed.set()
        if self.worker:
            self.worker.gone()

    def wake(self) -> None:
        if self.worker:
            self.worker.wake()
        else:
            self.changed.set()


class NodeAgent:
    """Runs pods. Everything it knows, it finds again in the store and in the runtime."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        data: Path,
        nodes: Collection[str],
        addresses: Mapping[str, str] | None = None,
        logs: LogRoom,
        nfs: Mapping[str, Path],
        claims: Mapping[str, Path] | None = None,
        host_paths: HostPaths = any_host_path,
        clock: Callable[[], float],
        events: EventRecorder,
        images: Collection[str] = (),
        stand_ins: ImageCommands | None = None,
        path: str = "",
        backoff: RestartBackoff | None = None,
    ) -> None:
        """
        *nfs* and *claims* are directories that stand in for exports and for volume claims. *host_paths* returns the
        prefixes that hostPath volumes may have.

        *addresses* are those of nodes by name, which pods can resolve. *path* is the search path that containers get.
        """
        self._store, self._runtime, self._nodes = store, runtime, frozenset(nodes)
        self._nfs = Nfs(data / "nfs", nfs)
        self._volumes = VolumeManager(data, self._nfs, claims, host_paths)
        self._last_words = TerminationMessages(data / "ends")
        self._hosts = HostsFileManager(store, data / "hosts", nodes=addresses)
        self._pods = Informer(store, PODS, self, component=_COMPONENT)
        self._logs = LogRetention(store, logs, lambda key: key in self._known)
        self._log_room = logs
        self._frameworks = Informer(store, FRAMEWORKS, self._logs, component=_COMPONENT)
        self._tools = AgentDependencies(
            store,
            runtime,
            self._volumes,
            self._last_words,
            self._hosts,
            logs,
            events,
            clock,
            self._pods.upsert,
            backoff or RestartBackoff(),
            path,
            images,
            stand_ins or {},
        )
        #: Every pod of our nodes, also those that are over, with what is needed once they are gone.
        self._known: dict[Key, FrameworkOwner | None] = {}
        self._lives: dict[Key, _PodEntry] = {}
        #: By the pod's uid: whom to tell that one of its runs has ended.
        self._wakers: dict[str, Callable[[], None]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run pods until cancelled; their containers go on, and are found again by the next agent."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._watch_exits())
            # The ends of runs are heard before anything else is looked at, so that none is missed.
            await asyncio.sleep(0)
            tasks.create_task(self._hosts.run())
            tasks.create_task(self._pods.run())
            tasks.create_task(self._frameworks.run())
            await self._pods.synced.wait()
            await self._frameworks.synced.wait()
            tasks.create_task(self._logs.run())
            self._sweep(tasks)

    def on_upsert(self, key: Key, pod: Object) -> None:
        """A pod is there, or has changed."""
        if node_name(pod) not in self._nodes:
            return
        self._known[key] = owner_of(pod)
        # A pod that cannot be named is still one to run, or to end.
        with object_errors.handling("hosts-files", PODS.plural, key):
            self._hosts.pod_seen(key, pod)
        life = self._lives.get(key)
        if life is not None and uid_of(life.pod) == uid_of(pod):
            life.saw(pod)
        elif not _is_done(pod):
            self._begin(key, pod, life)

    def on_delete(self, key: Key) -> None:
        """A pod is no longer there."""
        with object_errors.handling("hosts-files", PODS.plural, key):
            self._hosts.pod_gone(key)
        if key in self._known:
            self._logs.pod_gone(key, self._known.pop(key))
        if life := self._lives.get(key):
            life.end()

    def _begin(self, key: Key, pod: Object, before: _PodEntry | None) -> None:
        assert self._tasks is not None
        life = _PodEntry(pod)
        self._lives[key] = life
        if before is not None:
            before.end()
        life.task = self._tasks.create_task(self._live(key, life, before.task if before else None))

    async def _live(self, key: Key, life: _PodEntry, before: "asyncio.Task[None] | None") -> None:
        """See the pod to its end, whatever goes wrong."""
        if before is not None:
            # Two pods of one name are two instances of one task: never both at once.
            await asyncio.wait([before])
        uid = uid_of(life.pod)
        self._wakers[uid] = life.wake
        pauses = ExponentialBackoff(first=1.0, most=60.0)
        try:
            while not await self._try_to_live(life):
                await wait_or_timeout(life.changed, pauses.next_delay())
        finally:
            object_errors.resolve(_WORKER, PODS.plural, key)
            del self._wakers[uid]
            if self._lives.get(key) is life:
                del self._lives[key]

    async def _try_to_live(self, life: _PodEntry) -> bool:
        """Work on the pod. Whether it is over; if not, something is missing or went wrong."""
        life.changed.clear()
        try:
            starter = await self._starter(life)
            if starter is None:
                message = f"Node {node_name(life.pod)} is not registered; the pod waits for it"
                self._tools.tell(life.pod, ObjectEvent("NodeNotReady", message, warning=True))
                return False
            life.worker = PodWorker(life.pod, starter, self._tools)
            if life.gone:
                life.worker.gone()
            await life.worker.run()
        except Exception as error:  # whatever is wrong with one pod, the others go on
            if object_errors.record(_WORKER, PODS.plural, key_of(life.pod), error):
                self._tools.tell(
                    life.pod, ObjectEvent("FailedSync", f"the pod cannot be run: {error!r}", warning=True)
                )
            return await self._let_go(life)
        finally:
            life.worker = None
        return True

    async def _let_go(self, life: _PodEntry) -> bool:
        """End what runs of a pod that cannot be worked on, and have the store drop it, if it is deleted or gone."""
        if not life.gone and not is_deleted(life.pod):
            return False
        uid = uid_of(life.pod)
        named = ((run, run_name(run)) for run in self._runtime.runs())
        runs = [run for run, name in named if name is not None and name.uid == uid]
        await kill_and_remove_runs(self._runtime, runs, life.changed)
        if not life.gone:
            with suppress(PodDeleted):
                await PodStatusManager(life.pod, self._tools).remove()
        return True

    async def _starter(self, life: _PodEntry) -> ContainerStarter | None:
        """Whoever starts the pod's containers; None while its node is not there."""
        try:
            node = await self._store.get(NODES, "", node_name(life.pod) or "")
        except (NotFound, Unavailable):
            node = {}
        status = node.get("status") or {}
        addresses = [one["address"] for one in status.get("addresses") or () if one["type"] == "InternalIP"]
        # Nothing of a pod that is gone starts, so its node is not needed to end it.
        if not addresses and not life.gone:
            return None
        return ContainerStarter(self._tools, next(iter(addresses), ""), status.get("allocatable") or {})

    async def _watch_exits(self) -> None:
        """Wake whoever runs a pod when one of its runs has ended."""
        while True:
            try:
                async for run in self._runtime.exits():
                    name = run_name(run.id)
                    if name is not None and (wake := self._wakers.get(name.uid)):
                        wake()
            except Unavailable as error:
                log.warning("ends of runs not heard", extra={"why": str(error)})
            await asyncio.sleep(_DEAF)
            # Whatever ended meanwhile was not heard.
            for wake in list(self._wakers.values()):
                wake()

    def _sweep(self, tasks: asyncio.TaskGroup) -> None:
        """Remove what an earlier launcher has left of pods that are no longer there, or are over."""
        left: dict[str, list[RunId]] = {uid: [] for uid in self._volumes.kept()}
        for run in {*self._runtime.runs(), *self._last_words.kept()}:
            if (name := run_name(run)) is not None:
                left.setdefault(name.uid, []).append(run)
        living = {uid_of(life.pod) for life in self._lives.values()}
        for uid, runs in left.items():
            if uid not in living:
                tasks.create_task(self._clean_up_pod(uid, runs))
        self._nfs.sweep()
        self._hosts.recover()
        self._logs.sweep(kept_logs(self._log_room))

    async def _clean_up_pod(self, uid: str, runs: list[RunId]) -> None:
        ended = asyncio.Event()
        self._wakers[uid] = ended.set
        try:
            await kill_and_remove_runs(self._runtime, runs, ended)
            for run in runs:
                self._last_words.remove(run)
            await asyncio.to_thread(self._volumes.remove_directory, uid)
        except OSError as error:
            log.warning("files of a pod not removed", extra={"uid": uid, "why": str(error)})
        finally:
            del self._wakers[uid]


def _is_done(pod: Object) -> bool:
    """Whether nothing is left to do for the pod: it is over, and nobody waits for us to let go of it."""
    waiting = is_deleted(pod) and pod["metadata"].get("deletionGracePeriodSeconds")
    return has_terminated(pod) and not waiting
