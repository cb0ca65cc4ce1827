"""``/rendezvous/v1`` over HTTP, in the local API and in the API proxy."""

import asyncio
import gzip
import logging
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.api.middleware.access_guard import LOOPBACK, AccessGuard
from launcher.api.middleware.request_info import is_probe, is_rendezvous
from launcher.api.middleware.request_limits import RequestLimits
from launcher.rendezvous import handler
from launcher.rendezvous.container_programs import PROGRAMS, program_text
from launcher.rendezvous.handler import RendezvousHandler, attempt_url
from launcher.rendezvous.heartbeats import HeartbeatRecorder
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.client import Client, HttpResponse
from tests.api.conftest import api_dependencies, serving
from tests.api.proxy.fake_api_server import run_fake_api_server
from tests.api.proxy.proxies import run_proxy
from tests.builders import a_role
from tests.eventually import TIMEOUT_SECONDS
from tests.rendezvous.harness import NAMESPACE, RendezvousHarness, some_tokens

PATH = attempt_url("", NAMESPACE, "mnist", 0)
NOW = 1_800_000_000.0


class ServerHarness(RendezvousHarness):
    """A harness whose pods send HTTP requests to a server."""

    def __init__(self) -> None:
        super().__init__()
        heartbeats = HeartbeatRecorder(self.store, lambda: NOW)
        self.handler = RendezvousHandler(self.sessions, some_tokens(), heartbeats)
        #: Set while a server runs.
        self.client: Client

    async def get(
        self, query: str = "", *, path: str = PATH, attempt: int = 0, **headers: str
    ) -> HttpResponse:
        """The response to a pod of that attempt."""
        token = await some_tokens().create_token(self.uid, attempt)
        return await self.client.get(path + query, Authorization=f"Bearer {token}", **headers)

    async def post(self, path: str, *, attempt: int = 0) -> HttpResponse:
        """The response to a pod of that attempt, which sends no body."""
        token = await some_tokens().create_token(self.uid, attempt)
        return await self.client.call("POST", path, None, None, {"Authorization": f"Bearer {token}"})

    async def get_json(self, query: str = "") -> Any:
        response = await self.get(query)
        assert response.status == 200, response.body
        return response.json()


@asynccontextmanager
async def serve(harness: ServerHarness, **overrides: Any) -> AsyncIterator[None]:
    """Runs the sessions and a server inside the context."""
    limits = RequestLimits(max_reads=2, exempt=lambda request: is_probe(request) or is_rendezvous(request))
    dependencies = api_dependencies(
        harness.store, rendezvous=harness.handler, **({"limits": limits} | overrides)
    )
    async with asyncio.timeout(TIMEOUT_SECONDS), harness.running(), serving(dependencies) as harness.client:
        yield


@pytest.fixture
async def server() -> AsyncIterator[ServerHarness]:
    harness = ServerHarness()
    async with serve(harness):
        yield harness


@pytest.fixture
async def complete(server: ServerHarness) -> ServerHarness:
    """A server and a Framework whose tasks all have addresses."""
    ports = {"worker": 46866, "ps": 46867}
    await server.submit(a_role(tasks=2), a_role("ps", 1), discovery={"ports": ports})
    for number, task in enumerate(("worker/0", "worker/1", "ps/0")):
        await server.set_address(task, f"10.0.0.{number}")
    return server


async def submit_workers(server: ServerHarness, count: int) -> None:
    """Submit a Framework with *count* workers, all with addresses."""
    await server.submit(a_role(tasks=count))
    for index in range(count):
        await server.set_address(f"worker/{index}", f"10.0.{index // 256}.{index % 256}")


async def test_the_response_has_the_addresses_of_all_tasks(complete: ServerHarness) -> None:
    hosts = await complete.get_json()

    assert (hosts["generation"], hosts["framework"], hosts["attempt"]) == (1, "mnist", 0)
    assert [peer["ip"] for peer in hosts["roles"]["worker"]] == ["10.0.0.0", "10.0.0.1"]
    assert [peer["port"] for peer in hosts["roles"]["ps"]] == [46867]


