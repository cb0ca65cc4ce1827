"""WATCH: nothing lost, nothing repeated, and an end that clients understand."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from launcher.api.resources.object_views import ObjectPrinter
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Change
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.samples import ALL, GROUP, TABLE, A, B, causes, framework, labelled, made, version
from tests.eventually import TIMEOUT_SECONDS, eventually
from tests.store.builders import uids

STREAMED = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def test_check_010_a_watch_continues_from_the_version_of_a_list(api: Api) -> None:
    await made(api, "before")
    listed = (await api.get(B)).json()["metadata"]["resourceVersion"]

    async with api.watch(f"{B}?watch=1&resourceVersion={listed}") as stream:
        created = await made(api)
        patched = await labelled(api, "a", x="1")
        await api.delete(A, {"propagationPolicy": "Background"})
        events = await stream.take(3)

    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0]["object"] == created
    assert events[1]["object"] == patched
    assert events[2]["object"]["metadata"]["labels"] == {"x": "1"}
    assert version(events[2]["object"]) > version(patched) > version(created)


async def test_check_011_an_idle_watch_has_sent_its_headers(api: Api) -> None:
    async with asyncio.timeout(5):
        async with api.watch(f"{B}?watch=1", Accept_Encoding="gzip") as stream:
            headers = stream.headers

    assert headers["Content-Type"] == "application/json"
    assert headers["Transfer-Encoding"] == "chunked"
    assert "Content-Encoding" not in headers


async def test_check_012_a_watch_can_send_initial_events(api: Api) -> None:
    stored = [await made(api, name) for name in "ab"]

    async with api.watch(f"{B}?watch=1&{STREAMED}") as stream:
        first, mark = await stream.take(2), await stream.next()
        await made(api, "c")
        later = await stream.next()

    assert [(event["type"], event["object"]) for event in first] == [("ADDED", obj) for obj in stored]
    assert mark["type"] == "BOOKMARK"
    obj = mark["object"]
    assert (obj["kind"], obj["apiVersion"]) == ("Framework", "launcher.microsoft.com/v1")
    assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert version(obj) >= version(stored[1])
    assert (later["type"], later["object"]["metadata"]["name"]) == ("ADDED", "c")


async def test_check_013_the_initial_bookmark_of_an_empty_list_is_sent_at_once(api: Api) -> None:
    await made(api)

    async with api.watch(f"{B.replace('default', 'empty')}?watch=1&{STREAMED}") as stream:
        mark = await stream.next()

    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_check_013_no_initial_bookmark_is_sent_unless_requested(api: Api) -> None:
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"

    async with api.watch(f"{B}?watch=1&{query}") as stream:
        await made(api)
        event = await stream.next()

    assert event["type"] == "ADDED"


async def test_a_watch_can_begin_from_now(api: Api) -> None:
    await made(api)
    query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"

    async with api.watch(f"{B}?watch=1&{query}") as stream:
        await made(api, "b")
        event = await stream.next()

    assert event["object"]["metadata"]["name"] == "b"


async def test_check_014_an_expired_version_is_an_error_event() -> None:
    async with serving(api_dependencies(memory_store(max_entries=2))) as api:
        for name in "abcd":
            await made(api, name)

        async with api.watch(f"{B}?watch=1&resourceVersion=1") as stream:
            events = await stream.rest()

    (event,) = events
    assert event["type"] == "ERROR"
    reported = event["object"]
    assert (reported["kind"], reported["code"], reported["reason"]) == ("Status", 410, "Expired")


@pytest.mark.parametrize("value", ["watch=True", "watch=", "watch=1", "watch=abc", "watch"])
async def test_check_015_most_values_of_watch_are_true(api: Api, value: str) -> None:
    await made(api)

    async with api.watch(f"{B}?{value}") as stream:
        assert (await stream.next())["type"] == "ADDED"


@pytest.mark.parametrize("value", ["watch=0", "watch=False", "watch=FALSE", "", "watch=false&watch=true"])
async def test_check_015_few_values_of_watch_are_false(api: Api, value: str) -> None:
    assert (await api.get(f"{B}?{value}")).json()["kind"] == "FrameworkList"


async def test_check_016_a_watch_ends_after_its_timeout(api: Api) -> None:
    began = time.monotonic()

    async with api.watch(f"{B}?watch=1&timeoutSeconds=1") as stream:
        assert await stream.rest() == []

    assert 0.9 <= time.monotonic() - began < TIMEOUT_SECONDS


async def test_check_024_a_watch_can_send_table_rows(api: Api) -> None:
    await made(api)

    async with api.watch(f"{B}?watch=1&allowWatchBookmarks=true", TABLE) as stream:
        await made(api, "b")
        await api.delete(f"{B}/b", {"propagationPolicy": "Background"})
        tables = [event["object"] for event in await stream.take(3)]

    assert [table["kind"] for table in tables] == ["Table"] * 3
    assert [table["rows"][0]["cells"][0] for table in tables] == ["a", "b", "b"]
    assert tables[0]["columnDefinitions"][0]["name"] == "Name"
    assert [table["columnDefinitions"] for table in tables[1:]] == [None, None]


async def test_check_024_the_first_row_has_the_columns_also_without_initial_events(api: Api) -> None:
    since = version(await made(api))

    async with api.watch(f"{B}?watch=1&resourceVersion={since}", TABLE) as stream:
        await made(api, "b")
        await made(api, "c")
        tables = [event["object"] for event in await stream.take(2)]

    assert tables[0]["columnDefinitions"][0]["name"] == "Name"
    assert tables[1]["columnDefinitions"] is None


async def test_a_watch_can_send_only_metadata(api: Api) -> None:
    async with api.watch(f"{B}?watch=1", PARTIAL) as stream:
        stored = await made(api)
        event = await stream.next()

    assert event["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored["metadata"],
    }


async def test_check_072_objects_that_start_or_stop_to_match_are_added_or_deleted(api: Api) -> None:
    await made(api)

    async with api.watch(f"{B}?watch=1&labelSelector=x%3D1") as stream:
        await labelled(api, "a", x="1")
        unselected = await labelled(api, "a", x="2")
        events = await stream.take(2)

    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    assert events[1]["object"]["metadata"]["labels"] == {"x": "1"}
    assert version(events[1]["object"]) == version(unselected)


async def test_check_073_an_idle_watch_receives_bookmarks() -> None:
    async with serving(api_dependencies(memory_store(bookmark_every=0.05))) as api:
        since = version(await made(api, namespace="elsewhere"))

        async with api.watch(f"{B}?watch=1&allowWatchBookmarks=true&resourceVersion=1") as stream:
            event = await stream.next()

    assert event["type"] == "BOOKMARK"
    assert event["object"] == {
        "kind": "Framework",
        "apiVersion": "launcher.microsoft.com/v1",
        "metadata": {"resourceVersion": str(since)},
    }


async def test_check_073_a_bookmark_among_rows_is_an_empty_row() -> None:
    path = f"{B}?watch=1&allowWatchBookmarks=true&resourceVersion=1"
    async with (
        serving(api_dependencies(memory_store(bookmark_every=0.05))) as api,
        api.watch(path, TABLE) as stream,
    ):
        event = await stream.next()

    (row,) = event["object"]["rows"]
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", "Table")
    assert set(row["cells"]) == {None}
    assert row["object"]["metadata"] == {"resourceVersion": "1"}


@pytest.mark.parametrize(
    "query",
    [
        "sendInitialEvents=true",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1",
        "continue=abc",
    ],
)
async def test_check_074_contradictory_watch_options_are_rejected(api: Api, query: str) -> None:
    reported = (await api.get(f"{B}?watch=1&{query}")).failure(422, "Invalid")

    assert reported["details"]["kind"] == "ListOptions"
    assert len(causes(reported)) == 1


async def test_a_watch_from_an_invalid_version_is_rejected(api: Api) -> None:
    (await api.get(f"{B}?watch=1&resourceVersion=abc")).failure(400, "BadRequest")


async def test_a_watch_from_a_future_version_starts_there(api: Api) -> None:
    ahead = version(await made(api)) + 1

    async with api.watch(f"{B}?watch=1&resourceVersion={ahead}") as stream:
        await labelled(api, "a", x="1")
        await labelled(api, "a", x="2")
        event = await stream.next()

    assert version(event["object"]) == ahead + 1


async def test_check_078_a_client_that_does_not_read_blocks_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launcher.api.resources.watch._WRITE_SECONDS", 5.0)
    async with serving(api_dependencies(memory_store(max_entries=100))) as api:
        host, port = api.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(f"GET {B}?watch=1 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await made(api, annotations={"a": "x" * 200_000})

        async with api.watch(f"{B}?watch=1") as stream:
            await stream.next()
            for n in range(60):
                await labelled(api, "a", n=str(n))
                assert (await stream.next())["object"]["metadata"]["labels"]["n"] == str(n)

        # More data than the buffers of a connection can hold: nothing is stored for a client that does not read.
        port = writer.get_extra_info("sockname")[1]
        await eventually(lambda: not api.is_connected(port))
        received = b""
        with suppress(ConnectionError):
            received = await reader.read()
        writer.close()

    assert len(received) < 60 * 200_000
    assert not received.endswith(b"0\r\n\r\n")


async def test_check_079_acknowledged_writes_survive_a_restart(tmp_path: Path) -> None:
    async def opened() -> SqliteStore:
        return await SqliteStore.open(tmp_path / "store.db", clock=time.time, new_uid=uids())

    first = await opened()
    async with serving(api_dependencies(first)) as api:
        stored = await made(api)
    await first.close()
    second = await opened()
    async with serving(api_dependencies(second)) as api:
        kept = (await api.get(A)).json()
        new = await labelled(api, "a", x="1")
        async with api.watch(f"{B}?watch=1&resourceVersion={version(stored) - 1}") as stream:
            late = await stream.next()
        async with api.watch(f"{B}?watch=1&resourceVersion={version(stored)}") as stream:
            resumed = await stream.next()
    await second.close()

    assert kept == stored
    assert version(new) > version(stored)
    assert (late["type"], late["object"]["code"]) == ("ERROR", 410)
    assert (resumed["type"], resumed["object"]) == ("MODIFIED", new)


async def test_check_044_concurrent_patches_on_disk_are_all_applied(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", clock=time.time, new_uid=uids())
    async with serving(api_dependencies(store)) as api:
        await made(api)
        answers = await asyncio.gather(
            *(api.patch(A, {"metadata": {"labels": {f"l{n}": "1"}}}) for n in range(80))
        )
        labels = (await api.get(A)).json()["metadata"]["labels"]
    await store.close()

    # More patches than the limit of attempts: each is serialised.
    assert [response.status for response in answers] == [200] * 80
    assert len(labels) == 80


@pytest.mark.parametrize("path", [B, ALL], ids=["one namespace", "all"])
async def test_check_119_the_deprecated_path_is_a_watch(api: Api, path: str) -> None:
    await made(api)
    old = path.replace("/v1/", "/v1/watch/")

    async with api.watch(old) as stream:
        assert (await stream.next())["type"] == "ADDED"


SECOND_B = B.replace(GROUP, "frameworkcontroller.microsoft.com")


@pytest.mark.parametrize("base", [B, SECOND_B], ids=["our group", "FrameworkController's group"])
async def test_the_deprecated_path_of_one_object_watches_that_object_alone(api: Api, base: str) -> None:
    await made(api, "a")
    await made(api, "b")

    async with api.watch(f"{base.replace('/v1/', '/v1/watch/')}/b") as stream:
        first = await stream.next()
        await labelled(api, "a", x="1")
        await labelled(api, "b", x="1")
        second = await stream.next()

    assert [(event["type"], event["object"]["metadata"]["name"]) for event in (first, second)] == [
        ("ADDED", "b"),
        ("MODIFIED", "b"),
    ]
    assert first["object"]["apiVersion"] == base.split("/")[2] + "/v1"


async def test_the_deprecated_path_takes_the_parameters_of_a_watch(api: Api) -> None:
    created = await made(api)
    await labelled(api, "a", x="1")
    old = A.replace("/v1/", "/v1/watch/")
    version = created["metadata"]["resourceVersion"]

    async with api.watch(f"{old}?resourceVersion={version}&timeoutSeconds=1&labelSelector=x") as stream:
        events = await stream.rest()

    assert [event["type"] for event in events] == ["ADDED"]


@pytest.mark.parametrize(
    "path",
    ["nodes/n", "namespaces/default", "namespaces/default/pods/p", "namespaces/default/configmaps/c"],
)
async def test_core_kinds_can_be_watched_by_the_deprecated_path(api: Api, path: str) -> None:
    async with api.watch(f"/api/v1/watch/{path}?timeoutSeconds=1") as stream:
        events = await stream.rest()

    assert [event["type"] for event in events] == (["ADDED"] if path == "namespaces/default" else [])


async def test_the_deprecated_path_of_one_object_rejects_a_selector_for_another(api: Api) -> None:
    old = A.replace("/v1/", "/v1/watch/")

    response = await api.get(f"{old}?fieldSelector=metadata.name%3Db")

    assert "doesn't match requested name" in response.failure(400, "BadRequest")["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_the_deprecated_path_of_one_object_is_read_only(api: Api, method: str) -> None:
    response = await api.call(method, A.replace("/v1/", "/v1/watch/"))

    assert response.status == 405


async def test_initial_events_are_complete_for_large_lists(api: Api) -> None:
    for n in range(1_203):
        obj = framework(f"f-{n:04}", namespace="default")
        await api.store.create(FRAMEWORKS, obj)

    async with api.watch(f"{ALL}?watch=1&limit=10") as stream:
        events = await stream.take(1_203)

    assert [event["object"]["metadata"]["name"] for event in events] == [f"f-{n:04}" for n in range(1_203)]


async def test_a_change_is_encoded_once_for_all_watches(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    one = ObjectPrinter.one

    def counted(viewer: ObjectPrinter, obj: Any, *, columns: bool = True) -> Any:
        shown.append(obj)
        return one(viewer, obj, columns=columns)

    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(api.watch(f"{B}?watch=1")) for _ in range(5)]
        monkeypatch.setattr(ObjectPrinter, "one", counted)
        await api.store.create(FRAMEWORKS, framework(namespace="default"))
        events = [await stream.next() for stream in streams]

    assert all(event == events[0] for event in events)
    assert len(shown) == 1


async def test_a_disconnected_watch_is_removed(api: Api) -> None:
    store = api.store
    assert isinstance(store, EmbeddedStore)
    async with api.watch(f"{B}?watch=1"):
        assert store._watch_cache._watchers

    await eventually(lambda: not store._watch_cache._watchers)


async def test_a_failed_watch_closes_the_connection(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await made(api)

    async def broken(*_: Any, **__: Any) -> AsyncIterator[Change]:
        none: list[Change] = []
        for change in none:
            yield change
        raise RuntimeError("the cause")

    monkeypatch.setattr(api.store, "watch", broken)
    host, port = api.url.removeprefix("http://").split(":")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {B}?watch=1 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        received = await reader.read()
        writer.close()

    assert received.count(b"HTTP/1.1") == 1
    assert b"InternalError" not in received
    assert not received.endswith(b"0\r\n\r\n")
    assert "the cause" in caplog.text


async def test_a_watch_ends_properly_when_the_store_closes(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", clock=time.time, new_uid=uids())
    async with serving(api_dependencies(store)) as api, api.watch(f"{B}?watch=1") as stream:
        await store.close()

        assert await stream.rest() == []
