"""Lists of Frameworks by a part of their name and by node on Kubernetes, which has no selectors for these."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from aiohttp import hdrs, web
from multidict import CIMultiDict

from launcher.api.http.content_negotiation import LIST_REPRESENTATIONS, negotiate_format
from launcher.api.http.query import flag
from launcher.api.http.request_options import NAME_CONTAINS, NODE_NAME, name_options
from launcher.api.http.responses import respond
from launcher.api.http.status import status_response
from launcher.api.proxy.admission import check_path
from launcher.api.proxy.pod_logs import Handler
from launcher.api.proxy.upstream import Authenticate, Headers, Upstream, json_headers
from launcher.api.resources.reads import framework_key
from launcher.core.errors import BadRequest
from launcher.core.json_access import as_list, as_object, text
from launcher.core.names import PodIdentityKey
from launcher.store.interface import FRAMEWORKS, PODS
from launcher.store.selectors import NameFilter

_BASE = f"/apis/{FRAMEWORKS.group}/{FRAMEWORKS.version}"
PATHS = (f"{_BASE}/{FRAMEWORKS.plural}", f"{_BASE}/namespaces/{{namespace}}/{FRAMEWORKS.plural}")

Json = dict[str, Any]

_READ_SECONDS = 20.0
_PAGE_SIZE = 500
#: Pages that are read for one request; a list with fewer matches has a continue token.
_MAX_PAGES = 20
#: Only metadata of pods is read.
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class ProxyFrameworkLists:
    """Handles lists of Frameworks with ``nameContains`` or ``nodeName``; forwards all others."""

    def __init__(self, forward: Handler, authenticate: Authenticate, headers: Headers) -> None:
        """*forward* forwards a request to the API server; *headers* returns the headers of a request for that."""
        self._forward, self._authenticate, self._headers = forward, authenticate, headers

    async def list(self, request: web.Request) -> web.StreamResponse:
        """Returns the matching Frameworks, at most 500 of them or the limit; all are read as the caller."""
        names = name_options(request.query)
        if names is None or flag(request.query, "watch"):
            return await self._forward(request)
        check_path(request)
        response_format = negotiate_format(request, LIST_REPRESENTATIONS)
        headers = self._headers(request)
        accept = headers.get(hdrs.ACCEPT, "")
        reader = _PageReader(self._authenticate(request, headers), json_headers(headers))
        among = None
        if names.node:
            status, among = await reader.frameworks_on(names.node, request.match_info.get("namespace"))
            if among is None:
                return status_response(request, *status)
        code, body = await reader.matching(request, accept, NameFilter(names.contains, among))
        if code != HTTPStatus.OK:
            return status_response(request, code, body)
        return await respond(request, response_format, body)


class _PageReader:
    """Reads pages of lists from the API server with the caller's credentials."""

    def __init__(self, upstream: Upstream, headers: CIMultiDict[str]) -> None:
        self._upstream, self._headers = upstream, headers

    async def frameworks_on(
        self, node: str, namespace: str | None
    ) -> tuple[tuple[int, Json], frozenset[tuple[str, str]] | None]:
        """Returns the Frameworks with a pod on the node; or None, after the error of the API server."""
        path = f"/api/{PODS.version}{f'/namespaces/{namespace}' if namespace else ''}/{PODS.plural}"
        query = {"fieldSelector": f"spec.nodeName={node}", "labelSelector": PodIdentityKey.FRAMEWORK_NAME}
        code, pods = await self._get(path, query, _METADATA_LIST)
        if code != HTTPStatus.OK:
            return (code, pods), None
        return (code, {}), frozenset(map(framework_key, as_list(pods.get("items"))))

    async def matching(self, request: web.Request, accept: str, names: NameFilter) -> tuple[int, Json]:
        """Returns the status code and the list or table with the matching objects."""
        own = (NAME_CONTAINS, NODE_NAME, "limit", "continue", "includeObject")
        query = {name: value for name, value in request.query.items() if name not in own}
        limit, token = _limit(request.query), request.query.get("continue", "")
        found: list[Json] = []
        page: Json = {}
        for _ in range(_MAX_PAGES):
            options = {
                **query,
                "limit": str(min(limit, _PAGE_SIZE)),
                **({"continue": token} if token else {}),
            }
            code, page = await self._get(request.rel_url.raw_path, options, accept or "application/json")
            if code != HTTPStatus.OK:
                return code, page
            matches = [each for each in _entries(page) if names.matches(_key(each))]
            if len(found) + len(matches) > limit:
                break  # the next request reads this page again
            found += matches
            token = text(as_object(page.get("metadata")).get("continue"))
            if not token or len(found) == limit:
                break
        return HTTPStatus.OK, _with_entries(page, found, token)

    async def _get(self, path: str, query: Mapping[str, str], accept: str) -> tuple[int, Json]:
        headers = self._headers.copy()
        headers[hdrs.ACCEPT] = accept
        target = f"{path}?{urlencode(query)}"
        return await self._upstream.call("GET", target, headers, timeout_seconds=_READ_SECONDS)


def _limit(query: Mapping[str, str]) -> int:
    limit = query.get("limit") or str(_PAGE_SIZE)
    if not limit.isascii() or not limit.isdecimal() or len(limit) > len(str(2**31)):
        raise BadRequest(f"limit: Invalid value: {limit[:80]!r}: must be an integer")
    return int(limit) or _PAGE_SIZE


def _entries(page: Json) -> list[Json]:
    return [as_object(each) for each in as_list(page.get("rows" if page.get("kind") == "Table" else "items"))]


def _key(entry: Json) -> tuple[str, str]:
    """Returns the namespace and name of an object or of the object of a row."""
    metadata = as_object(as_object(entry.get("object", entry)).get("metadata"))
    return text(metadata.get("namespace")), text(metadata.get("name"))


def _with_entries(page: Json, entries: list[Json], token: str) -> Json:
    """Returns the list or table with these entries, and without a count of those that follow."""
    metadata = {
        name: value
        for name, value in as_object(page.get("metadata")).items()
        if name not in ("continue", "remainingItemCount")
    }
    if token:
        metadata["continue"] = token
    return {**page, "metadata": metadata, ("rows" if page.get("kind") == "Table" else "items"): entries}
