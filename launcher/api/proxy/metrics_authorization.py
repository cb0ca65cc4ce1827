"""Authorization of ``/metrics`` by kube-apiserver."""

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
from launcher.core.json_access import as_object

Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_AUTHENTICATION = "/apis/authentication.k8s.io/v1/tokenreviews"
_AUTHORIZATION = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_BEARER = "bearer "
_MAX_REVIEWS = 4
_REVIEW_SECONDS = 10.0


class MetricsAuthorization:
    """Serves metrics to callers that the cluster authenticates and allows to ``get`` the path."""

    def __init__(self, upstream: Upstream, handler: Handler) -> None:
        """*upstream* has the launcher's own credentials, which must be allowed to create both reviews."""
        self._upstream, self._handler = upstream, handler
        self._reviews = asyncio.Semaphore(_MAX_REVIEWS)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Returns the metrics. Raises HTTPUnauthorized, Forbidden, Unavailable."""
        header = request.headers.get(hdrs.AUTHORIZATION, "")
        token = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
        if not token:
            raise web.HTTPUnauthorized(text="Unauthorized")
        async with self._reviews:
            user = await self._user(token)
            await self._authorize(user, request.path)
        return await self._handler(request)

    async def _user(self, token: str) -> Json:
        status = await self._review(
            _AUTHENTICATION, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        if status.get("authenticated") is not True:
            raise web.HTTPUnauthorized(text="Unauthorized")
        return as_object(status.get("user"))

    async def _authorize(self, user: Json, path: str) -> None:
        fields = {"user": user.get("username")} | {
            name: user.get(name) for name in ("uid", "groups", "extra")
        }
        subject = {name: value for name, value in fields.items() if value}
        spec = {**subject, "nonResourceAttributes": {"path": path, "verb": "get"}}
        status = await self._review(_AUTHORIZATION, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        if status.get("allowed") is not True:
            raise Forbidden(f'User "{user.get("username", "")}" cannot get path "{path}"')

    async def _review(self, path: str, version: str, kind: str, spec: Json) -> Json:
        """Returns the status of a review. Raises Unavailable."""
        body = orjson.dumps({"apiVersion": version, "kind": kind, "spec": spec})
        headers = CIMultiDict({hdrs.CONTENT_TYPE: "application/json", hdrs.ACCEPT: "application/json"})
        try:
            async with (
                asyncio.timeout(_REVIEW_SECONDS),
                self._upstream.answer("POST", path, headers, body) as answer,
            ):
                review = orjson.loads(await answer.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable(f"no response to a {kind} from the API server") from error
        if answer.status != HTTPStatus.CREATED:
            raise Unavailable(
                f"the API server rejected a {kind} with {answer.status}: the launcher's service account needs the "
                "permissions of components/metrics-auth"
            )
        return as_object(as_object(review).get("status"))
