"""
A whole launcher on a cluster: the controller over its API server, and the port that clients and probes reach.

Every replica serves; one of them leads, and only its controller works. Each part runs as one task of one group, so
nothing outlives the launcher and no failure is lost.
"""

import asyncio
import gc
import random
import socket
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from aiohttp import web

from launcher.api.cluster_health import ClusterHealth
from launcher.api.http.server import make_runner
from launcher.api.middleware.metrics import Gauge, Metrics, counted, object_error_gauge
from launcher.api.proxy.app import DoorParts, door_limits, make_proxy_app
from launcher.api.system_endpoints import Health
from launcher.api.webhook.handler import Webhook
from launcher.controller.framework_controller import ControllerOptions, FrameworkController
from launcher.controller.gang.gang_hook import ClusterGangHook
from launcher.controller.leader_election import LeaderElector, Worker
from launcher.controller.service_control import ServiceControl
from launcher.core.errors import FieldError, LauncherError
from launcher.core.validation.framework import validation_errors
from launcher.job_kinds.job_controller import ClusterJobs, JobController
from launcher.job_kinds.job_kind import JobKind
from launcher.job_kinds.ownership import JobKindOwnership
from launcher.rendezvous.discovery_hook import LauncherEndpoint
from launcher.rendezvous.tokens import shared_key
from launcher.scheduling.capacity import ClusterCapacity
from launcher.settings import ClusterSettings, InPod, Kubeconfig
from launcher.store.fenced_store import FencedStore, LeaderTerm
from launcher.store.interface import FRAMEWORKS, PODS, Object, ResourceKind, Store
from launcher.store.kubernetes.cluster_config import ClusterConfig, from_kubeconfig, from_service_account
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.object_errors import object_errors
from launcher.wiring.lifecycle import WorkerGroup, reload_on_hangup, stop_event
from launcher.wiring.reload import reload
from launcher.wiring.rendezvous import RendezvousParts, launcher_url, raise_open_file_limit
from launcher.wiring.serving_certificate import ServingCertificate

#: Seconds over which watches and logs are ended when the launcher stops.
_DRAIN = 2.0
#: Seconds that the controller may take to save what it knows.
_ENDING = 10.0
#: For what must not wait for pods: the lease, the certificate, and the question whether the cluster is there.
_SPARE_CONNECTIONS = 4
#: For rooms in which pods wait for each other; however many there are, they do not keep the controller waiting.
_DISCOVERY_CONNECTIONS = 16
#: Each write of a status costs the API server as much as a pod does, so one that nothing waits for waits for more.
_PACE = ControllerOptions(
    calls=32,
    coalesce_seconds=1.0,
    gather_per_task=1e-3,
    gather_per_framework=20e-3,
    gather_at_first=5.0,
    event_pause=50e-3,
)


async def serve(
    settings: ClusterSettings,
    sock: socket.socket,
    announce: Callable[[ClusterConfig], None],
    read: Callable[[], ClusterSettings],
) -> None:
    """
    Return when SIGTERM or SIGINT has ended the serving; *announce* is called when it is known which cluster it is for.

    On SIGHUP the settings are *read* again.
    Raises LauncherError when the admin has to change something, and an exception group when a part fails.
    """
    # What is read from the cluster stays: to look at all of it again and again while it comes is half of a start.
    gc.set_threshold(50_000, 20, 100)
    raise_open_file_limit()
    stop = stop_event()
    with sock:
        access = await _access(settings.cluster)
        announce(access)
        try:
            async with _cluster_launcher(settings, sock, access) as replica:
                reload_on_hangup(lambda: reload(settings, read, replica.apply))
                await stop.wait()
        except ExceptionGroup as failed:
            told, others = failed.split(LauncherError)
            if told is None or others is not None:
                raise
            raise next(_leaves(told)) from failed


