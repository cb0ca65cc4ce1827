"""Pods, config maps, secrets and the like: what a user's pod needs can be made, and is light to make."""

import base64
from typing import Any

import pytest

from launcher.api.api_resources import SERVED, ApiResource, Sub
from launcher.api.resources.resource_handler import UNOFFERED
from launcher.core.validation.admission_policy import Policy
from launcher.store.interface import EVENTS, NODES
from tests.api.client import APPLY, JSON_PATCH
from tests.api.conftest import Api, memory_store, parts_of, serving
from tests.api.samples import causes, names, with_metadata

CORE = "/api/v1/namespaces/default"


def a_pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def a_config_map(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **parts}


def a_secret(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **parts}


async def test_a_pod_is_made_read_and_deleted(api: Api) -> None:
    created = await api.post(f"{CORE}/pods", a_pod())
    listed = (await api.get(f"{CORE}/pods")).json()
    deleted = await api.delete(f"{CORE}/pods/p")

    assert created.status == 201
    assert created.json()["status"] == {"phase": "Pending"}
    assert (listed["kind"], names(listed)) == ("PodList", ["p"])
    # Nobody runs it yet, so nothing holds it; a pod is shown all the same.
    assert (deleted.status, deleted.json()["kind"]) == (200, "Pod")
    told = (await api.get(f"{CORE}/pods/p")).refused(404, "NotFound")
    assert told["message"] == 'pods "p" not found'


async def test_a_pod_that_runs_is_given_its_time(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod(nodeName="n", terminationGracePeriodSeconds=7))

    answer = await api.delete(f"{CORE}/pods/p")
    again = await api.delete(f"{CORE}/pods/p", {"gracePeriodSeconds": 0})

    assert answer.json()["metadata"]["deletionGracePeriodSeconds"] == 7
    assert again.status == 200
    (await api.get(f"{CORE}/pods/p")).refused(404, "NotFound")


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
async def test_a_pod_that_cannot_run_is_refused(api: Api, spec: dict[str, Any], fields: list[str]) -> None:
    told = (await api.post(f"{CORE}/pods", a_pod(**spec))).refused(422, "Invalid")

    assert (told["details"]["kind"], told["details"]["name"]) == ("Pod", "p")
    assert list(causes(told)) == fields


async def test_a_pod_without_a_spec_is_refused(api: Api) -> None:
    told = (await api.post(f"{CORE}/pods", a_pod() | {"spec": None})).refused(422, "Invalid")

    assert causes(told) == {"spec": "FieldValueRequired"}


async def test_unknown_fields_of_a_pod_are_told(api: Api) -> None:
    warned = await api.post(f"{CORE}/pods", a_pod(hostNetwrk=True))
    strict = await api.post(f"{CORE}/pods?fieldValidation=Strict", a_pod("q", hostNetwrk=True))

    assert warned.warnings == ['299 - "unknown field \\"spec.hostNetwrk\\"; did you mean \\"hostNetwork\\"?"']
    assert 'unknown field "spec.hostNetwrk"' in strict.refused(400, "BadRequest")["message"]


async def test_the_admins_policy_holds_for_pods_too() -> None:
    async with serving(parts_of(memory_store(), policy=Policy(host_network=False))) as api:
        told = (await api.post(f"{CORE}/pods", a_pod(hostNetwork=True))).refused(422, "Invalid")

    assert causes(told) == {"spec.hostNetwork": "FieldValueForbidden"}


async def test_a_pods_spec_stays_as_it_was_read(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod())

    label = await api.patch(f"{CORE}/pods/p", {"metadata": {"labels": {"x": "1"}}})
    told = (await api.patch(f"{CORE}/pods/p", {"spec": {"nodeName": "n"}})).refused(422, "Invalid")

    assert label.status == 200
    assert causes(told) == {"spec.nodeName": "FieldValueForbidden"}


async def test_a_pods_status_can_be_read_and_not_written(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod())

    assert (await api.get(f"{CORE}/pods/p/status")).json()["status"] == {"phase": "Pending"}
    (await api.patch(f"{CORE}/pods/p/status", {})).refused(405, "MethodNotAllowed")
    (await api.post(f"{CORE}/pods/p/nosuch", {})).refused(404, "NotFound")


