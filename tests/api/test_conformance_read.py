"""GET of objects and lists: pages, versions and representations."""

import asyncio
import gzip
from typing import Any

import pytest
import yaml

from tests.api.client import JSON, YAML
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.samples import ALL, RESOURCE, TABLE, A, B, causes, framework, labelled, made, names, version

PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


async def test_check_008_an_error_names_the_missing_object(api: Api) -> None:
    reported = (await api.get(f"{B}/nosuch")).failure(404, "NotFound")

    assert reported["message"] == f'{RESOURCE} "nosuch" not found'
    assert reported["details"] == {"name": "nosuch", "group": "launcher.microsoft.com", "kind": "frameworks"}


async def test_check_009_a_list_has_a_kind_and_a_resourceversion(api: Api) -> None:
    empty = (await api.get(B)).json()
    await made(api)
    listed = (await api.get(B)).json()

    assert empty["items"] == []
    assert (listed["apiVersion"], listed["kind"]) == ("launcher.microsoft.com/v1", "FrameworkList")
    assert int(listed["metadata"]["resourceVersion"]) > int(empty["metadata"]["resourceVersion"]) > 0
    (item,) = listed["items"]
    assert (item["apiVersion"], item["kind"]) == ("launcher.microsoft.com/v1", "Framework")
    assert item == (await api.get(A)).json()


