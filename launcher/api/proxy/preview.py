"""Previews on Kubernetes: for callers who may list Frameworks in the namespace."""

from http import HTTPStatus

from aiohttp import web

from launcher.api.http.status import set_error_target, status_response
from launcher.api.proxy.access_review import is_allowed, review_access
from launcher.api.proxy.admission import check_path
from launcher.api.proxy.upstream import Authenticate, Headers, json_headers
from launcher.api.resources.preview import PreviewHandler
from launcher.core.errors import Forbidden
from launcher.store.interface import FRAMEWORKS


class ProxyPreview:
    """Handles ``POST …/namespaces/{namespace}/previews``."""

    def __init__(self, preview: PreviewHandler, authenticate: Authenticate, headers: Headers) -> None:
        """*headers* returns the headers of a request that are forwarded."""
        self._preview, self._authenticate, self._headers = preview, authenticate, headers

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Returns the previews, or the API server's error for a caller that it does not accept. Raises Forbidden."""
        check_path(request)
        set_error_target(request, FRAMEWORKS, "")
        namespace = request.match_info["namespace"]
        headers = json_headers(self._headers(request))
        upstream = self._authenticate(request, headers)
        attributes = {
            "namespace": namespace,
            "verb": "list",
            "group": FRAMEWORKS.group,
            "resource": FRAMEWORKS.plural,
        }
        status, review = await review_access(upstream, headers, attributes)
        if status != HTTPStatus.CREATED:
            return status_response(request, status, review)
        if not is_allowed(review):
            raise Forbidden(
                f"previews need the right to list {FRAMEWORKS.resource} in the namespace {namespace!r}"
            )
        return await self._preview.create(request)
