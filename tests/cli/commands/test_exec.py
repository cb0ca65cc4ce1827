"""``launcher exec`` through the proxy of Kubernetes mode; the API server behind it runs real processes."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from launcher.api.middleware.access_guard import LOOPBACK, AccessGuard
from launcher.cli.client.async_client import connected
from launcher.cli.client.server_config import ServerConfig
from launcher.cli.main import main
from launcher.node.agent.container_exec import ContainerExec
from launcher.store.interface import FRAMEWORKS
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.conftest import api_dependencies, memory_store, serving
from tests.api.proxy.proxies import run_proxy
from tests.api.resources.exec_harness import ExecHarness
from tests.builders import a_framework, a_role
from tests.eventually import TIMEOUT_SECONDS
from tests.node.runtimes import a_runtime


@pytest.mark.parametrize(("token", "code"), [("of-the-caller", 7), ("of-another", 1)])
async def test_exec_passes_the_proxy_with_the_credentials_of_the_caller(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], token: str, code: int
) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(0o600)
    guard = AccessGuard(LOOPBACK, "of-the-caller")
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        a_runtime(tmp_path) as runtime,
        serving(
            api_dependencies(memory_store(), guard=guard, exec_sessions=ContainerExec(runtime))
        ) as cluster,
        run_proxy(ClusterConfig(cluster.url, FixedHeader("Bearer of-the-launcher"))) as proxy,
    ):
        await cluster.store.create(
            FRAMEWORKS, a_framework(a_role(tasks=1), metadata={"namespace": "default"})
        )
        await ExecHarness(cluster, runtime, tmp_path).run_pod("mnist-worker-0")
        server = ("--server", proxy.url, "--token-file", str(file))
        command = ("sh", "-c", "echo $MINE; exit 7")

        assert await asyncio.to_thread(main, ["exec", *server, "mnist", "worker/0", "--", *command]) == code

    assert capfdbinary.readouterr().out == (b"yes\n" if code == 7 else b"")


async def test_exec_accepts_any_media_type_since_kube_apiserver_has_none_for_streams() -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        if request.headers["Accept"] != "*/*":
            raise web.HTTPNotAcceptable(text="only the following media types are accepted: */*")
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        await socket.send_bytes(b"\1hello")
        return socket

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/default/pods/a/exec", respond)
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        TestServer(app) as server,
        connected(ServerConfig(str(server.make_url("/")).rstrip("/"))) as api,
        api.execute("a", [("command", "ls")]) as socket,
    ):
        assert await socket.receive_bytes() == b"\1hello"
