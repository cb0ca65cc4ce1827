"""The HTTP API of local mode: every route and its handler."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from launcher.api.api_resources import API_RESOURCES, COMPUTED_API_RESOURCES, STORED_API_RESOURCES
from launcher.api.http.server import DashboardRoutes, RouteProvider
from launcher.api.launcher_state import LauncherStateReader
from launcher.api.middleware.access_guard import AccessGuard
from launcher.api.middleware.error_responses import add_common_headers, errors_as_status
from launcher.api.middleware.metrics import Metrics
from launcher.api.middleware.request_info import request_info_middleware
from launcher.api.middleware.request_limits import RequestLimits, record_stream
from launcher.api.middleware.version_conversion import version_conversion_middleware
from launcher.api.openapi.api_discovery import ApiDiscovery
from launcher.api.openapi.documents import OpenApi
from launcher.api.resources.delete import DeleteHandler
from launcher.api.resources.diagnosis import DiagnosisHandler
from launcher.api.resources.framework_registry import FrameworkRegistry
from launcher.api.resources.job_registry import JobRegistry
from launcher.api.resources.namespaces import (
    ImplicitNamespaces,
    NamespaceDeleteHandler,
    NamespaceReadHandler,
    NamespaceRegistry,
)
from launcher.api.resources.node_failures import PATH as NODE_FAILURES_PATH
from launcher.api.resources.node_failures import NodeFailureHandler, NodeFailureIndex
from launcher.api.resources.patch import PatchHandler
from launcher.api.resources.pod_attach import PodAttachHandler
from launcher.api.resources.pod_exec import ExecSessions, PodExecHandler
from launcher.api.resources.pod_logs import PodLogHandler, PodLogReader
from launcher.api.resources.pod_port_forward import ConnectToPod, PodPortForwardHandler
from launcher.api.resources.preview import PATH as PREVIEW_PATH
from launcher.api.resources.preview import PreviewHandler
from launcher.api.resources.reads import FrameworkReadHandler, ReadHandler
from launcher.api.resources.registry import Registry
from launcher.api.resources.resource_handler import (
    METHODS,
    UNSUPPORTED_SUBRESOURCES,
    ObjectHandler,
    ResourceHandler,
    ResourceVerbs,
    unsupported_subresource,
)
from launcher.api.resources.resource_metrics import ReadUsage, ResourceMetricsHandler
from launcher.api.resources.scale import FrameworkScale, Scale, ScaleHandler
from launcher.api.resources.service_endpoints import ComputeEndpoints, ServiceEndpointsHandler
from launcher.api.resources.watch import WatchHandler
from launcher.api.resources.writes import WriteHandler
from launcher.api.system_endpoints import Health, Reviews
from launcher.api.validation.core_objects import core_strategy
from launcher.api.validation.frameworks import FrameworkStrategy
from launcher.api.validation.jobs import JobScale, JobStrategy
from launcher.api.validation.pods import PodStrategy
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import job_kind_of
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.interface import FRAMEWORKS, NAMESPACES, PODS, SERVICES, ResourceKind
from launcher.store.service_store import ServiceStore


@dataclass(frozen=True, slots=True)
class ApiDependencies:
    """What the API needs. *clock* returns seconds since 1970, *jitter* numbers from 0 to 1."""

    store: EmbeddedStore
    #: The same store; Services are written to it, because it allocates their addresses.
    services: ServiceStore
    logs: PodLogReader
    exec_sessions: ExecSessions
    connect_to_pod: ConnectToPod
    read_usage: ReadUsage
    #: By kind.
    compute_endpoints: Mapping[ResourceKind, ComputeEndpoints]
    guard: AccessGuard
    limits: RequestLimits
    policy: AdmissionPolicy
    metrics: Metrics
    health: Health
    clock: Callable[[], float]
    #: The rendezvous endpoints for pods; None if they are disabled.
    rendezvous: RouteProvider | None = None
    #: The page at ``/`` for browsers; None if it is disabled.
    dashboard: DashboardRoutes | None = None
    #: The failed attempts of all Frameworks; without it, they are not served.
    node_failures: NodeFailureIndex | None = None
    jitter: Callable[[], float] = random.random


def make_app(dependencies: ApiDependencies) -> web.Application:
    """Returns the application."""
    app = _empty_app(dependencies)
    app.cleanup_ctx.append(dependencies.metrics.observe_runtime)
    _add_system_endpoints(app, dependencies)
    handlers = {
        resource.kind: ResourceHandler(resource, _verbs(resource.kind, dependencies))
        for resource in STORED_API_RESOURCES
    }
    # Namespaces last: most paths that begin with a namespace are those of a resource in it.
    for resource in sorted(API_RESOURCES, key=lambda resource: resource.kind == NAMESPACES):
        _add_resource(app, resource.kind, handlers[resource.stored_kind])
    return app


def make_rendezvous_app(dependencies: ApiDependencies) -> web.Application:
    """Returns an application with only the rendezvous endpoints."""
    app = _empty_app(dependencies)
    if dependencies.rendezvous is not None:
        dependencies.rendezvous.add_to(app)
    return app


def _empty_app(dependencies: ApiDependencies) -> web.Application:
    app = web.Application(
        middlewares=[
            request_info_middleware,
            version_conversion_middleware,
            # Outside of the error handler, since it counts responses by their code.
            dependencies.metrics.middleware,
            errors_as_status,
            dependencies.guard.middleware,
            dependencies.limits.middleware,
        ],
        client_max_size=MAX_BODY_BYTES,
    )
    app.on_response_prepare.append(add_common_headers)
    app.on_response_prepare.append(record_stream)
    return app


def _add_system_endpoints(app: web.Application, dependencies: ApiDependencies) -> None:
    """Adds health, version, discovery, OpenAPI and reviews."""
    health, discovery, reviews = (
        dependencies.health,
        ApiDiscovery((*API_RESOURCES, *COMPUTED_API_RESOURCES)),
        Reviews(),
    )
    documents = OpenApi(API_RESOURCES, dependencies.clock)
    get, post = app.router.add_get, app.router.add_post
    if dependencies.dashboard is not None:
        dependencies.dashboard.add_to(app, health.root)
    else:
        get("/", health.root)
    get("/version{slash:/?}", health.version)
    health.add_to(app)
    get("/metrics", dependencies.metrics.expose)
    get("/api{slash:/?}", discovery.api)
    get("/api/v1{slash:/?}", discovery.core_version)
    get("/apis{slash:/?}", discovery.apis)
    get("/apis/{group}{slash:/?}", discovery.group)
    get("/apis/{group}/{version}{slash:/?}", discovery.group_version)
    ResourceMetricsHandler(dependencies.store, dependencies.read_usage).add_to(app)
    for kind, compute in dependencies.compute_endpoints.items():
        ServiceEndpointsHandler(kind, compute, dependencies.store, dependencies.clock).add_to(app)
    get("/openapi/v2", documents.v2)
    get("/openapi/v3", documents.v3)
    get("/openapi/v3/{path:.+}", documents.v3_document)
    post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", reviews.access)
    post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", reviews.rules)
    post("/apis/authentication.k8s.io/v1/selfsubjectreviews", reviews.identity)
    post(PREVIEW_PATH, PreviewHandler(dependencies.policy).create)
    if dependencies.node_failures is not None:
        get(NODE_FAILURES_PATH, NodeFailureHandler(dependencies.node_failures, dependencies.clock).get)
    if dependencies.rendezvous is not None:
        dependencies.rendezvous.add_to(app)


def _add_resource(app: web.Application, kind: ResourceKind, handler: ResourceHandler) -> None:
    """Adds the paths of one kind for every method: the handler rejects unsupported ones with a Status."""
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = "/namespaces/{namespace}" if kind.namespaced else ""
    any_method = app.router.add_route
    if kind.namespaced:
        any_method("*", f"{base}/{kind.plural}{{slash:/?}}", handler.all_namespaces)
        any_method("*", f"{base}/watch/{kind.plural}{{slash:/?}}", handler.watch)
    any_method("*", f"{base}{inside}/{kind.plural}{{slash:/?}}", handler.collection)
    any_method("*", f"{base}/watch{inside}/{kind.plural}{{slash:/?}}", handler.watch)
    any_method("*", f"{base}/watch{inside}/{kind.plural}/{{name}}{{slash:/?}}", handler.watch)
    any_method("*", f"{base}{inside}/{kind.plural}/{{name}}{{slash:/?}}", handler.item)
    any_method("*", f"{base}{inside}/{kind.plural}/{{name}}/{{part}}{{slash:/?}}", handler.subresource)


def _verbs(kind: ResourceKind, dependencies: ApiDependencies) -> ResourceVerbs:
    store, clock = dependencies.store, dependencies.clock
    registry, reader, deleter = _storage(kind, dependencies)
    writer, patcher = WriteHandler(registry, clock), PatchHandler(registry, clock)
    scale = ScaleHandler(registry, store, _scale(kind))
    return ResourceVerbs(
        reader=reader,
        writer=writer,
        patcher=patcher,
        deleter=deleter,
        watcher=WatchHandler(kind, reader, store, clock, dependencies.jitter),
        subresources=_subresources(kind, dependencies, reader, writer, patcher, scale),
    )


def _storage(
    kind: ResourceKind, dependencies: ApiDependencies
) -> tuple[Registry, ReadHandler, DeleteHandler]:
    store, clock = dependencies.store, dependencies.clock
    if kind == NAMESPACES:
        implicit = ImplicitNamespaces(store, clock())
        namespaces = NamespaceReadHandler(store, clock, implicit)
        return NamespaceRegistry(store, implicit), namespaces, NamespaceDeleteHandler(store, clock)
    reader = (FrameworkReadHandler if kind == FRAMEWORKS else ReadHandler)(kind, store, clock)
    return _registry(kind, dependencies), reader, DeleteHandler(kind, store, clock)


def _registry(kind: ResourceKind, dependencies: ApiDependencies) -> Registry:
    store, policy = dependencies.store, dependencies.policy
    if kind == FRAMEWORKS:
        return FrameworkRegistry(FrameworkStrategy(policy), store, dependencies.clock)
    if kind == PODS:
        return Registry(kind, PodStrategy(policy), store)
    if (job_kind := job_kind_of(kind)) is not None:
        return JobRegistry(kind, JobStrategy(kind, job_kind, policy), store)
    return Registry(kind, core_strategy(kind), dependencies.services if kind == SERVICES else store)


def _scale(kind: ResourceKind) -> Scale:
    job_kind = job_kind_of(kind)
    return FrameworkScale() if job_kind is None else JobScale(job_kind)


def _subresources(
    kind: ResourceKind,
    dependencies: ApiDependencies,
    reader: ReadHandler,
    writer: WriteHandler,
    patcher: PatchHandler,
    scale: ScaleHandler,
) -> Mapping[str, Mapping[str, ObjectHandler]]:
    """Returns the handlers of each subresource by method; ``api_resources`` lists the same ones."""
    if kind == FRAMEWORKS or job_kind_of(kind) is not None:
        diagnosis = DiagnosisHandler(
            dependencies.store,
            dependencies.logs,
            LauncherStateReader(dependencies.health),
            dependencies.clock,
        )
        return {
            **({"diagnosis": {"GET": diagnosis.get}} if kind == FRAMEWORKS else {}),
            "status": {"GET": reader.get, "PUT": writer.update_status, "PATCH": patcher.patch_status},
            "scale": {"GET": scale.handle, "PUT": scale.handle, "PATCH": scale.handle},
        }
    if kind == PODS:
        logs = PodLogHandler(dependencies.store, dependencies.logs, dependencies.clock)
        attaches = PodAttachHandler(dependencies.store, dependencies.exec_sessions, dependencies.clock)
        execs = PodExecHandler(dependencies.store, dependencies.exec_sessions, dependencies.clock)
        forwards = PodPortForwardHandler(dependencies.store, dependencies.connect_to_pod, dependencies.clock)
        unsupported = {
            name: dict.fromkeys(METHODS, unsupported_subresource(name)) for name in UNSUPPORTED_SUBRESOURCES
        }
        return {
            "status": {"GET": reader.get},
            "log": {"GET": logs.get},
            "attach": {"GET": attaches.handle, "POST": attaches.handle},
            "exec": {"GET": execs.handle, "POST": execs.handle},
            "portforward": {"GET": forwards.handle, "POST": forwards.handle},
            **unsupported,
        }
    return {}
