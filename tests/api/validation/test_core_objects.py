"""Core objects are validated as in Kubernetes, by every verb that writes them."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.api.validation.core_objects import core_strategy
from launcher.core.errors import RequestError
from launcher.store.interface import CONFIG_MAPS, EVENTS, NAMESPACES, SECRETS, SERVICES, ResourceKind
from tests.api.client import APPLY, JSON_PATCH, MERGE, STRATEGIC, HttpResponse
from tests.api.conftest import Api
from tests.api.samples import causes, framework
from tests.core.manifests import json_values, paths_in, set_value
from tests.hypothesis_examples import examples

CORE = "/api/v1/namespaces/default"
Json = dict[str, Any]


def an_object(kind: str, **parts: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **parts}


def a_service(**spec: Any) -> Json:
    return an_object("Service", spec=spec)


BAD_SERVICES = [
    pytest.param({"selector": "x"}, "spec.selector", id="a selector that is text"),
    pytest.param({"selector": ["a"]}, "spec.selector", id="a selector that is a list"),
    pytest.param({"selector": {"a": ["b"]}}, "spec.selector.a", id="a selector of lists"),
    pytest.param({"selector": {"a": 1}}, "spec.selector.a", id="a selector of numbers"),
    pytest.param({"selector": {"a": None}}, "spec.selector.a", id="a selector of nulls"),
    pytest.param({"selector": {"a b": "c"}}, 'spec.selector["a b"]', id="a key that no label has"),
    pytest.param({"selector": {"a": "b c"}}, "spec.selector.a", id="a value that no label has"),
    pytest.param({"type": "Nodeport"}, "spec.type", id="an unknown type"),
    pytest.param({"type": "ExternalName"}, "spec.externalName", id="an ExternalName without a name"),
    pytest.param({"externalName": "a_b"}, "spec.externalName", id="an alias that is no host name"),
    pytest.param({"ports": {"port": 80}}, "spec.ports", id="ports that are no list"),
    pytest.param({"ports": []}, "spec.ports", id="no ports"),
    pytest.param({"ports": [{}]}, "spec.ports[0].port", id="a port without a number"),
    pytest.param({"ports": [{"port": 0}]}, "spec.ports[0].port", id="port 0"),
    pytest.param({"ports": [{"port": 65536}]}, "spec.ports[0].port", id="a port too high"),
    pytest.param({"ports": [{"port": "80"}]}, "spec.ports[0].port", id="a port in quotes"),
    pytest.param({"ports": [{"port": 1, "protocol": "tcp"}]}, "spec.ports[0].protocol", id="a protocol"),
    pytest.param({"ports": [{"port": 1, "targetPort": 0}]}, "spec.ports[0].targetPort", id="target port 0"),
    pytest.param(
        {"ports": [{"port": 1, "targetPort": "80"}]}, "spec.ports[0].targetPort", id="a target port in quotes"
    ),
    pytest.param({"ports": [{"port": 1, "name": "A"}]}, "spec.ports[0].name", id="the name of a port"),
    pytest.param({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}, "spec.ports[0].name", id="no name"),
    pytest.param(
        {"ports": [{"port": 1, "name": "b"}, {"port": 2, "name": "b"}]},
        "spec.ports[1].name",
        id="a name twice",
    ),
    pytest.param(
        {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]},
        "spec.ports[1].port",
        id="a port twice",
    ),
    pytest.param({"clusterIP": "none"}, "spec.clusterIP", id="an address"),
    pytest.param({"clusterIP": "10.0.0.1"}, "spec.clusterIP", id="an address of another range"),
    pytest.param(
        {"clusterIP": "None", "type": "NodePort"}, "spec.clusterIP", id="a NodePort without an address"
    ),
    pytest.param(
        {"ports": [{"port": 1, "nodePort": 80}], "type": "NodePort"},
        "spec.ports[0].nodePort",
        id="a node port",
    ),
    pytest.param({"externalIPs": ["a"]}, "spec.externalIPs[0]", id="an external address"),
    pytest.param({"ipFamilies": ["ipv4"]}, "spec.ipFamilies[0]", id="an address family"),
    pytest.param({"publishNotReadyAddresses": "yes"}, "spec.publishNotReadyAddresses", id="a truth value"),
]


@pytest.mark.parametrize(("spec", "field"), BAD_SERVICES)
async def test_an_invalid_service_is_rejected(api: Api, spec: Json, field: str) -> None:
    service = a_service(**({"ports": [{"port": 80}]} | spec))

    reported = (await api.post(f"{CORE}/services", service)).failure(422, "Invalid")

    assert list(causes(reported)) == [field]
    (await api.get(f"{CORE}/services/a")).failure(404, "NotFound")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterIP": "None", "selector": {"app": "x"}}, id="headless without ports"),
        pytest.param({"selector": None, "ports": None, "clusterIP": "None"}, id="null is absent"),
        pytest.param({"type": "ExternalName", "externalName": "db.example.com."}, id="an alias"),
        pytest.param(
            {
                "type": "NodePort",
                "selector": {"FC_FRAMEWORK_NAME": "a", "example.com/x": ""},
                "ports": [
                    {"port": 80, "name": "http", "targetPort": "web", "nodePort": 30080, "protocol": "TCP"},
                    {"port": 80, "name": "dns", "targetPort": 53, "protocol": "UDP"},
                ],
                "sessionAffinity": "ClientIP",
                "ipFamilyPolicy": "PreferDualStack",
                "ipFamilies": ["IPv4", "IPv6"],
                "clusterIP": "127.96.0.1",
                "clusterIPs": ["127.96.0.1"],
            },
            id="every common field",
        ),
    ],
)
async def test_a_valid_service_is_stored_without_nulls(api: Api, spec: Json) -> None:
    response = await api.post(f"{CORE}/services", a_service(**spec))

    assert response.status == 201, response.body
    present = {name: value for name, value in spec.items() if value is not None}
    if spec.get("clusterIP") == "None":
        present["clusterIPs"] = ["None"]
    if "ports" in present:
        present["ports"][1]["nodePort"] = response.json()["spec"]["ports"][1]["nodePort"]
    assert response.json()["spec"] == {"type": "ClusterIP", "sessionAffinity": "None", **present}


@pytest.mark.parametrize("address", ["127.96.0.2", "None"])
async def test_the_address_of_a_service_cannot_be_changed(api: Api, address: str) -> None:
    ports = [{"port": 80}]
    before = (await api.post(f"{CORE}/services", a_service(ports=ports, clusterIP="127.96.0.1"))).json()

    changed = await api.put(f"{CORE}/services/a", a_service(ports=ports, clusterIP=address))
    omitted = await api.put(f"{CORE}/services/a", a_service(ports=ports))

    assert causes(changed.failure(422, "Invalid")) == {"spec.clusterIP": "FieldValueInvalid"}
    assert omitted.json() == before


BAD_OBJECTS = [
    pytest.param("services", an_object("Service", spec="x"), "spec", id="a spec that is text"),
    pytest.param("services", an_object("Service", spec=[]), "spec", id="a spec that is a list"),
    pytest.param(
        "configmaps", an_object("ConfigMap", data={"a/b": ""}), 'data["a/b"]', id="a key with a slash"
    ),
    pytest.param("configmaps", an_object("ConfigMap", data={"..": ""}), 'data[".."]', id="a key that climbs"),
    pytest.param("configmaps", an_object("ConfigMap", data={"a" * 254: ""}), None, id="a long key"),
    pytest.param("configmaps", an_object("ConfigMap", immutable="yes"), "immutable", id="a truth value"),
    pytest.param(
        "configmaps", an_object("ConfigMap", data={"a": None}), "data.a", id="an entry that is null"
    ),
    pytest.param("secrets", an_object("Secret", data={"../x": ""}), 'data["../x"]', id="a Secret's key"),
    pytest.param("secrets", an_object("Secret", data={"a": 5}), "data.a", id="a Secret's entry"),
    pytest.param("secrets", an_object("Secret", stringData=["a"]), "stringData", id="a Secret's list"),
    pytest.param(
        "secrets", an_object("Secret", stringData={"/": "x"}), 'data["/"]', id="a Secret's text key"
    ),
    pytest.param("secrets", an_object("Secret", type=5), "type", id="a Secret's type"),
    pytest.param("events", an_object("Event", involvedObject="x"), "involvedObject", id="about what"),
    pytest.param("events", an_object("Event", count="1"), "count", id="a count in quotes"),
    pytest.param("events", an_object("Event", lastTimestamp="now"), "lastTimestamp", id="no time"),
    pytest.param(
        "events",
        an_object("Event", firstTimestamp="2026-02-30T00:00:00Z"),
        "firstTimestamp",
        id="no such day",
    ),
    pytest.param("events", an_object("Event", source=["x"]), "source", id="a source"),
]


@pytest.mark.parametrize(("plural", "obj", "field"), BAD_OBJECTS)
async def test_an_invalid_core_object_is_rejected(
    api: Api, plural: str, obj: Json, field: str | None
) -> None:
    reported = (await api.post(f"{CORE}/{plural}", obj)).failure(422, "Invalid")

    assert field is None or list(causes(reported)) == [field]


@pytest.mark.parametrize("name", ["a.b", "x" * 64])
@pytest.mark.parametrize(
    ("path", "kind"), [("/api/v1/namespaces", "Namespace"), (f"{CORE}/services", "Service")]
)
async def test_the_name_of_a_namespace_or_service_is_part_of_host_names(
    api: Api, path: str, kind: str, name: str
) -> None:
    obj = {
        **an_object(kind, spec={"clusterIP": "None"} if kind == "Service" else {}),
        "metadata": {"name": name},
    }

    reported = (await api.post(path, obj)).failure(422, "Invalid")

    assert list(causes(reported)) == ["metadata.name"]


async def test_an_invalid_namespace_is_rejected(api: Api) -> None:
    reported = (
        await api.post("/api/v1/namespaces", an_object("Namespace", spec={"finalizers": "x"}))
    ).failure(422, "Invalid")

    assert list(causes(reported)) == ["spec.finalizers"]


async def _post_dry(api: Api, obj: Json) -> HttpResponse:
    return await api.post(f"{CORE}/services?dryRun=All", {**obj, "metadata": {"name": "b"}})


async def _put(api: Api, obj: Json) -> HttpResponse:
    return await api.put(f"{CORE}/services/a", obj)


async def _merge(api: Api, obj: Json) -> HttpResponse:
    return await api.patch(f"{CORE}/services/a", {"spec": obj["spec"]}, MERGE)


async def _strategic(api: Api, obj: Json) -> HttpResponse:
    return await api.patch(f"{CORE}/services/a", {"spec": obj["spec"]}, STRATEGIC)


async def _json_patch(api: Api, obj: Json) -> HttpResponse:
    change = [{"op": "add", "path": "/spec/selector", "value": obj["spec"]["selector"]}]
    return await api.patch(f"{CORE}/services/a", change, JSON_PATCH)


async def _apply(api: Api, obj: Json) -> HttpResponse:
    return await api.patch(f"{CORE}/services/a?fieldManager=me&force=true", obj, APPLY)


async def _apply_new(api: Api, obj: Json) -> HttpResponse:
    new = {**obj, "metadata": {"name": "b"}}
    return await api.patch(f"{CORE}/services/b?fieldManager=me&force=true", new, APPLY)


@pytest.mark.parametrize("selector", ["x", ["a"], {"a": ["b"]}], ids=["text", "list", "object of lists"])
@pytest.mark.parametrize(
    "write",
    [_post_dry, _put, _merge, _strategic, _json_patch, _apply, _apply_new],
    ids=lambda way: way.__name__,
)
async def test_all_verbs_that_write_are_validated(api: Api, write: Any, selector: Any) -> None:
    before = (await api.post(f"{CORE}/services", a_service(clusterIP="None"))).json()

    response = await write(api, a_service(clusterIP="None", selector=selector))

    reported = response.failure(422, "Invalid")
    assert all(field.startswith("spec.selector") for field in causes(reported))
    assert (await api.get(f"{CORE}/services/a")).json() == before


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": "x"}, id="labels"),
        pytest.param({"labels": 0}, id="labels that are zero"),
        pytest.param({"labels": []}, id="labels that are an empty list"),
        pytest.param({"labels": {"a": 5}}, id="a label"),
        pytest.param({"annotations": {"a": {"b": "c"}}}, id="an annotation"),
        pytest.param({"annotations": False}, id="annotations that are false"),
        pytest.param({"finalizers": "x"}, id="finalizers"),
        pytest.param({"finalizers": [5]}, id="a finalizer"),
        pytest.param({"ownerReferences": {"a": "b"}}, id="owners"),
        pytest.param({"ownerReferences": ["x"]}, id="an owner"),
        pytest.param({"generateName": 5}, id="a prefix"),
    ],
)
@pytest.mark.parametrize("plural", ["services", "configmaps", "secrets", "pods", "events", "frameworks"])
async def test_the_metadata_of_every_kind_is_validated(api: Api, plural: str, metadata: Json) -> None:
    obj = VALID[plural]
    path = f"{CORE}/{plural}" if plural != "frameworks" else f"{FRAMEWORKS}"

    response = await api.post(path, {**obj, "metadata": {"name": "a", **metadata}})

    assert response.status in (400, 422), response.body
    assert "metadata" in response.json()["message"]


@pytest.mark.parametrize("field", ["controller", "blockOwnerDeletion"])
async def test_the_flags_of_an_owner_reference_are_booleans(api: Api, field: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", field: "yes"}
    obj = an_object("ConfigMap")

    response = await api.post(
        f"{CORE}/configmaps", {**obj, "metadata": {"name": "a", "ownerReferences": [owner]}}
    )

    reported = response.failure(422, "Invalid")
    assert list(causes(reported)) == [f"metadata.ownerReferences[0].{field}"]


FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"
VALID: dict[str, Json] = {
    "services": a_service(clusterIP="None"),
    "configmaps": an_object("ConfigMap"),
    "secrets": an_object("Secret"),
    "pods": an_object("Pod", spec={"containers": [{"name": "c", "image": "i"}]}),
    "events": an_object("Event"),
    "frameworks": framework(),
}


@pytest.mark.parametrize(
    ("status", "field"),
    [
        pytest.param("x", "status", id="text"),
        pytest.param({"state": 5}, "status.state", id="a state"),
        pytest.param({"conditions": {"a": 1}}, "status.conditions", id="conditions"),
        pytest.param({"taskCounts": {"Running": "1"}}, "status.taskCounts.Running", id="counts"),
    ],
)
async def test_the_status_of_a_framework_is_validated(api: Api, status: Any, field: str) -> None:
    stored = (await api.post(FRAMEWORKS, framework())).json()

    set_value = await api.put(f"{FRAMEWORKS}/a/status", {**stored, "status": status})
    patched = await api.patch(f"{FRAMEWORKS}/a/status", {"status": status}, MERGE)

    assert list(causes(set_value.failure(422, "Invalid"))) == [field]
    assert list(causes(patched.failure(422, "Invalid"))) == [field]
    assert (await api.get(f"{FRAMEWORKS}/a")).json() == stored


@pytest.mark.parametrize(
    ("status", "field"),
    [
        pytest.param("x", "status", id="text"),
        pytest.param([], "status", id="a list"),
        pytest.param({"conditions": "x"}, "status.conditions", id="conditions"),
        pytest.param(
            {"replicaStatuses": {"Worker": {"active": "1"}}},
            "status.replicaStatuses.Worker.active",
            id="counts",
        ),
    ],
)
async def test_the_status_of_a_job_is_validated(api: Api, status: Any, field: str) -> None:
    stored = (await api.post(TFJOBS, TFJOB)).json()

    response = await api.put(f"{TFJOBS}/a/status", {**stored, "status": status})

    assert list(causes(response.failure(422, "Invalid"))) == [field]
    assert (await api.get(f"{TFJOBS}/a")).json() == stored


async def test_a_null_in_the_status_of_a_job_is_absent(api: Api) -> None:
    stored = (await api.post(TFJOBS, TFJOB)).json()
    status = {"conditions": None, "replicaStatuses": None, "completionTime": None}

    response = await api.put(f"{TFJOBS}/a/status", {**stored, "status": status})

    assert response.status == 200, response.body


TFJOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
TFJOB: Json = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "a"},
    "spec": {
        "tfReplicaSpecs": {
            "Worker": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}},
            }
        }
    },
}


RICH: dict[ResourceKind, Json] = {
    SERVICES: a_service(
        selector={"a": "b"},
        ports=[{"port": 80, "name": "x", "targetPort": "web", "protocol": "TCP"}, {"port": 81, "name": "y"}],
        clusterIPs=["None"],
        externalIPs=["10.0.0.1"],
        ipFamilies=["IPv4"],
        externalName="a.b",
    ),
    CONFIG_MAPS: an_object("ConfigMap", data={"k": "v"}, binaryData={"b": "dg=="}),
    SECRETS: an_object("Secret", data={"k": "dg=="}, stringData={"x": "y"}),
    EVENTS: an_object("Event", eventTime="2026-01-01T00:00:00.5Z", series={"count": 1}, source={"host": "h"}),
    NAMESPACES: an_object("Namespace", spec={"finalizers": ["x"]}, status={"phase": "Active"}),
}


@examples(300)
@given(data=st.data())
def test_any_core_object_is_accepted_or_rejected_with_reasons(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(RICH)))
    obj = deepcopy(RICH[kind])
    for _ in range(data.draw(st.integers(0, 3))):
        set_value(obj, data.draw(st.sampled_from(list(paths_in(obj)))), data.draw(json_values))

    with suppress(RequestError):
        manifest = core_strategy(kind).validate(obj, strict=True)
        assert None not in manifest.object.values()
