"""``pods/log`` with a uid on Kubernetes: logs of deleted pods, from the log archive, with the caller's rights."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus

from aiohttp import web
from multidict import CIMultiDict

from launcher.api.http.status import set_error_target, status_response
from launcher.api.proxy.access_review import is_allowed, review_access
from launcher.api.proxy.admission import check_path
from launcher.api.proxy.upstream import Authenticate, Headers, Upstream, json_headers
from launcher.api.resources.pod_logs import LogRequest, parse_log_query, select_container, stream_log
from launcher.core.errors import BadRequest, Forbidden, NotFound, Unavailable
from launcher.core.json_access import as_object
from launcher.core.pods.log_options import POD_UID_HEADER
from launcher.core.validation.names import name_error, namespace_error
from launcher.log_archive.interface import ArchivedPod, LogArchive, LogKey
from launcher.log_archive.log_text import select
from launcher.store.interface import PODS

PATH = f"/api/{PODS.version}/namespaces/{{namespace}}/{PODS.plural}/{{name}}/log"

#: The uid of the pod whose log is forwarded, in the state of a request.
VERIFIED_UID = web.RequestKey("verified_uid", str)

_READ_SECONDS = 20.0
#: Longer logs are filtered in a thread.
_MAX_INLINE_BYTES = 256 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ProxyPodLogs:
    """Handles ``GET …/pods/{name}/log``."""

    def __init__(
        self, forward: Handler, authenticate: Authenticate, headers: Headers, archive: LogArchive | None
    ) -> None:
        """*forward* forwards a request to the API server; *headers* returns the headers of a request for that."""
        self._forward, self._authenticate, self._headers = forward, authenticate, headers
        self._archive = archive

    async def get(self, request: web.Request) -> web.StreamResponse:
        """
        Returns the API server's response, unless a *uid* is requested and the pod with that uid no longer exists.

        Then it returns the archived log, if the caller is allowed to get the log of a pod of that name.
        """
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        uid = request.query.get("uid")
        if not uid or name_error(name) or namespace_error(namespace):
            return await self._forward(request)
        check_path(request)
        set_error_target(request, PODS, name)
        headers = json_headers(self._headers(request))
        upstream = self._authenticate(request, headers)
        status, pod = await _get_pod(upstream, request, headers)
        if status == HTTPStatus.OK and as_object(pod.get("metadata")).get("uid") == uid:
            forwarded = request.clone(rel_url=request.rel_url.without_query_params("uid"))
            forwarded[VERIFIED_UID] = uid
            return await self._forward(forwarded)
        if status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
            return status_response(request, status, pod)
        query = parse_log_query(name, request.query, time.time())
        attributes = {
            "namespace": namespace,
            "verb": "get",
            "resource": PODS.plural,
            "subresource": "log",
            "name": name,
        }
        status, review = await review_access(upstream, headers, attributes)
        if status != HTTPStatus.CREATED:
            return status_response(request, status, review)
        _check_allowed(review, namespace, name)
        text = await self._read(ArchivedPod(namespace, name, uid), query)
        return await stream_log(request, _chunks(text), at_once=False, headers={POD_UID_HEADER: uid})

    async def _read(self, pod: ArchivedPod, query: LogRequest) -> bytes:
        """Returns the requested part of the archived log. Raises NotFound, BadRequest, Unavailable."""
        if self._archive is None:
            raise NotFound(
                f'pod "{pod.name}" with uid {pod.uid} no longer exists, and its log is not kept: the launcher runs '
                "without --log-archive"
            )
        try:
            async with asyncio.timeout(_READ_SECONDS):
                text = await self._archive.read(await _log_key(self._archive, pod, query))
        except TimeoutError as error:
            raise Unavailable("no response from the log archive") from error
        except Forbidden as error:
            # The launcher's problem, not the caller's.
            raise Unavailable(f"the log archive denies access to the launcher: {error}") from error
        if len(text) <= _MAX_INLINE_BYTES:
            return select(text, query.options)
        return await asyncio.to_thread(select, text, query.options)


async def _get_pod(
    upstream: Upstream, request: web.Request, headers: CIMultiDict[str]
) -> tuple[int, dict[str, object]]:
    """Returns the status code, and the pod of that name or a Status."""
    path = request.rel_url.raw_path.removesuffix("/log")
    return await upstream.call("GET", path, headers.copy(), timeout_seconds=_READ_SECONDS)


def _check_allowed(review: dict[str, object], namespace: str, name: str) -> None:
    if not is_allowed(review):
        # As in kube-apiserver, without the name of the user.
        raise Forbidden(
            f'pods "{name}" is forbidden: cannot get resource "pods/log" in API group "" in the namespace "{namespace}"'
        )


async def _log_key(archive: LogArchive, pod: ArchivedPod, query: LogRequest) -> LogKey:
    """Returns the key of the requested run. Raises NotFound, BadRequest."""
    runs = await archive.runs(pod)
    if not runs:
        raise NotFound(f'no archived log of pod "{pod.name}" with uid {pod.uid}')
    container = select_container(pod.name, query.container, list(runs), list(runs))
    restarts = runs[container]
    if query.options.previous and len(restarts) < 2:
        raise BadRequest(f'previous terminated container "{container}" in pod "{pod.name}" not found')
    return LogKey(pod, container, restarts[-2] if query.options.previous else restarts[-1])


async def _chunks(text: bytes) -> AsyncIterator[bytes]:
    yield text