def _leaves(group: BaseExceptionGroup[LauncherError]) -> Iterator[LauncherError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _access(cluster: Kubeconfig | InPod) -> ClusterConfig:
    match cluster:
        case InPod():
            return from_service_account(cluster.host, cluster.port)
        case Kubeconfig():
            return await from_kubeconfig(cluster.files, cluster.context, time.time)


@asynccontextmanager
async def _cluster_launcher(
    settings: ClusterSettings, sock: socket.socket, access: ClusterConfig
) -> AsyncGenerator["_Replica"]:
    async with AsyncExitStack() as stack:
        store = await KubeStore.open(access)
        stack.push_async_callback(store.close)
        spare = await KubeStore.open(access, connections=_SPARE_CONNECTIONS)
        stack.push_async_callback(spare.close)
        asked = await KubeStore.open(access, connections=_DISCOVERY_CONNECTIONS)
        stack.push_async_callback(asked.close)
        replica = _Replica(settings, sock, access, store, spare, asked)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        await stack.enter_async_context(replica.serving(group))
        # Ended first: another launcher leads while this one still answers.
        await stack.enter_async_context(replica.leading(group))
        yield replica


class _Replica:
    """One of several launchers of a cluster."""

    def __init__(
        self,
        settings: ClusterSettings,
        sock: socket.socket,
        access: ClusterConfig,
        store: KubeStore,
        spare: KubeStore,
        asked: KubeStore,
    ) -> None:
        """*spare* is for what must not wait for pods, *asked* for pods that ask for their peers."""
        self._settings, self._sock, self._access, self._store = settings, sock, access, store
        self._reach = ClusterHealth(spare)
        self._certified = ServingCertificate(settings, spare, access.namespace)
        self._discovering = RendezvousParts(asked, partial(shared_key, spare, access.namespace), self._where)
        self._own_jobs = JobKindOwnership(spare.discover, spare)
        #: That of our last term.
        self._controller: FrameworkController | None = None
        self._leader = LeaderElector(
            spare,
            namespace=access.namespace,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            clock=time.time,
            chance=random.random,
        )

    def apply(self, new: ClusterSettings) -> None:
        """Take what can change while the launcher runs."""
        self._settings.policy.replace_with(new.policy)
        self._certified.refresh()

    @asynccontextmanager
    async def leading(self, group: asyncio.TaskGroup) -> AsyncGenerator[None]:
        """The controller at work whenever it is our turn; at the end it saves what it knows, and the lease is free."""

        async def lead() -> None:
            await granted
            await self._leader.run(self._worker)

        granted = group.create_task(self._reach.granted())
        leading = group.create_task(lead())
        try:
            yield
        finally:
            granted.cancel()
            self._leader.stop()
            # A cluster that does not answer does not keep us: what is not saved is thought of again by the next.
            await asyncio.wait([leading], timeout=_ENDING)
            leading.cancel()

    def _worker(self, term: LeaderTerm) -> Worker:
        store = FencedStore(self._store, term)
        gangs = ClusterGangHook(
            store, self._store.discover, ClusterCapacity, clock=time.time, chance=random.random
        )
        controller = self._controller = FrameworkController(
            store,
            clock=time.time,
            chance=random.random,
            pace=_PACE,
            # Frameworks also come past the front door, and past the webhook while that is away.
            check=self._problems_in,
            attendants=[gangs, ServiceControl(store), self._discovering.introducer],
        )
        return WorkerGroup(controller, gangs, ClusterJobs(self._own_jobs, partial(self._mirror, store)))

    def _mirror(self, store: Store, foreign: JobKind) -> JobController:
        return JobController(
            store,
            foreign,
            clock=time.time,
            chance=random.random,
            forbidden=self._settings.policy.problems,
        )

    def _problems_in(self, framework: Object) -> Sequence[FieldError]:
        return (*validation_errors(framework), *self._settings.policy.problems(framework))

    @asynccontextmanager
    async def serving(self, group: asyncio.TaskGroup) -> AsyncGenerator[None]:
        """The front door open, on every replica."""
        limits = door_limits()
        checks = {"not-draining": limits.not_draining, "cluster": self._reach.cluster}
        checks |= {"frameworks": self._reach.frameworks, "certificate": self._certified.is_shown}
        parts = DoorParts(
            access=self._access,
            policy=self._settings.policy,
            limits=limits,
            metrics=Metrics(
                gauges=[
                    self._leads(),
                    *self._counts(),
                    self._discovering.waiting(),
                    object_error_gauge(object_errors),
                ]
            ),
            health=Health(checks, object_errors.current),
            webhook=Webhook(self._settings.policy),
            rendezvous=self._discovering.rendezvous,
            certificates=self._settings.client_ca is not None,
            serves_kind=self._own_jobs.are_ours,
            second_name=self._settings.frameworkcontroller,
            metrics_auth=self._settings.metrics_auth,
        )
        runner = make_runner(make_proxy_app(parts))
        await runner.setup()
        following = group.create_task(self._certified.run(self._reach.granted))
        meeting = group.create_task(self._discovering.rooms.run())
        looking = group.create_task(self._own_jobs.run())
        try:
            await web.SockSite(runner, self._sock, ssl_context=self._certified.context).start()
            yield
        finally:
            following.cancel()
            meeting.cancel()
            looking.cancel()
            limits.drain(_DRAIN)
            await runner.cleanup()

    async def _where(self) -> LauncherEndpoint:
        url = launcher_url(self._settings, self._sock, self._access.namespace)
        return LauncherEndpoint(url, await self._certified.authority() if url.startswith("https:") else "")

    def _leads(self) -> Gauge:
        return Gauge(
            "launcher_leader",
            "Whether this launcher is the one that runs Frameworks.",
            lambda: [((), float(self._leader.is_leader))],
        )

    def _counts(self) -> Iterator[Gauge]:
        """What there is, as the leader knows it; the others say nothing, so sums over all replicas are right."""
        return (counted(kind, partial(self._count, kind)) for kind in (FRAMEWORKS, PODS))

    def _count(self, kind: ResourceKind) -> Mapping[str, int] | None:
        controller = self._controller if self._leader.is_leader else None
        return None if controller is None else controller.counts(kind)
