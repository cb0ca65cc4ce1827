"""
Container starts by Docker and Podman, compared with the bare API of the engine: the same containers, a plain client.

Launcher and client run in turns, so that the conditions are the same, and start the same number of containers at once.
All use the network of the machine: an isolated pod needs a second container in Docker.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import aiohttp

from tests.bench import Row, row
from tests.engine.archives import BUSYBOX, archive, busybox
from tests.engine.engines import KINDS, EngineProcess
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server
from tests.rig.measured_launcher import (
    ApiConnection,
    a_framework,
    connected,
    directory,
    running_launcher,
    seconds_since,
)

ROUNDS = 3
TASKS = 40
AT_ONCE = 100
SUBMITS = 9
#: Containers that are started at the same time, as by the launcher.
CONCURRENT_STARTS = 8
#: The speed of the launcher that is the goal, relative to that of the bare API.
GOAL = 0.7
TRUE, SLEEP, ECHO = ("true",), ("sleep", "1000"), ("echo", "hello")


def rows() -> list[Row]:
    """Measures many containers that end, many that run at once, and one alone, with each engine."""
    return [each for kind in KINDS for each in _rows(kind)]


def _rows(kind: str) -> Iterator[Row]:
    with _running_engine(kind) as engine, directory() as data:
        client = BareClient(engine)
        flags = ("--runtime=docker", "--pod-network=shared")
        with running_launcher(data, *flags) as server, connected(server) as api:
            _completed_rate(api, "first", 8)
            client.run(8)
            yield from _completed_rows(kind, api, client)
            yield _submit_row(kind, server, api, client)
            yield from _at_once_rows(kind, api, client)


@contextmanager
def _running_engine(kind: str) -> Iterator[EngineProcess]:
    """An engine with busybox, which launchers use."""
    engine = EngineProcess(kind)
    try:
        engine.load(archive(busybox()))
        with patch.dict(os.environ, DOCKER_HOST=engine.url):
            yield engine
    finally:
        engine.close()


class BareClient:
    """A client of the engine's API that does what is necessary, and nothing else."""

    def __init__(self, engine: EngineProcess) -> None:
        self._socket = str(engine.socket)
        self._number = 0

    def run(self, number: int) -> float:
        """Containers per second that are created, started, awaited and removed, with their output read."""
        return number / self._measure(number, TRUE, self._to_end)

    def start(self, number: int) -> float:
        """Containers per second that are created and started, and then run."""
        return number / self._measure(number, SLEEP, self._start)

    def first_line(self) -> float:
        """Seconds from the creation of one container to its first line."""
        return self._measure(1, ECHO, self._to_output)

    def _measure(
        self,
        number: int,
        command: tuple[str, ...],
        step: Callable[[aiohttp.ClientSession, str], Awaitable[None]],
    ) -> float:
        return asyncio.run(self._measured(number, command, step))

    async def _measured(
        self,
        number: int,
        command: tuple[str, ...],
        step: Callable[[aiohttp.ClientSession, str], Awaitable[None]],
    ) -> float:
        limit = asyncio.Semaphore(CONCURRENT_STARTS)
        names = [f"bare-{self._number + each}" for each in range(number)]
        self._number += number
        connector = aiohttp.UnixConnector(self._socket, limit=0)
        async with aiohttp.ClientSession("http://localhost", connector=connector) as session:

            async def one(name: str) -> None:
                async with limit:
                    await _create(session, name, command)
                    await step(session, name)

            start = time.perf_counter()
            await asyncio.gather(*(one(name) for name in names))
            seconds = seconds_since(start)
            for name in names:
                await _call(session, "DELETE", f"/containers/{name}?force=true", missing=True)
        return seconds

    async def _start(self, session: aiohttp.ClientSession, name: str) -> None:
        await _call(session, "POST", f"/containers/{name}/start")

    async def _to_output(self, session: aiohttp.ClientSession, name: str) -> None:
        await self._start(session, name)
        path = f"/v1.41/containers/{name}/logs?stdout=1&follow=1"
        async with session.get(path) as response:
            assert await response.content.read(1)

    async def _to_end(self, session: aiohttp.ClientSession, name: str) -> None:
        await self._start(session, name)
        await _call(session, "POST", f"/containers/{name}/wait")
        await _call(session, "GET", f"/containers/{name}/logs?stdout=1&stderr=1")
        await _call(session, "DELETE", f"/containers/{name}")


