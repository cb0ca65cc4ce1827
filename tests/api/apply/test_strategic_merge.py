"""Strategic merge patches, which kubectl sends for core kinds."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from launcher.api.apply.merge_keys import MERGED
from launcher.api.apply.strategic_merge import strategic_merge
from launcher.core.errors import BadRequest
from launcher.store.interface import PODS, SERVICES, ResourceKind
from schemas.generate.pod_schema import KUBERNETES
from tests.api.client import STRATEGIC
from tests.api.conftest import Api
from tests.api.resources.test_registry_core_kinds import CORE, a_config_map, a_secret
from tests.api.samples import A, causes, made
from tests.builders import a_pod

Json = dict[str, Any]


def spec(**fields: Any) -> Json:
    return {"spec": fields}


def env(**variables: str) -> list[Json]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def named(*names: str) -> list[Json]:
    return [{"name": name} for name in names]


def deleted(name: str) -> Json:
    return {"name": name, "$patch": "delete"}


@pytest.mark.parametrize(
    ("old", "changes", "new"),
    [
        pytest.param(
            {"data": {"a": "1", "b": "2"}, "x": 1},
            {"data": {"a": "3", "b": None, "c": "4"}},
            {"data": {"a": "3", "c": "4"}, "x": 1},
            id="maps are merged, null takes away",
        ),
        pytest.param({"data": {"a": "1"}}, {"data": None}, {}, id="null takes a whole map away"),
        pytest.param({"data": "text"}, {"data": {"a": "1"}}, {"data": {"a": "1"}}, id="a map replaces a text"),
        pytest.param(
            spec(containers=[{"name": "a", "image": "x", "args": ["1", "2"]}, {"name": "b"}]),
            spec(containers=[{"name": "a", "args": ["3"]}, {"name": "c"}]),
            spec(containers=[{"name": "a", "image": "x", "args": ["3"]}, {"name": "b"}, {"name": "c"}]),
            id="containers are merged by name, their arguments replaced",
        ),
        pytest.param(
            spec(containers=[{"name": "a", "env": env(X="1", Y="2")}]),
            spec(containers=[{"name": "a", "env": [*env(Y="3"), {"name": "X", "$patch": "delete"}]}]),
            spec(containers=[{"name": "a", "env": env(Y="3")}]),
            id="a list inside of an entry, and a deleted entry",
        ),
        pytest.param(
            spec(containers=[{"name": "a", "volumeMounts": [{"mountPath": "/a", "name": "v"}]}]),
            spec(containers=[{"name": "a", "volumeMounts": [{"mountPath": "/b", "name": "v"}]}]),
            spec(
                containers=[
                    {
                        "name": "a",
                        "volumeMounts": [{"mountPath": "/a", "name": "v"}, {"mountPath": "/b", "name": "v"}],
                    }
                ]
            ),
            id="mounts are known by their path",
        ),
        pytest.param(
            spec(hostAliases=[{"ip": "1.1.1.1", "hostnames": ["a"]}]),
            spec(hostAliases=[{"ip": "1.1.1.1", "hostnames": ["b"]}]),
            spec(hostAliases=[{"ip": "1.1.1.1", "hostnames": ["b"]}]),
            id="host aliases are known by their address",
        ),
        pytest.param(
            spec(tolerations=[{"key": "a"}]),
            spec(tolerations=[{"key": "b"}]),
            spec(tolerations=[{"key": "b"}]),
            id="tolerations are replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["x/a", "x/b"], "ownerReferences": [{"uid": "1", "name": "a"}]}},
            {
                "metadata": {
                    "finalizers": ["x/c", "x/b"],
                    "$deleteFromPrimitiveList/finalizers": ["x/a"],
                    "ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2", "name": "c"}],
                }
            },
            {
                "metadata": {
                    "finalizers": ["x/b", "x/c"],
                    "ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2", "name": "c"}],
                }
            },
            id="finalizers are a set, owners are known by uid",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["x/a", "x/b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}},
            {"metadata": {"finalizers": ["x/b"]}},
            id="a directive alone",
        ),
        pytest.param(
            spec(initContainers=named("server", "a", "b")),
            spec(
                initContainers=named("c"),
                **{"$setElementOrder/initContainers": named("c", "b", "a")},
            ),
            spec(initContainers=named("server", "c", "b", "a")),
            id="an order without an existing entry",
        ),
        pytest.param(
            spec(initContainers=named("a", "server", "b")),
            spec(**{"$setElementOrder/initContainers": named("a", "b")}),
            spec(initContainers=named("a", "server", "b")),
            id="an order that is there already",
        ),
        pytest.param(
            spec(volumes=[{"name": "v", "emptyDir": {}}]),
            spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]),
            spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
            id="another type of volume",
        ),
        pytest.param(
            {"data": {"a": "1"}},
            {"data": {"$patch": "replace", "b": "2", "c": None}},
            {"data": {"b": "2"}},
            id="a map replaced",
        ),
        pytest.param({"data": {"a": "1"}}, {"data": {"$patch": "delete"}}, {"data": {}}, id="a map emptied"),
        pytest.param(
            {"data": {"a": "1"}}, {"data": {"$patch": "merge", "b": "2"}}, {"data": {"a": "1", "b": "2"}},
            id="a map merged on purpose",
        ),
        pytest.param(
            spec(containers=named("a", "b")),
            spec(containers=[{"$patch": "replace"}, {"name": "c"}]),
            spec(containers=named("c")),
            id="a list replaced",
        ),
        pytest.param({}, spec(containers=named("a")), spec(containers=named("a")), id="a new list"),
        pytest.param(
            spec(containers=[{"name": "a", "ports": [
                {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"},
            ]}]),
            spec(containers=[{"name": "a", "ports": [{"containerPort": 80}]}]),
            spec(containers=[{"name": "a", "ports": [
                {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"},
                {"containerPort": 80},
            ]}]),
            id="two entries of one key stay two",
        ),
        pytest.param(
            spec(containers=named("a", "b", "c")),
            spec(containers=[deleted("a"), *named("d"), deleted("b"), *named("e")]),
            spec(containers=named("c", "d", "e")),
            id="deleted and added values",
        ),
    ],
)  # fmt: skip
def test_strategic_merge_patches_change_an_object(old: Json, changes: Json, new: Json) -> None:
    before = json.dumps(old)

    assert strategic_merge(PODS, old, changes) == new
    assert json.dumps(old) == before


def test_the_ports_of_a_service_are_merged_by_number() -> None:
    old = spec(ports=[{"port": 80, "targetPort": 8080}, {"port": 443}], selector={"a": "b"})
    changes = spec(ports=[{"port": 80, "targetPort": 9090}], selector={"c": "d"})

    assert strategic_merge(SERVICES, old, changes) == spec(
        ports=[{"port": 80, "targetPort": 9090}, {"port": 443}], selector={"a": "b", "c": "d"}
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"data": {"$patch": "remove"}}, id="an unknown directive"),
        pytest.param({"data": {"$retainKeys": "a"}}, id="no list of keys"),
        pytest.param(spec(containers=[{"image": "x"}]), id="an entry without its key"),
        pytest.param(spec(containers=["a"]), id="an entry that is no object"),
        pytest.param(spec(containers="a"), id="no list"),
        pytest.param(spec(**{"$setElementOrder/containers": "a"}), id="no order"),
    ],
)
def test_an_invalid_strategic_patch_is_rejected(changes: Json) -> None:
    with pytest.raises(BadRequest):
        strategic_merge(PODS, spec(containers=named("a")), changes)


def test_lists_are_merged_as_in_kubernetes() -> None:
    data = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"{KUBERNETES}-local"
    known = json.loads((data / "_definitions.json").read_text())["$defs"]

    for name, fields in MERGED.items():
        group = "io.k8s.apimachinery.pkg.apis.meta.v1" if name == "ObjectMeta" else "io.k8s.api.core.v1"
        properties = known[f"{group}.{name}"]["properties"]
        theirs = {
            field: part.get("x-kubernetes-patch-merge-key")
            for field, part in properties.items()
            if "merge" in part.get("x-kubernetes-patch-strategy", "") and part["type"] != "object"
        }
        assert {field: merging.key for field, merging in fields.items()} == theirs


SERVICE: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "w"},
    "spec": {"type": "ClusterIP", "ports": [{"port": 80}]},
}
NAMESPACE: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
EVENT: Json = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        (f"{CORE}/configmaps", a_config_map(data={"a": "1"})),
        (f"{CORE}/secrets", a_secret(data={"a": "MQ=="})),
        (f"{CORE}/services", SERVICE),
        (f"{CORE}/pods", a_pod("p")),
        (f"{CORE}/events", EVENT),
        ("/api/v1/namespaces", NAMESPACE),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
async def test_every_core_kind_supports_strategic_patches(api: Api, path: str, obj: Json) -> None:
    stored = (await api.post(path, obj)).json()

    patch = {"metadata": {"labels": {"x": "1"}, "finalizers": ["x/a"]}}
    response = await api.patch(
        f"{path}/{obj['metadata']['name']}?fieldManager=kubectl-label", patch, STRATEGIC
    )

    assert response.status == 200
    assert response.json()["metadata"]["labels"] == {"x": "1"}
    assert response.json()["metadata"]["finalizers"] == [*stored["metadata"].get("finalizers", ()), "x/a"]


async def test_the_result_of_a_strategic_patch_is_validated(api: Api) -> None:
    await api.post(f"{CORE}/pods", a_pod("p"))

    wrong = await api.patch(
        f"{CORE}/pods/p", spec(containers=[{"name": "main", "image": "other"}]), STRATEGIC
    )
    unknown_directive = await api.patch(f"{CORE}/pods/p", {"metadata": {"$patch": "remove"}}, STRATEGIC)
    deleted_all = await api.patch(f"{CORE}/pods/p", {"$patch": "delete"}, STRATEGIC)

    assert causes(wrong.failure(422, "Invalid")) == {"spec.containers": "FieldValueForbidden"}
    unknown_directive.failure(400, "BadRequest")
    deleted_all.failure(400, "BadRequest")


async def test_frameworks_do_not_support_strategic_patches(api: Api) -> None:
    await made(api)

    for path in (A, f"{A}/status", f"{A}/scale"):
        reported = (await api.patch(path, {}, STRATEGIC)).failure(415, "UnsupportedMediaType")
        assert "--type merge" in reported["message"]


def test_a_kind_of_another_group_is_merged_as_maps() -> None:
    assert strategic_merge(ResourceKind("x", "v1", "ys", "Y"), {"a": [1]}, {"a": [2]}) == {"a": [2]}
