"""Front doors in this process, each on a free port of its own."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from launcher.api.http.server import make_runner
from launcher.api.middleware.metrics import Metrics
from launcher.api.proxy.app import DoorParts, door_limits, make_proxy_app
from launcher.api.system_endpoints import Health
from launcher.core.validation.admission_policy import Policy
from launcher.store.kubernetes.cluster_config import ClusterConfig
from tests.api.client import Client

#: Whatever a caller proves itself with; the stand-in takes anything.
TOKEN = "Bearer of-the-caller"


class Door(Client):
    """A client of a front door. Unless it says otherwise, it sends a token."""

    def __init__(self, session: aiohttp.ClientSession, url: str, parts: DoorParts) -> None:
        super().__init__(session, url)
        self.parts, self.session = parts, session

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def door_parts(access: ClusterConfig, **others: Any) -> DoorParts:
    """Everything that a front door to *access* needs."""
    given: dict[str, Any] = {
        "access": access,
        "policy": Policy(),
        "limits": door_limits(),
        "metrics": Metrics(),
        "health": Health({}),
    }
    return DoorParts(**(given | others))


@asynccontextmanager
async def door_to(
    access: ClusterConfig,
    *,
    listen: ssl.SSLContext | None = None,
    call: ssl.SSLContext | bool = True,
    headers: Mapping[str, str] | None = None,
    **parts: Any,
) -> AsyncIterator[Door]:
    """A front door to *access*, over TLS if *listen* says how; its client connects with *call*."""
    made = door_parts(access, **parts)
    runner = make_runner(make_proxy_app(made), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=listen).start()
        url = f"{'https' if listen else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        sent = {"User-Agent": "a-client", **(headers if headers is not None else {"Authorization": TOKEN})}
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=call),
            headers=sent,
            auto_decompress=False,
            skip_auto_headers=("Accept",),
        ) as session:
            yield Door(session, url, made)
    finally:
        await runner.cleanup()
