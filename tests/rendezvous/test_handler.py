"""``/rendezvous/v1`` over HTTP, in the local API and in the front door."""

import asyncio
import gzip
import logging
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.api.middleware.access_guard import LOOPBACK, Guard
from launcher.api.middleware.request_info import is_probe, is_rendezvous
from launcher.api.middleware.request_limits import RequestLimits
from launcher.rendezvous import handler
from launcher.rendezvous.handler import Rendezvous, address_of
from launcher.rendezvous.programs import PROGRAMS, program
from launcher.rendezvous.session_manager import SessionManager
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.client import PATIENCE, Answer, Client, until
from tests.api.conftest import parts_of, serving
from tests.api.proxy.doors import door_to
from tests.api.proxy.upstream import api_server
from tests.core.manifests import a_role
from tests.rendezvous.world import NAMESPACE, World, some_tokens

PATH = address_of("", NAMESPACE, "mnist", 0)


class Place(World):
    """A world whose pods can ask a server."""

    def __init__(self) -> None:
        super().__init__()
        self.rooms = SessionManager(self.store)
        self.rendezvous = Rendezvous(self.rooms, some_tokens())
        self.client: Client | None = None

    async def get(self, query: str = "", *, path: str = PATH, attempt: int = 0) -> Answer:
        """What a pod of that attempt is answered."""
        assert self.client is not None
        token = await some_tokens().token(self.uid, attempt)
        return await self.client.get(path + query, Authorization=f"Bearer {token}")

    async def told(self, query: str = "") -> Any:
        answer = await self.get(query)
        assert answer.status == 200, answer.body
        return answer.json()


@asynccontextmanager
async def serving_rooms(place: Place, **parts: Any) -> AsyncIterator[None]:
    """The place with a server."""
    running = asyncio.create_task(place.rooms.run())
    limits = RequestLimits(reads=2, free=lambda request: is_probe(request) or is_rendezvous(request))
    given = parts_of(place.store, rendezvous=place.rendezvous, **({"limits": limits} | parts))
    try:
        async with serving(given) as place.client:
            yield
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    place = Place()
    async with asyncio.timeout(PATIENCE), serving_rooms(place):
        yield place


@pytest.fixture
async def ready(place: Place) -> Place:
    """One where everybody is there."""
    await place.submit(a_role(tasks=2), a_role("ps", 1), discovery={"ports": {"worker": 46866, "ps": 46867}})
    for number, task in enumerate(("worker/0", "worker/1", "ps/0")):
        await place.place(task, f"10.0.0.{number}")
    return place


async def test_everybody_is_told_of_everybody(ready: Place) -> None:
    told = await ready.told()

    assert (told["generation"], told["framework"], told["attempt"]) == (1, "mnist", 0)
    assert [peer["ip"] for peer in told["roles"]["worker"]] == ["10.0.0.0", "10.0.0.1"]
    assert [peer["port"] for peer in told["roles"]["ps"]] == [46867]


async def test_who_comes_early_waits_and_is_told_in_the_end(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    asking = asyncio.create_task(place.told())
    await until(lambda: place.rooms.waiters == 1)

    await place.place("worker/0", "10.0.0.1")

    assert (await asking)["roles"]["worker"][0]["host"] == "mnist-worker-0"


async def test_when_the_time_is_up_202_names_who_is_missing(place: Place) -> None:
    await place.submit(a_role(tasks=2))
    await place.place("worker/0", "10.0.0.1")

    answer = await place.get("?wait=0.01&format=all")

    assert answer.status == 202
    assert answer.json() == {"missing": ["worker/1"], "count": 1, "message": "no address yet of worker/1"}


@pytest.mark.parametrize("query", ["", "?wait=1000"])
async def test_nobody_waits_for_longer_than_a_connection_lasts(
    place: Place, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "_LONGEST", 0.01)
    await place.submit(a_role(tasks=1))

    assert (await place.get(query)).status == 202


async def test_more_than_can_be_named_are_counted(place: Place) -> None:
    await place.submit(a_role(tasks=50))

    message = (await place.get("?wait=0")).json()["message"]

    assert message.startswith("no address yet of worker/0, worker/1, ")
    assert message.endswith("worker/19 and 30 more")


async def test_who_asks_for_something_newer_waits_for_it(ready: Place) -> None:
    answer = await ready.get("?after=1&wait=0")

    assert (answer.status, answer.json()["missing"]) == (202, [])
    assert (await ready.get("?after=0")).status == 200


@pytest.mark.parametrize(
    ("query", "media", "beginning"),
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
            "format=framework.json,injector.sh", "text/plain", "==> framework.json <==\n{", id="two of them"
        ),
    ],
)
async def test_every_file_can_be_had(ready: Place, query: str, media: str, beginning: str) -> None:
    answer = await ready.get(f"?{query}")

    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith(media)
    assert answer.body.decode().startswith(beginning)


