"""Pods, config maps, secrets and other core kinds."""

import base64
from typing import Any

import pytest

from launcher.api.api_resources import STORED_API_RESOURCES, ApiResource, ApiSubresource
from launcher.api.resources.resource_handler import UNSUPPORTED_SUBRESOURCES
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.store.interface import EVENTS, NODES
from tests.api.client import APPLY, JSON_PATCH
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.samples import causes, names, with_metadata
from tests.builders import a_pod

CORE = "/api/v1/namespaces/default"


def a_config_map(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **parts}


def a_secret(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **parts}


async def test_a_pod_is_created_read_and_deleted(api: Api) -> None:
    created = await api.post(f"{CORE}/pods", a_pod("p"))
    listed = (await api.get(f"{CORE}/pods")).json()
    deleted = await api.delete(f"{CORE}/pods/p")

    assert created.status == 201
    assert created.json()["status"] == {"phase": "Pending"}
    assert (listed["kind"], names(listed)) == ("PodList", ["p"])
    # It is not scheduled, so it is removed at once; the response is the pod nevertheless.
    assert (deleted.status, deleted.json()["kind"]) == (200, "Pod")
    reported = (await api.get(f"{CORE}/pods/p")).failure(404, "NotFound")
    assert reported["message"] == 'pods "p" not found'


async def test_a_running_pod_is_deleted_after_its_grace_period(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod("p", nodeName="n", terminationGracePeriodSeconds=7))

    response = await api.delete(f"{CORE}/pods/p")
    again = await api.delete(f"{CORE}/pods/p", {"gracePeriodSeconds": 0})

    assert response.json()["metadata"]["deletionGracePeriodSeconds"] == 7
    assert again.status == 200
    (await api.get(f"{CORE}/pods/p")).failure(404, "NotFound")


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({"containers": []}, ["spec.containers"], id="no container"),
        pytest.param({"containers": [{"image": "x"}]}, ["spec.containers[0].name"], id="no name"),
        pytest.param({"restartPolicy": 5}, ["spec.restartPolicy"], id="a wrong type"),
        pytest.param(
            {"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            ["spec.containers[0].volumeMounts[0].name"],
            id="a volume that is not there",
        ),
    ],
)
async def test_an_invalid_pod_is_rejected(api: Api, spec: dict[str, Any], fields: list[str]) -> None:
    reported = (await api.post(f"{CORE}/pods", a_pod("p", **spec))).failure(422, "Invalid")

    assert (reported["details"]["kind"], reported["details"]["name"]) == ("Pod", "p")
    assert list(causes(reported)) == fields


async def test_a_pod_without_a_spec_is_rejected(api: Api) -> None:
    reported = (await api.post(f"{CORE}/pods", a_pod("p") | {"spec": None})).failure(422, "Invalid")

    assert causes(reported) == {"spec": "FieldValueRequired"}


async def test_unknown_fields_of_a_pod_are_reported(api: Api) -> None:
    warned = await api.post(f"{CORE}/pods", a_pod("p", hostNetwrk=True))
    strict = await api.post(f"{CORE}/pods?fieldValidation=Strict", a_pod("q", hostNetwrk=True))

    assert warned.warnings == ['299 - "unknown field \\"spec.hostNetwrk\\"; did you mean \\"hostNetwork\\"?"']
    assert 'unknown field "spec.hostNetwrk"' in strict.failure(400, "BadRequest")["message"]


async def test_the_admission_policy_applies_to_pods() -> None:
    async with serving(api_dependencies(memory_store(), policy=AdmissionPolicy(host_network=False))) as api:
        reported = (await api.post(f"{CORE}/pods", a_pod("p", hostNetwork=True))).failure(422, "Invalid")

    assert causes(reported) == {"spec.hostNetwork": "FieldValueForbidden"}


