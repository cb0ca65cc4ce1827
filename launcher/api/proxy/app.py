"""
The proxy to a cluster's API server: Frameworks are validated, and requests are forwarded with the caller's credentials.

It serves all paths of the API server, so that any Kubernetes client can use it, and a few of its own: health, metrics,
and the webhook that the API server calls.
"""

import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from aiohttp import web
from multidict import CIMultiDict

from launcher.api.http.server import DashboardRoutes, RouteProvider
from launcher.api.http.status import SERVER
from launcher.api.launcher_state import LauncherStateReader
from launcher.api.middleware.error_responses import add_common_headers, errors_as_status
from launcher.api.middleware.metrics import Metrics
from launcher.api.middleware.request_info import is_rendezvous, request_info_middleware
from launcher.api.middleware.request_limits import RequestLimits, record_stream
from launcher.api.proxy.admission import ProxyAdmission
from launcher.api.proxy.diagnosis import PATH as DIAGNOSIS_PATH
from launcher.api.proxy.diagnosis import ProxyDiagnosis
from launcher.api.proxy.framework_lists import PATHS as LIST_PATHS
from launcher.api.proxy.framework_lists import ProxyFrameworkLists
from launcher.api.proxy.handler import ForwardedResponse, ProxyHandler, upstream_headers
from launcher.api.proxy.metrics_authorization import Handler, MetricsAuthorization
from launcher.api.proxy.node_failures import ProxyNodeFailures
from launcher.api.proxy.pod_logs import PATH as LOG_PATH
from launcher.api.proxy.pod_logs import VERIFIED_UID, ProxyPodLogs
from launcher.api.proxy.preview import ProxyPreview
from launcher.api.proxy.upstream import Upstream
from launcher.api.resources.node_failures import PATH as NODE_FAILURES_PATH
from launcher.api.resources.node_failures import NodeFailureHandler, NodeFailureIndex
from launcher.api.resources.preview import PATH as PREVIEW_PATH
from launcher.api.resources.preview import PreviewHandler
from launcher.api.system_endpoints import Health
from launcher.core.diagnosis.launcher_state import Leadership
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from launcher.core.pods.log_options import POD_UID_HEADER
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import JobKind
from launcher.log_archive.interface import LogArchive
from launcher.store.kubernetes.cluster_config import ClusterConfig

#: Longer than the API server's own timeout of a minute, whose error is more precise.
_TIMEOUT_SECONDS = 65.0
#: Concurrent watches and logs; each has two connections.
_MAX_STREAMS = 2000
#: Probes, and the webhook, which the API server calls during a request that may be forwarded here.
_EXEMPT = re.compile(r"/(healthz|livez|readyz)(/[a-z-]*)?|/admission/[a-z]+")


@dataclass(frozen=True, slots=True)
class ProxyDependencies:
    """What the proxy needs."""

    access: ClusterConfig
    policy: AdmissionPolicy
    limits: RequestLimits
    metrics: Metrics
    health: Health
    #: The admission webhook; None if another listener serves it.
    webhook: RouteProvider | None = None
    #: The rendezvous endpoints for pods; None if they are disabled.
    rendezvous: RouteProvider | None = None
    #: The page at ``/`` for browsers; None if it is disabled.
    dashboard: DashboardRoutes | None = None
    #: The failed attempts of all Frameworks; without it, they are not served.
    node_failures: NodeFailureIndex | None = None
    #: Whether the listener requests client certificates (see ``request_client_certificates``), whose users the launcher
    #: impersonates.
    certificates: bool = False
    #: Whether this launcher runs jobs of a kind; only those are validated.
    serves_kind: Callable[[JobKind], bool] = lambda _: False
    #: Whether FrameworkController's API group is served as an alias.
    api_group_alias: bool = False
    #: Whether access to ``/metrics`` is authorized by the cluster.
    metrics_auth: bool = False
    #: The logs of deleted pods; None if they are not archived.
    log_archive: LogArchive | None = None
    #: The Lease of the replicas, and the seconds for which the API server accepts no requests of the launcher itself.
    leadership: Callable[[], Leadership | None] = lambda: None
    throttled_seconds: Callable[[], float] = lambda: 0.0