async def test_all_has_the_files_of_whoever_asks(ready: Place) -> None:
    text = (await ready.get("?format=all&task=worker/1")).body.decode()

    assert [line for line in text.splitlines() if line.startswith("==>")] == [
        "==> configfile <==",
        "==> hosts.json <==",
        "==> hostfile <==",
        "==> tf_config.json <==",
        "==> hosts.env <==",
    ]
    assert "export RANK=1\n" in text
    assert '"task":{"type":"worker","index":1}' in text


async def test_an_answer_that_is_long_comes_whole(place: Place) -> None:
    await place.submit(a_role(tasks=2000))
    for number in range(2000):
        await place.place(f"worker/{number}", f"10.0.{number // 256}.{number % 256}")

    answer = await place.get("?format=all&task=worker/1999")
    told = await place.told("?format=hosts.json")

    assert len(answer.body) == int(answer.headers["Content-Length"]) > 200_000
    assert b"\nexport RANK=1999\n" in answer.body[-500:]
    assert len(told["roles"]["worker"]) == 2000


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        pytest.param("gzip", True, id="gzip"),
        pytest.param("deflate, gzip;q=0.5, br", True, id="among others"),
        pytest.param("gzip;q=0", False, id="anything but gzip"),
        pytest.param("br", False, id="something else"),
    ],
)
async def test_who_can_unpack_it_gets_it_packed(place: Place, accepted: str, packed: bool) -> None:
    await place.submit(a_role(tasks=200))
    for number in range(200):
        await place.place(f"worker/{number}", f"10.0.0.{number}")
    plain = (await place.get("?format=all&task=worker/7")).body
    assert place.client is not None
    token = await some_tokens().token(place.uid, 0)

    answer = await place.client.get(
        f"{PATH}?format=all&task=worker/7",
        Authorization=f"Bearer {token}",
        Accept_Encoding=accepted,
    )

    assert (answer.headers.get("Content-Encoding") == "gzip") is packed
    assert (gzip.decompress(answer.body) if packed else answer.body) == plain
    assert not packed or len(answer.body) < len(plain) / 3


async def test_curl_unpacks_it(place: Place) -> None:
    await place.submit(a_role(tasks=200))
    for number in range(200):
        await place.place(f"worker/{number}", f"10.0.0.{number}")
    plain = (await place.get("?format=all&task=worker/7")).body
    assert place.client is not None
    token = await some_tokens().token(place.uid, 0)

    curl = await asyncio.create_subprocess_exec(
        *(
            "curl",
            "--silent",
            "--compressed",
            "--max-time",
            "60",
            "--header",
            f"Authorization: Bearer {token}",
        ),
        f"{place.client.url}{PATH}?format=all&task=worker/7",
        stdout=subprocess.PIPE,
    )

    assert (await curl.communicate())[0] == plain


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("format=xml", "format: there is no 'xml'; there are all, configfile, ", id="format"),
        pytest.param("format=all,hosts.env", "format: there is no 'all'; there are ", id="all and more"),
        pytest.param(
            "format=tf_config.json",
            "format=tf_config.json is another one for each task",
            id="whose TF_CONFIG",
        ),
        pytest.param("task=worker", "task: 'worker' is not ROLE/INDEX; for instance worker/0", id="task"),
        pytest.param("task=/", "task: '/' is not ROLE/INDEX; for instance worker/0", id="nobody"),
        pytest.param("task=boss/0", "task: there is no role boss in this Framework", id="role"),
        pytest.param(
            "task=ps/7&format=hosts.env", "task: there is no task ps/7 in this Framework", id="index"
        ),
        pytest.param("wait=long", "wait: 'long' is not a number of seconds", id="wait"),
        pytest.param("wait=-1", "wait: '-1' is not a number of seconds", id="wait before"),
        pytest.param("after=now", "after: 'now' is not a whole number", id="after"),
        pytest.param("port=0", "port: 0 is not from 1 to 65535", id="port"),
        pytest.param("port=5000&task=ps/0", "port: only a task of a role with `auto`", id="port of another"),
    ],
)
async def test_what_cannot_be_understood_is_refused_with_a_way_out(
    ready: Place, query: str, message: str
) -> None:
    told = (await ready.get(f"?{query}")).refused(400, "BadRequest")

    assert told["message"].startswith(message)


async def test_without_the_right_token_nothing_is_told(ready: Place) -> None:
    assert ready.client is not None
    none = await ready.client.get(PATH)
    wrong = await ready.client.get(PATH, Authorization="Bearer of-somebody")
    basic = await ready.client.get(PATH, Authorization="Basic YTpi")
    other = await ready.get(attempt=1)

    assert none.refused(403, "Forbidden")["message"].startswith("a token is needed")
    assert "not made by this launcher" in wrong.refused(403, "Forbidden")["message"]
    assert basic.refused(403, "Forbidden")["message"].startswith("a token is needed")
    assert other.refused(403, "Forbidden")["message"] == "this token is for attempt 1, not for attempt 0"