@pytest.mark.parametrize("part", UNOFFERED)
async def test_what_cannot_be_done_with_a_pod_is_told_with_a_way_out(api: Api, part: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH"):
        answer = await api.call(method, f"{CORE}/pods/p/{part}?command=ls", {})

        told = answer.refused(405, "MethodNotAllowed")
        assert told["message"] == f"{part} is not offered here: {UNOFFERED[part]}"


@pytest.mark.parametrize(
    ("plural", "obj"), [("configmaps", a_config_map()), ("secrets", a_secret()), ("pods", a_pod())]
)
async def test_a_core_object_need_not_say_what_its_address_says(
    api: Api, plural: str, obj: dict[str, Any]
) -> None:
    bare = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    name = obj["metadata"]["name"]

    created = await api.post(f"{CORE}/{plural}", bare)
    replaced = await api.put(f"{CORE}/{plural}/{name}", bare | {"apiVersion": None, "kind": ""})

    assert (created.status, replaced.status) == (201, 200)
    assert (created.json()["apiVersion"], created.json()["kind"]) == ("v1", obj["kind"])
    (await api.post(f"{CORE}/{plural}", obj | {"apiVersion": "v2"})).refused(400, "BadRequest")
    # Who applies has to say so.
    answer = await api.patch(f"{CORE}/{plural}/other?fieldManager=t", bare, APPLY)
    answer.refused(400, "BadRequest")


async def test_config_maps_are_replaced_without_a_version_too(api: Api) -> None:
    await api.post(f"{CORE}/configmaps", a_config_map(data={"a": "1"}))

    put = await api.put(f"{CORE}/configmaps/c", a_config_map(data={"a": "2"}))
    stale = await api.put(
        f"{CORE}/configmaps/c", with_metadata(a_config_map(data={"a": "3"}), resourceVersion="1")
    )

    assert (put.status, put.json()["data"]) == (200, {"a": "2"})
    stale.refused(409, "Conflict")


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
    told = (await api.post(f"{CORE}/configmaps", a_config_map(**parts))).refused(422, "Invalid")

    assert list(causes(told)) == [field]


async def test_what_is_immutable_stays_so(api: Api) -> None:
    await api.post(f"{CORE}/configmaps", a_config_map(data={"a": "1"}, immutable=True))

    told = (await api.patch(f"{CORE}/configmaps/c", {"data": {"a": "2"}})).refused(422, "Invalid")

    assert list(causes(told)) == ["data"]
    assert (await api.patch(f"{CORE}/configmaps/c", {"metadata": {"labels": {"x": "1"}}})).status == 200


async def test_a_secret_written_as_text_is_kept_as_base64(api: Api) -> None:
    parts = {"data": {"b": "Yg=="}, "stringData": {"a": "x"}}

    secret = (await api.post(f"{CORE}/secrets", a_secret(**parts))).json()

    assert secret["data"] == {"a": base64.b64encode(b"x").decode(), "b": "Yg=="}
    assert (secret["type"], "stringData" in secret) == ("Opaque", False)
    told = (await api.post(f"{CORE}/secrets", a_secret(data={"a": "%"}))).refused(422, "Invalid")
    assert list(causes(told)) == ["data.a"]
    assert "%" not in told["message"]


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
async def test_what_is_not_promised_is_refused(api: Api, method: str, path: str) -> None:
    (await api.call(method, path, {})).refused(405, "MethodNotAllowed")


METHODS = {"get": "GET", "update": "PUT", "patch": "PATCH", "create": "POST", "delete": "DELETE"}


@pytest.mark.parametrize(
    ("served", "sub"),
    [
        pytest.param(each, sub, id=f"{each.kind.plural}/{sub.name}")
        for each in SERVED
        for sub in each.subresources
    ],
)
async def test_every_part_of_an_object_does_what_is_promised_and_no_more(
    api: Api, served: ApiResource, sub: Sub
) -> None:
    kind = served.kind
    base = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"

    path = f"{base}/namespaces/default/{kind.plural}/a/{sub.name}"
    done = {verb for verb in METHODS if (await api.call(METHODS[verb], path, {})).status != 405}

    assert done == set(sub.verbs)


@pytest.mark.parametrize("served", SERVED, ids=lambda served: served.kind.plural)
async def test_every_kind_does_what_is_promised_and_no_more(api: Api, served: ApiResource) -> None:
    kind = served.kind
    base = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"
    many = f"{base}/namespaces/default/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
    calls = {verb: (METHODS[verb], f"{many}/a") for verb in ("get", "update", "patch", "delete")}
    calls |= {"create": ("POST", many), "deletecollection": ("DELETE", many)}
    calls |= {"list": ("GET", many), "watch": ("GET", f"{many}?watch=1&resourceVersion=none")}

    done = {verb for verb in calls if (await api.call(calls[verb][0], calls[verb][1], {})).status != 405}

    assert done == set(served.verbs)


async def test_check_089_events_are_selected_by_what_they_are_about(api: Api) -> None:
    for name, uid in (("one", "u1"), ("two", "u2")):
        about = {"kind": "Framework", "name": "a", "uid": uid}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}}
        source = {"source": {"component": "scheduler"}}
        await api.store.create(EVENTS, {**event, "involvedObject": about, **source})

    selector = "involvedObject.uid%3Du2,involvedObject.name%3Da,source%3Dscheduler"
    answer = await api.get(
        f"{CORE}/events?fieldSelector={selector}", "application/vnd.kubernetes.protobuf,application/json"
    )

    assert (answer.json()["kind"], names(answer.json())) == ("EventList", ["two"])


async def test_nodes_stand_outside_of_namespaces(api: Api) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {}}
    await api.store.create(NODES, node)

    assert (await api.get("/api/v1/nodes/n")).json()["metadata"]["name"] == "n"
    assert names((await api.get("/api/v1/nodes")).json()) == ["n"]
    (await api.get(f"{CORE}/nodes/n")).refused(404, "NotFound")
