"""Recent failures per node on Kubernetes: for callers who may list Frameworks in all namespaces."""

from http import HTTPStatus

from aiohttp import web

from launcher.api.http.status import set_error_target, status_response
from launcher.api.proxy.access_review import is_allowed, review_access
from launcher.api.proxy.admission import check_path
from launcher.api.proxy.upstream import Authenticate, Headers, json_headers
from launcher.api.resources.node_failures import NodeFailureHandler
from launcher.core.errors import Forbidden
from launcher.store.interface import FRAMEWORKS


class ProxyNodeFailures:
    """Handles ``GET …/nodefailures``."""

    def __init__(self, handler: NodeFailureHandler, authenticate: Authenticate, headers: Headers) -> None:
        """*headers* returns the headers of a request that are forwarded."""
        self._handler, self._authenticate, self._headers = handler, authenticate, headers

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Returns the failures, or the API server's error for a caller that it does not accept. Raises Forbidden."""
        check_path(request)
        set_error_target(request, FRAMEWORKS, "")
        headers = json_headers(self._headers(request))
        upstream = self._authenticate(request, headers)
        attributes = {"verb": "list", "group": FRAMEWORKS.group, "resource": FRAMEWORKS.plural}
        status, review = await review_access(upstream, headers, attributes)
        if status != HTTPStatus.CREATED:
            return status_response(request, status, review)
        if not is_allowed(review):
            raise Forbidden(f"nodefailures need the right to list {FRAMEWORKS.resource} in all namespaces")
        return await self._handler.get(request)