async def test_the_token_of_an_attempt_that_is_over_is_worth_nothing(ready: Place) -> None:
    await ready.status(attempt=3)

    told = (await ready.get()).refused(403, "Forbidden")

    assert told["message"] == "attempt 0 of this Framework is over"


async def test_strangers_cost_no_look_at_the_store(ready: Place) -> None:
    assert ready.client is not None
    before = ready.store.read["frameworks"]

    for name in ("mnist", "another"):
        path = address_of("", NAMESPACE, name, 0)
        assert (await ready.client.get(path, Authorization="Bearer of-somebody")).status == 403

    assert ready.store.read["frameworks"] == before
    assert ready.store.followers == 0


async def test_a_framework_that_is_gone_is_not_found(ready: Place) -> None:
    answer = await ready.get(path=address_of("", NAMESPACE, "another", 0))

    answer.refused(404, "NotFound")


async def test_no_token_is_ever_logged(ready: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = await some_tokens().token(ready.uid, 0)

    for attempt in (0, 1):
        await ready.get(attempt=attempt)
    await ready.get("?format=nonsense")

    assert token not in caplog.text
    assert token.rpartition(".")[2] not in caplog.text


async def test_waiting_is_no_request_that_others_wait_for(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    asking = [asyncio.create_task(place.get("?wait=60")) for _ in range(5)]
    await until(lambda: place.rooms.waiters == 5)
    assert place.client is not None

    assert (await place.client.get("/api/v1/namespaces")).status == 200
    await place.place("worker/0", "10.0.0.1")

    assert {answer.status for answer in await asyncio.gather(*asking)} == {200}


async def test_when_the_launcher_ends_who_waits_is_told_at_once(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    asking = asyncio.create_task(place.get())
    await until(lambda: place.rooms.waiters == 1)

    place.rooms.close()

    told = (await asking).refused(503, "ServiceUnavailable")
    assert told["message"] == "the launcher is about to stop; ask again in a moment"


async def test_a_pod_that_goes_is_no_longer_waited_for(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    asking = asyncio.create_task(place.get())
    await until(lambda: place.rooms.waiters == 1)

    asking.cancel()

    await until(lambda: place.rooms.waiters == 0)


async def test_pods_need_not_know_the_token_of_the_api_but_the_name_of_the_server() -> None:
    place = Place()
    async with asyncio.timeout(PATIENCE), serving_rooms(place, guard=Guard(LOOPBACK, "token-of-the-api")):
        await place.submit(a_role(tasks=1))
        await place.place("worker/0", "10.0.0.1")
        assert place.client is not None

        token = await some_tokens().token(place.uid, 0)
        headers = {"Authorization": f"Bearer {token}"}
        other_host = await place.client.call("GET", PATH, headers={**headers, "Host": "example.com"})
        of_api = await place.client.get(PATH, Authorization="Bearer token-of-the-api")
        elsewhere = [
            (await place.client.call("GET", path, headers=headers)).status
            for path in (
                "/api/v1/pods",
                f"{PATH}/../../../../../../../../api/v1/pods",
                f"{PATH}/",
                "/rendezvous/v1/",
            )
        ]

        assert (await place.get()).status == 200
        assert other_host.refused(403, "Forbidden")["message"].startswith("this server is not called")
        assert of_api.status == 403
        assert elsewhere == [401] * 4


@pytest.mark.parametrize("name", PROGRAMS)
async def test_the_programs_are_served_to_anybody(place: Place, name: str) -> None:
    assert place.client is not None

    answer = await place.client.get(f"/rendezvous/v1/programs/{name}")

    assert (answer.status, answer.body.decode()) == (200, program(name))


async def test_a_program_that_there_is_not_is_not_found(place: Place) -> None:
    assert place.client is not None

    (await place.client.get("/rendezvous/v1/programs/rm.sh")).refused(404, "NotFound")


async def test_the_front_door_answers_pods_itself() -> None:
    place = Place()
    running = asyncio.create_task(place.rooms.run())
    try:
        async with (
            asyncio.timeout(PATIENCE),
            api_server() as cluster,
            door_to(
                ClusterConfig(cluster.url, FixedHeader("Bearer own")), rendezvous=place.rendezvous
            ) as door,
        ):
            await place.submit(a_role(tasks=1))
            await place.place("worker/0", "10.0.0.1")
            place.client = door

            told = await place.told()
            refused = await door.get(PATH, Authorization="Bearer of-somebody")

            assert told["roles"]["worker"][0]["ip"] == "10.0.0.1"
            assert refused.status == 403
            assert cluster.asked == []
    finally:
        running.cancel()
        await asyncio.wait([running])