async def test_check_022_a_list_can_be_a_table(api: Api) -> None:
    await made(api)

    table = (await api.get(B, TABLE)).json()

    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert int(table["metadata"]["resourceVersion"]) > 0
    first = table["columnDefinitions"][0]
    assert (first["name"], first["type"], first["format"]) == ("Name", "string", "name")
    shown = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert shown == ["Name", "State", "Tasks", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["a", None, "0/2", "0s"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["namespace"] == "default"
    assert len(row["cells"]) == len(table["columnDefinitions"])


async def test_check_022_an_empty_table_has_columns(api: Api) -> None:
    table = (await api.get(B, TABLE)).json()

    assert table["rows"] == []
    assert table["columnDefinitions"][0]["name"] == "Name"


async def test_check_023_one_object_is_a_table_of_one_row(api: Api) -> None:
    stored = await made(api)

    table = (await api.get(A, TABLE)).json()

    assert [row["cells"][0] for row in table["rows"]] == ["a"]
    assert int(table["metadata"]["resourceVersion"]) == version(stored)


async def test_a_table_of_the_older_version_is_the_same_table(api: Api) -> None:
    table = (await api.get(B, "application/json;as=Table;v=v1beta1;g=meta.k8s.io")).json()

    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1beta1")


async def test_check_027_any_namespace_exists(api: Api) -> None:
    await made(api, namespace="used")

    one = await api.get("/api/v1/namespaces/anything")
    listed = (await api.get("/api/v1/namespaces")).json()

    assert (one.status, one.json()["kind"], one.json()["metadata"]["name"]) == (200, "Namespace", "anything")
    assert one.json()["status"] == {"phase": "Active"}
    assert names(listed) == ["default", "used"]
    (await api.get("/api/v1/namespaces/No_Such")).failure(404, "NotFound")


async def test_check_029_an_object_is_selected_by_its_name(api: Api) -> None:
    for name in ("a", "b"):
        await made(api, name)

    assert names((await api.get(f"{B}?fieldSelector=metadata.name%3Da")).json()) == ["a"]
    async with api.watch(f"{B}?watch=1&fieldSelector=metadata.name%3Db") as stream:
        assert (await stream.next())["object"]["metadata"]["name"] == "b"


async def test_check_033_unknown_paths_are_not_found(api: Api) -> None:
    (await api.get("/nope")).failure(404, "NotFound")
    (await api.get(f"{B}//a")).failure(404, "NotFound")
    (await api.get("/apis/launcher.microsoft.com/v1/namespaces/default/nosuch")).failure(404, "NotFound")
    (await api.get(f"{A}/nosuch")).failure(404, "NotFound")
    (await api.get(f"{B}/a%2Fstatus")).failure(404, "NotFound")
    (await api.call("POST", "/version", {})).failure(405, "MethodNotAllowed")


async def test_check_033_internal_errors_have_no_details(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("the secret cause")

    monkeypatch.setattr(api.store, "get", broken)

    response = await api.get(A)

    reported = response.failure(500, "InternalError")
    assert reported["message"].startswith("Internal error occurred: ")
    assert reported["details"]["causes"][0]["message"]
    assert b"secret" not in response.body
    assert "the secret cause" in caplog.text


async def test_check_068_all_pages_have_one_version(api: Api) -> None:
    for name in "bcdef":
        await made(api, name)

    pages = [(await api.get(f"{B}?limit=2")).json()]
    await made(api, "aa")
    await made(api, "dd")
    while token := pages[-1]["metadata"].get("continue"):
        pages.append((await api.get(f"{B}?limit=2&continue={token}")).json())

    assert [names(page) for page in pages] == [["b", "c"], ["d", "e"], ["f"]]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]


async def test_check_068_an_expired_continue_token_has_a_successor() -> None:
    async with serving(api_dependencies(memory_store(max_entries=2))) as api:
        for name in "abcde":
            await made(api, name)
        token = (await api.get(f"{B}?limit=2")).json()["metadata"]["continue"]
        for n in range(20):
            await labelled(api, "a", n=str(n))
            await api.get(f"{B}?limit=1")

        reported = (await api.get(f"{B}?limit=2&continue={token}")).failure(410, "Expired")
        rest = (await api.get(f"{B}?continue={reported['metadata']['continue']}")).json()

    assert names(rest) == ["c", "d", "e"]


async def test_check_068_remaining_items_are_not_counted_with_a_selector(api: Api) -> None:
    for name in "abc":
        await made(api, name, labels={"x": "1"})

    page = (await api.get(f"{B}?limit=1&labelSelector=x%3D1")).json()["metadata"]

    assert "continue" in page
    assert "remainingItemCount" not in page


@pytest.mark.parametrize("query", ["continue=garbage", "continue=bm9uZQ", "limit=x", "resourceVersion=x"])
async def test_check_069_an_invalid_continue_token_is_rejected(api: Api, query: str) -> None:
    (await api.get(f"{B}?{query}")).failure(400, "BadRequest")


async def test_check_069_a_page_has_the_version_of_the_first(api: Api) -> None:
    for name in "abc":
        await made(api, name)
    page = (await api.get(f"{B}?limit=1")).json()["metadata"]

    query = f"continue={page['continue']}&resourceVersion={page['resourceVersion']}"
    (await api.get(f"{B}?{query}")).failure(400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("x", "abc"),
        ("!x", "de"),
        ("x=1", "a"),
        ("x==1", "a"),
        ("x!=1", "bcde"),
        ("x in (1,2)", "ab"),
        ("x notin (1,2)", "cde"),
        ("x>1", "bc"),
        ("x<3", "ab"),
        ("x,y", "c"),
    ],
)
async def test_check_070_labels_select(api: Api, selector: str, found: str) -> None:
    labels = {"a": {"x": "1"}, "b": {"x": "2"}, "c": {"x": "10", "y": "1"}, "d": {"y": "2"}, "e": {}}
    for name in labels:
        await made(api, name, labels=labels[name])

    query = selector.replace(" ", "%20").replace("=", "%3D").replace("<", "%3C").replace(">", "%3E")
    response = await api.get(f"{B}?labelSelector={query}")

    assert names(response.json()) == list(found)


async def test_check_070_an_invalid_selector_is_rejected(api: Api) -> None:
    (await api.get(f"{B}?labelSelector=a%3D%3D%3Db")).failure(400, "BadRequest")


async def test_check_071_only_supported_fields_can_be_selected(api: Api) -> None:
    reported = (await api.get(f"{B}?fieldSelector=spec.nope%3D1")).failure(400, "BadRequest")

    assert reported["message"].startswith("field label not supported: spec.nope")
    assert "spec.executionType" in reported["message"]


async def test_check_075_a_list_is_not_older_than_requested(api: Api) -> None:
    stored = version(await made(api))

    for query in ("resourceVersion=0", f"resourceVersion={stored}"):
        for match in ("", "&resourceVersionMatch=NotOlderThan"):
            listed = (await api.get(f"{B}?{query}{match}")).json()
            assert int(listed["metadata"]["resourceVersion"]) >= stored
            assert names(listed) == ["a"]


async def test_check_076_a_future_version_times_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launcher.api.resources.reads.FRESHNESS_SECONDS", 0.05)

    response = await api.get(f"{B}?resourceVersion=1000")

    reported = response.failure(504, "Timeout")
    assert reported["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert response.headers["Retry-After"] == "1"


async def test_check_076_a_list_waits_for_a_version_that_comes_soon(api: Api) -> None:
    ahead = version(await made(api)) + 1
    waiting = asyncio.ensure_future(api.get(f"{B}?resourceVersion={ahead}"))
    await labelled(api, "a", x="1")

    listed = (await waiting).json()

    assert int(listed["metadata"]["resourceVersion"]) == ahead


async def test_check_077_an_exact_version_is_listed_as_it_was(api: Api) -> None:
    then = version(await made(api))
    await made(api, "b")
    await labelled(api, "a", x="1")

    listed = (await api.get(f"{B}?resourceVersion={then}&resourceVersionMatch=Exact")).json()

    assert int(listed["metadata"]["resourceVersion"]) == then
    assert names(listed) == ["a"]
    assert "labels" not in listed["items"][0]["metadata"]


async def test_check_077_an_old_exact_version_has_expired() -> None:
    async with serving(api_dependencies(memory_store(max_entries=1))) as api:
        then = version(await made(api))
        for n in range(3):
            await labelled(api, "a", n=str(n))

        response = await api.get(f"{B}?resourceVersion={then}&resourceVersionMatch=Exact")

    response.failure(410, "Expired")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("resourceVersionMatch=NotOlderThan", "resourceVersionMatch"),
        ("resourceVersion=1&resourceVersionMatch=Newest", "resourceVersionMatch"),
        ("sendInitialEvents=true", "sendInitialEvents"),
    ],
)
async def test_check_077_contradictory_list_options_are_rejected(api: Api, query: str, field: str) -> None:
    reported = (await api.get(f"{B}?{query}")).failure(422, "Invalid")

    assert (reported["details"]["kind"], reported["details"]["group"]) == ("ListOptions", "meta.k8s.io")
    assert list(causes(reported)) == [field]


