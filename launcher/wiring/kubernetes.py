"""The launcher in Kubernetes mode: controller, proxy and webhook over an API server."""

import asyncio
import random
import socket
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from aiohttp import web

from launcher.api.cluster_health import ClusterHealth
from launcher.api.http.server import make_runner
from launcher.api.middleware.metrics import CallbackGauge, Metrics, object_error_gauge, state_gauge
from launcher.api.proxy.app import ProxyDependencies, make_proxy_app, proxy_limits
from launcher.api.resources.node_failures import NodeFailureIndex
from launcher.api.system_endpoints import Health
from launcher.api.webhook.handler import Webhook
from launcher.controller.framework_controller import ControllerOptions, FrameworkController
from launcher.controller.gang.gang_hook import ClusterGangHook
from launcher.controller.leader_election import LeaderElector, Worker
from launcher.controller.service_control import ServiceControl
from launcher.core.errors import LauncherError
from launcher.core.failures.classifier import DEFAULT_RULES, FailureClassifier
from launcher.core.planning.options import PlannerOptions
from launcher.core.validation.framework import validation_errors
from launcher.job_kinds.job_controller import ClusterJobs, JobController
from launcher.job_kinds.job_kind import JobKind
from launcher.job_kinds.ownership import JobKindOwnership
from launcher.rendezvous.discovery_hook import LauncherEndpoint
from launcher.rendezvous.tokens import key_from_secret
from launcher.settings.cluster import ClusterSettings, InPod, Kubeconfig
from launcher.store.fenced_store import FencedStore, LeaderTerm
from launcher.store.interface import FRAMEWORKS, PODS, ResourceKind, Store
from launcher.store.kubernetes.cluster_config import ClusterConfig, from_service_account
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.object_errors import object_errors
from launcher.web.dashboard import Dashboard
from launcher.wiring.lifecycle import WorkerGroup, reload_on_hangup, stop_event
from launcher.wiring.log_archive import LogArchiveParts
from launcher.wiring.reload import reload
from launcher.wiring.rendezvous import RendezvousParts, launcher_url, raise_open_file_limit
from launcher.wiring.serving_certificate import ServingCertificate

#: Time over which watches and log streams are closed when the launcher stops.
_DRAIN_SECONDS = 2.0
#: Time for the controller to save its state.
_STOP_SECONDS = 10.0
#: For requests that must not wait behind pods: lease, certificate and health checks.
_PRIORITY_CONNECTIONS = 4
#: For rendezvous sessions; they do not delay the controller, however many there are.
_DISCOVERY_CONNECTIONS = 16
#: A status write costs the API server as much as a pod, so writes that nothing waits for are coalesced.
_CONTROLLER_OPTIONS = ControllerOptions(
    max_calls=32,
    coalesce_seconds=1.0,
    coalesce_seconds_per_task=1e-3,
    coalesce_seconds_per_framework=20e-3,
    coalesce_seconds_at_start=5.0,
    event_interval_seconds=50e-3,
)


async def serve(
    settings: ClusterSettings,
    sock: socket.socket,
    on_connected: Callable[[ClusterConfig], None],
    read: Callable[[], ClusterSettings],
) -> None:
    """
    Serves until SIGTERM or SIGINT; *on_connected* is called when the cluster is known.

    On SIGHUP the settings are *read* again. Raises LauncherError if the admin has to change something, and an
    exception group if a component fails.
    """
    raise_open_file_limit()
    stop = stop_event()
    with sock:
        config = await _cluster_config(settings.cluster)
        on_connected(config)
        try:
            async with _cluster_launcher(settings, sock, config) as replica:
                reload_on_hangup(lambda: reload(settings, read, replica.apply))
                await stop.wait()
        except ExceptionGroup as group:
            launcher_group, other_group = group.split(LauncherError)
            if launcher_group is None or other_group is not None:
                raise
            raise next(_leaf_errors(launcher_group)) from group


