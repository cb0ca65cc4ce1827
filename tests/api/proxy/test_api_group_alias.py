"""FrameworkController's API group in a proxy to a cluster that has only the launcher's group."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest
from aiohttp import web

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.client import APPLY, MERGE, YAML
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import ProxyClient, run_proxy
from tests.api.samples import A, B, Json, framework

FIRST, SECOND = "launcher.microsoft.com", "frameworkcontroller.microsoft.com"
VERSION = f"{SECOND}/v1"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def second(path: str) -> str:
    return path.replace(FIRST, SECOND)


@pytest.fixture
async def aliased(cluster: FakeApiServer) -> AsyncIterator[ProxyClient]:
    """A proxy that serves the alias group."""
    async with run_proxy(
        ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS)), api_group_alias=True
    ) as running:
        yield running


def answering(cluster: FakeApiServer, value: Json, content_type: str = "application/json") -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(
            body=orjson.dumps(value), headers={"Content-Type": content_type, "ETag": '"from-upstream"'}
        )

    cluster.answer = answer


async def test_the_alias_group_is_forwarded_unchanged_unless_it_is_enabled(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    sent = {**framework(), "apiVersion": VERSION, "spec": {"anything": 1}}

    await proxy.post(second(B), sent)

    assert (cluster.last.path, cluster.last.json()) == (second(B), sent)


async def test_a_new_framework_is_validated_and_forwarded_in_the_launchers_group(
    aliased: ProxyClient, cluster: FakeApiServer
) -> None:
    answering(cluster, {**framework(), "metadata": {"name": "a", "uid": "u"}})

    answer = await aliased.post(second(B), {**framework(), "apiVersion": VERSION})

    assert cluster.last.path == B
    sent = cluster.last.json()
    assert (sent["apiVersion"], sent["spec"]["cleanPodPolicy"]) == (f"{FIRST}/v1", "All")
    assert sent["metadata"]["namespace"] == "default"
    assert answer.json() == {**framework(), "apiVersion": VERSION, "metadata": {"name": "a", "uid": "u"}}


async def test_errors_have_the_alias_group(aliased: ProxyClient, cluster: FakeApiServer) -> None:
    bad = {**framework(), "apiVersion": VERSION, "spec": {"executionType": "Begin"}}

    reported = (await aliased.post(second(B), bad)).failure(422, "Invalid")

    assert reported["details"]["group"] == SECOND
    assert cluster.requests == []


@pytest.mark.parametrize("path", [A, f"{A}?x=a%2Fb", A.replace("frameworks", "%66rameworks"), f"{A}/"])
async def test_encoded_paths_are_decoded_as_in_kube_apiserver(
    aliased: ProxyClient, cluster: FakeApiServer, path: str
) -> None:
    answering(cluster, framework())

    answer = await aliased.get(second(path))

    assert answer.json()["apiVersion"] == VERSION
    assert cluster.last.path == path.replace("%66", "f").rstrip("/")


async def test_patches_and_options_are_forwarded_in_the_launchers_group(
    aliased: ProxyClient, cluster: FakeApiServer
) -> None:
    answering(cluster, framework())
    body = f"apiVersion: {VERSION}\nkind: Framework\nspec:\n  description: x\n"

    await aliased.patch(second(A), body, APPLY)
    applied = cluster.last
    await aliased.patch(second(A), {"spec": {"executionType": "Stop"}}, MERGE)
    merged = cluster.last
    await aliased.delete(second(A), {"apiVersion": VERSION, "kind": "DeleteOptions"})

    assert applied.json()["apiVersion"] == f"{FIRST}/v1"
    assert applied.headers["Content-Type"] == APPLY
    assert merged.json() == {"spec": {"executionType": "Stop"}}
    assert cluster.last.json()["apiVersion"] == f"{FIRST}/v1"


async def test_only_convertible_responses_are_requested(aliased: ProxyClient, cluster: FakeApiServer) -> None:
    accept = (
        "application/vnd.kubernetes.protobuf, application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
    )

    await aliased.get(second(B), accept, Accept_Encoding="gzip", If_None_Match='"x"')
    await aliased.get(second(B), YAML)

    first, last = (each.headers for each in cluster.requests)
    assert first["Accept"] == "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    assert (first["Accept-Encoding"], "If-None-Match" in first) == ("identity", False)
    assert last["Accept"] == "application/json"


async def test_all_objects_of_a_list_are_converted(aliased: ProxyClient, cluster: FakeApiServer) -> None:
    answering(cluster, {"apiVersion": f"{FIRST}/v1", "kind": "FrameworkList", "items": [framework()]})

    answer = await aliased.get(second(B))

    assert (answer.json()["apiVersion"], answer.json()["items"][0]["apiVersion"]) == (VERSION, VERSION)
    assert "ETag" not in answer.headers


async def test_a_status_of_a_failure_is_converted(aliased: ProxyClient, cluster: FakeApiServer) -> None:
    status = {"kind": "Status", "message": f'frameworks.{FIRST} "a" not found', "details": {"group": FIRST}}
    answering(cluster, status)

    reported = (await aliased.get(second(A))).json()

    assert (reported["message"], reported["details"]["group"]) == (
        f'frameworks.{SECOND} "a" not found',
        SECOND,
    )


async def test_a_watch_is_converted_line_by_line_across_chunks(
    aliased: ProxyClient, cluster: FakeApiServer
) -> None:
    event = orjson.dumps({"type": "ADDED", "object": framework()}) + b"\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(event + event[:20])
        await read.wait()
        await response.write(event[20:])
        return response

    read = asyncio.Event()
    cluster.answer = answer
    async with aliased.watch(f"{second(B)}?watch=1") as stream:
        first = await stream.next()
        read.set()
        (last,) = await stream.rest()

    assert cluster.last.path == f"{B}?watch=1"
    assert first == last == {"type": "ADDED", "object": {**framework(), "apiVersion": VERSION}}


async def test_a_watch_by_the_deprecated_path_is_converted_line_by_line(
    aliased: ProxyClient, cluster: FakeApiServer
) -> None:
    event = orjson.dumps({"type": "ADDED", "object": framework()}) + b"\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(event)
        await read.wait()
        return response

    read = asyncio.Event()
    cluster.answer = answer
    async with aliased.watch(second(A).replace("/v1/", "/v1/watch/")) as stream:
        first = await stream.next()
        read.set()

    assert cluster.last.path == A.replace("/v1/", "/v1/watch/")
    assert first == {"type": "ADDED", "object": {**framework(), "apiVersion": VERSION}}


RESOURCE = {"name": "frameworks", "kind": "Framework", "shortNames": ["fw"], "categories": ["all"]}


async def test_the_alias_is_the_last_group_of_discovery(aliased: ProxyClient, cluster: FakeApiServer) -> None:
    version = {"groupVersion": f"{FIRST}/v1", "version": "v1"}
    ours = {"name": FIRST, "versions": [version], "preferredVersion": version}
    answering(cluster, {"kind": "APIGroupList", "groups": [{"name": SECOND}, {"name": "apps"}, ours]})

    groups = (await aliased.get("/apis")).json()["groups"]

    assert [group["name"] for group in groups] == ["apps", FIRST, SECOND]
    assert groups[2]["preferredVersion"] == {"groupVersion": VERSION, "version": "v1"}


async def test_the_alias_is_in_aggregated_discovery(aliased: ProxyClient, cluster: FakeApiServer) -> None:
    kind = {"group": FIRST, "version": "v1", "kind": "Framework"}
    resource = {"resource": "frameworks", "responseKind": kind, "shortNames": ["fw"], "categories": ["all"]}
    item = {"metadata": {"name": FIRST}, "versions": [{"version": "v1", "resources": [resource]}]}
    answering(cluster, {"kind": "APIGroupDiscoveryList", "items": [item]}, V2)

    answer = await aliased.get("/apis", V2)

    assert answer.headers["Content-Type"] == V2
    ours, theirs = answer.json()["items"]
    assert ours == item
    assert theirs["versions"][0]["resources"] == [
        {"resource": "frameworks", "responseKind": {**kind, "group": SECOND}}
    ]


async def test_resources_of_the_alias_have_no_short_names(
    aliased: ProxyClient, cluster: FakeApiServer
) -> None:
    answering(cluster, {"kind": "APIResourceList", "groupVersion": f"{FIRST}/v1", "resources": [RESOURCE]})

    reported = (await aliased.get(f"/apis/{VERSION}")).json()

    assert cluster.last.path == f"/apis/{FIRST}/v1"
    assert reported["groupVersion"] == VERSION
    assert reported["resources"] == [{"name": "frameworks", "kind": "Framework"}]


async def test_the_openapi_document_of_the_alias_is_converted(
    aliased: ProxyClient, cluster: FakeApiServer
) -> None:
    url = f"/openapi/v3/apis/{FIRST}/v1?hash=x"
    answering(cluster, {"paths": {f"apis/{FIRST}/v1": {"serverRelativeURL": url}}})
    index = (await aliased.get("/openapi/v3")).json()["paths"]
    answering(cluster, {"components": {"schemas": {"com.microsoft.launcher.v1.Framework": {"x": FIRST}}}})

    document = (await aliased.get(index[f"apis/{VERSION}"]["serverRelativeURL"])).json()

    assert cluster.last.path == url
    assert document["components"]["schemas"] == {
        "com.microsoft.frameworkcontroller.v1.Framework": {"x": SECOND}
    }


@pytest.mark.parametrize(
    "path", ["/api/v1/pods", f"/apis/{FIRST}/v1", f"/apis/{SECOND}er/v1", "/apis/apps/v1"]
)
async def test_other_paths_are_forwarded_unchanged(
    aliased: ProxyClient, cluster: FakeApiServer, path: str
) -> None:
    answering(cluster, {"x": FIRST, "apiVersion": f"{FIRST}/v1"})

    answer = await aliased.get(path)

    assert answer.json() == {"x": FIRST, "apiVersion": f"{FIRST}/v1"}
    assert (cluster.last.path, answer.headers["ETag"]) == (path, '"from-upstream"')
