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
from launcher.api.resources.watch import Frames
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Change, ChangeType
from tests.api.around import Running
from tests.api.client import until
from tests.api.conftest import Api, parts_of, serving, uids
from tests.api.samples import A, B, framework, made
from tests.api.test_core_objects import CORE, a_pod

NINES = "9" * 5000


def raw(api: Api) -> Running:
    return Running(api, int(api.url.rpartition(":")[2]))


@pytest.mark.parametrize(
    "request_line",
    [f"GET {B}?resourceVersion={NINES}", f"GET {B}?limit={NINES}", f"GET {B}?watch=1&timeoutSeconds={NINES}"],
    ids=["resourceVersion", "limit", "timeoutSeconds"],
)
async def test_a_number_that_is_too_long_to_read_is_refused(api: Api, request_line: str) -> None:
    told = (await api.get(request_line.removeprefix("GET "))).refused(400, "BadRequest")

    assert "must be a" in told["message"]
    assert len(told["message"]) < 200


async def test_a_version_to_be_deleted_is_as_long_as_a_version(api: Api) -> None:
    answer = await api.delete(A, {"preconditions": {"resourceVersion": NINES}})

    answer.refused(400, "BadRequest")


@pytest.mark.parametrize("seconds", ["9" * 30, "9" * 4000, "0", "-1"])
async def test_no_log_is_as_old_as_that(api: Api, seconds: str) -> None:
    told = (await api.get(f"{CORE}/pods/p/log?sinceSeconds={seconds}")).refused(422, "Invalid")

    assert told["details"]["causes"][0]["field"] == "sinceSeconds"


async def test_a_grace_ends_in_a_year_that_can_be_written(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod(nodeName="n"))

    asked = await api.delete(f"{CORE}/pods/p", {"gracePeriodSeconds": 2**63 - 1})
    written = await api.post(f"{CORE}/pods", a_pod("q", terminationGracePeriodSeconds=2**40))

    assert asked.refused(422, "Invalid")["details"]["causes"][0]["field"] == "gracePeriodSeconds"
    field = "spec.terminationGracePeriodSeconds"
    assert written.refused(422, "Invalid")["details"]["causes"][0]["field"] == field
    assert (await api.delete(f"{CORE}/pods/p", {"gracePeriodSeconds": 2**31 - 1})).status == 200


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_type_that_is_no_text_is_refused_like_any_other(api: Api, method: str) -> None:
    path = B if method == "POST" else A
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n"

    answer = await raw(api).raw(head.encode() + b"Content-Type: \xff\xfe\r\n\r\n{}")

    assert answer.startswith(b"HTTP/1.1 415 ")
    assert b'"reason":"UnsupportedMediaType"' in answer


@pytest.mark.parametrize(
    ("given", "echoed"), [(b"abc-123", True), (b"\xff", False), (b"x" * 1000, False), (b"a b", False)]
)
async def test_only_a_proper_audit_id_is_said_back(api: Api, given: bytes, echoed: bool) -> None:
    head = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAudit-Id: %b\r\n\r\n" % given

    answer = await raw(api).raw(head)

    assert (b"Audit-Id: %b\r\n" % given in answer) is echoed
    assert b"Audit-Id: " in answer


@pytest.mark.parametrize("name", ["%2F", "%00", "%ff", "..", "a%2Fstatus", "%F0%9F%98%80", "x" * 5000])
async def test_a_name_that_nothing_can_have_is_not_found(api: Api, name: str) -> None:
    for path in (f"{B}/{name}", f"{CORE}/pods/{name}", f"/api/v1/namespaces/{name}"):
        (await api.get(path)).refused(404, "NotFound")
        (await api.delete(path)).refused(404, "NotFound")
        (await api.patch(path, {})).refused(404, "NotFound")


async def test_a_warning_stays_within_its_header(api: Api) -> None:
    answer = await api.post(B, {**framework(), 'x\r\nX-Evil: 1"': 1})

    assert "X-Evil" not in answer.headers
    assert len(answer.warnings) == 1
    assert warning_headers(['a\r\nX: "\\', "\x00é"]) == ['299 - "a  X: \\"\\\\"', '299 - " é"']


async def test_who_goes_in_the_middle_of_a_body_leaves_nothing_behind(api: Api) -> None:
    head = f"POST {B} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{"
    _, writer = await asyncio.open_connection("127.0.0.1", raw(api).port)
    port = writer.get_extra_info("sockname")[1]
    writer.write(head.encode())
    await until(lambda: in_flight(api) == 1)

    writer.transport.abort()

    await until(lambda: in_flight(api) == 0)
    await until(lambda: not api.is_connected(port))
    assert (await api.get(B)).json()["items"] == []


async def test_a_store_that_is_closed_changes_nothing_and_says_so(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", clock=time.time, new_uid=uids())
    async with serving(parts_of(store)) as api:
        await made(api)
        await store.close()

        listed, read = await api.get(B), await api.get(A)
        written = [
            await api.post(B, framework("b")),
            await api.patch(A, {"metadata": {"labels": {"a": "b"}}}),
        ]

    assert (listed.status, read.status) == (200, 200)
    for answer in written:
        assert answer.refused(503, "ServiceUnavailable")["details"] == {"retryAfterSeconds": 1}


def in_flight(api: Api) -> int:
    """Writes that are under way."""
    return sum(api.parts.limits._under_way.values())


def test_what_is_kept_for_other_watchers_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MOST_FRAME_BYTES", 1000)
    viewer = ObjectPrinter(FRAMEWORKS, ResponseFormat(), Include.METADATA, lambda: 0.0)
    frames = Frames()

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
