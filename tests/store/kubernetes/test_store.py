"""What is the kube store's own: what it asks of a server, and what it makes of the answers."""

import asyncio
from collections.abc import Mapping

import orjson
import pytest
from aiohttp import web

from launcher.core.errors import BadRequest, Conflict, Expired, InvalidObject, NotFound, Unavailable
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.informer import Informer
from launcher.store.interface import (
    FRAMEWORKS,
    NAMESPACES,
    PODS,
    ChangeType,
    DeleteOptions,
    Key,
    Object,
    Propagation,
)
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.selectors import Selector
from tests.store.builders import PATIENCE, a_pod, an_object, names, with_metadata
from tests.store.kubernetes.conftest import Answering
from tests.store.kubernetes.proxy import Proxy
from tests.store.kubernetes.samples import a_framework

MANAGED = {"managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]}


def stored(obj: Object, version: str) -> Object:
    """The object as a cluster shows it."""
    return with_metadata(obj, uid="u", resourceVersion=version, **MANAGED)


async def test_field_managers_are_left_out_of_whatever_is_read(answering: Answering) -> None:
    pod = stored(a_pod(), "7")
    bare = with_metadata(pod, managedFields=None)

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return web.Response(body=orjson.dumps({"type": "ADDED", "object": pod}) + b"\n")
        return web.json_response(
            {"metadata": {"resourceVersion": "8"}, "items": [pod]} if listed(request) else pod
        )

    def listed(request: web.Request) -> bool:
        return request.method == "GET" and request.path.endswith("/pods")

    async with answering(answer) as store:
        seen = [
            await store.create(PODS, a_pod()),
            await store.get(PODS, "default", "mnist-worker-0"),
            (await store.list(PODS)).items[0],
            (await anext(store.watch(PODS, since=6))).object,
            await store.update(PODS, pod),
            await store.update_status(PODS, pod),
            await store.delete(PODS, "default", "mnist-worker-0"),
        ]

    assert seen == [bare] * 7


async def test_items_of_a_list_say_what_they_are(answering: Answering) -> None:
    async def answer(_: web.Request) -> web.Response:
        items = [{"metadata": {"name": "b", "namespace": "x"}}, {"metadata": {"name": "a", "namespace": "x"}}]
        return web.json_response({"metadata": {"resourceVersion": "8"}, "items": items})

    async with answering(answer) as store:
        page = await store.list(PODS)

    assert [(item["apiVersion"], item["kind"]) for item in page.items] == [("v1", "Pod")] * 2
    assert names(page.items) == ["a", "b"]
    assert (page.version, page.continue_token, page.remaining) == (8, None, 0)


async def test_pages_are_asked_for_with_limit_and_token(answering: Answering) -> None:
    asked: list[Mapping[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        metadata = {"resourceVersion": "8", "continue": "n=x&t+", "remainingItemCount": 3}
        return web.json_response({"metadata": metadata, "items": None})

    async with answering(answer) as store:
        first = await store.list(PODS, "default", Selector.labelled({"a": "b"}), limit=2)
        await store.list(PODS, limit=0, token=first.continue_token)
        with pytest.raises(BadRequest):
            await store.list(PODS, token="")

    assert asked == [{"labelSelector": "a in (b)", "limit": "2"}, {"continue": "n=x&t+"}]
    assert (first.items, first.continue_token, first.remaining) == ([], "n=x&t+", 3)


async def test_a_watch_asks_for_signs_of_life_and_keeps_them_to_itself_unless_wanted(
    answering: Answering,
) -> None:
    asked: list[Mapping[str, str]] = []
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    events = [{"type": "ADDED", "object": stored(a_pod(), "7")}, {"type": "BOOKMARK", "object": bookmark}]

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return web.Response(body=b"".join(orjson.dumps(event) + b"\n" for event in events))

    async with answering(answer) as store:
        plain = [change.version async for change in store.watch(PODS, since=5, where=Selector.named("x"))]
        marked = [change.happened async for change in store.watch(PODS, since=5, bookmarks=True)]

    assert plain == [7]
    assert marked == [ChangeType.ADDED, ChangeType.BOOKMARK]
    assert asked[0]["resourceVersion"] == "5"
    assert asked[0]["allowWatchBookmarks"] == "true"
    assert asked[0]["fieldSelector"] == "metadata.name=x"
    assert 300 <= int(asked[0]["timeoutSeconds"]) <= 600


@pytest.mark.parametrize("by_event", [True, False], ids=["in the stream", "instead of a stream"])
@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [(410, "Expired", Expired), (500, None, Unavailable), (503, "x", Unavailable)],
)
async def test_a_watch_that_the_server_refuses_says_why(
    answering: Answering, by_event: bool, code: int, reason: str | None, error: type[Exception]
) -> None:
    status = {"kind": "Status", "code": code, "message": "too old, or in trouble"}
    if reason is not None:
        status["reason"] = reason

    async def answer(_: web.Request) -> web.Response:
        if by_event:
            return web.Response(body=orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
        return web.json_response(status, status=code)

    async with answering(answer) as store:
        with pytest.raises(error, match="too old, or in trouble"):
            await anext(store.watch(PODS, since=5))


async def test_an_event_may_be_longer_than_any_buffer(answering: Answering) -> None:
    pod = with_metadata(a_pod(), annotations={"a": "x" * 6 * 1024 * 1024}, resourceVersion="7")

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=orjson.dumps({"type": "ADDED", "object": pod}) + b"\n")

    async with answering(answer) as store, asyncio.timeout(PATIENCE):
        change = await anext(store.watch(PODS, since=5))

    assert change.object == pod


async def test_a_status_of_a_framework_is_sent_without_what_is_not_looked_at(answering: Answering) -> None:
    sent: list[Object] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(await request.json())
        return web.json_response({**sent[-1], "spec": {}})

    made = with_metadata(a_framework("mnist"), uid="u", resourceVersion="7")
    async with answering(answer) as store:
        await store.update_status(FRAMEWORKS, {**made, "status": {"state": "Completed"}})

    assert sent == [
        {
            "apiVersion": FRAMEWORKS.api_version,
            "kind": "Framework",
            "metadata": made["metadata"],
            "status": {"state": "Completed"},
        }
    ]


async def test_a_pod_is_deleted_by_one_call_that_says_everything(answering: Answering) -> None:
    asked: list[tuple[str, Object]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, await request.json()))
        return web.json_response(stored(a_pod(), "7"))

    how = DeleteOptions(uid="u", version=6, grace=0, propagation=Propagation.BACKGROUND)
    async with answering(answer) as store:
        await store.delete(PODS, "default", "mnist-worker-0", how)

    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "6"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }
    assert asked == [("DELETE", options)]


