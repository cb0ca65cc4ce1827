"""Runs the actions of probes and lifecycle hooks against a running container."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from launcher.core.errors import Unavailable
from launcher.node.container_runtime import RunId, RuntimeService
from launcher.node.network.pod_network import PodNetwork, SharedPodNetwork, connect

#: The time limit of a hook without another one.
MAX_HOOK_SECONDS = 86_400.0
_USER_AGENT = "kube-probe/framework-launcher"
#: The part of a command's output that is put into an event.
_MAX_OUTPUT_BYTES = 1024


def hook_action(spec: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The action of the hook ``postStart`` or ``preStop``; None if the container has none."""
    return (spec.get("lifecycle") or {}).get(name) or None


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """Whether an action succeeded, and its output or error."""

    succeeded: bool
    output: str = ""


@dataclass(frozen=True, slots=True)
class HandlerRunner:
    """Runs actions against one run of a container, which listens at *address*."""

    runtime: RuntimeService
    run: RunId
    spec: Mapping[str, Any]
    address: str
    network: PodNetwork = field(default_factory=SharedPodNetwork)

    async def run_action(self, action: Mapping[str, Any], limit_seconds: float) -> HandlerResult:
        """Runs the action: ``exec``, ``httpGet``, ``tcpSocket``, ``grpc`` or ``sleep``."""
        try:
            if (spec := action.get("exec")) is not None:
                return await self._execute(spec.get("command") or [], limit_seconds)
            if (spec := action.get("httpGet")) is not None:
                return await self._http_get(spec, limit_seconds)
            if (spec := action.get("tcpSocket")) is not None:
                return await self._connect(spec, limit_seconds)
            if (spec := action.get("grpc")) is not None:
                return await self._check_grpc_health(spec, limit_seconds)
            if (spec := action.get("sleep")) is not None:
                await asyncio.sleep(min(float(spec.get("seconds") or 0), limit_seconds))
                return HandlerResult(True)
        except Unavailable as error:
            return HandlerResult(False, str(error))
        return HandlerResult(False, "unsupported action: use exec, httpGet, tcpSocket or grpc")

    async def _execute(self, argv: list[str], limit_seconds: float) -> HandlerResult:
        if not argv:
            return HandlerResult(False, "exec.command is empty")
        code, output = await self.runtime.exec_sync(self.run, argv, timeout_seconds=limit_seconds)
        text = output[:_MAX_OUTPUT_BYTES].decode(errors="replace")
        return HandlerResult(code == 0, text or f"exit code {code}")

    async def _http_get(self, spec: Mapping[str, Any], limit_seconds: float) -> HandlerResult:
        scheme = (spec.get("scheme") or "HTTP").lower()
        path = spec.get("path") or "/"
        headers = {"User-Agent": _USER_AGENT, "Accept": "*/*"}
        headers |= {header["name"]: header.get("value", "") for header in spec.get("httpHeaders") or ()}
        try:
            url = f"{scheme}://{_host(spec, self.address)}:{self._port(spec)}/{path.lstrip('/')}"
            async with (
                self._session(spec, limit_seconds) as session,
                # A redirect counts as a success.
                session.get(url, headers=headers, allow_redirects=False) as response,
            ):
                succeeded = 200 <= response.status < 400
                return HandlerResult(succeeded, f"HTTP probe failed with statuscode: {response.status}")
        except TimeoutError:
            return _timed_out(limit_seconds)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return HandlerResult(False, str(error))

    @asynccontextmanager
    async def _session(
        self, spec: Mapping[str, Any], limit_seconds: float
    ) -> AsyncIterator[aiohttp.ClientSession]:
        """A session for one connection, from a network that reaches the pod. Raises Unavailable."""
        sockets: list[socket.socket] = []
        if not spec.get("host"):
            sockets.append(await self.network.open_socket(self.address))

        def new_socket(_: object) -> socket.socket:
            if not sockets:
                raise ConnectionResetError("the connection was closed without a response")
            sockets[0].setblocking(False)
            return sockets.pop()

        connector = aiohttp.TCPConnector(
            ssl=False, force_close=True, socket_factory=new_socket if sockets else None
        )
        timeout = aiohttp.ClientTimeout(total=limit_seconds)
        try:
            async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
                yield session
        finally:
            for unused in sockets:
                unused.close()

    async def _connect(self, spec: Mapping[str, Any], limit_seconds: float) -> HandlerResult:
        try:
            async with asyncio.timeout(limit_seconds):
                if spec.get("host"):
                    _, writer = await asyncio.open_connection(spec["host"], self._port(spec))
                else:
                    _, writer = await connect(self.network, self.address, self._port(spec))
        except TimeoutError:
            return _timed_out(limit_seconds)
        except (OSError, ValueError) as error:
            return HandlerResult(False, str(error))
        writer.close()
        return HandlerResult(True)

    async def _check_grpc_health(self, spec: Mapping[str, Any], limit_seconds: float) -> HandlerResult:
        # Imported here, because few containers need h2.
        from launcher.node.agent.grpc_health import HealthCheckFailed, health_status

        authority = f"{_host({}, self.address)}:{spec['port']}"
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(limit_seconds):
                reader, writer = await connect(self.network, self.address, spec["port"])
                status = await health_status(
                    reader, writer, authority, spec.get("service") or "", _USER_AGENT
                )
        except TimeoutError:
            return _timed_out(limit_seconds)
        except (OSError, HealthCheckFailed) as error:
            return HandlerResult(False, str(error))
        finally:
            if writer is not None:
                writer.close()
        return HandlerResult(status == "SERVING", f'service unhealthy (responded with "{status}")')

    def _port(self, spec: Mapping[str, Any]) -> int:
        """The port, which may be given by its name. Raises ValueError."""
        port = spec.get("port")
        if isinstance(port, int):
            return port
        for container_port in self.spec.get("ports") or ():
            if container_port.get("name") == port:
                return int(container_port["containerPort"])
        if isinstance(port, str) and port.isdecimal():
            return int(port)
        raise ValueError(f'no port of the container is named "{port}"')


def _timed_out(seconds: float) -> HandlerResult:
    return HandlerResult(False, f"timed out after {seconds:g}s")


def _host(spec: Mapping[str, Any], address: str) -> str:
    host: str = spec.get("host") or address
    return f"[{host}]" if ":" in host else host