async def test_check_090_metadata_can_be_requested_alone(api: Api) -> None:
    stored = await made(api, labels={"x": "1"})

    listed = (await api.get(B, PARTIAL_LIST)).json()
    one = (await api.get(A, PARTIAL)).json()
    (await api.get(B, PARTIAL)).failure(406, "NotAcceptable")

    assert one == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored["metadata"],
    }
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert listed["items"] == [one]
    assert listed["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        pytest.param("text/html", 406, id="a page"),
        pytest.param(PROTOBUF, 406, id="protobuf"),
        pytest.param("application/json;as=Foo;v=v1;g=meta.k8s.io", 406, id="an unknown form"),
        pytest.param("application/json;q=0", 406, id="not wanted"),
        pytest.param(f"{PROTOBUF},{JSON}", 200, id="protobuf or JSON"),
        pytest.param("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 200, id="a browser"),
        pytest.param("", 200, id="an empty header"),
    ],
)
async def test_check_091_the_first_supported_type_is_chosen(api: Api, accept: str, status: int) -> None:
    await made(api)

    response = await api.get(A, accept)

    assert response.status == status
    assert response.headers["Content-Type"] == JSON
    if status == 406:
        assert "application/yaml" in response.failure(406, "NotAcceptable")["message"]


async def test_check_092_yaml_is_returned_if_accepted(api: Api) -> None:
    stored = await made(api, annotations={"number": "1e3", "word": "on", "lines": "a\nb\n", "octal": "0o7"})

    response = await api.get(A, YAML)

    assert response.headers["Content-Type"] == YAML
    assert yaml.safe_load(response.body) == stored
    assert b"'1e3'" in response.body
    assert b"'0o7'" in response.body
    (await api.get(f"{B}?watch=1", YAML)).failure(406, "NotAcceptable")