async def test_the_spec_of_a_pod_is_mostly_immutable(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod("p"))

    label = await api.patch(f"{CORE}/pods/p", {"metadata": {"labels": {"x": "1"}}})
    reported = (await api.patch(f"{CORE}/pods/p", {"spec": {"nodeName": "n"}})).failure(422, "Invalid")

    assert label.status == 200
    assert causes(reported) == {"spec.nodeName": "FieldValueForbidden"}


async def test_a_pods_status_can_be_read_and_not_written(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod("p"))

    assert (await api.get(f"{CORE}/pods/p/status")).json()["status"] == {"phase": "Pending"}
    (await api.patch(f"{CORE}/pods/p/status", {})).failure(405, "MethodNotAllowed")
    (await api.post(f"{CORE}/pods/p/nosuch", {})).failure(404, "NotFound")


@pytest.mark.parametrize("part", UNSUPPORTED_SUBRESOURCES)
async def test_unsupported_subresources_of_a_pod_are_rejected_with_the_reason(api: Api, part: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH"):
        response = await api.call(method, f"{CORE}/pods/p/{part}?command=ls", {})

        reported = response.failure(405, "MethodNotAllowed")
        assert (
            reported["message"] == f"{part} is not supported in local mode: {UNSUPPORTED_SUBRESOURCES[part]}"
        )


@pytest.mark.parametrize(
    ("plural", "obj"), [("configmaps", a_config_map()), ("secrets", a_secret()), ("pods", a_pod("p"))]
)
async def test_apiversion_and_kind_of_a_core_object_are_optional(
    api: Api, plural: str, obj: dict[str, Any]
) -> None:
    bare = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    name = obj["metadata"]["name"]

    created = await api.post(f"{CORE}/{plural}", bare)
    replaced = await api.put(f"{CORE}/{plural}/{name}", bare | {"apiVersion": None, "kind": ""})

    assert (created.status, replaced.status) == (201, 200)
    assert (created.json()["apiVersion"], created.json()["kind"]) == ("v1", obj["kind"])
    (await api.post(f"{CORE}/{plural}", obj | {"apiVersion": "v2"})).failure(400, "BadRequest")
    # An apply needs a field manager.
    response = await api.patch(f"{CORE}/{plural}/other?fieldManager=t", bare, APPLY)
    response.failure(400, "BadRequest")


async def test_config_maps_can_be_replaced_without_a_version(api: Api) -> None:
    await api.post(f"{CORE}/configmaps", a_config_map(data={"a": "1"}))

    put = await api.put(f"{CORE}/configmaps/c", a_config_map(data={"a": "2"}))
    stale = await api.put(
        f"{CORE}/configmaps/c", with_metadata(a_config_map(data={"a": "3"}), resourceVersion="1")
    )

    assert (put.status, put.json()["data"]) == (200, {"a": "2"})
    stale.failure(409, "Conflict")


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        pytest.param({"data": {"a": 1}}, "data.a", id="a number"),
        pytest.param({"data": ["a"]}, "data", id="a list"),
        pytest.param({"binaryData": {"a": "%"}}, "binaryData.a", id="no base64"),
        pytest.param({"data": {"a": "x"}, "binaryData": {"a": "eA=="}}, "binaryData.a", id="twice"),
    ],
)
async def test_a_config_map_holds_text(api: Api, parts: dict[str, Any], field: str) -> None:
    reported = (await api.post(f"{CORE}/configmaps", a_config_map(**parts))).failure(422, "Invalid")

    assert list(causes(reported)) == [field]


async def test_an_immutable_config_map_cannot_be_changed(api: Api) -> None:
    await api.post(f"{CORE}/configmaps", a_config_map(data={"a": "1"}, immutable=True))

    reported = (await api.patch(f"{CORE}/configmaps/c", {"data": {"a": "2"}})).failure(422, "Invalid")

    assert list(causes(reported)) == ["data"]
    assert (await api.patch(f"{CORE}/configmaps/c", {"metadata": {"labels": {"x": "1"}}})).status == 200


