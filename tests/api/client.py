"""An HTTP client that sends exactly what a test specifies and returns exactly what was received."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDictProxy
from yarl import URL

from tests.eventually import TIMEOUT_SECONDS

JSON = "application/json"
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
#: What is larger is sent bit by bit.
_PLAIN = 512 * 1024


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A received response."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        return self.headers.getall("Warning", [])

    def failure(self, status: int, reason: str) -> dict[str, Any]:
        """Returns the Status, which must be a failure with that code and reason."""
        assert self.headers["Content-Type"] == JSON
        reported: dict[str, Any] = self.json()
        assert (self.status, reported["code"], reported["reason"]) == (status, status, reason), reported
        assert reported["kind"] == "Status"
        assert reported["status"] == "Failure"
        return reported


class Stream:
    """A watch: its events one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.headers = response.headers
        self._response = response

    async def next(self) -> dict[str, Any]:
        """The next event; there must be one."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            line = await self._response.content.readline()
        assert line.endswith(b"\n"), "the stream has ended"
        event: dict[str, Any] = orjson.loads(line)
        return event

    async def take(self, count: int) -> list[dict[str, Any]]:
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[dict[str, Any]]:
        """Every event until the stream ends, which it must do properly."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return [orjson.loads(line) async for line in self._response.content]


class Client:
    """Sends requests to one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str | None = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Returns the response. Other bodies than bytes and text are JSON; *content_type* None sends no header."""
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            self._request(method, path, body, content_type, headers) as response,
        ):
            return HttpResponse(response.status, response.headers, await response.read())

    async def get(self, path: str, accept: str | None = None, **headers: str) -> HttpResponse:
        return await self.call("GET", path, None, None, _with_accept(accept, headers))

    async def post(self, path: str, body: Any, content_type: str | None = JSON) -> HttpResponse:
        return await self.call("POST", path, body, content_type)

    async def put(self, path: str, body: Any, content_type: str | None = JSON) -> HttpResponse:
        return await self.call("PUT", path, body, content_type)

    async def patch(self, path: str, body: Any, content_type: str | None = MERGE) -> HttpResponse:
        return await self.call("PATCH", path, body, content_type)

    async def delete(self, path: str, body: Any = None) -> HttpResponse:
        return await self.call("DELETE", path, body, None if body is None else JSON)

    @asynccontextmanager
    async def watch(self, path: str, accept: str | None = None, **headers: str) -> AsyncIterator[Stream]:
        """Opens a stream, which must have status 200; *path* contains ``watch=1``."""
        async with self._request("GET", path, None, None, _with_accept(accept, headers)) as response:
            assert response.status == 200, await response.text()
            yield Stream(response)

    def _request(
        self, method: str, path: str, body: Any, content_type: str | None, headers: Mapping[str, str] | None
    ) -> "aiohttp.client._RequestContextManager":
        sent = dict(headers or {})
        if body is not None and content_type is not None:
            sent["Content-Type"] = content_type
        return self.session.request(
            method,
            URL(self.url + path, encoded=True),
            data=_data(body),
            headers=sent,
            skip_auto_headers=("Content-Type", "Accept-Encoding"),
            allow_redirects=False,
        )


def _data(body: Any) -> Any:
    if body is None or isinstance(body, AsyncIterator):
        return body
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else orjson.dumps(body)
    return BytesIO(data) if len(data) > _PLAIN else data


def _with_accept(accept: str | None, headers: Mapping[str, str]) -> dict[str, str]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return given if accept is None else {"Accept": accept, **given}
