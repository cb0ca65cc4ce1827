"""
The front door to a cluster: Frameworks are checked, and everything is passed on as whoever sent it.

It stands at the paths of the API server itself, so that any client of Kubernetes can be pointed at it. Its own are but
few: health, metrics, and the webhook that the API server calls.
"""

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from launcher.api.http.server import RouteProvider
from launcher.api.http.status import SERVER, common_headers, errors_as_status
from launcher.api.middleware.metrics import Metrics
from launcher.api.middleware.request_info import is_rendezvous
from launcher.api.middleware.request_limits import RequestLimits, note_stream
from launcher.api.proxy.admission import DoorChecks
from launcher.api.proxy.handler import Passed, ProxyHandler
from launcher.api.proxy.metrics_authorization import Handler, MetricsAccess
from launcher.api.proxy.upstream import Upstream
from launcher.api.system_endpoints import Health
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from launcher.core.validation.admission_policy import Policy
from launcher.job_kinds.job_kind import JobKind
from launcher.store.kubernetes.cluster_config import ClusterConfig

#: The API server itself gives up on a request after a minute, and says so better than we could.
_SECONDS = 65.0
#: Watches and logs at once; each holds two connections.
_STREAMS = 2000
#: Asked by those who keep the launcher alive, and by the API server in the middle of a request that may be from here.
_OWN = re.compile(r"/(healthz|livez|readyz)(/[a-z-]*)?|/admission/[a-z]+")


@dataclass(frozen=True, slots=True)
class DoorParts:
    """What the front door is made of."""

    access: ClusterConfig
    policy: Policy
    limits: RequestLimits
    metrics: Metrics
    health: Health
    #: The admission webhook; None where another place serves it.
    webhook: RouteProvider | None = None
    #: Where pods ask for their peers; None where they are not told.
    rendezvous: RouteProvider | None = None
    #: Whether the listener asks for client certificates (see ``ask_for_certificates``), whose owners the launcher then
    #: names to the API server.
    certificates: bool = False
    #: Whether jobs of a kind are ours, and so to be checked.
    serves_kind: Callable[[JobKind], bool] = lambda _: False
    #: Whether Frameworks can be had under FrameworkController's name, too.
    second_name: bool = False
    #: Whether the cluster is asked who may read ``/metrics``.
    metrics_auth: bool = False


def make_proxy_app(parts: DoorParts) -> web.Application:
    """The application over *parts*."""
    app = web.Application(
        middlewares=[
            # Outside of the rest, since it counts answers by their code.
            parts.metrics.middleware,
            errors_as_status,
            parts.limits.middleware,
        ],
        client_max_size=MAX_BODY_BYTES,
    )
    app.on_response_prepare.append(_door_headers)
    app.on_response_prepare.append(note_stream)
    _add_own(app, parts)
    app.router.add_route("*", "/{path:.*}", _passage(app, parts).handle)
    return app


def door_limits() -> RequestLimits:
    """Limits that leave it to the API server to time requests, and never keep it from its webhook."""
    return RequestLimits(
        read_seconds=_SECONDS,
        write_seconds=_SECONDS,
        streams=_STREAMS,
        free=lambda request: is_rendezvous(request) or _OWN.fullmatch(request.rel_url.raw_path) is not None,
    )


def ask_for_certificates(context: ssl.SSLContext, authority: Path) -> None:
    """Let clients of a listener with that *context* show certificates of *authority*. Raises OSError."""
    context.load_verify_locations(authority)
    # As kube-apiserver: whoever has none may still have a token.
    context.verify_mode = ssl.CERT_OPTIONAL
    # Go, which clusters are made with, takes certificates that Python from 3.13 on finds too loosely written.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT


def _add_own(app: web.Application, parts: DoorParts) -> None:
    parts.health.add_to(app)
    app.router.add_get("/metrics", _metrics(app, parts))
    if parts.webhook is not None:
        parts.webhook.add_to(app)
    if parts.rendezvous is not None:
        parts.rendezvous.add_to(app)


def _metrics(app: web.Application, parts: DoorParts) -> Handler:
    if not parts.metrics_auth:
        return parts.metrics.expose
    reviews = Upstream(parts.access, parts.access.tls, parts.access.credentials)
    app.cleanup_ctx.append(reviews.connected)
    return MetricsAccess(reviews, parts.metrics.expose).handle


def _passage(app: web.Application, parts: DoorParts) -> ProxyHandler:
    access, ourselves = parts.access, None
    others = Upstream(access, access.tls.without_client_certificate() if access.tls is not None else None)
    app.cleanup_ctx.append(others.connected)
    if parts.certificates:
        ourselves = Upstream(access, access.tls, access.credentials)
        app.cleanup_ctx.append(ourselves.connected)
    return ProxyHandler(
        others, ourselves, DoorChecks(parts.policy, parts.serves_kind), second_name=parts.second_name
    )


async def _door_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Give *response* what every answer of our own carries, and to one of the API server only our name."""
    if isinstance(response, Passed):
        response.headers["Server"] = SERVER
    else:
        await common_headers(request, response)
