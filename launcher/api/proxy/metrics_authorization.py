"""Who may read ``/metrics`` of a cluster's launcher: kube-apiserver decides, as for its own."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDict

from launcher.api.proxy.upstream import Upstream
from launcher.core.errors import Forbidden, Unavailable
from launcher.core.validation.pod_template import as_object

Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_AUTHENTICATION = "/apis/authentication.k8s.io/v1/tokenreviews"
_AUTHORIZATION = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_BEARER = "bearer "
#: Reviews at one time, and the seconds that one may take: a scrape is a rare thing.
_AT_ONCE = 4
_SECONDS = 10.0


class MetricsAccess:
    """Serves metrics to callers whose token is known to the cluster, and who may ``get`` the URL."""

    def __init__(self, upstream: Upstream, handler: Handler) -> None:
        """*upstream* has the launcher's own credentials: they need the right to create both reviews."""
        self._upstream, self._handler = upstream, handler
        self._reviews = asyncio.Semaphore(_AT_ONCE)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The metrics. Raises HTTPUnauthorized, Forbidden, Unavailable."""
        header = request.headers.get(hdrs.AUTHORIZATION, "")
        token = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
        if not token:
            raise web.HTTPUnauthorized(text="Unauthorized")
        async with self._reviews:
            user = await self._user(token)
            await self._authorize(user, request.path)
        return await self._handler(request)

    async def _user(self, token: str) -> Json:
        status = await self._reviewed(
            _AUTHENTICATION, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        if status.get("authenticated") is not True:
            raise web.HTTPUnauthorized(text="Unauthorized")
        return as_object(status.get("user"))

    async def _authorize(self, user: Json, path: str) -> None:
        known = {"user": user.get("username")} | {name: user.get(name) for name in ("uid", "groups", "extra")}
        who = {name: value for name, value in known.items() if value}
        spec = {**who, "nonResourceAttributes": {"path": path, "verb": "get"}}
        status = await self._reviewed(_AUTHORIZATION, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        if status.get("allowed") is not True:
            raise Forbidden(f'User "{user.get("username", "")}" cannot get path "{path}"')

    async def _reviewed(self, path: str, version: str, kind: str, spec: Json) -> Json:
        """The status of that review. Raises Unavailable when the cluster does not answer it."""
        body = orjson.dumps({"apiVersion": version, "kind": kind, "spec": spec})
        headers = CIMultiDict({hdrs.CONTENT_TYPE: "application/json", hdrs.ACCEPT: "application/json"})
        try:
            async with (
                asyncio.timeout(_SECONDS),
                self._upstream.answer("POST", path, headers, body) as answer,
            ):
                found = orjson.loads(await answer.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable(f"the API server did not answer a {kind}") from error
        if answer.status != HTTPStatus.CREATED:
            raise Unavailable(
                f"the API server refused a {kind} with {answer.status}: the launcher's own account needs the rights of "
                "components/metrics-auth"
            )
        return as_object(as_object(found).get("status"))