async def test_the_stringdata_of_a_secret_is_stored_as_base64(api: Api) -> None:
    parts = {"data": {"b": "Yg=="}, "stringData": {"a": "x"}}

    secret = (await api.post(f"{CORE}/secrets", a_secret(**parts))).json()

    assert secret["data"] == {"a": base64.b64encode(b"x").decode(), "b": "Yg=="}
    assert (secret["type"], "stringData" in secret) == ("Opaque", False)
    reported = (await api.post(f"{CORE}/secrets", a_secret(data={"a": "%"}))).failure(422, "Invalid")
    assert list(causes(reported)) == ["data.a"]
    assert "%" not in reported["message"]


async def test_core_objects_can_be_applied_and_patched(api: Api) -> None:
    path = f"{CORE}/configmaps/c"
    applied = await api.patch(f"{path}?fieldManager=t", a_config_map(data={"a": "1"}), APPLY)
    patched = await api.patch(path, [{"op": "add", "path": "/data/b", "value": "2"}], JSON_PATCH)

    assert (applied.status, patched.status) == (201, 200)
    assert patched.json()["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/nodes"),
        ("DELETE", "/api/v1/nodes"),
        ("DELETE", "/api/v1/nodes/n"),
        ("DELETE", "/api/v1/namespaces"),
        ("DELETE", f"{CORE}/events/e"),
        ("PUT", f"{CORE}/events/e"),
    ],
)
async def test_unlisted_verbs_are_rejected(api: Api, method: str, path: str) -> None:
    (await api.call(method, path, {})).failure(405, "MethodNotAllowed")


METHODS = {"get": "GET", "update": "PUT", "patch": "PATCH", "create": "POST", "delete": "DELETE"}


@pytest.mark.parametrize(
    ("served", "sub"),
    [
        pytest.param(each, sub, id=f"{each.kind.plural}/{sub.name}")
        for each in STORED_API_RESOURCES
        for sub in each.subresources
    ],
)
async def test_subresources_support_exactly_the_listed_verbs(
    api: Api, served: ApiResource, sub: ApiSubresource
) -> None:
    kind = served.kind
    base = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"

    path = f"{base}/namespaces/default/{kind.plural}/a/{sub.name}"
    done = {verb for verb in METHODS if (await api.call(METHODS[verb], path, {})).status != 405}

    assert done == set(sub.verbs)


@pytest.mark.parametrize("served", STORED_API_RESOURCES, ids=lambda served: served.kind.plural)
async def test_kinds_support_exactly_the_listed_verbs(api: Api, served: ApiResource) -> None:
    kind = served.kind
    base = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"
    many = f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    calls = {verb: (METHODS[verb], f"{many}/a") for verb in ("get", "update", "patch", "delete")}
    calls |= {"create": ("POST", many), "deletecollection": ("DELETE", many)}
    calls |= {"list": ("GET", many), "watch": ("GET", f"{many}?watch=1&resourceVersion=none")}

    done = {verb for verb in calls if (await api.call(calls[verb][0], calls[verb][1], {})).status != 405}

    assert done == set(served.verbs)


async def test_check_089_events_are_selected_by_the_involved_object(api: Api) -> None:
    for name, uid in (("one", "u1"), ("two", "u2")):
        about = {"kind": "Framework", "name": "a", "uid": uid}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}}
        source = {"source": {"component": "scheduler"}}
        await api.store.create(EVENTS, {**event, "involvedObject": about, **source})

    selector = "involvedObject.uid%3Du2,involvedObject.name%3Da,source%3Dscheduler"
    response = await api.get(
        f"{CORE}/events?fieldSelector={selector}", "application/vnd.kubernetes.protobuf,application/json"
    )

    assert (response.json()["kind"], names(response.json())) == ("EventList", ["two"])


async def test_nodes_are_not_namespaced(api: Api) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {}}
    await api.store.create(NODES, node)

    assert (await api.get("/api/v1/nodes/n")).json()["metadata"]["name"] == "n"
    assert names((await api.get("/api/v1/nodes")).json()) == ["n"]
    (await api.get(f"{CORE}/nodes/n")).failure(404, "NotFound")
