"""Reaching into a running container: the actions that probes and hooks are made of."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from launcher.core.errors import Unavailable
from launcher.node.container_runtime import RunId, Runtime

#: Seconds for a hook that nothing else limits.
LONGEST = 86_400.0


def hook_of(spec: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The action of the hook ``postStart`` or ``preStop``; None if the container has none."""
    return (spec.get("lifecycle") or {}).get(name) or None


_AGENT = "kube-probe/framework-launcher"
#: As much of an answer's body as anybody reads in an event.
_MOST_SAID = 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether it worked, and what was said."""

    good: bool
    output: str = ""


@dataclass(frozen=True, slots=True)
class HandlerRunner:
    """One run of one container, and where it listens."""

    runtime: Runtime
    run: RunId
    spec: Mapping[str, Any]
    address: str

    async def do(self, action: Mapping[str, Any], within: float) -> Outcome:
        """What came of the action: ``exec``, ``httpGet``, ``tcpSocket`` or ``sleep``."""
        try:
            if (said := action.get("exec")) is not None:
                return await self._execute(said.get("command") or [], within)
            if (said := action.get("httpGet")) is not None:
                return await self._http_get(said, within)
            if (said := action.get("tcpSocket")) is not None:
                return await self._connect(said, within)
            if (said := action.get("sleep")) is not None:
                await asyncio.sleep(min(float(said.get("seconds") or 0), within))
                return Outcome(True)
        except Unavailable as error:
            return Outcome(False, str(error))
        return Outcome(False, "no action that is known here: use exec, httpGet or tcpSocket")

    async def _execute(self, argv: list[str], within: float) -> Outcome:
        if not argv:
            return Outcome(False, "exec.command is empty")
        code, output = await self.runtime.execute(self.run, argv, within=within)
        said = output[:_MOST_SAID].decode(errors="replace")
        return Outcome(code == 0, said or f"exit code {code}")

    async def _http_get(self, said: Mapping[str, Any], within: float) -> Outcome:
        scheme = (said.get("scheme") or "HTTP").lower()
        path = said.get("path") or "/"
        headers = {"User-Agent": _AGENT, "Accept": "*/*"}
        headers |= {one["name"]: one.get("value", "") for one in said.get("httpHeaders") or ()}
        try:
            url = f"{scheme}://{_host(said, self.address)}:{self._port(said)}/{path.lstrip('/')}"
            connector = aiohttp.TCPConnector(ssl=False, force_close=True)
            limit = aiohttp.ClientTimeout(total=within)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=limit) as session,
                # An answer that points elsewhere is an answer.
                session.get(url, headers=headers, allow_redirects=False) as answer,
            ):
                good = 200 <= answer.status < 400
                return Outcome(good, f"HTTP probe failed with statuscode: {answer.status}")
        except TimeoutError:
            return Outcome(False, f"no answer within {within:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Outcome(False, str(error))

    async def _connect(self, said: Mapping[str, Any], within: float) -> Outcome:
        try:
            async with asyncio.timeout(within):
                _, writer = await asyncio.open_connection(said.get("host") or self.address, self._port(said))
        except TimeoutError:
            return Outcome(False, f"no answer within {within:g} s")
        except (OSError, ValueError) as error:
            return Outcome(False, str(error))
        writer.close()
        return Outcome(True)

    def _port(self, said: Mapping[str, Any]) -> int:
        """The port, also by its name. Raises ValueError."""
        port = said.get("port")
        if isinstance(port, int):
            return port
        for known in self.spec.get("ports") or ():
            if known.get("name") == port:
                return int(known["containerPort"])
        if isinstance(port, str) and port.isdecimal():
            return int(port)
        raise ValueError(f'no port of the container is named "{port}"')


def _host(said: Mapping[str, Any], address: str) -> str:
    host: str = said.get("host") or address
    return f"[{host}]" if ":" in host else host
