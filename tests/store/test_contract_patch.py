"""The contract of every store: patches."""

import asyncio
from typing import Any

import pytest

from launcher.core.errors import BadRequest, Conflict, InvalidObject, LauncherError, NotFound, TooLarge
from launcher.store.interface import FRAMEWORKS, JsonPatch, MergePatch, Object, Patch, Store
from tests.store.builders import a_framework, with_


@pytest.mark.parametrize(
    ("patch", "spec"),
    [
        pytest.param(MergePatch({"spec": {"a": None, "b": {"d": 2}}}), {"b": {"c": 1, "d": 2}}, id="merge"),
        pytest.param(MergePatch({"spec": {"a": [3]}}), {"a": [3], "b": {"c": 1}}, id="lists are replaced"),
        pytest.param(
            JsonPatch(
                [
                    {"op": "test", "path": "/spec/b/c", "value": 1},
                    {"op": "add", "path": "/spec/a/-", "value": 3},
                    {"op": "remove", "path": "/spec/b"},
                    {"op": "add", "path": "/spec/x~1y~0z", "value": True},
                ]
            ),
            {"a": [1, 2, 3], "x/y~z": True},
            id="json",
        ),
    ],
)
async def test_a_patch_changes_only_the_given_fields(store: Store, patch: Patch, spec: Object) -> None:
    await store.create(FRAMEWORKS, with_(a_framework(), spec={"a": [1, 2], "b": {"c": 1}}))

    after = await store.patch(FRAMEWORKS, "default", "mnist", patch)

    assert after["spec"] == spec
    assert after["metadata"]["generation"] == 2
    assert await store.get(FRAMEWORKS, "default", "mnist") == after


async def test_concurrent_patches_without_a_version_are_all_applied(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework())

    await asyncio.gather(
        *(
            store.patch(FRAMEWORKS, "default", "mnist", MergePatch({"metadata": {"labels": {f"l{n}": "x"}}}))
            for n in range(20)
        )
    )

    labels = (await store.get(FRAMEWORKS, "default", "mnist"))["metadata"]["labels"]
    assert labels == {f"l{n}": "x" for n in range(20)}


@pytest.mark.parametrize("patch", [MergePatch({}), JsonPatch([]), MergePatch({"metadata": {"labels": None}})])
async def test_a_patch_that_changes_nothing_keeps_the_version(store: Store, patch: Patch) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    assert await store.patch(FRAMEWORKS, "default", "mnist", patch) == created


async def test_a_status_patch_changes_only_the_status(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())
    patch = MergePatch({"spec": {"x": 1}, "metadata": {"labels": {"a": "b"}}, "status": {"state": "Running"}})

    after = await store.patch(FRAMEWORKS, "default", "mnist", patch, subresource="status")

    assert after["spec"] == created["spec"]
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == 1
    assert after["status"] == {"state": "Running"}


async def test_an_object_patch_does_not_change_the_status(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    after = await store.patch(FRAMEWORKS, "default", "mnist", MergePatch({"status": {"state": "Running"}}))

    assert after == created


@pytest.mark.parametrize("subresource", [None, "status"])
async def test_a_patch_with_a_version_requires_that_version(store: Store, subresource: Any) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    def patch(version: str) -> MergePatch:
        metadata = {"resourceVersion": version, "labels": {"a": "b"}}
        return MergePatch({"metadata": metadata, "status": {"x": version}})

    first = created["metadata"]["resourceVersion"]
    after = await store.patch(FRAMEWORKS, "default", "mnist", patch(first), subresource=subresource)
    with pytest.raises(Conflict):
        await store.patch(FRAMEWORKS, "default", "mnist", patch(first), subresource=subresource)

    assert await store.get(FRAMEWORKS, "default", "mnist") == after


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        pytest.param(MergePatch({"metadata": {"name": "other"}}), BadRequest, id="renames"),
        pytest.param(MergePatch({"metadata": {"namespace": "other"}}), BadRequest, id="moves"),
        pytest.param(MergePatch({"metadata": {"uid": "other"}}), InvalidObject, id="another uid"),
        pytest.param(MergePatch({"metadata": None}), BadRequest, id="no metadata"),
        pytest.param(MergePatch({"kind": "Pod"}), InvalidObject, id="another kind"),
        pytest.param(MergePatch({"metadata": {"labels": {"a": "-"}}}), InvalidObject, id="bad label"),
        pytest.param(
            JsonPatch([{"op": "test", "path": "/spec", "value": 1}]), InvalidObject, id="test fails"
        ),
        pytest.param(JsonPatch([{"op": "remove", "path": "/no/such"}]), InvalidObject, id="no such path"),
        pytest.param(JsonPatch([{"op": "explode", "path": "/spec"}]), InvalidObject, id="no such operation"),
        pytest.param(JsonPatch([{"op": "replace", "path": "", "value": 1}]), BadRequest, id="not an object"),
        pytest.param(
            JsonPatch([{"op": "test", "path": "/kind", "value": "Framework"}] * 10_001),
            TooLarge,
            id="too many",
        ),
    ],
)
async def test_an_invalid_patch_changes_nothing(
    store: Store, patch: Patch, error: type[LauncherError]
) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    with pytest.raises(error):
        await store.patch(FRAMEWORKS, "default", "mnist", patch)

    assert await store.get(FRAMEWORKS, "default", "mnist") == created


async def test_a_patch_of_a_missing_object_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.patch(FRAMEWORKS, "default", "nosuch", MergePatch({}))
