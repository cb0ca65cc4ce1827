"""Requests of the KubeStore, and its handling of responses."""

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
    Object,
    Propagation,
)
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.selectors import Selector
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import a_framework, an_object, names, with_metadata
from tests.store.kubernetes.conftest import ServedStore
from tests.store.kubernetes.faulty_proxy import FaultyProxy
from tests.store.recording_handler import RecordingHandler

MANAGED = {"managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]}


def stored(obj: Object, version: str) -> Object:
    """The object as kube-apiserver returns it."""
    return with_metadata(obj, uid="u", resourceVersion=version, **MANAGED)


async def test_managed_fields_are_removed_from_all_objects(served_by: ServedStore) -> None:
    pod = stored(a_pod(), "7")
    bare = with_metadata(pod, managedFields=None)

    async def respond(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return web.Response(body=orjson.dumps({"type": "ADDED", "object": pod}) + b"\n")
        return web.json_response(
            {"metadata": {"resourceVersion": "8"}, "items": [pod]} if respond_with_list(request) else pod
        )

    def respond_with_list(request: web.Request) -> bool:
        return request.method == "GET" and request.path.endswith("/pods")

    async with served_by(respond) as store:
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


async def test_items_of_a_list_have_api_version_and_kind(served_by: ServedStore) -> None:
    async def respond(_: web.Request) -> web.Response:
        items = [{"metadata": {"name": "b", "namespace": "x"}}, {"metadata": {"name": "a", "namespace": "x"}}]
        return web.json_response({"metadata": {"resourceVersion": "8"}, "items": items})

    async with served_by(respond) as store:
        page = await store.list(PODS)

    assert [(item["apiVersion"], item["kind"]) for item in page.items] == [("v1", "Pod")] * 2
    assert names(page.items) == ["a", "b"]
    assert (page.version, page.continue_token, page.remaining) == (8, None, 0)


async def test_pages_are_requested_with_limit_and_token(served_by: ServedStore) -> None:
    requests: list[Mapping[str, str]] = []

    async def respond(request: web.Request) -> web.Response:
        requests.append(dict(request.query))
        metadata = {"resourceVersion": "8", "continue": "n=x&t+", "remainingItemCount": 3}
        return web.json_response({"metadata": metadata, "items": None})

    async with served_by(respond) as store:
        first = await store.list(PODS, "default", Selector.for_labels({"a": "b"}), limit=2)
        await store.list(PODS, limit=0, continue_token=first.continue_token)
        with pytest.raises(BadRequest):
            await store.list(PODS, continue_token="")

    assert requests == [{"labelSelector": "a in (b)", "limit": "2"}, {"continue": "n=x&t+"}]
    assert (first.items, first.continue_token, first.remaining) == ([], "n=x&t+", 3)


async def test_a_watch_requests_bookmarks_and_returns_them_only_if_requested(
    served_by: ServedStore,
) -> None:
    requests: list[Mapping[str, str]] = []
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    events = [{"type": "ADDED", "object": stored(a_pod(), "7")}, {"type": "BOOKMARK", "object": bookmark}]

    async def respond(request: web.Request) -> web.Response:
        requests.append(dict(request.query))
        return web.Response(body=b"".join(orjson.dumps(event) + b"\n" for event in events))

    async with served_by(respond) as store:
        plain = [
            change.version async for change in store.watch(PODS, since=5, selector=Selector.for_name("x"))
        ]
        marked = [change.type async for change in store.watch(PODS, since=5, bookmarks=True)]

    assert plain == [7]
    assert marked == [ChangeType.ADDED, ChangeType.BOOKMARK]
    assert requests[0]["resourceVersion"] == "5"
    assert requests[0]["allowWatchBookmarks"] == "true"
    assert requests[0]["fieldSelector"] == "metadata.name=x"
    assert 300 <= int(requests[0]["timeoutSeconds"]) <= 600


@pytest.mark.parametrize("by_event", [True, False], ids=["in the stream", "instead of a stream"])
@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [(410, "Expired", Expired), (500, None, Unavailable), (503, "x", Unavailable)],
)
async def test_a_rejected_watch_raises_the_servers_error(
    served_by: ServedStore, by_event: bool, code: int, reason: str | None, error: type[Exception]
) -> None:
    status = {"kind": "Status", "code": code, "message": "too old, or in trouble"}
    if reason is not None:
        status["reason"] = reason

    async def respond(_: web.Request) -> web.Response:
        if by_event:
            return web.Response(body=orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
        return web.json_response(status, status=code)

    async with served_by(respond) as store:
        with pytest.raises(error, match="too old, or in trouble"):
            await anext(store.watch(PODS, since=5))


async def test_an_event_may_be_longer_than_the_read_buffer(served_by: ServedStore) -> None:
    pod = with_metadata(a_pod(), annotations={"a": "x" * 6 * 1024 * 1024}, resourceVersion="7")

    async def respond(_: web.Request) -> web.Response:
        return web.Response(body=orjson.dumps({"type": "ADDED", "object": pod}) + b"\n")

    async with served_by(respond) as store, asyncio.timeout(TIMEOUT_SECONDS):
        change = await anext(store.watch(PODS, since=5))

    assert change.object == pod


async def test_a_status_update_of_a_framework_omits_the_spec(served_by: ServedStore) -> None:
    sent: list[Object] = []

    async def respond(request: web.Request) -> web.Response:
        sent.append(await request.json())
        return web.json_response({**sent[-1], "spec": {}})

    created = with_metadata(a_framework("mnist"), uid="u", resourceVersion="7")
    async with served_by(respond) as store:
        await store.update_status(FRAMEWORKS, {**created, "status": {"state": "Completed"}})

    assert sent == [
        {
            "apiVersion": FRAMEWORKS.api_version,
            "kind": "Framework",
            "metadata": created["metadata"],
            "status": {"state": "Completed"},
        }
    ]


async def test_a_pod_is_deleted_by_one_call(served_by: ServedStore) -> None:
    requests: list[tuple[str, Object]] = []

    async def respond(request: web.Request) -> web.Response:
        requests.append((request.method, await request.json()))
        return web.json_response(stored(a_pod(), "7"))

    method = DeleteOptions(uid="u", version=6, grace=0, propagation=Propagation.BACKGROUND)
    async with served_by(respond) as store:
        await store.delete(PODS, "default", "mnist-worker-0", method)

    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "6"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }
    assert requests == [("DELETE", options)]


async def test_a_pod_removed_during_its_deletion_is_not_found(served_by: ServedStore) -> None:
    async def respond(request: web.Request) -> web.Response:
        shown = stored(a_pod(), "7")
        shown["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
        del shown["metadata"]["resourceVersion"]
        return web.json_response(shown)

    async with served_by(respond) as store:
        with pytest.raises(NotFound, match="mnist-worker-0"):
            await store.delete(PODS, "default", "mnist-worker-0")


async def test_a_dry_run_deletion_has_the_option_in_its_body(served_by: ServedStore) -> None:
    requests: list[Object] = []

    async def respond(request: web.Request) -> web.Response:
        requests.append(await request.json())
        return web.json_response(stored(a_pod(), "7"))

    async with served_by(respond) as store:
        await store.delete(PODS, "default", "mnist-worker-0", dry_run=True)

    assert requests == [{"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}]


async def test_a_removed_object_is_returned_although_the_server_does_not(
    kube_store: KubeStore,
) -> None:
    created = await kube_store.create(FRAMEWORKS, a_framework("mnist"))

    last = await kube_store.delete(
        FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.BACKGROUND)
    )

    assert last == created
    with pytest.raises(NotFound):
        await kube_store.get(FRAMEWORKS, "default", "mnist")


async def test_a_replaced_object_is_deleted_by_its_new_uid(
    served_by: ServedStore,
) -> None:
    there = {"uid": "old"}

    async def respond(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(with_metadata(a_framework("mnist"), uid=there["uid"]))
        requested_uid = (await request.json())["preconditions"]["uid"]
        there["uid"] = "new"
        if requested_uid == "old":
            return web.json_response({"kind": "Status", "reason": "Conflict", "message": "uid"}, status=409)
        return web.json_response({"kind": "Status", "status": "Success", "metadata": {}})

    async with served_by(respond) as store:
        last = await store.delete(FRAMEWORKS, "default", "mnist")

    assert last["metadata"]["uid"] == "new"


async def test_a_rejected_deletion_is_not_retried(
    served_by: ServedStore,
) -> None:
    requests: list[str] = []

    async def respond(request: web.Request) -> web.Response:
        requests.append(request.method)
        if request.method == "GET":
            return web.json_response(with_metadata(an_object(NAMESPACES, "team"), uid="u"))
        return web.json_response({"kind": "Status", "message": "it is being emptied"}, status=409)

    async with served_by(respond) as store:
        with pytest.raises(Conflict, match="being emptied"):
            await store.delete(NAMESPACES, "", "team")

    assert requests.count("DELETE") == 1


@pytest.mark.parametrize("verb", ["create", "update", "update_status"])
async def test_a_bad_request_names_its_field(served_by: ServedStore, verb: str) -> None:
    async def respond(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "cannot unmarshal"}, status=400)

    version = {} if verb == "create" else {"resourceVersion": "7"}
    async with served_by(respond) as store:
        with pytest.raises(BadRequest, match=r"metadata\.labels must be"):
            await getattr(store, verb)(FRAMEWORKS, a_framework(labels={"a": 1}, **version))
        with pytest.raises(BadRequest, match="cannot unmarshal"):
            await getattr(store, verb)(FRAMEWORKS, a_framework(**version))


@pytest.mark.parametrize("verb", ["update", "update_status"])
async def test_an_update_without_a_version_is_rejected_by_the_client(
    kube_store: KubeStore, proxy: FaultyProxy, verb: str
) -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.resourceVersion"):
        await getattr(kube_store, verb)(PODS, a_pod())

    assert proxy.connections == 0


async def test_an_informer_continues_after_a_broken_connection(
    kube_store: KubeStore, proxy: FaultyProxy, backing_store: MemoryStore
) -> None:
    await backing_store.create(NAMESPACES, an_object(NAMESPACES, "default"))
    await kube_store.create(FRAMEWORKS, a_framework("before"))
    handler = RecordingHandler()
    informer = Informer(kube_store, FRAMEWORKS)
    informer.add_event_handler(handler)
    running = asyncio.create_task(informer.run())
    try:
        await handler.wait_for({"before"})
        await kube_store.create(FRAMEWORKS, a_framework("during"))
        await handler.wait_for({"before", "during"})
        proxy.disconnect()
        await backing_store.delete(FRAMEWORKS, "default", "before")
        await handler.wait_for({"during"})
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
