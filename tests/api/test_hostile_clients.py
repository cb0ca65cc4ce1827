"""Single requests that would be a server's undoing, each answered with a no that names what is wrong."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.api.http.content_negotiation import ResponseFormat
from launcher.api.http.warnings import warning_headers
from launcher.api.resources import watch
from launcher.api.resources.object_views import Include, ObjectPrinter
from launcher.api.resources.watch import EncodedChanges
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Change, ChangeType
from tests.api.conftest import Api, api_dependencies, serving
from tests.api.resources.test_registry_core_kinds import CORE
from tests.api.samples import A, B, framework, made
from tests.api.servers import RunningServer
from tests.builders import a_pod
from tests.eventually import eventually
from tests.store.builders import uids

NINES = "9" * 5000


def raw(api: Api) -> RunningServer:
    return RunningServer(api, int(api.url.rpartition(":")[2]))


@pytest.mark.parametrize(
    "request_line",
    [f"GET {B}?resourceVersion={NINES}", f"GET {B}?limit={NINES}", f"GET {B}?watch=1&timeoutSeconds={NINES}"],
    ids=["resourceVersion", "limit", "timeoutSeconds"],
)
async def test_a_number_with_too_many_digits_is_rejected(api: Api, request_line: str) -> None:
    reported = (await api.get(request_line.removeprefix("GET "))).failure(400, "BadRequest")

    assert "must be a" in reported["message"]
    assert len(reported["message"]) < 200


async def test_a_resourceversion_precondition_has_a_limited_length(api: Api) -> None:
    response = await api.delete(A, {"preconditions": {"resourceVersion": NINES}})

    response.failure(400, "BadRequest")


@pytest.mark.parametrize("seconds", ["9" * 30, "9" * 4000, "0", "-1"])
async def test_invalid_since_seconds_are_rejected(api: Api, seconds: str) -> None:
    reported = (await api.get(f"{CORE}/pods/p/log?sinceSeconds={seconds}")).failure(422, "Invalid")

    assert reported["details"]["causes"][0]["field"] == "sinceSeconds"


async def test_a_grace_period_beyond_any_year_is_rejected(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod("p", nodeName="n"))

    response = await api.delete(f"{CORE}/pods/p", {"gracePeriodSeconds": 2**63 - 1})
    written = await api.post(f"{CORE}/pods", a_pod("q", terminationGracePeriodSeconds=2**40))

    assert response.failure(422, "Invalid")["details"]["causes"][0]["field"] == "gracePeriodSeconds"
    field = "spec.terminationGracePeriodSeconds"
    assert written.failure(422, "Invalid")["details"]["causes"][0]["field"] == field
    assert (await api.delete(f"{CORE}/pods/p", {"gracePeriodSeconds": 2**31 - 1})).status == 200


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_content_type_that_is_no_text_is_rejected(api: Api, method: str) -> None:
    path = B if method == "POST" else A
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n"

    response = await raw(api).raw(head.encode() + b"Content-Type: \xff\xfe\r\n\r\n{}")

    assert response.startswith(b"HTTP/1.1 415 ")
    assert b'"reason":"UnsupportedMediaType"' in response


@pytest.mark.parametrize(
    ("given", "echoed"), [(b"abc-123", True), (b"\xff", False), (b"x" * 1000, False), (b"a b", False)]
)
async def test_only_a_valid_audit_id_is_returned(api: Api, given: bytes, echoed: bool) -> None:
    head = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAudit-Id: %b\r\n\r\n" % given

    response = await raw(api).raw(head)

    assert (b"Audit-Id: %b\r\n" % given in response) is echoed
    assert b"Audit-Id: " in response


@pytest.mark.parametrize("name", ["%2F", "%00", "%ff", "..", "a%2Fstatus", "%F0%9F%98%80", "x" * 5000])
async def test_an_invalid_name_is_not_found(api: Api, name: str) -> None:
    for path in (f"{B}/{name}", f"{CORE}/pods/{name}", f"/api/v1/namespaces/{name}"):
        (await api.get(path)).failure(404, "NotFound")
        (await api.delete(path)).failure(404, "NotFound")
        (await api.patch(path, {})).failure(404, "NotFound")


async def test_a_warning_cannot_leave_its_header(api: Api) -> None:
    response = await api.post(B, {**framework(), 'x\r\nX-Evil: 1"': 1})

    assert "X-Evil" not in response.headers
    assert len(response.warnings) == 1
    assert warning_headers(['a\r\nX: "\\', "\x00é"]) == ['299 - "a  X: \\"\\\\"', '299 - " é"']


async def test_a_client_that_disconnects_during_a_body_leaves_no_state(api: Api) -> None:
    head = f"POST {B} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{"
    _, writer = await asyncio.open_connection("127.0.0.1", raw(api).port)
    port = writer.get_extra_info("sockname")[1]
    writer.write(head.encode())
    await eventually(lambda: in_flight(api) == 1)

    writer.transport.abort()

    await eventually(lambda: in_flight(api) == 0)
    await eventually(lambda: not api.is_connected(port))
    assert (await api.get(B)).json()["items"] == []


async def test_a_write_to_a_closed_store_is_unavailable(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", clock=time.time, new_uid=uids())
    async with serving(api_dependencies(store)) as api:
        await made(api)
        await store.close()

        listed, read = await api.get(B), await api.get(A)
        written = [
            await api.post(B, framework("b")),
            await api.patch(A, {"metadata": {"labels": {"a": "b"}}}),
        ]

    assert (listed.status, read.status) == (200, 200)
    for response in written:
        assert response.failure(503, "ServiceUnavailable")["details"] == {"retryAfterSeconds": 1}


def in_flight(api: Api) -> int:
    """Returns the number of writes in flight."""
    return sum(api.parts.limits._in_flight.values())


def test_the_cache_of_encoded_changes_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MAX_CACHED_BYTES", 1000)
    viewer = ObjectPrinter(FRAMEWORKS, ResponseFormat(), Include.METADATA, lambda: 0.0)
    frames = EncodedChanges()

    lines = [frames.line(change(number), viewer) for number in range(20)]

    assert sum(map(len, lines)) > 1000
    assert 0 < sum(len(line) for _, line in frames._lines.values()) <= 1000
    assert frames.line(change(0, "x" * 2000), viewer).count(b"x") == 2000


def change(number: int, text: str = "text") -> Change:
    obj: dict[str, Any] = {
        "metadata": {"name": text, "resourceVersion": str(number)},
        "spec": {"number": number},
    }
    return Change(ChangeType.MODIFIED, obj, number)
