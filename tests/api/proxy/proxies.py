"""Proxies in this process, each on a free port."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from launcher.api.http.server import make_runner
from launcher.api.middleware.metrics import Metrics
from launcher.api.proxy.app import ProxyDependencies, make_proxy_app, proxy_limits
from launcher.api.system_endpoints import Health
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.store.kubernetes.cluster_config import ClusterConfig
from tests.api.client import Client

#: The credentials of callers; the fake API server accepts any.
TOKEN = "Bearer of-the-caller"


class ProxyClient(Client):
    """A client of a proxy. It sends a token by default."""

    def __init__(self, session: aiohttp.ClientSession, url: str, parts: ProxyDependencies) -> None:
        super().__init__(session, url)
        self.parts = parts

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def proxy_dependencies(access: ClusterConfig, **others: Any) -> ProxyDependencies:
    """Returns the dependencies of a proxy to *access*."""
    given: dict[str, Any] = {
        "access": access,
        "policy": AdmissionPolicy(),
        "limits": proxy_limits(),
        "metrics": Metrics(),
        "health": Health({}),
    }
    return ProxyDependencies(**(given | others))


@asynccontextmanager
async def run_proxy(
    access: ClusterConfig,
    *,
    listen: ssl.SSLContext | None = None,
    call: ssl.SSLContext | bool = True,
    headers: Mapping[str, str] | None = None,
    **parts: Any,
) -> AsyncIterator[ProxyClient]:
    """Runs a proxy to *access*, with TLS if *listen* is set; its client connects with *call*."""
    made = proxy_dependencies(access, **parts)
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
            yield ProxyClient(session, url, made)
    finally:
        await runner.cleanup()
