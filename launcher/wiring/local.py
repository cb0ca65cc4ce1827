"""The launcher in local mode: store, controllers, scheduler, node agent and API in one process."""

import asyncio
import logging
import os
import random
import socket
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import web

from launcher.api.app import ApiDependencies, make_app, make_rendezvous_app
from launcher.api.http.server import make_runner
from launcher.api.middleware.access_guard import LOOPBACK, AccessGuard
from launcher.api.middleware.metrics import CallbackGauge, Metrics, object_error_gauge
from launcher.api.middleware.request_info import is_probe, is_rendezvous
from launcher.api.middleware.request_limits import RequestLimits
from launcher.api.resources.node_failures import NodeFailureIndex
from launcher.api.system_endpoints import Health
from launcher.controller.framework_controller import FrameworkController
from launcher.controller.service_control import ServiceControl
from launcher.core.failures.classifier import DEFAULT_RULES, FailureClassifier
from launcher.core.planning.options import PlannerOptions
from launcher.job_kinds.job_controller import JobController
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.node import machine
from launcher.node.agent.agent import NodeAgent
from launcher.node.agent.container_exec import ContainerExec
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.agent.device_manager import DeviceManager
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.agent.image_manager import ImageManager
from launcher.node.agent.pod_ports import PodPorts
from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.agent.usage_monitor import UsageMonitor
from launcher.node.container_runtime import RuntimeService
from launcher.node.gang_hook import LocalGangHook
from launcher.node.garbage_collector.garbage_collector import GarbageCollector
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.logs.log_budget import LogBudget
from launcher.node.network.pod_network import PodNetwork
from launcher.node.node_spec import NodeRegistration, gpu_indexes
from launcher.node.scheduler import Scheduler
from launcher.node.services.endpoint_slices import endpoint_slices, endpoints_object
from launcher.node.services.service_proxy import ServiceProxy
from launcher.node.shim.linux import protect_from_oom_killer
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import VolumeManager
from launcher.rendezvous.container_programs import IMAGE_COMMANDS
from launcher.rendezvous.discovery_hook import LauncherEndpoint
from launcher.rendezvous.tokens import key_from_file
from launcher.settings.local import Settings, exposure_error
from launcher.settings.values import InvalidSetting
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import SharedInformers
from launcher.store.interface import ENDPOINT_SLICES, ENDPOINTS
from launcher.store.object_errors import object_errors
from launcher.store.service_store import ServiceStore
from launcher.tls.server_context import CertificateFiles
from launcher.web.dashboard import Dashboard
from launcher.wiring.container_runtime import ConfiguredRuntime, container_engine, container_runtime
from launcher.wiring.data_directory import prepare
from launcher.wiring.lifecycle import Runnable, reload_on_hangup, stop_event
from launcher.wiring.listener import open_listener, url_of
from launcher.wiring.pod_network import pod_network
from launcher.wiring.reload import reload
from launcher.wiring.rendezvous import (
    RendezvousParts,
    ca_bundle,
    launcher_url,
    raise_open_file_limit,
    rendezvous_listener,
)
from launcher.wiring.serving_certificate import certificate_files
from launcher.wiring.steady_clock import SteadyClock

log = logging.getLogger(__name__)

#: Durations are measured by this clock, so that they do not depend on changes of the system time.
_CLOCK = SteadyClock()

#: Time over which watches and log streams are closed when the launcher stops.
_DRAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Running:
    """A running launcher."""

    url: str
    token: str | None
    runtime: RuntimeService
    guard: AccessGuard
    certificate: CertificateFiles | None
    failures: FailureClassifier

    @property
    def containers(self) -> int:
        """The number of running containers."""
        return sum(run.ended is None for run in self.runtime.list_containers().values())


