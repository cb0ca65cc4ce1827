"""The contract of every store: writes."""

import asyncio
import re
from typing import Any

import pytest

from launcher.core.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    InvalidObject,
    LauncherError,
    NotFound,
    TooLarge,
)
from launcher.store.interface import (
    CONFIG_MAPS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    MergePatch,
    Object,
    Store,
)
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import (
    a_framework,
    an_object,
    changes_since,
    current_version,
    names,
    version_of,
    with_,
    with_metadata,
)

# Create


async def test_a_created_object_gets_identity_time_and_version(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework("mnist"))

    metadata = created["metadata"]
    assert metadata["uid"]
    assert metadata["generation"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert re.fullmatch(r"[1-9]\d*", metadata["resourceVersion"])
    assert created["spec"] == a_framework()["spec"]
    assert await store.get(FRAMEWORKS, "default", "mnist") == created


async def test_identity_and_times_sent_by_clients_are_ignored(store: Store) -> None:
    sent: dict[str, Any] = {
        "uid": "mine",
        "creationTimestamp": "1999-01-01T00:00:00Z",
        "generation": 7,
        "deletionTimestamp": "1999-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/x",
    }

    metadata = (await store.create(FRAMEWORKS, a_framework(**sent)))["metadata"]

    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert not metadata["creationTimestamp"].startswith("1999")
    assert metadata.keys().isdisjoint({"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"})


async def test_a_second_object_of_the_same_name_is_rejected(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    with pytest.raises(AlreadyExists, match=r'frameworks\.launcher\.microsoft\.com "mnist" already exists'):
        await store.create(FRAMEWORKS, with_(a_framework(), spec={"other": True}))

    assert await store.get(FRAMEWORKS, "default", "mnist") == created


async def test_the_same_name_may_be_used_in_another_namespace_and_by_another_kind(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework("same", "one"))
    await store.create(FRAMEWORKS, a_framework("same", "two"))
    await store.create(PODS, a_pod("same", namespace="one"))

    assert (await store.get(FRAMEWORKS, "two", "same"))["metadata"]["namespace"] == "two"
    assert (await store.get(PODS, "one", "same"))["kind"] == "Pod"


async def test_of_concurrent_creates_of_one_name_one_succeeds(store: Store) -> None:
    results = await asyncio.gather(
        *(store.create(FRAMEWORKS, a_framework()) for _ in range(20)), return_exceptions=True
    )

    assert sum(isinstance(result, dict) for result in results) == 1
    assert sum(isinstance(result, AlreadyExists) for result in results) == 19


async def test_versions_grow_over_all_kinds_and_namespaces(store: Store) -> None:
    created = [
        await store.create(FRAMEWORKS, a_framework(namespace="one")),
        await store.create(PODS, a_pod(namespace="two")),
        await store.create(NODES, an_object(NODES, "node-1")),
        await store.create(FRAMEWORKS, a_framework(namespace="three")),
    ]

    versions = [version_of(obj) for obj in created]
    assert versions == sorted(set(versions))


async def test_a_generated_name_is_unique_and_keeps_generate_name(store: Store) -> None:
    created = [await store.create(FRAMEWORKS, a_framework("", generateName="g-")) for _ in range(20)]

    found = [obj["metadata"]["name"] for obj in created]
    assert all(re.fullmatch(r"g-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in found)
    assert len(set(found)) == 20
    assert {obj["metadata"]["generateName"] for obj in created} == {"g-"}


async def test_a_long_base_of_a_generated_name_is_cut(store: Store) -> None:
    created = await store.create(PODS, with_metadata(a_pod(""), generateName="g" * 100))

    assert re.fullmatch("g{58}[a-z0-9]{5}", created["metadata"]["name"])


async def test_a_new_framework_has_no_status(store: Store) -> None:
    created = await store.create(FRAMEWORKS, with_(a_framework(), status={"state": "Completed"}))

    assert "status" not in created


async def test_a_new_pod_is_pending(store: Store) -> None:
    created = await store.create(PODS, with_(a_pod(), status={"phase": "Succeeded"}))

    assert created["status"]["phase"] == "Pending"


async def test_a_new_namespace_is_active_and_a_new_node_keeps_its_status(store: Store) -> None:
    namespace = await store.create(NAMESPACES, an_object(NAMESPACES, "team"))
    node = await store.create(NODES, an_object(NODES, "node-1", status={"capacity": {"cpu": "4"}}))

    assert namespace["status"]["phase"] == "Active"
    assert node["status"]["capacity"] == {"cpu": "4"}


BAD_CREATES = [
    pytest.param(
        with_(a_framework(), apiVersion="launcher.microsoft.com/v2"), BadRequest, "apiVersion", id="version"
    ),
    pytest.param({"kind": "Framework", "metadata": {"name": "a"}}, BadRequest, "apiVersion", id="no version"),
    pytest.param({k: v for k, v in a_framework().items() if k != "kind"}, BadRequest, "kind", id="no kind"),
    pytest.param(with_(a_framework(), kind="Pod"), InvalidObject, "kind", id="another kind"),
    pytest.param(with_(a_framework(), metadata=[]), BadRequest, "metadata", id="metadata is a list"),
    pytest.param(a_framework(resourceVersion="5"), BadRequest, "resourceVersion", id="has a version"),
    pytest.param(a_framework(""), InvalidObject, "metadata.name", id="no name"),
    pytest.param(a_framework("Bad_Name"), InvalidObject, "metadata.name", id="bad name"),
    pytest.param(a_framework("a\n"), InvalidObject, "metadata.name", id="name with newline"),
    pytest.param(a_framework("a" * 254), InvalidObject, "metadata.name", id="long name"),
    pytest.param(a_framework(namespace=""), BadRequest, "metadata.namespace", id="no namespace"),
    pytest.param(a_framework(namespace="a.b"), InvalidObject, "metadata.namespace", id="bad namespace"),
    pytest.param(a_framework(labels={"a": 1}), BadRequest, "metadata.labels", id="label is a number"),
    pytest.param(a_framework(labels={"a": "-"}), InvalidObject, "metadata.labels", id="bad label value"),
    pytest.param(
        a_framework(labels={"a": "x" * 64}), InvalidObject, "metadata.labels", id="long label value"
    ),
    pytest.param(a_framework(labels={"/a": "x"}), InvalidObject, "metadata.labels", id="empty label prefix"),
    pytest.param(a_framework(labels={"x" * 64: ""}), InvalidObject, "metadata.labels", id="long label key"),
    pytest.param(
        a_framework(annotations={"a b": ""}), InvalidObject, "metadata.annotations", id="bad annotation"
    ),
    pytest.param(a_framework(finalizers="a"), BadRequest, "metadata.finalizers", id="finalizers no list"),
    pytest.param(a_framework(finalizers=["a b"]), InvalidObject, "metadata.finalizers", id="bad finalizer"),
    pytest.param(
        a_framework(ownerReferences=[{"kind": "Pod"}]),
        InvalidObject,
        "metadata.ownerReferences",
        id="owner without uid",
    ),
]


@pytest.mark.parametrize(("obj", "error", "message"), BAD_CREATES)
async def test_an_invalid_create_names_the_error_and_changes_nothing(
    store: Store, obj: Object, error: type[LauncherError], message: str
) -> None:
    before = await current_version(store)

    with pytest.raises(error, match=re.escape(message)):
        await store.create(FRAMEWORKS, obj)

    assert (await store.list(FRAMEWORKS)).items == []
    assert await changes_since(store, FRAMEWORKS, before) == []


async def test_all_validation_errors_are_reported_at_once(store: Store) -> None:
    with pytest.raises(InvalidObject) as caught:
        await store.create(FRAMEWORKS, a_framework("Bad", labels={"a": "-"}, annotations={"": "x"}))

    assert {problem.field for problem in caught.value.errors} == {
        "metadata.name",
        "metadata.labels",
        "metadata.annotations",
    }


async def test_annotations_have_a_total_size_limit(store: Store) -> None:
    fits, too_long = {"a": "x" * (262_144 - 1)}, {"a": "x" * 262_144}

    await store.create(FRAMEWORKS, a_framework("fits", annotations=fits))
    with pytest.raises(InvalidObject) as caught:
        await store.create(FRAMEWORKS, a_framework("too-long", annotations=too_long))

    assert caught.value.errors[0].reason == "FieldValueTooLong"


async def test_owner_references_are_deduplicated_and_have_one_controller(store: Store) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}

    created = await store.create(FRAMEWORKS, a_framework("one", ownerReferences=[owner, dict(owner)]))
    with pytest.raises(InvalidObject, match="controller"):
        await store.create(FRAMEWORKS, a_framework("two", ownerReferences=[owner, owner | {"uid": "v"}]))

    assert created["metadata"]["ownerReferences"] == [owner]


async def test_an_object_over_the_size_limit_is_rejected(store: Store) -> None:
    with pytest.raises(TooLarge):
        await store.create(CONFIG_MAPS, an_object(CONFIG_MAPS, "big", data={"a": "x" * 3 * 1024 * 1024}))

    assert "big" not in names((await store.list(CONFIG_MAPS, "default")).items)


async def test_a_cluster_scoped_kind_rejects_a_namespace(store: Store) -> None:
    with pytest.raises(BadRequest, match=r"metadata\.namespace"):
        await store.create(NODES, with_metadata(an_object(NODES, "node-1"), namespace="default"))


async def test_changes_to_a_passed_object_do_not_affect_the_store(store: Store) -> None:
    passed = a_framework()
    created = await store.create(FRAMEWORKS, passed)
    passed["spec"]["taskRoles"].clear()
    created["spec"].clear()

    assert (await store.get(FRAMEWORKS, "default", "mnist"))["spec"] == a_framework()["spec"]


# Get


async def test_a_missing_object_is_not_found(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework(namespace="one"))

    for namespace, name in (("one", "other"), ("two", "mnist"), ("", "mnist")):
        with pytest.raises(NotFound, match=f'"{name}" not found'):
            await store.get(FRAMEWORKS, namespace, name)


# Update


async def test_an_update_replaces_the_spec_and_increases_the_generation(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    after = await store.update(FRAMEWORKS, with_(created, spec={"taskRoles": []}))

    assert after["spec"] == {"taskRoles": []}
    assert after["metadata"]["generation"] == 2
    assert version_of(after) > version_of(created)
    assert await store.get(FRAMEWORKS, "default", "mnist") == after


async def test_a_label_change_does_not_increase_the_generation(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    after = await store.update(FRAMEWORKS, with_metadata(created, labels={"a": "b"}, annotations={"c": "d"}))

    assert after["metadata"]["labels"] == {"a": "b"}
    assert after["metadata"]["annotations"] == {"c": "d"}
    assert after["metadata"]["generation"] == 1
    assert version_of(after) > version_of(created)


async def test_the_second_of_two_concurrent_updates_conflicts(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())
    await store.update(FRAMEWORKS, with_metadata(created, labels={"first": "yes"}))

    with pytest.raises(Conflict, match="modified"):
        await store.update(FRAMEWORKS, with_metadata(created, labels={"second": "yes"}))

    assert (await store.get(FRAMEWORKS, "default", "mnist"))["metadata"]["labels"] == {"first": "yes"}


async def test_of_many_updates_from_one_version_one_succeeds(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    results = await asyncio.gather(
        *(store.update(FRAMEWORKS, with_metadata(created, labels={"n": str(n)})) for n in range(20)),
        return_exceptions=True,
    )

    assert sum(isinstance(result, dict) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 19


@pytest.mark.parametrize("verb", ["update", "update_status"])
async def test_an_update_without_changes_keeps_the_version_and_sends_no_event(
    store: Store, verb: str
) -> None:
    created = await store.create(FRAMEWORKS, a_framework(labels={"a": "b", "c": "d"}))
    created = await store.update_status(FRAMEWORKS, with_(created, status={"x": 1, "y": 2}))
    other_order = with_metadata(created, labels={"c": "d", "a": "b"}, finalizers=[], annotations={})

    after = await getattr(store, verb)(FRAMEWORKS, with_(other_order, status={"y": 2, "x": 1}))

    assert after == created
    assert await changes_since(store, FRAMEWORKS, version_of(created)) == []


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), ("1", 1), (None, 0)])
async def test_values_equal_only_in_python_are_a_change(store: Store, old: Any, new: Any) -> None:
    created = await store.create(FRAMEWORKS, with_(a_framework(), spec={"a": old, "b": 1}))

    after = await store.update(FRAMEWORKS, with_(created, spec={"a": new, "b": 1}))
    status = await store.update_status(FRAMEWORKS, with_(after, status={"a": old}))
    status = await store.update_status(FRAMEWORKS, with_(status, status={"a": new}))

    assert after["metadata"]["generation"] == 2
    assert repr(after["spec"]["a"]) == repr(status["status"]["a"]) == repr(new)


async def test_an_update_never_changes_the_status(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())
    created = await store.update_status(FRAMEWORKS, with_(created, status={"state": "Running"}))

    same = await store.update(FRAMEWORKS, with_(created, status={"state": "Completed"}))
    after = await store.update(FRAMEWORKS, with_(created, spec={}, status={"state": "Completed"}))

    assert same == created
    assert after["status"] == {"state": "Running"}


async def test_a_status_update_changes_only_the_status(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework(labels={"a": "b"}))
    changed = with_metadata(
        with_(created, spec={}, status={"state": "Running"}), labels={"c": "d"}, finalizers=["x/y"]
    )

    after = await store.update_status(FRAMEWORKS, changed)

    assert after == with_(
        with_metadata(created, resourceVersion=str(version_of(after))), status={"state": "Running"}
    )
    assert version_of(after) > version_of(created)


async def test_a_status_can_be_removed(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())
    full = await store.update_status(FRAMEWORKS, with_(created, status={"state": "Running"}))

    after = await store.update_status(FRAMEWORKS, {key: full[key] for key in full if key != "status"})

    assert "status" not in after


@pytest.mark.parametrize("verb", ["update", "update_status"])
@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        pytest.param({"resourceVersion": None}, InvalidObject, "metadata.resourceVersion", id="no version"),
        pytest.param({"resourceVersion": "0"}, InvalidObject, "metadata.resourceVersion", id="version 0"),
        pytest.param(
            {"resourceVersion": "abc"}, BadRequest, "metadata.resourceVersion", id="version is no number"
        ),
        pytest.param({"resourceVersion": "999999"}, Conflict, "modified", id="future version"),
        pytest.param({"uid": "other"}, Conflict, "uid", id="another uid"),
        pytest.param({"name": "nosuch"}, NotFound, "nosuch", id="missing object"),
        pytest.param({"name": None}, BadRequest, "metadata.name", id="no name"),
        pytest.param({"labels": {"a": 1}}, BadRequest, "metadata.labels", id="label is a number"),
    ],
)
async def test_an_invalid_update_changes_nothing(
    store: Store, verb: str, fields: dict[str, Any], error: type[LauncherError], message: str
) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    with pytest.raises(error, match=f"(?i){re.escape(message)}"):
        await getattr(store, verb)(
            FRAMEWORKS, with_metadata(with_(created, spec={}, status={"x": 1}), **fields)
        )

    assert await store.get(FRAMEWORKS, "default", "mnist") == created


async def test_fields_set_by_the_store_survive_any_update(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))
    deleting = await store.delete(FRAMEWORKS, "default", "mnist")
    sent = {
        "uid": None,
        "creationTimestamp": "1999-01-01T00:00:00Z",
        "generation": 70,
        "deletionTimestamp": None,
    }

    after = await store.update(FRAMEWORKS, with_metadata(deleting, **sent, labels={"a": "b"}))

    for field in (
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):
        assert after["metadata"][field] == deleting["metadata"][field], field
    assert after["metadata"]["uid"] == created["metadata"]["uid"]


async def test_a_client_cannot_set_the_deletion_timestamp(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    with pytest.raises(InvalidObject, match=r"metadata\.deletionTimestamp"):
        await store.update(FRAMEWORKS, with_metadata(created, deletionTimestamp="2030-01-01T00:00:00Z"))


# Dry run


async def test_a_dry_run_returns_the_result_and_changes_nothing(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    new = await store.create(FRAMEWORKS, a_framework("new"), dry_run=True)
    updated = await store.update(FRAMEWORKS, with_(created, spec={}), dry_run=True)
    status = await store.update_status(FRAMEWORKS, with_(created, status={"x": 1}), dry_run=True)
    patched = await store.patch(FRAMEWORKS, "default", "mnist", MergePatch({"spec": {"x": 1}}), dry_run=True)
    deleted = await store.delete(FRAMEWORKS, "default", "mnist", dry_run=True)

    assert new["metadata"]["uid"]
    assert "resourceVersion" not in new["metadata"]
    assert updated["metadata"]["generation"] == 2
    assert status["status"] == {"x": 1}
    assert patched["spec"]["x"] == 1
    assert deleted["metadata"]["name"] == "mnist"
    assert (await store.list(FRAMEWORKS)).items == [created]
    assert await changes_since(store, FRAMEWORKS, version_of(created)) == []


async def test_a_dry_run_is_rejected_like_the_real_request(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    with pytest.raises(AlreadyExists):
        await store.create(FRAMEWORKS, a_framework(), dry_run=True)
    with pytest.raises(InvalidObject):
        await store.create(FRAMEWORKS, a_framework("Bad"), dry_run=True)
    with pytest.raises(Conflict):
        await store.update(FRAMEWORKS, with_metadata(created, resourceVersion="999999"), dry_run=True)


async def test_a_cancelled_call_leaves_the_store_consistent(store: Store) -> None:
    callers = [asyncio.create_task(store.create(FRAMEWORKS, a_framework(f"f-{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    for caller in callers[::2]:
        caller.cancel()

    async with asyncio.timeout(TIMEOUT_SECONDS):
        results = await asyncio.gather(*callers, return_exceptions=True)
        last = await store.create(FRAMEWORKS, a_framework("last"))

    acknowledged = {result["metadata"]["name"] for result in results if isinstance(result, dict)}
    stored = {obj["metadata"]["name"]: obj for obj in (await store.list(FRAMEWORKS)).items}
    assert acknowledged <= stored.keys()
    assert stored["last"] == last
    versions = [version_of(obj) for obj in stored.values()]
    assert len(set(versions)) == len(versions)
