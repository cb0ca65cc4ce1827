"""
A whole local launcher: which store stands behind the port, and what runs beside what.

The only place that knows every part. Each part runs as one task of one group, so nothing outlives the launcher and no
failure is lost. Pods do outlive it: their keeper is a process of its own, and the next launcher finds them again.
"""

import asyncio
import gc
import logging
import os
import random
import socket
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from aiohttp import web

from launcher.api.app import ApiDependencies, make_app, make_rendezvous_app
from launcher.api.http.server import make_runner
from launcher.api.middleware.access_guard import LOOPBACK, Guard
from launcher.api.middleware.metrics import Gauge, Metrics, object_error_gauge
from launcher.api.middleware.request_info import is_probe, is_rendezvous
from launcher.api.middleware.request_limits import RequestLimits
from launcher.api.system_endpoints import Health
from launcher.controller.framework_controller import FrameworkController
from launcher.controller.service_control import ServiceControl
from launcher.core.planning.options import PlannerOptions
from launcher.job_kinds.job_controller import JobController
from launcher.job_kinds.job_kind import FOREIGN
from launcher.node import machine
from launcher.node.agent.agent import NodeAgent
from launcher.node.container_runtime import Runtime
from launcher.node.gang_hook import LocalGangHook
from launcher.node.garbage_collector.garbage_collector import GarbageCollector
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.logs.log_budget import LogBudget, LogBudgets
from launcher.node.node_spec import NodeRegistration
from launcher.node.runtime.process_runtime import ProcessRuntime, ShimOptions
from launcher.node.scheduler import Scheduler
from launcher.node.shim.linux import protect_from_oom_killer
from launcher.rendezvous.discovery_hook import LauncherEndpoint
from launcher.rendezvous.programs import STAND_INS
from launcher.rendezvous.tokens import filed_key
from launcher.settings import InvalidSetting, Settings, listening, refusal, url_of
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.object_errors import object_errors
from launcher.tls.server_context import CertificateFiles
from launcher.wiring.data_directory import prepare
from launcher.wiring.lifecycle import Runnable, reload_on_hangup, stop_event
from launcher.wiring.reload import reload
from launcher.wiring.rendezvous import (
    RendezvousParts,
    authority_of,
    launcher_url,
    raise_open_file_limit,
    rendezvous_listener,
)
from launcher.wiring.serving_certificate import certificate_files
from launcher.wiring.steady_clock import SteadyClock

log = logging.getLogger(__name__)

#: Durations of every part are measured by it: nothing lasts longer or shorter when the machine's clock is set.
_CLOCK = SteadyClock()

#: Seconds over which watches and logs are ended when the launcher stops.
_DRAIN = 2.0


@dataclass(frozen=True, slots=True)
class Running:
    """A launcher that serves."""

    url: str
    token: str | None
    runtime: Runtime
    guard: Guard
    certificate: CertificateFiles | None

    @property
    def containers(self) -> int:
        """How many run just now."""
        return sum(run.ended is None for run in self.runtime.runs().values())


@asynccontextmanager
async def local_launcher(
    settings: Settings,
    sock: socket.socket | None = None,
    *,
    rules: PlannerOptions | None = None,
    throw_away: bool = False,
) -> AsyncGenerator[Running]:
    """
    A launcher that serves on *sock*, or where the settings say, as long as the block lasts.

    Pods continue after it, unless it is to be thrown away. Raises StoreCorrupted when another launcher uses the data,
    and an exception group when a component fails while it runs; then the block is cancelled.
    """
    prepare(settings.data)
    certificate = certificate_files(settings.tls) if settings.tls else None
    guard = Guard(_hosts(settings), settings.token)
    async with AsyncExitStack() as stack:
        sock = sock or listening(settings)
        stack.callback(sock.close)
        store = await SqliteStore.open(settings.data / "store.db", clock=_CLOCK, new_uid=_new_uid)
        stack.push_async_callback(store.close)
        runtime = await ProcessRuntime.open(
            settings.data,
            images=settings.images,
            clock=_CLOCK,
            hidden=(settings.data, *settings.credentials),
            keeping=_keeping(settings.log_budgets, ends_with_launcher=throw_away),
        )
        stack.push_async_callback(runtime.close, stop_keeper=throw_away)
        # Not before: what runs in pods has the limits that we had.
        raise_open_file_limit()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        pod_sock = sock
        if settings.unix_socket and not settings.discovery_url:
            # Programs in pods speak HTTP over TCP, so the rendezvous alone is served on a port.
            pod_sock = rendezvous_listener(settings.data / "rendezvous.port")
            stack.callback(pod_sock.close)
        works = _Components(settings, pod_sock, store, runtime, rules)
        await stack.enter_async_context(works.running(group))
        if certificate is not None:
            following = group.create_task(certificate.run())
            stack.callback(following.cancel)
        serving = _Serving(settings, sock, pod_sock, guard, certificate)
        await stack.enter_async_context(serving.open(store, works))
        yield Running(url_of(settings, sock), settings.token, runtime, guard, certificate)