async def test_a_pod_that_somebody_else_ended_during_its_deletion_is_not_there(answering: Answering) -> None:
    async def answer(request: web.Request) -> web.Response:
        shown = stored(a_pod(), "7")
        shown["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
        del shown["metadata"]["resourceVersion"]
        return web.json_response(shown)

    async with answering(answer) as store:
        with pytest.raises(NotFound, match="mnist-worker-0"):
            await store.delete(PODS, "default", "mnist-worker-0")


async def test_a_deletion_that_is_only_tried_says_so_where_it_is_read(answering: Answering) -> None:
    asked: list[Object] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response(stored(a_pod(), "7"))

    async with answering(answer) as store:
        await store.delete(PODS, "default", "mnist-worker-0", dry_run=True)

    assert asked == [{"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}]


async def test_of_what_is_gone_at_once_the_last_state_is_shown_though_the_server_does_not(
    kube: KubeStore,
) -> None:
    made = await kube.create(FRAMEWORKS, a_framework("mnist"))

    last = await kube.delete(
        FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.BACKGROUND)
    )

    assert last == made
    with pytest.raises(NotFound):
        await kube.get(FRAMEWORKS, "default", "mnist")


async def test_what_took_the_place_of_an_object_that_was_read_is_deleted_as_itself(
    answering: Answering,
) -> None:
    there = {"uid": "old"}

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(with_metadata(a_framework("mnist"), uid=there["uid"]))
        wanted = (await request.json())["preconditions"]["uid"]
        there["uid"] = "new"
        if wanted == "old":
            return web.json_response({"kind": "Status", "reason": "Conflict", "message": "uid"}, status=409)
        return web.json_response({"kind": "Status", "status": "Success", "metadata": {}})

    async with answering(answer) as store:
        last = await store.delete(FRAMEWORKS, "default", "mnist")

    assert last["metadata"]["uid"] == "new"


async def test_a_deletion_that_the_server_refuses_for_another_reason_is_not_tried_again(
    answering: Answering,
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.method)
        if request.method == "GET":
            return web.json_response(with_metadata(an_object(NAMESPACES, "team"), uid="u"))
        return web.json_response({"kind": "Status", "message": "it is being emptied"}, status=409)

    async with answering(answer) as store:
        with pytest.raises(Conflict, match="being emptied"):
            await store.delete(NAMESPACES, "", "team")

    assert asked.count("DELETE") == 1


@pytest.mark.parametrize("verb", ["create", "update", "update_status"])
async def test_what_a_server_cannot_read_is_told_by_its_field(answering: Answering, verb: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "cannot unmarshal"}, status=400)

    version = {} if verb == "create" else {"resourceVersion": "7"}
    async with answering(answer) as store:
        with pytest.raises(BadRequest, match=r"metadata\.labels must be"):
            await getattr(store, verb)(FRAMEWORKS, a_framework(labels={"a": 1}, **version))
        with pytest.raises(BadRequest, match="cannot unmarshal"):
            await getattr(store, verb)(FRAMEWORKS, a_framework(**version))


@pytest.mark.parametrize("verb", ["update", "update_status"])
async def test_an_update_without_a_version_is_refused_before_it_replaces_what_nobody_has_read(
    kube: KubeStore, line: Proxy, verb: str
) -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.resourceVersion"):
        await getattr(kube, verb)(PODS, a_pod())

    assert line.connections == 0


async def test_an_informer_over_it_knows_what_is_there_and_what_happens_through_a_cut(
    kube: KubeStore, line: Proxy, behind: MemoryStore
) -> None:
    class Mirror(dict[Key, Object]):
        """What the informer has told."""

        def __init__(self) -> None:
            super().__init__()
            self.changed = asyncio.Condition()

        def on_upsert(self, key: Key, obj: Object) -> None:
            self[key] = obj

        def on_delete(self, key: Key) -> None:
            del self[key]

    async def until(expected: set[str]) -> None:
        async with asyncio.timeout(PATIENCE):
            while {name for _, name in mirror} != expected:  # noqa: ASYNC110  # the mirror has no signal of its own
                await asyncio.sleep(0.01)

    await behind.create(NAMESPACES, an_object(NAMESPACES, "default"))
    await kube.create(FRAMEWORKS, a_framework("before"))
    mirror = Mirror()
    running = asyncio.create_task(Informer(kube, FRAMEWORKS, mirror).run())
    try:
        await until({"before"})
        await kube.create(FRAMEWORKS, a_framework("during"))
        await until({"before", "during"})
        line.cut()
        await behind.delete(FRAMEWORKS, "default", "before")
        await until({"during"})
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
