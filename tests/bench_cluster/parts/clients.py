"""Bare clients of an API server: nothing between them and aiohttp."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

#: As many as the launcher has.
CONNECTIONS = 32
_JSON = {"Content-Type": "application/json"}


class Bare:
    """Asks as one user over connections that are kept."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def post_all(self, path: str, bodies: Iterable[bytes]) -> None:
        """Post each, as many at a time as there are connections."""
        todo = iter(bodies)

        async def work() -> None:
            for body in todo:
                await self.post(path, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())

    async def post(self, path: str, body: bytes) -> None:
        async with self._session.post(self._url + path, data=body, headers=_JSON) as response:
            answer = await response.read()
            assert response.status == 201, answer[:1000]

    async def get(self, path: str, *, accept: str = "application/json") -> Any:
        async with self._session.get(self._url + path, headers={"Accept": accept}) as response:
            answer = await response.read()
            assert response.status == 200, answer[:1000]
            return orjson.loads(answer)

    async def delete(self, path: str, options: dict[str, Any]) -> None:
        """Delete what is there; where it takes the server too long (504), it has only begun."""
        async with self._session.delete(
            self._url + path, data=orjson.dumps(options), headers=_JSON
        ) as response:
            answer = await response.read()
            assert response.status in {200, 202, 404, 504}, answer[:1000]


@asynccontextmanager
async def bare(url: str, authority: Path | None, token: str, agent: str) -> AsyncGenerator[Bare]:
    """A client with that *token*; without an *authority* it believes any certificate."""
    context = ssl.create_default_context(cafile=str(authority) if authority is not None else None)
    if authority is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=context),
        headers={"Authorization": f"Bearer {token}", "User-Agent": agent},
        timeout=aiohttp.ClientTimeout(total=120),
    ) as session:
        yield Bare(session, url)