def _leaf_errors(group: BaseExceptionGroup[LauncherError]) -> Iterator[LauncherError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaf_errors(error)
        else:
            yield error


async def _cluster_config(cluster: Kubeconfig | InPod) -> ClusterConfig:
    match cluster:
        case InPod():
            return from_service_account(cluster.host, cluster.port)
        case Kubeconfig():
            # kubernetes_asyncio, which it imports, takes 60 MB.
            from launcher.store.kubernetes.kubeconfig import from_kubeconfig

            return await from_kubeconfig(cluster.files, cluster.context, time.time)


@asynccontextmanager
async def _cluster_launcher(
    settings: ClusterSettings, sock: socket.socket, config: ClusterConfig
) -> AsyncGenerator["_LauncherReplica"]:
    async with AsyncExitStack() as stack:
        store = await KubeStore.open(config)
        stack.push_async_callback(store.close)
        priority_store = await KubeStore.open(config, connections=_PRIORITY_CONNECTIONS)
        stack.push_async_callback(priority_store.close)
        discovery_store = await KubeStore.open(config, connections=_DISCOVERY_CONNECTIONS)
        stack.push_async_callback(discovery_store.close)
        replica = _LauncherReplica(settings, sock, config, store, priority_store, discovery_store)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        await stack.enter_async_context(replica.serving(group))
        # Stopped first: another launcher leads while this one still serves.
        await stack.enter_async_context(replica.leading(group))
        yield replica


class _LauncherReplica:
    """One replica of the launcher."""

    def __init__(
        self,
        settings: ClusterSettings,
        sock: socket.socket,
        config: ClusterConfig,
        store: KubeStore,
        priority_store: KubeStore,
        discovery_store: KubeStore,
    ) -> None:
        """*priority_store* is for requests that must not wait, *discovery_store* for rendezvous sessions."""
        self._settings, self._sock, self._config, self._store = settings, sock, config, store
        self._failures = FailureClassifier((*settings.failure_rules, *DEFAULT_RULES))
        self._health = ClusterHealth(priority_store)
        self._certificate = ServingCertificate(settings, priority_store, config.namespace)
        self._rendezvous = RendezvousParts(
            discovery_store,
            partial(key_from_secret, priority_store, config.namespace),
            self._endpoint,
            time.time,
        )
        self._log_archive = LogArchiveParts(store, settings.log_archive) if settings.log_archive else None
        self._node_failures = NodeFailureIndex(store)
        self._job_ownership = JobKindOwnership(priority_store.discover, priority_store)
        #: The controller of the last leader term.
        self._controller: FrameworkController | None = None
        self._leader = LeaderElector(
            priority_store,
            namespace=config.namespace,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            clock=time.time,
            jitter=random.random,
        )

    def apply(self, new: ClusterSettings) -> None:
        """Applies settings that can change while the launcher runs."""
        self._settings.policy.replace_with(new.policy)
        self._failures.replace_rules((*new.failure_rules, *DEFAULT_RULES))
        self._certificate.refresh()

    @asynccontextmanager
    async def leading(self, group: asyncio.TaskGroup) -> AsyncGenerator[None]:
        """Runs the controller while this replica leads; at the end it saves its state and releases the lease."""

        async def lead() -> None:
            await healthy
            await self._leader.run(self._worker)

        healthy = group.create_task(self._health.wait_until_healthy())
        leader_task = group.create_task(lead())
        try:
            yield
        finally:
            healthy.cancel()
            self._leader.stop()
            # An unreachable cluster does not block the stop: the next leader computes unsaved state again.
            await asyncio.wait([leader_task], timeout=_STOP_SECONDS)
            leader_task.cancel()

    def _worker(self, term: LeaderTerm) -> Worker:
        store = FencedStore(self._store, term)
        gangs = ClusterGangHook(store, self._store.discover, clock=time.time, jitter=random.random)
        controller = self._controller = FrameworkController(
            store,
            clock=time.time,
            jitter=random.random,
            planner_options=PlannerOptions(failures=self._failures),
            options=_CONTROLLER_OPTIONS,
            # Frameworks can be created without the proxy, and without the webhook while it is unavailable.
            validate=partial(validation_errors, policy=self._settings.policy),
            hooks=[gangs, ServiceControl(store), self._rendezvous.hook],
            log_copier=self._log_archive.copier if self._log_archive else None,
            log_source=self._store,
        )
        return WorkerGroup(
            controller, gangs, ClusterJobs(self._job_ownership, partial(self._job_controller, store))
        )

    def _job_controller(self, store: Store, job_kind: JobKind) -> JobController:
        return JobController(
            store,
            job_kind,
            clock=time.time,
            jitter=random.random,
            policy_errors=self._settings.policy.errors,
        )

    @asynccontextmanager
    async def serving(self, group: asyncio.TaskGroup) -> AsyncGenerator[None]:
        """Serves the proxy; on every replica."""
        limits = proxy_limits()
        checks = {"not-draining": limits.not_draining, "cluster": self._health.cluster}
        checks |= {"frameworks": self._health.frameworks, "certificate": self._certificate.check}
        parts = ProxyDependencies(
            access=self._config,
            policy=self._settings.policy,
            limits=limits,
            metrics=Metrics(
                gauges=[
                    self._leader_gauge(),
                    *self._state_gauges(),
                    self._rendezvous.waiters_gauge(),
                    object_error_gauge(object_errors),
                    *(self._log_archive.metrics() if self._log_archive else ()),
                ]
            ),
            health=Health(checks, object_errors.current),
            webhook=Webhook(self._settings.policy),
            rendezvous=self._rendezvous.handler,
            dashboard=Dashboard() if self._settings.dashboard else None,
            node_failures=self._node_failures,
            certificates=self._settings.client_ca is not None,
            serves_kind=self._job_ownership.is_owned,
            api_group_alias=self._settings.frameworkcontroller,
            metrics_auth=self._settings.metrics_auth,
            log_archive=self._log_archive.archive if self._log_archive else None,
            leadership=lambda: self._leader.leadership,
            throttled_seconds=lambda: self._store.throttled_seconds,
        )
        runner = make_runner(make_proxy_app(parts))
        await runner.setup()
        tasks = [
            group.create_task(self._certificate.run(self._health.wait_until_healthy)),
            group.create_task(self._rendezvous.sessions.run()),
            group.create_task(self._job_ownership.run()),
            group.create_task(self._node_failures.run()),
        ]
        if self._log_archive is not None:
            tasks.append(group.create_task(self._log_archive.check_access()))
        try:
            await web.SockSite(runner, self._sock, ssl_context=self._certificate.context).start()
            yield
        finally:
            for task in tasks:
                task.cancel()
            limits.drain(_DRAIN_SECONDS)
            await runner.cleanup()

    async def _endpoint(self) -> LauncherEndpoint:
        url = launcher_url(self._settings, self._sock, self._config.namespace)
        return LauncherEndpoint(url, await self._certificate.authority() if url.startswith("https:") else "")

    def _leader_gauge(self) -> CallbackGauge:
        return CallbackGauge(
            "launcher_leader",
            "1 on the replica that is the leader, 0 on the others.",
            lambda: [((), float(self._leader.is_leader))],
        )

    def _state_gauges(self) -> Iterator[CallbackGauge]:
        """Gauges of the leader's objects. Other replicas report none, so that sums over replicas are correct."""
        return (state_gauge(kind, partial(self._count, kind)) for kind in (FRAMEWORKS, PODS))

    def _count(self, kind: ResourceKind) -> Mapping[str, int] | None:
        controller = self._controller if self._leader.is_leader else None
        return None if controller is None else controller.counts(kind)