async def test_check_093_rows_contain_their_object_as_requested(api: Api) -> None:
    stored = await made(api)

    nothing = (await api.get(f"{B}?includeObject=None", TABLE)).json()["rows"][0]["object"]
    everything = (await api.get(f"{B}?includeObject=Object", TABLE)).json()["rows"][0]["object"]
    (await api.get(f"{B}?includeObject=Foo", TABLE)).failure(400, "BadRequest")

    assert nothing is None
    assert everything == stored


async def test_check_104_unsupported_methods_are_rejected(api: Api) -> None:
    await made(api)

    (await api.put(B, framework())).failure(400, "BadRequest")
    (await api.patch(B, {})).failure(400, "BadRequest")
    for path in (ALL, B, A):
        (await api.call("OPTIONS", path)).failure(405, "MethodNotAllowed")
    (await api.post(A, framework())).failure(405, "MethodNotAllowed")
    for method, verb in (("POST", "create"), ("DELETE", "delete")):
        reported = (await api.call(method, f"{A}/status", framework())).failure(405, "MethodNotAllowed")
        assert reported["message"] == f'{verb} is not supported on resources of kind "{RESOURCE}"'
    for method in ("POST", "DELETE"):
        (await api.call(method, ALL, framework())).failure(404, "NotFound")


async def test_check_105_json_is_indented_for_interactive_clients(api: Api) -> None:
    await made(api)

    curl = await api.get(A, User_Agent="curl/8.5.0")
    compact = await api.get(f"{A}?pretty=false", User_Agent="curl/8.5.0")
    pretty = await api.get(f"{A}?pretty=1")
    plain = await api.get(A)

    assert curl.body.startswith(b'{\n  "apiVersion"')
    assert pretty.body == curl.body
    assert plain.body.count(b"\n") == compact.body.count(b"\n") == 1
    assert all(response.body.endswith(b"}\n") for response in (curl, compact, pretty, plain))


async def test_check_106_a_trailing_slash_is_ignored(api: Api) -> None:
    await made(api)

    for path in (ALL, B, A, f"{A}/status"):
        with_slash, without = await api.get(f"{path}/"), await api.get(path)
        assert (with_slash.status, with_slash.body) == (200, without.body)


async def test_check_107_all_namespaces_are_listed_in_order(api: Api) -> None:
    for namespace, name in (("b", "y"), ("a", "z"), ("b", "x"), ("a", "w")):
        await made(api, name, namespace)

    listed = (await api.get(ALL)).json()
    rows = (await api.get(ALL, TABLE)).json()["rows"]

    order = [("a", "w"), ("a", "z"), ("b", "x"), ("b", "y")]
    assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in listed["items"]] == order
    assert [(row["object"]["metadata"]["namespace"], row["cells"][0]) for row in rows] == order


async def test_check_108_large_responses_are_compressed_if_accepted(api: Api) -> None:
    await made(api)
    small = await api.get(B, Accept_Encoding="gzip")
    for name in ("b", "c"):
        await made(api, name, annotations={"a": "x" * 100_000})

    plain = await api.get(B)
    packed = await api.get(B, Accept_Encoding="gzip")

    assert "Content-Encoding" not in small.headers
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body


async def test_check_117_a_head_is_a_get_without_its_body(api: Api) -> None:
    await made(api)

    for path in (B, A, ALL):
        head, get = await api.call("HEAD", path), await api.get(path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["Content-Length"] == get.headers["Content-Length"]
    assert (await api.call("HEAD", f"{B}/nosuch")).status == 404


async def test_every_response_has_the_common_headers(api: Api) -> None:
    good, bad = await api.get(B, Audit_Id="mine"), await api.get(f"{B}/nosuch")

    assert good.headers["Audit-Id"] == "mine"
    assert len(bad.headers["Audit-Id"]) == 36
    for response in (good, bad):
        assert response.headers["Cache-Control"] == "no-cache, private"
        assert response.headers["Server"] == "framework-launcher"
        assert response.headers["Content-Type"] == JSON