async def _create(session: aiohttp.ClientSession, name: str, command: tuple[str, ...]) -> None:
    config = {"Image": BUSYBOX, "Entrypoint": list(command), "HostConfig": {"NetworkMode": "host"}}
    await _call(session, "POST", f"/containers/create?name={name}", config)


async def _call(
    session: aiohttp.ClientSession, method: str, path: str, body: Any = None, *, missing: bool = False
) -> None:
    async with session.request(method, f"/v1.41{path}", json=body) as response:
        text = await response.read()
        assert response.status < 400 or (missing and response.status == 404), text


def _completed_rows(kind: str, api: ApiConnection, client: BareClient) -> Iterator[Row]:
    rates, ratios = [], []
    for number in range(ROUNDS):
        rates.append(_completed_rate(api, f"completed-{number}", TASKS))
        ratios.append(rates[-1] / client.run(TASKS))
    name = f"{kind}, {TASKS} containers that end at once: starts per second, from POST until completed"
    yield row(name, statistics.median(rates), "tasks/s")
    yield row(f"{name} / bare API", statistics.median(ratios), "ratio", at_least=GOAL)


def _completed_rate(api: ApiConnection, name: str, tasks: int) -> float:
    start = time.perf_counter()
    api.object("POST", FRAMEWORKS, _framework(name, tasks, TRUE))
    api.wait_completed(name)
    seconds = seconds_since(start)
    _delete(api, name)
    return tasks / seconds


def _at_once_rows(kind: str, api: ApiConnection, client: BareClient) -> Iterator[Row]:
    start = time.perf_counter()
    api.object("POST", FRAMEWORKS, _framework("at-once", AT_ONCE, SLEEP))
    until(lambda: _running(api) == AT_ONCE, f"{AT_ONCE} pods run", 300)
    rate = AT_ONCE / seconds_since(start)
    _delete(api, "at-once")
    bare = client.start(AT_ONCE)
    name = f"{kind}, {AT_ONCE} containers that run at once: starts per second, from POST until all run"
    yield row(name, rate, "tasks/s")
    yield row(f"{name} / bare API", rate / bare, "ratio", at_least=GOAL)


def _running(api: ApiConnection) -> int:
    pods = api.object("GET", PODS)["items"]
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def _submit_row(kind: str, server: Server, api: ApiConnection, client: BareClient) -> Row:
    seconds, bare = [], []
    for number in range(SUBMITS):
        name = f"submit-{number}"
        start = time.perf_counter()
        api.object("POST", FRAMEWORKS, _framework(name, 1, ECHO))
        folder = server.data / "logs" / "default" / f"{name}-worker-0"
        while not any(log.stat().st_size for log in folder.rglob("*.log")):
            assert seconds_since(start) < 60, f"{name} has no output"
            time.sleep(0.001)
        seconds.append(seconds_since(start))
        api.wait_completed(name)
        _delete(api, name)
        bare.append(client.first_line())
    ratio = statistics.median(bare) / statistics.median(seconds)
    name = f"{kind}, one container: speed from POST to first line of output / bare API"
    return row(name, ratio, "ratio", at_least=GOAL)


def _framework(name: str, tasks: int, command: tuple[str, ...]) -> dict[str, Any]:
    framework = a_framework(name, tasks, command)
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["image"] = BUSYBOX
    return framework


def _delete(api: ApiConnection, name: str) -> None:
    """Deletes the Framework, and waits until its pods are gone."""
    api.object("DELETE", f"{FRAMEWORKS}/{name}")
    until(lambda: not api.object("GET", PODS)["items"], "its pods are deleted", 300)
