"""A plain HTTP client: it sends exactly what a test says, and shows exactly what came back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDictProxy
from yarl import URL

#: Longer than anything here takes; whoever waits that long waits in vain.
PATIENCE = 20.0
JSON = "application/json"
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
#: What is larger is sent bit by bit.
_PLAIN = 512 * 1024


async def until(holds: Callable[[], bool]) -> None:
    """Return when it holds, which it must do in the end."""
    for _ in range(int(PATIENCE * 100)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to hold")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        return self.headers.getall("Warning", [])

    def refused(self, status: int, reason: str) -> dict[str, Any]:
        """The Status, which must say no in just this way."""
        assert self.headers["Content-Type"] == JSON
        told: dict[str, Any] = self.json()
        assert (self.status, told["code"], told["reason"]) == (status, status, reason), told
        assert told["kind"] == "Status"
        assert told["status"] == "Failure"
        return told


class Stream:
    """A watch: its events one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.headers = response.headers
        self._response = response

    async def next(self) -> dict[str, Any]:
        """The next event; there must be one."""
        async with asyncio.timeout(PATIENCE):
            line = await self._response.content.readline()
        assert line.endswith(b"\n"), "the stream has ended"
        event: dict[str, Any] = orjson.loads(line)
        return event

    async def take(self, count: int) -> list[dict[str, Any]]:
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[dict[str, Any]]:
        """Every event until the stream ends, which it must do properly."""
        async with asyncio.timeout(PATIENCE):
            return [orjson.loads(line) async for line in self._response.content]


class Client:
    """Sends requests to one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self.url = session, url

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str | None = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer. A body that is no bytes or text goes as JSON; without a *content_type* the header is not sent."""
        async with (
            asyncio.timeout(PATIENCE),
            self._request(method, path, body, content_type, headers) as response,
        ):
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, accept: str | None = None, **headers: str) -> Answer:
        return await self.call("GET", path, None, None, _with_accept(accept, headers))

    async def post(self, path: str, body: Any, content_type: str | None = JSON) -> Answer:
        return await self.call("POST", path, body, content_type)

    async def put(self, path: str, body: Any, content_type: str | None = JSON) -> Answer:
        return await self.call("PUT", path, body, content_type)

    async def patch(self, path: str, body: Any, content_type: str | None = MERGE) -> Answer:
        return await self.call("PATCH", path, body, content_type)

    async def delete(self, path: str, body: Any = None) -> Answer:
        return await self.call("DELETE", path, body, None if body is None else JSON)

    @asynccontextmanager
    async def watch(self, path: str, accept: str | None = None, **headers: str) -> AsyncIterator[Stream]:
        """A stream that has been answered with 200; *path* says ``watch=1`` itself."""
        async with self._request("GET", path, None, None, _with_accept(accept, headers)) as response:
            assert response.status == 200, await response.text()
            yield Stream(response)

    def _request(
        self, method: str, path: str, body: Any, content_type: str | None, headers: Mapping[str, str] | None
    ) -> "aiohttp.client._RequestContextManager":
        sent = dict(headers or {})
        if body is not None and content_type is not None:
            sent["Content-Type"] = content_type
        return self._session.request(
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