@asynccontextmanager
async def local_launcher(
    settings: Settings,
    sock: socket.socket | None = None,
    *,
    rules: PlannerOptions | None = None,
    stop_shim: bool = False,
) -> AsyncGenerator[Running]:
    """
    Runs a launcher that serves on *sock*, or at the configured address, until the end of the block.

    Pods continue afterwards unless *stop_shim* is set. Raises StoreCorrupted if another launcher uses the data
    directory, and an exception group if a component fails; then the block is cancelled.
    """
    prepare(settings.data)
    certificate = certificate_files(settings.tls) if settings.tls else None
    dashboard = Dashboard() if settings.dashboard else None
    guard = AccessGuard(
        _hosts(settings), settings.token, is_public=dashboard.serves if dashboard else lambda _: False
    )
    failures = FailureClassifier((*settings.failure_rules, *DEFAULT_RULES))
    async with AsyncExitStack() as stack:
        sock = sock or open_listener(settings)
        stack.callback(sock.close)
        store = await SqliteStore.open(settings.data / "store.db", clock=_CLOCK, new_uid=_new_uid)
        stack.push_async_callback(store.close)
        engine = await stack.enter_async_context(container_engine(settings))
        # Before the runtime: it is removed after the last container has ended.
        engine_reason = engine.why_not_isolated() if engine is not None else ""
        network = await stack.enter_async_context(pod_network(settings, engine_reason, remove_pods=stop_shim))
        runtime = await stack.enter_async_context(container_runtime(settings, engine, _CLOCK, stop=stop_shim))
        # After the shim has started: containers inherit the limits that it had.
        raise_open_file_limit()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        pod_sock = sock
        if (settings.unix_socket or network.gateway) and not settings.discovery_url:
            # Programs in pods use HTTP over TCP, and isolated ones do not reach the loopback interface of the machine,
            # so the rendezvous endpoints get a port.
            host = network.gateway or "127.0.0.1"
            pod_sock = await network.open_socket(host)
            stack.callback(pod_sock.close)
            rendezvous_listener(settings.data / "rendezvous.port", pod_sock, host)
        services = ServiceStore(store, network.cluster_ips)
        await services.repair()
        components = _Components(
            settings,
            _rendezvous_endpoint(settings, sock, pod_sock),
            store,
            services,
            runtime,
            network,
            replace(rules or PlannerOptions(), failures=failures),
        )
        await stack.enter_async_context(components.running(group))
        if certificate is not None:
            certificate_task = group.create_task(certificate.run())
            stack.callback(certificate_task.cancel)
        server = _Server(settings, sock, pod_sock, guard, certificate, dashboard)
        await stack.enter_async_context(server.open(store, components))
        yield Running(
            url_of(settings, sock), settings.token, runtime.containers, guard, certificate, failures
        )


async def serve(settings: Settings, sock: socket.socket, read: Callable[[], Settings]) -> int:
    """
    Serves until SIGTERM or SIGINT. Returns the number of containers that keep running.

    On SIGHUP the settings are *read* again. Raises the errors of ``local_launcher``.
    """
    protect_from_oom_killer()
    stop = stop_event()
    async with local_launcher(settings, sock) as launcher:

        def apply(new: Settings) -> None:
            # The address does not change before a restart, and must not become accessible to other machines without
            # protection.
            if reason := exposure_error(
                settings.host, token=new.token is not None, tls=settings.tls is not None
            ):
                raise InvalidSetting(reason)
            if new.credentials != settings.credentials:
                # The new files are not hidden from running containers.
                raise InvalidSetting(
                    "token-file and tls-key: a new path needs a restart; the content may change"
                )
            launcher.guard.set_token(new.token)
            settings.policy.replace_with(new.policy)
            launcher.failures.replace_rules((*new.failure_rules, *DEFAULT_RULES))
            if launcher.certificate is not None:
                launcher.certificate.refresh()

        reload_on_hangup(lambda: reload(settings, read, apply))
        if os.geteuid() == 0 and not settings.token and not settings.unix_socket:
            log.warning(
                "every user of this machine can run commands as root: set --token-file FILE or --listen unix:PATH"
            )
        await stop.wait()
    return launcher.containers


