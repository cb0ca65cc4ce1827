"""Namespaces: every valid name is an implicit one, which is stored when it is changed."""

from typing import Any

import pytest

from launcher.store.interface import NAMESPACES
from tests.api.client import APPLY, JSON_PATCH, MERGE, STRATEGIC
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.resources.test_registry_core_kinds import a_config_map
from tests.api.samples import TABLE, made, with_metadata

ALL = "/api/v1/namespaces"
TEAM = f"{ALL}/team"


def a_namespace(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", **metadata}}


async def test_no_object_is_created_in_a_terminating_namespace(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    created = await api.post("/api/v1/namespaces", body)
    await made(api, namespace="team")

    response = await api.delete("/api/v1/namespaces/team")
    path = "/api/v1/namespaces/team/configmaps"
    reported = (await api.post(path, a_config_map())).failure(403, "Forbidden")

    assert created.status == 201
    assert (response.status, response.json()["status"]) == (200, {"phase": "Terminating"})
    assert (await api.get("/api/v1/namespaces/team")).json() == response.json()
    assert reported["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_an_implicit_namespace_can_be_deleted_with_its_content(api: Api) -> None:
    await made(api, namespace="team")

    dry = await api.delete("/api/v1/namespaces/team?dryRun=All")
    there = (await api.get("/api/v1/namespaces/team")).json()
    response = await api.delete("/api/v1/namespaces/team")

    assert (dry.status, there["status"]) == (200, {"phase": "Active"})
    assert (response.status, response.json()["status"]) == (200, {"phase": "Terminating"})
    (await api.delete("/api/v1/namespaces/nosuch")).failure(404, "NotFound")
    (await api.delete("/api/v1/namespaces/default")).failure(403, "Forbidden")


async def test_namespaces_can_be_selected(api: Api) -> None:
    await made(api, namespace="team")

    found = (await api.get("/api/v1/namespaces?fieldSelector=metadata.name%3Dteam", TABLE)).json()

    assert [row["cells"][:2] for row in found["rows"]] == [["team", "Active"]]


async def test_an_implicit_namespace_is_as_old_as_the_server() -> None:
    now = [1_767_225_600.0]
    async with serving(api_dependencies(memory_store(), clock=lambda: now[0])) as api:
        now[0] += 3600
        one = (await api.get(TEAM)).json()
        table = (await api.get(ALL, TABLE)).json()

    assert one["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert [row["cells"] for row in table["rows"]] == [["default", "Active", "60m"]]


@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        ({"metadata": {"labels": {"a": "b"}}}, STRATEGIC),
        ({"metadata": {"labels": {"a": "b"}}}, MERGE),
        ([{"op": "add", "path": "/metadata/labels/a", "value": "b"}], JSON_PATCH),
        (a_namespace(labels={"a": "b"}), APPLY),
    ],
    ids=["strategic", "merge", "JSON", "apply"],
)
async def test_an_implicit_namespace_is_stored_by_a_patch(api: Api, patch: Any, content_type: str) -> None:
    answers = [await api.patch(f"{TEAM}?fieldManager=t", patch, content_type) for _ in range(2)]

    assert [response.status for response in answers] == [200, 200]
    stored = await api.store.get(NAMESPACES, "", "team")
    assert stored == answers[0].json() == answers[1].json()
    assert stored["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "team"}
    assert stored["status"] == {"phase": "Active"}


async def test_an_implicit_namespace_is_stored_by_a_put(api: Api) -> None:
    read = (await api.get(TEAM)).json()

    with_version = await api.put(TEAM, with_metadata(read, labels={"a": "b"}))
    without = await api.put(f"{ALL}/other", a_namespace(name="other"))
    stale = await api.put(TEAM, with_metadata(read, labels={"a": "c"}))

    assert (with_version.status, without.status) == (200, 200)
    assert with_version.json()["metadata"]["labels"] == {"a": "b"}
    stale.failure(409, "Conflict")


async def test_a_dry_run_stores_no_namespace(api: Api) -> None:
    patched = await api.patch(f"{TEAM}?dryRun=All", {"metadata": {"labels": {"a": "b"}}})
    put = await api.put(f"{TEAM}?dryRun=All", a_namespace(labels={"a": "b"}))

    assert [each.json()["metadata"]["labels"]["a"] for each in (patched, put)] == ["b", "b"]
    assert (await api.store.list(NAMESPACES)).items == []


async def test_a_namespace_with_an_invalid_name_is_not_created(api: Api) -> None:
    (await api.patch(f"{ALL}/No_Name", {})).failure(404, "NotFound")
    (await api.patch(TEAM, {"metadata": {"name": "other"}})).failure(400, "BadRequest")
    reported = (await api.put(f"{ALL}/No_Name", a_namespace(name="No_Name"))).failure(422, "Invalid")

    assert "lower case" in reported["message"]


@pytest.mark.parametrize("how", ["put", "put any", "patch"])
async def test_an_update_does_not_remove_the_namespace_finalizer(api: Api, how: str) -> None:
    stored = (await api.post(ALL, a_namespace())).json()

    match how:
        case "put":
            response = await api.put(TEAM, with_metadata(stored, finalizers=["x/a"]))
        case "put any":
            response = await api.put(TEAM, a_namespace(finalizers=["x/a"]))
        case _:
            response = await api.patch(TEAM, {"metadata": {"finalizers": ["x/a"]}})

    assert sorted(response.json()["metadata"]["finalizers"]) == ["kubernetes", "x/a"]
    assert (await api.patch(TEAM, {"metadata": {"finalizers": None}})).status == 200
    await made(api, namespace="team")
    assert (await api.delete(TEAM)).json()["status"] == {"phase": "Terminating"}


async def test_an_update_does_not_restore_the_namespace_finalizer(api: Api) -> None:
    await api.post(ALL, a_namespace(finalizers=["x/a"]))
    await api.delete(TEAM)
    terminating = await api.store.get(NAMESPACES, "", "team")
    await api.store.update(NAMESPACES, with_metadata(terminating, finalizers=["x/a"]))

    response = await api.patch(TEAM, {"metadata": {"finalizers": None}})

    assert response.status == 200
    assert (await api.store.list(NAMESPACES)).items == []