async def serve(settings: Settings, sock: socket.socket, read: Callable[[], Settings]) -> int:
    """
    How many containers go on running after SIGTERM or SIGINT has ended the serving. Raises as ``local_launcher``.

    On SIGHUP the settings are *read* again.
    """
    # What is read from the store stays: to look at all of it again and again while it comes is half of a start.
    gc.set_threshold(50_000, 20, 100)
    protect_from_oom_killer()
    stop = stop_event()
    async with local_launcher(settings, sock) as running:

        def apply(new: Settings) -> None:
            # Where it listens does not change before a restart, and must not become open to other machines.
            if why := refusal(settings.host, token=new.token is not None, tls=settings.tls is not None):
                raise InvalidSetting(why)
            if new.credentials != settings.credentials:
                # Containers that run do not have the new files hidden from them.
                raise InvalidSetting(
                    "token-file and tls-key: a new path needs a restart; the content may change"
                )
            running.guard.set_token(new.token)
            settings.policy.replace_with(new.policy)
            if running.certificate is not None:
                running.certificate.refresh()

        reload_on_hangup(lambda: reload(settings, read, apply))
        if os.geteuid() == 0 and not settings.token and not settings.unix_socket:
            log.warning(
                "every user of this machine can run commands as root: set --token-file FILE or --listen unix:PATH"
            )
        await stop.wait()
    return running.containers


class _Components:
    """Everything that works on the objects of the store, beside those who call the API."""

    def __init__(
        self,
        settings: Settings,
        sock: socket.socket,
        store: SqliteStore,
        runtime: ProcessRuntime,
        rules: PlannerOptions | None,
    ) -> None:
        self.logs = ContainerLogs(settings.data / "logs")
        self.discovering = _discovering(settings, sock, store)
        running = EventRecorder(store, _CLOCK, "launcher-agent")
        log_budget = LogBudget(store, settings.data / "logs", settings.log_budgets, running)
        self.metrics = Metrics(
            store,
            gauges=[self.discovering.waiting(), object_error_gauge(object_errors), *_log_gauges(log_budget)],
        )
        self._controller = FrameworkController(
            store,
            clock=_CLOCK,
            chance=random.random,
            rules=rules,
            attendants=[LocalGangHook(store), ServiceControl(store), self.discovering.introducer],
        )
        scheduling = EventRecorder(store, _CLOCK, "default-scheduler")
        self._writers = (scheduling, running)
        self._others: tuple[Runnable, ...] = (
            self.metrics,
            log_budget,
            self.discovering.rooms,
            *(
                JobController(
                    store,
                    foreign,
                    clock=_CLOCK,
                    chance=random.random,
                    forbidden=settings.policy.problems,
                )
                for foreign in FOREIGN
            ),
            NodeRegistration(store, settings.nodes, _CLOCK),
            Scheduler(store, events=scheduling, clock=_CLOCK),
            GarbageCollector(store, clock=_CLOCK),
            NodeAgent(
                store,
                runtime,
                data=settings.data,
                nodes=[node.name for node in settings.nodes],
                # This machine resolves its own name.
                addresses={node.name: node.address for node in settings.nodes if node.name != machine.name()},
                logs=self.logs,
                nfs=settings.nfs,
                claims=settings.claims,
                host_paths=lambda: settings.policy.host_path_prefixes,
                clock=_CLOCK,
                events=running,
                images=settings.images.keys(),
                stand_ins=STAND_INS,
                path=settings.path,
            ),
        )

    @asynccontextmanager
    async def running(self, group: asyncio.TaskGroup) -> AsyncGenerator[None]:
        """All at work; at the end the controller saves what it knows, and the rest just stops."""
        controlling = group.create_task(self._controller.run())
        writing = [group.create_task(writer.run()) for writer in self._writers]
        others = [group.create_task(other.run()) for other in self._others]
        try:
            yield
        finally:
            self._controller.stop()
            for task in others:
                task.cancel()
            for writer in self._writers:
                writer.close()
            await asyncio.wait([controlling, *writing, *others])


