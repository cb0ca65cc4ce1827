"""``arena attach`` with a fake API server that executes commands."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import orjson
import pytest
from aiohttp import WSMsgType, web

from launcher.cli.main import main
from tests.builders import a_framework, a_role
from tests.eventually import TIMEOUT_SECONDS

Capture = pytest.CaptureFixture[str]


class FakeExecServer:
    """Serves one job, whose container prints its command, repeats its input and exits with code 3."""

    def __init__(self) -> None:
        self.requests: list[list[tuple[str, str]]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(TIMEOUT_SECONDS)
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/apis/launcher.microsoft.com/v1/namespaces/default/frameworks/tf", self._job)
        app.router.add_get("/api/v1/namespaces/default/pods/{pod}/exec", self._exec)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    async def _job(self, _: web.Request) -> web.Response:
        framework = a_framework(a_role("chief", 1), a_role("ps", 1))
        meta = {"name": "tf", "namespace": "default", "labels": {"app": "tfjob"}}
        return web.json_response({**framework, "metadata": meta})

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        self.requests.append([("pod", request.match_info["pod"]), *request.query.items()])
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            if message.data == bytes([255, 0]):
                break
            await socket.send_bytes(b"\1" + message.data[1:])
        await socket.send_bytes(b"\2warned\n")
        causes = [{"reason": "ExitCode", "message": "3"}]
        await socket.send_bytes(b"\3" + orjson.dumps({"status": "Failure", "details": {"causes": causes}}))
        await socket.close()
        return socket

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(TIMEOUT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_SECONDS)
        self._loop.close()


@pytest.fixture
def api_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeExecServer]:
    fake = FakeExecServer()
    monkeypatch.setenv("LAUNCHER_SERVER", fake.url)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield fake
    fake.close()


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard input with one line."""
    reading, writing = os.pipe()
    os.write(writing, b"hello\n")
    os.close(writing)
    with open(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield


def test_attach_passes_on_input_output_and_exit_code(
    api_server: FakeExecServer, standard_input: None, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["arena", "attach", "tf", "--", "cat", "-v"]) == 3

    assert capfdbinary.readouterr() == (b"hello\n", b"warned\n")
    (parameters,) = api_server.requests
    assert parameters[0] == ("pod", "tf-chief-0")
    assert [value for name, value in parameters if name == "command"] == ["cat", "-v"]
    assert ("container", "tensorflow") in parameters
    assert ("stdin", "true") in parameters


def test_without_a_command_attach_starts_a_shell_in_the_given_instance(
    api_server: FakeExecServer, standard_input: None, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["arena", "attach", "tf", "-i", "tf-ps-0", "-c", "side"]) == 3

    (parameters,) = api_server.requests
    assert parameters[:3] == [("pod", "tf-ps-0"), ("container", "side"), ("command", "sh")]