async def test_a_request_waits_until_all_addresses_are_known(server: ServerHarness) -> None:
    await server.submit(a_role(tasks=1))
    request = asyncio.create_task(server.get_json())
    await server.until_waiting()

    await server.set_address("worker/0", "10.0.0.1")

    assert (await request)["roles"]["worker"][0]["host"] == "mnist-worker-0"


async def test_after_the_wait_time_the_response_is_202_with_the_missing_tasks(server: ServerHarness) -> None:
    await server.submit(a_role(tasks=2))
    await server.set_address("worker/0", "10.0.0.1")

    response = await server.get("?wait=0.01&format=all")

    assert response.status == 202
    assert response.json() == {
        "missing": ["worker/1"],
        "count": 1,
        "message": "waiting for addresses of worker-1",
    }


@pytest.mark.parametrize("query", ["", "?wait=1000"])
async def test_the_wait_time_is_limited(
    server: ServerHarness, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "_MAX_WAIT_SECONDS", 0.01)
    await server.submit(a_role(tasks=1))

    assert (await server.get(query)).status == 202


async def test_the_message_counts_missing_tasks_that_it_does_not_name(server: ServerHarness) -> None:
    await server.submit(a_role(tasks=50))

    message = (await server.get("?wait=0")).json()["message"]

    assert message.startswith("waiting for addresses of worker-0, worker-1, ")
    assert message.endswith("worker-19 and 30 more")


async def test_a_request_after_the_current_generation_waits(complete: ServerHarness) -> None:
    response = await complete.get("?after=1&wait=0")

    assert (response.status, response.json()["missing"]) == (202, [])
    assert (await complete.get("?after=0")).status == 200


@pytest.mark.parametrize(
    ("query", "media_type", "start"),
    [
        pytest.param(
            "format=configfile",
            "text/plain",
            "10.0.0.0:46866,10.0.0.1:46866\n10.0.0.2:46867\n",
            id="configfile",
        ),
        pytest.param("format=hosts.env", "text/plain", "export LAUNCHER_GENERATION=1\n", id="hosts.env"),
        pytest.param("format=hosts.json", "application/json", '{"generation":1,', id="hosts.json"),
        pytest.param("format=hostfile", "text/plain", "10.0.0.0 slots=1\n", id="hostfile"),
        pytest.param("format=injector.sh", "text/plain", "#!/bin/bash\n", id="injector.sh"),
        pytest.param("format=framework.json", "application/json", '{"apiVersion":', id="framework.json"),
        pytest.param(
            "format=tf_config.json&task=ps/0",
            "application/json",
            '{"cluster":{"ps":["10.0.0.2:46867"]',
            id="tf_config.json",
        ),
        pytest.param("format=all&task=ps/0", "text/plain", "==> configfile <==\n10.0.0.0:46866", id="all"),
        pytest.param(
            "format=framework.json,injector.sh", "text/plain", "==> framework.json <==\n{", id="two files"
        ),
    ],
)
async def test_every_file_is_served(complete: ServerHarness, query: str, media_type: str, start: str) -> None:
    response = await complete.get(f"?{query}")

    assert response.status == 200
    assert response.headers["Content-Type"].startswith(media_type)
    assert response.body.decode().startswith(start)


async def test_format_all_returns_the_files_of_the_task(complete: ServerHarness) -> None:
    text = (await complete.get("?format=all&task=worker/1")).body.decode()

    assert [line for line in text.splitlines() if line.startswith("==>")] == [
        "==> configfile <==",
        "==> hosts.json <==",
        "==> hostfile <==",
        "==> tf_config.json <==",
        "==> hosts.env <==",
    ]
    assert "export RANK=1\n" in text
    assert '"task":{"type":"worker","index":1}' in text