@dataclass(frozen=True, slots=True)
class _Serving:
    """What clients connect to; pods connect to a socket of their own where the first is none that they can use."""

    settings: Settings
    sock: socket.socket
    pod_sock: socket.socket
    guard: Guard
    certificate: CertificateFiles | None

    @asynccontextmanager
    async def open(self, store: SqliteStore, works: _Components) -> AsyncGenerator[None]:
        limits = RequestLimits(free=lambda request: is_probe(request) or is_rendezvous(request))
        parts = ApiDependencies(
            store=store,
            clock=_CLOCK,
            logs=works.logs,
            guard=self.guard,
            limits=limits,
            policy=self.settings.policy,
            metrics=works.metrics,
            health=Health(
                {"not-draining": limits.not_draining, "store": store.check, "disk": store.check_disk},
                object_errors.current,
            ),
            rendezvous=works.discovering.rendezvous,
        )
        sites = [(make_runner(make_app(parts)), self.sock, self.certificate)]
        if self.pod_sock is not self.sock:
            pods = make_rendezvous_app(replace(parts, guard=Guard(LOOPBACK)))
            sites.append((make_runner(pods), self.pod_sock, None))
        try:
            for runner, sock, certificate in sites:
                await runner.setup()
                context = certificate.context if certificate else None
                await web.SockSite(runner, sock, ssl_context=context).start()
            yield
        finally:
            works.discovering.rooms.close()
            limits.drain(_DRAIN)
            await asyncio.gather(*(runner.cleanup() for runner, _, _ in sites))


def _keeping(budgets: LogBudgets, *, ends_with_launcher: bool) -> ShimOptions:
    return ShimOptions(
        log_budget=budgets.total,
        log_budget_framework=budgets.framework,
        log_reserve=budgets.reserve,
        ends_with_launcher=ends_with_launcher,
    )


def _log_gauges(budget: LogBudget) -> Sequence[Gauge]:
    return (
        Gauge(
            "launcher_log_bytes", "Bytes of all container logs on disk.", lambda: [((), budget.used_bytes)]
        ),
        Gauge(
            "launcher_log_removed_bytes",
            "Bytes of container logs removed since the start because a budget was exceeded.",
            lambda: [((), budget.removed_bytes)],
        ),
    )


def _discovering(settings: Settings, sock: socket.socket, store: SqliteStore) -> RendezvousParts:
    url = launcher_url(settings, sock)

    async def key() -> bytes:
        return filed_key(settings.data / "discovery.key")

    async def where() -> LauncherEndpoint:
        return LauncherEndpoint(url, authority_of(settings.tls.certificate) if settings.tls else "")

    return RendezvousParts(store, key, where)


def _hosts(settings: Settings) -> frozenset[str]:
    """The names by which clients may call: those configured, this machine's own, and loopback."""
    ours = {settings.host, socket.gethostname(), socket.getfqdn()} if settings.tls else {settings.host}
    return LOOPBACK | ours | set(settings.hosts)


def _new_uid() -> str:
    return str(uuid.uuid4())