def make_proxy_app(dependencies: ProxyDependencies) -> web.Application:
    """Returns the application."""
    app = web.Application(
        middlewares=[
            request_info_middleware,
            # Outside of the error handler, since it counts responses by their code.
            dependencies.metrics.middleware,
            errors_as_status,
            dependencies.limits.middleware,
        ],
        client_max_size=MAX_BODY_BYTES,
    )
    app.on_response_prepare.append(_add_headers)
    app.on_response_prepare.append(record_stream)
    app.cleanup_ctx.append(dependencies.metrics.observe_runtime)
    _add_own_routes(app, dependencies)
    handler = _proxy_handler(app, dependencies)
    diagnosis = ProxyDiagnosis(
        handler.authenticate,
        _forwarded_headers,
        LauncherStateReader(dependencies.health, dependencies.leadership, dependencies.throttled_seconds),
    )
    app.router.add_get(DIAGNOSIS_PATH, diagnosis.get)
    logs = ProxyPodLogs(handler.handle, handler.authenticate, _forwarded_headers, dependencies.log_archive)
    app.router.add_get(LOG_PATH, logs.get)
    lists = ProxyFrameworkLists(handler.handle, handler.authenticate, _forwarded_headers)
    for path in LIST_PATHS:
        app.router.add_get(path, lists.list)
    preview = PreviewHandler(dependencies.policy, dependencies.serves_kind)
    previews = ProxyPreview(preview, handler.authenticate, _forwarded_headers)
    app.router.add_post(PREVIEW_PATH, previews.create)
    if dependencies.node_failures is not None:
        failures = NodeFailureHandler(dependencies.node_failures, time.time)
        authorized = ProxyNodeFailures(failures, handler.authenticate, _forwarded_headers)
        app.router.add_get(NODE_FAILURES_PATH, authorized.get)
    if dependencies.dashboard is not None:
        dependencies.dashboard.add_to(app, handler.handle)
    app.router.add_route("*", "/{path:.*}", handler.handle)
    return app


def _forwarded_headers(request: web.Request) -> CIMultiDict[str]:
    return upstream_headers(request.headers, request.remote)


def proxy_limits() -> RequestLimits:
    """Returns limits that leave timeouts to the API server and never block its webhook."""
    return RequestLimits(
        read_seconds=_TIMEOUT_SECONDS,
        write_seconds=_TIMEOUT_SECONDS,
        max_streams=_MAX_STREAMS,
        exempt=lambda request: (
            is_rendezvous(request) or _EXEMPT.fullmatch(request.rel_url.raw_path) is not None
        ),
    )


def request_client_certificates(context: ssl.SSLContext, authority: Path) -> None:
    """Accepts client certificates of *authority* in a listener with that *context*. Raises OSError."""
    context.load_verify_locations(authority)
    # Optional, as in kube-apiserver: a client without a certificate may have a token.
    context.verify_mode = ssl.CERT_OPTIONAL
    # Certificates of Go tools may violate rules that Python checks since 3.13.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT


def _add_own_routes(app: web.Application, dependencies: ProxyDependencies) -> None:
    dependencies.health.add_to(app)
    app.router.add_get("/metrics", _metrics(app, dependencies))
    if dependencies.webhook is not None:
        dependencies.webhook.add_to(app)
    if dependencies.rendezvous is not None:
        dependencies.rendezvous.add_to(app)


def _metrics(app: web.Application, dependencies: ProxyDependencies) -> Handler:
    if not dependencies.metrics_auth:
        return dependencies.metrics.expose
    access = dependencies.access
    reviews = Upstream(access, access.tls, access.credentials)
    app.cleanup_ctx.append(reviews.connected)
    return MetricsAuthorization(reviews, dependencies.metrics.expose).handle


def _proxy_handler(app: web.Application, dependencies: ProxyDependencies) -> ProxyHandler:
    access, impersonating = dependencies.access, None
    forwarding = Upstream(access, access.tls.without_client_certificate() if access.tls is not None else None)
    app.cleanup_ctx.append(forwarding.connected)
    if dependencies.certificates:
        impersonating = Upstream(access, access.tls, access.credentials)
        app.cleanup_ctx.append(impersonating.connected)
    return ProxyHandler(
        forwarding,
        impersonating,
        ProxyAdmission(dependencies.policy, dependencies.serves_kind),
        api_group_alias=dependencies.api_group_alias,
    )


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Adds the common headers to the launcher's own responses; to forwarded ones only Server, and the uid of a log."""
    if isinstance(response, ForwardedResponse):
        response.headers["Server"] = SERVER
        if response.status == HTTPStatus.OK and (uid := request.get(VERIFIED_UID)):
            response.headers[POD_UID_HEADER] = uid
    else:
        await add_common_headers(request, response)