async def test_a_long_response_is_complete(server: ServerHarness) -> None:
    await submit_workers(server, 2000)

    response = await server.get("?format=all&task=worker/1999")
    hosts = await server.get_json("?format=hosts.json")

    assert len(response.body) == int(response.headers["Content-Length"]) > 200_000
    assert b"\nexport RANK=1999\n" in response.body[-500:]
    assert len(hosts["roles"]["worker"]) == 2000


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        pytest.param("gzip", True, id="gzip"),
        pytest.param("deflate, gzip;q=0.5, br", True, id="gzip and others"),
        pytest.param("gzip;q=0", False, id="gzip excluded"),
        pytest.param("br", False, id="another encoding"),
    ],
)
async def test_a_response_is_compressed_for_clients_that_accept_gzip(
    server: ServerHarness, accepted: str, compressed: bool
) -> None:
    await submit_workers(server, 200)
    plain = (await server.get("?format=all&task=worker/7")).body

    response = await server.get("?format=all&task=worker/7", Accept_Encoding=accepted)

    assert (response.headers.get("Content-Encoding") == "gzip") is compressed
    assert (gzip.decompress(response.body) if compressed else response.body) == plain
    assert not compressed or len(response.body) < len(plain) / 3


async def test_curl_decompresses_the_response(server: ServerHarness) -> None:
    await submit_workers(server, 200)
    plain = (await server.get("?format=all&task=worker/7")).body
    token = await some_tokens().create_token(server.uid, 0)

    curl = await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--compressed", "--max-time", "60"),
        *("--header", f"Authorization: Bearer {token}"),
        f"{server.client.url}{PATH}?format=all&task=worker/7",
        stdout=subprocess.PIPE,
    )

    assert (await curl.communicate())[0] == plain


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param(
            "format=xml", "format: Unsupported value: 'xml': supported values: all, configfile, ", id="format"
        ),
        pytest.param("format=all,hosts.env", "format: Unsupported value: 'all': ", id="all and another"),
        pytest.param("format=", "format: Unsupported value: '': ", id="empty format"),
        pytest.param(
            "format=tf_config.json",
            "format=tf_config.json is different for each task: add task=ROLE/INDEX",
            id="TF_CONFIG without a task",
        ),
        pytest.param(
            "task=worker",
            "task: Invalid value: 'worker': must be ROLE/INDEX, for example worker/0",
            id="task",
        ),
        pytest.param("task=/", "task: Invalid value: '/': must be ROLE/INDEX", id="task without a role"),
        pytest.param("task=", "task: Invalid value: '': must be ROLE/INDEX", id="empty task"),
        pytest.param("task=boss/0", "task: role boss does not exist in this Framework", id="role"),
        pytest.param("task=ps/7&format=hosts.env", "task: ps/7 does not exist in this Framework", id="index"),
        pytest.param("wait=long", "wait: Invalid value: 'long': must be a number of seconds", id="wait"),
        pytest.param("wait=-1", "wait: Invalid value: '-1': must be a number of seconds", id="negative wait"),
        pytest.param("after=now", "after: Invalid value: 'now': must be a non-negative integer", id="after"),
        pytest.param("port=0", "port: Invalid value: 0: must be between 1 and 65535", id="port"),
        pytest.param(
            "port=5000&task=ps/0", "port: requires task=ROLE/INDEX of a role with `auto`", id="fixed port"
        ),
    ],
)
async def test_an_invalid_parameter_is_an_error_that_names_the_valid_values(
    complete: ServerHarness, query: str, message: str
) -> None:
    status = (await complete.get(f"?{query}")).failure(400, "BadRequest")

    assert status["message"].startswith(message)


async def test_a_request_without_a_valid_token_is_forbidden(complete: ServerHarness) -> None:
    without = await complete.client.get(PATH)
    invalid = await complete.client.get(PATH, Authorization="Bearer invalid")
    basic = await complete.client.get(PATH, Authorization="Basic YTpi")
    other_attempt = await complete.get(attempt=1)

    assert without.failure(403, "Forbidden")["message"].startswith("a token is required")
    assert "not issued by this launcher" in invalid.failure(403, "Forbidden")["message"]
    assert basic.failure(403, "Forbidden")["message"].startswith("a token is required")
    message = other_attempt.failure(403, "Forbidden")["message"]
    assert message == "the token is valid for attempt 1, not for attempt 0"


async def test_the_token_of_an_ended_attempt_is_rejected(complete: ServerHarness) -> None:
    await complete.set_status(attempt=3)

    status = (await complete.get()).failure(403, "Forbidden")

    assert status["message"] == "attempt 0 of this Framework has ended"


