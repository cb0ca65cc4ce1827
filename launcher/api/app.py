"""The HTTP API: every route there is, and what it leads to."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from aiohttp import web

from launcher.api.api_resources import API_RESOURCES, SERVED
from launcher.api.http.api_group_alias import stored
from launcher.api.http.server import RouteProvider
from launcher.api.http.status import common_headers, errors_as_status
from launcher.api.middleware.access_guard import Guard
from launcher.api.middleware.metrics import Metrics
from launcher.api.middleware.request_limits import RequestLimits, note_stream
from launcher.api.openapi.api_discovery import ApiDiscovery
from launcher.api.openapi.documents import OpenApi
from launcher.api.resources.delete import DeleteHandler
from launcher.api.resources.framework_registry import FrameworkKeeper
from launcher.api.resources.namespaces import (
    ImplicitNamespaces,
    NamespaceKeeper,
    NamespaceReader,
    NamespaceRemover,
)
from launcher.api.resources.patch import Patcher
from launcher.api.resources.pod_logs import PodLogHandler, PodLogReader
from launcher.api.resources.reads import Reader
from launcher.api.resources.registry import Registry, ResourceStrategy
from launcher.api.resources.resource_handler import (
    METHODS,
    UNOFFERED,
    Act,
    ResourceHandler,
    ResourceVerbs,
    not_offered,
)
from launcher.api.resources.scale import FrameworkScale, Scale, Scaler
from launcher.api.resources.version_conversion import VersionedStore
from launcher.api.resources.watch import Watcher
from launcher.api.resources.writes import Writer
from launcher.api.system_endpoints import Health, Reviews
from launcher.api.validation.core_objects import rules_of
from launcher.api.validation.frameworks import FrameworkRules
from launcher.api.validation.jobs import JobRules, JobScale
from launcher.api.validation.pods import PodRules
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from launcher.core.validation.admission_policy import Policy
from launcher.job_kinds.job_kind import foreign_of
from launcher.store.embedded.embedded_store import RawJsonStore
from launcher.store.interface import FRAMEWORKS, NAMESPACES, PODS, ResourceKind


@dataclass(frozen=True, slots=True)
class ApiDependencies:
    """What the API is made of. *clock* gives seconds since 1970, *chance* numbers from 0 to 1."""

    store: RawJsonStore
    logs: PodLogReader
    guard: Guard
    limits: RequestLimits
    policy: Policy
    metrics: Metrics
    health: Health
    clock: Callable[[], float]
    #: Where pods ask for their peers; None where they are not told.
    rendezvous: RouteProvider | None = None
    chance: Callable[[], float] = random.random


def make_app(parts: ApiDependencies) -> web.Application:
    """The application over *parts*."""
    app = _empty_app(parts)
    _add_surroundings(app, parts)
    resources = {
        served.kind: ResourceHandler(served, _hands(served.kind, _versioned(served.kind, parts)))
        for served in SERVED
    }
    # Namespaces last: what follows the name of one is most often the name of a resource in it.
    for served in sorted(API_RESOURCES, key=lambda served: served.kind == NAMESPACES):
        _add_resource(app, served.kind, resources[stored(served.kind)])
    return app


def make_rendezvous_app(parts: ApiDependencies) -> web.Application:
    """The application that serves nothing but the rendezvous."""
    app = _empty_app(parts)
    if parts.rendezvous is not None:
        parts.rendezvous.add_to(app)
    return app


def _empty_app(parts: ApiDependencies) -> web.Application:
    app = web.Application(
        middlewares=[
            # Outside of the rest, since it counts answers by their code.
            parts.metrics.middleware,
            errors_as_status,
            parts.guard.middleware,
            parts.limits.middleware,
        ],
        client_max_size=MAX_BODY_BYTES,
    )
    app.on_response_prepare.append(common_headers)
    app.on_response_prepare.append(note_stream)
    return app


def _add_surroundings(app: web.Application, parts: ApiDependencies) -> None:
    """What a client asks before it asks for objects."""
    health, discovery, reviews = parts.health, ApiDiscovery(API_RESOURCES), Reviews()
    documents = OpenApi(API_RESOURCES, parts.clock)
    get, post = app.router.add_get, app.router.add_post
    get("/", health.root)
    get("/version{slash:/?}", health.version)
    health.add_to(app)
    get("/metrics", parts.metrics.expose)
    get("/api{slash:/?}", discovery.api)
    get("/api/v1{slash:/?}", discovery.core_version)
    get("/apis{slash:/?}", discovery.apis)
    get("/apis/{group}{slash:/?}", discovery.group)
    get("/apis/{group}/{version}{slash:/?}", discovery.group_version)
    get("/openapi/v2", documents.v2)
    get("/openapi/v3", documents.v3)
    get("/openapi/v3/{path:.+}", documents.v3_document)
    post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", reviews.access)
    post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", reviews.rules)
    post("/apis/authentication.k8s.io/v1/selfsubjectreviews", reviews.identity)
    if parts.rendezvous is not None:
        parts.rendezvous.add_to(app)


def _add_resource(app: web.Application, kind: ResourceKind, resource: ResourceHandler) -> None:
    """The paths of one kind, for every method: what cannot be done is refused by the resource itself."""
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = "/namespaces/{namespace}" if kind.namespaced else ""
    any_method = app.router.add_route
    if kind.namespaced:
        any_method("*", f"{base}/{kind.plural}{{slash:/?}}", resource.all_namespaces)
        any_method("*", f"{base}/watch/{kind.plural}{{slash:/?}}", resource.watch)
    any_method("*", f"{base}{inside}/{kind.plural}{{slash:/?}}", resource.collection)
    any_method("*", f"{base}/watch{inside}/{kind.plural}{{slash:/?}}", resource.watch)
    any_method("*", f"{base}/watch{inside}/{kind.plural}/{{name}}{{slash:/?}}", resource.watch)
    any_method("*", f"{base}{inside}/{kind.plural}/{{name}}{{slash:/?}}", resource.item)
    any_method("*", f"{base}{inside}/{kind.plural}/{{name}}/{{part}}{{slash:/?}}", resource.subresource)


def _versioned(kind: ResourceKind, parts: ApiDependencies) -> ApiDependencies:
    """The parts, with a store that has objects of that *kind* even if they are kept in another version."""
    foreign = foreign_of(kind)
    if foreign is None or foreign.kind == kind:
        return parts
    return replace(parts, store=VersionedStore(parts.store, kind, foreign.kind))


def _hands(kind: ResourceKind, parts: ApiDependencies) -> ResourceVerbs:
    store, clock = parts.store, parts.clock
    keeper, reader, remover = _keepers(kind, parts)
    writer, patcher = Writer(keeper, clock), Patcher(keeper, clock)
    return ResourceVerbs(
        reader=reader,
        writer=writer,
        patcher=patcher,
        remover=remover,
        watcher=Watcher(kind, reader, store, clock, parts.chance),
        subresources=_subresources(kind, parts, reader, writer, patcher, Scaler(keeper, store, _scale(kind))),
    )


def _keepers(kind: ResourceKind, parts: ApiDependencies) -> tuple[Registry, Reader, DeleteHandler]:
    store, clock = parts.store, parts.clock
    if kind == NAMESPACES:
        imagination = ImplicitNamespaces(store, clock())
        reader = NamespaceReader(store, clock, imagination)
        return NamespaceKeeper(store, imagination), reader, NamespaceRemover(store, clock)
    rules = _rules(kind, parts.policy)
    keeper = FrameworkKeeper(rules, store, clock) if kind == FRAMEWORKS else Registry(kind, rules, store)
    return keeper, Reader(kind, store, clock), DeleteHandler(kind, store, clock)


def _rules(kind: ResourceKind, policy: Policy) -> ResourceStrategy:
    if kind == FRAMEWORKS:
        return FrameworkRules(policy)
    if kind == PODS:
        return PodRules(policy)
    if (foreign := foreign_of(kind)) is not None:
        return JobRules(kind, foreign, policy)
    return rules_of(kind)


def _scale(kind: ResourceKind) -> Scale:
    foreign = foreign_of(kind)
    return FrameworkScale() if foreign is None else JobScale(foreign)


def _subresources(
    kind: ResourceKind,
    parts: ApiDependencies,
    reader: Reader,
    writer: Writer,
    patcher: Patcher,
    scaler: Scaler,
) -> Mapping[str, Mapping[str, Act]]:
    """What can be done with each part of an object; ``kinds`` promises just these."""
    if kind == FRAMEWORKS or foreign_of(kind) is not None:
        return {
            "status": {"GET": reader.get, "PUT": writer.update_status, "PATCH": patcher.patch_status},
            "scale": {"GET": scaler.handle, "PUT": scaler.handle, "PATCH": scaler.handle},
        }
    if kind == PODS:
        logs = PodLogHandler(parts.store, parts.logs, parts.clock)
        return {
            "status": {"GET": reader.get},
            "log": {"GET": lambda request, *_: logs.get(request)},
            **{part: dict.fromkeys(METHODS, not_offered(part)) for part in UNOFFERED},
        }
    return {}
