"""Plain aiohttp clients of an API server, as a baseline."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

#: The number of connections of the launcher.
CONNECTIONS = 32
_JSON = {"Content-Type": "application/json"}


class PlainClient:
    """Sends the requests of one user over persistent connections."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def post_all(self, path: str, bodies: Iterable[bytes]) -> None:
        """Posts all bodies, concurrently on all connections."""
        remaining = iter(bodies)

        async def work() -> None:
            for body in remaining:
                await self.post(path, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())

    async def post(self, path: str, body: bytes) -> None:
        async with self._session.post(self._url + path, data=body, headers=_JSON) as response:
            content = await response.read()
            assert response.status == 201, content[:1000]

    async def get(self, path: str, *, accept: str = "application/json") -> Any:
        async with self._session.get(self._url + path, headers={"Accept": accept}) as response:
            content = await response.read()
            assert response.status == 200, content[:1000]
            return orjson.loads(content)

    async def delete(self, path: str, options: dict[str, Any]) -> None:
        """Deletes the objects; after a server-side timeout (504) the deletion may be incomplete."""
        async with self._session.delete(
            self._url + path, data=orjson.dumps(options), headers=_JSON
        ) as response:
            content = await response.read()
            assert response.status in {200, 202, 404, 504}, content[:1000]


@asynccontextmanager
async def plain_client(
    url: str, authority: Path | None, token: str, agent: str
) -> AsyncGenerator[PlainClient]:
    """A client with that *token*; without an *authority* it accepts any certificate."""
    context = ssl.create_default_context(cafile=str(authority) if authority is not None else None)
    if authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=context),
        headers={"Authorization": f"Bearer {token}", "User-Agent": agent},
        timeout=aiohttp.ClientTimeout(total=120),
    ) as session:
        yield PlainClient(session, url)