class _Components:
    """All components that work on the store, except the API."""

    def __init__(
        self,
        settings: Settings,
        endpoint: LauncherEndpoint,
        store: SqliteStore,
        services: ServiceStore,
        runtime: ConfiguredRuntime,
        network: PodNetwork,
        rules: PlannerOptions,
    ) -> None:
        """*endpoint* is that of rendezvous."""
        self.services = services
        self.logs = ContainerLogs(settings.data / "logs")
        self.exec_sessions = ContainerExec(runtime.containers)
        self.pod_ports = PodPorts(network)
        self.usage = UsageMonitor(runtime.containers, _CLOCK)
        self.rendezvous = _rendezvous_parts(settings, endpoint, store)
        agent_events = EventRecorder(store, _CLOCK, "launcher-agent")
        log_budget = LogBudget(store, settings.data / "logs", settings.log_budgets, agent_events)
        informers = SharedInformers(store)
        # First: its order of kinds, pods before Frameworks, is the order in which informers start.
        self._controller = FrameworkController(
            store,
            clock=_CLOCK,
            jitter=random.random,
            planner_options=rules,
            hooks=[LocalGangHook(store), ServiceControl(services), self.rendezvous.hook],
            informers=informers,
            log_source=self.logs,
        )
        self.metrics = Metrics(
            informers,
            gauges=[
                self.rendezvous.waiters_gauge(),
                object_error_gauge(object_errors),
                *_log_gauges(log_budget),
            ],
        )
        scheduler_events = EventRecorder(store, _CLOCK, "default-scheduler")
        self._recorders = (scheduler_events, agent_events)
        self.node_failures = NodeFailureIndex(store)
        self._runnables: tuple[Runnable, ...] = (
            log_budget,
            self.node_failures,
            self.rendezvous.sessions,
            *(
                JobController(
                    store,
                    job_kind,
                    clock=_CLOCK,
                    jitter=random.random,
                    policy_errors=settings.policy.errors,
                    informers=informers,
                )
                for job_kind in JOB_KINDS
            ),
            NodeRegistration(store, settings.nodes, _CLOCK, runtime.containers.version()),
            Scheduler(store, informers, events=scheduler_events, clock=_CLOCK),
            GarbageCollector(store, informers, clock=_CLOCK, job_kinds=[each.kind for each in JOB_KINDS]),
            NodeAgent(
                _agent_dependencies(settings, store, informers, runtime, network, self.logs, agent_events),
                informers,
                [node.name for node in settings.nodes],
            ),
            ServiceProxy(informers, network, agent_events),
            # Last: their handlers expect running components.
            informers,
        )

    @asynccontextmanager
    async def running(self, group: asyncio.TaskGroup) -> AsyncGenerator[None]:
        """Runs all components; at the end the controller saves its state, and the others are cancelled."""
        controller_task = group.create_task(self._controller.run())
        recorder_tasks = [group.create_task(recorder.run()) for recorder in self._recorders]
        runnable_tasks = [group.create_task(runnable.run()) for runnable in self._runnables]
        try:
            yield
        finally:
            self._controller.stop()
            for task in runnable_tasks:
                task.cancel()
            for recorder in self._recorders:
                recorder.close()
            await asyncio.wait([controller_task, *recorder_tasks, *runnable_tasks])


def _agent_dependencies(
    settings: Settings,
    store: SqliteStore,
    informers: SharedInformers,
    runtime: ConfiguredRuntime,
    network: PodNetwork,
    logs: ContainerLogs,
    events: EventRecorder,
) -> AgentDependencies:
    data = settings.data
    # This machine resolves its own name.
    addresses = {node.name: node.address for node in settings.nodes if node.name != machine.name()}
    volumes = VolumeManager(
        data,
        Nfs(data / "nfs", settings.nfs),
        settings.claims,
        lambda: settings.policy.host_path_prefixes,
    )
    image_manager = None
    if runtime.images is not None:
        image_manager = ImageManager(
            runtime.images,
            store,
            _CLOCK,
            lambda pod, event: events.record(pod, [event]),
            settings.engine.credentials,
        )
    return AgentDependencies(
        store,
        runtime.containers,
        volumes,
        TerminationMessages(data / "ends"),
        HostsFileManager(store, informers, data / "hosts", nodes=addresses),
        logs,
        DeviceManager(data / "devices", gpu_indexes(settings.nodes)),
        events,
        _CLOCK,
        network,
        image_manager,
        path=settings.path,
        workdir=str(settings.workdir),
        image_workdirs={
            name: str(settings.image_workdir)
            for name, directory in settings.images.items()
            if directory != Path("/")
        },
        images={name: settings.entrypoints.get(name, ()) for name in settings.images},
        image_commands=IMAGE_COMMANDS,
    )


