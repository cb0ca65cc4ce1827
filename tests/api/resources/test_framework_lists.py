"""Lists of Frameworks by a part of their name, by node, and by result, before the limit applies."""

from typing import Any
from urllib.parse import quote

import pytest

from launcher.store.interface import FRAMEWORKS, PODS
from tests.api.conftest import Api
from tests.api.samples import ALL, TABLE, B, made, names

Json = dict[str, Any]


@pytest.fixture(autouse=True)
async def frameworks(api: Api) -> None:
    """Frameworks in two namespaces; one has a pod on the node ``gpu-1``."""
    for name in ("bert-large", "mnist-1", "mnist-2", "resnet"):
        await made(api, name)
    await made(api, "mnist-3", namespace="team")
    await api.store.create(PODS, pod("mnist-2", "gpu-1"))
    await api.store.create(PODS, pod("resnet", "gpu-2"))


def pod(framework: str, node: str) -> Json:
    labels = {"FC_FRAMEWORK_NAME": framework}
    metadata = {"name": f"{framework}-worker-0", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("nameContains=mnist", ["mnist-1", "mnist-2"], id="part of the name"),
        pytest.param("nameContains=nothing", [], id="no name"),
        pytest.param("nodeName=gpu-1", ["mnist-2"], id="node"),
        pytest.param("nodeName=gpu-1&nameContains=res", [], id="both"),
        pytest.param("nodeName=", ["bert-large", "mnist-1", "mnist-2", "resnet"], id="empty"),
    ],
)
async def test_a_list_is_limited_by_names_and_node(api: Api, query: str, expected: list[str]) -> None:
    assert names((await api.get(f"{B}?{query}")).json()) == expected


async def test_the_filter_applies_before_the_limit_and_to_following_pages(api: Api) -> None:
    first = (await api.get(f"{ALL}?nameContains=mnist&limit=2")).json()
    token = quote(first["metadata"]["continue"])
    second = (await api.get(f"{ALL}?nameContains=mnist&limit=2&continue={token}")).json()

    assert (names(first), names(second)) == (["mnist-1", "mnist-2"], ["mnist-3"])
    assert "remainingItemCount" not in first["metadata"]
    assert "continue" not in second["metadata"]


async def test_tables_are_limited_too(api: Api) -> None:
    table = (await api.get(f"{B}?nameContains=res", TABLE)).json()

    assert [row["object"]["metadata"]["name"] for row in table["rows"]] == ["resnet"]


async def test_a_watch_is_not_limited_by_names(api: Api) -> None:
    reported = (await api.get(f"{B}?watch=1&nameContains=mnist")).failure(400, "BadRequest")

    assert "lists" in reported["message"]


@pytest.mark.parametrize("option", ["nameContains=mnist", "nodeName=gpu-1"])
async def test_a_delete_with_these_options_deletes_nothing(api: Api, option: str) -> None:
    (await api.delete(f"{B}?{option}")).failure(400, "BadRequest")

    assert len(names((await api.get(B)).json())) == 4


async def test_frameworks_are_selected_by_their_result(api: Api) -> None:
    stored = await api.store.get(FRAMEWORKS, "default", "resnet")
    stored["status"] = {
        "state": "Completed",
        "attemptStatus": {"completionStatus": {"type": {"name": "Failed"}}},
    }
    await api.store.update_status(FRAMEWORKS, stored)

    field = "status.attemptStatus.completionStatus.type.name%3DFailed"
    assert names((await api.get(f"{B}?fieldSelector={field}")).json()) == ["resnet"]