async def test_an_invalid_token_causes_no_request_to_the_store(complete: ServerHarness) -> None:
    before = complete.store.reads["frameworks"]

    for name in ("mnist", "another"):
        path = attempt_url("", NAMESPACE, name, 0)
        assert (await complete.client.get(path, Authorization="Bearer invalid")).status == 403

    assert complete.store.reads["frameworks"] == before
    assert complete.store.watches == 0


async def test_a_framework_that_does_not_exist_is_not_found(complete: ServerHarness) -> None:
    response = await complete.get(path=attempt_url("", NAMESPACE, "another", 0))

    response.failure(404, "NotFound")


async def test_no_token_is_logged(complete: ServerHarness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = await some_tokens().create_token(complete.uid, 0)

    for attempt in (0, 1):
        await complete.get(attempt=attempt)
    await complete.get("?format=nonsense")

    assert token not in caplog.text
    assert token.rpartition(".")[2] not in caplog.text


async def test_waiting_requests_do_not_count_towards_the_limit_of_requests(server: ServerHarness) -> None:
    await server.submit(a_role(tasks=1))
    requests = [asyncio.create_task(server.get("?wait=60")) for _ in range(5)]
    await server.until_waiting(5)

    assert (await server.client.get("/api/v1/namespaces")).status == 200
    await server.set_address("worker/0", "10.0.0.1")

    assert {response.status for response in await asyncio.gather(*requests)} == {200}


async def test_waiting_requests_end_at_once_when_the_launcher_stops(server: ServerHarness) -> None:
    await server.submit(a_role(tasks=1))
    request = asyncio.create_task(server.get())
    await server.until_waiting()

    server.sessions.close()

    status = (await request).failure(503, "ServiceUnavailable")
    assert status["message"] == "the launcher is shutting down; retry"


async def test_a_closed_connection_does_not_count_as_waiting(server: ServerHarness) -> None:
    await server.submit(a_role(tasks=1))
    request = asyncio.create_task(server.get())
    await server.until_waiting()

    request.cancel()

    await server.until_waiting(0)


async def test_rendezvous_requires_its_own_token_and_a_known_host_but_not_the_token_of_the_api() -> None:
    server = ServerHarness()
    async with serve(server, guard=AccessGuard(LOOPBACK, "token-of-the-api")):
        await server.submit(a_role(tasks=1))
        await server.set_address("worker/0", "10.0.0.1")

        token = await some_tokens().create_token(server.uid, 0)
        headers = {"Authorization": f"Bearer {token}"}
        other_host = await server.client.call("GET", PATH, headers={**headers, "Host": "example.com"})
        with_api_token = await server.client.get(PATH, Authorization="Bearer token-of-the-api")
        other_paths = [
            (await server.client.call("GET", path, headers=headers)).status
            for path in (
                "/api/v1/pods",
                f"{PATH}/../../../../../../../../api/v1/pods",
                f"{PATH}/",
                "/rendezvous/v1/",
            )
        ]

        assert (await server.get()).status == 200
        assert other_host.failure(403, "Forbidden")["message"].startswith("Host header")
        assert with_api_token.status == 403
        assert other_paths == [401] * 4


@pytest.mark.parametrize("name", PROGRAMS)
async def test_programs_are_served_without_a_token(server: ServerHarness, name: str) -> None:
    response = await server.client.get(f"/rendezvous/v1/programs/{name}")

    assert (response.status, response.body.decode()) == (200, program_text(name))


async def test_a_program_that_does_not_exist_is_not_found(server: ServerHarness) -> None:
    (await server.client.get("/rendezvous/v1/programs/rm.sh")).failure(404, "NotFound")


async def test_the_api_proxy_serves_rendezvous_without_the_cluster() -> None:
    server = ServerHarness()
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        server.running(),
        run_fake_api_server() as cluster,
        run_proxy(
            ClusterConfig(cluster.url, FixedHeader("Bearer own")), rendezvous=server.handler
        ) as server.client,
    ):
        await server.submit(a_role(tasks=1))
        await server.set_address("worker/0", "10.0.0.1")

        hosts = await server.get_json()
        with_invalid_token = await server.client.get(PATH, Authorization="Bearer invalid")

        assert hosts["roles"]["worker"][0]["ip"] == "10.0.0.1"
        assert with_invalid_token.status == 403
        assert cluster.requests == []