@dataclass(frozen=True, slots=True)
class _Server:
    """The HTTP servers: one for clients, and one for pods if those cannot use the first."""

    settings: Settings
    sock: socket.socket
    pod_sock: socket.socket
    guard: AccessGuard
    certificate: CertificateFiles | None
    dashboard: Dashboard | None

    @asynccontextmanager
    async def open(self, store: SqliteStore, components: _Components) -> AsyncGenerator[None]:
        limits = RequestLimits(exempt=lambda request: is_probe(request) or is_rendezvous(request))
        parts = ApiDependencies(
            store=store,
            services=components.services,
            clock=_CLOCK,
            logs=components.logs,
            exec_sessions=components.exec_sessions,
            connect_to_pod=components.pod_ports.connect,
            read_usage=components.usage.read,
            compute_endpoints={ENDPOINT_SLICES: endpoint_slices, ENDPOINTS: endpoints_object},
            guard=self.guard,
            limits=limits,
            policy=self.settings.policy,
            metrics=components.metrics,
            health=Health(
                {"not-draining": limits.not_draining, "store": store.check, "disk": store.check_disk},
                object_errors.current,
            ),
            rendezvous=components.rendezvous.handler,
            dashboard=self.dashboard,
            node_failures=components.node_failures,
        )
        sites = [(make_runner(make_app(parts)), self.sock, self.certificate)]
        if self.pod_sock is not self.sock:
            host = self.pod_sock.getsockname()[0]
            pods = make_rendezvous_app(replace(parts, guard=AccessGuard(LOOPBACK | {host})))
            sites.append((make_runner(pods), self.pod_sock, None))
        try:
            for runner, sock, certificate in sites:
                await runner.setup()
                context = certificate.context if certificate else None
                await web.SockSite(runner, sock, ssl_context=context).start()
            yield
        finally:
            components.rendezvous.sessions.close()
            limits.drain(_DRAIN_SECONDS)
            await asyncio.gather(*(runner.cleanup() for runner, _, _ in sites))


def _log_gauges(budget: LogBudget) -> Sequence[CallbackGauge]:
    return (
        CallbackGauge(
            "launcher_log_bytes", "Bytes of all container logs on disk.", lambda: [((), budget.used_bytes)]
        ),
        CallbackGauge(
            "launcher_log_removed_bytes",
            "Bytes of container logs removed since the start because a budget was exceeded.",
            lambda: [((), budget.removed_bytes)],
        ),
    )


def _rendezvous_endpoint(
    settings: Settings, sock: socket.socket, pod_sock: socket.socket
) -> LauncherEndpoint:
    """The rendezvous endpoints for pods; a port of their own has no TLS, since only pods reach it."""
    url = launcher_url(settings, sock)
    bundle = ca_bundle(settings.tls.certificate) if settings.tls and url.startswith("https:") else ""
    own = LauncherEndpoint(url, bundle)
    if pod_sock is sock:
        return own
    host, port = pod_sock.getsockname()
    # Pods on the host network do not reach the network of isolated pods of a normal user.
    return LauncherEndpoint(f"http://{host}:{port}", on_host_network=None if settings.unix_socket else own)


def _rendezvous_parts(settings: Settings, launcher: LauncherEndpoint, store: SqliteStore) -> RendezvousParts:
    async def key() -> bytes:
        return key_from_file(settings.data / "discovery.key")

    async def endpoint() -> LauncherEndpoint:
        return launcher

    return RendezvousParts(store, key, endpoint, _CLOCK)


def _hosts(settings: Settings) -> frozenset[str]:
    """Returns the host names by which clients may address the server: configured ones, this machine's, and loopback."""
    hosts = {settings.host, socket.gethostname(), socket.getfqdn()} if settings.tls else {settings.host}
    return LOOPBACK | hosts | set(settings.hosts)


def _new_uid() -> str:
    return str(uuid.uuid4())
