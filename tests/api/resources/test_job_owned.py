"""The Warning header of a DELETE of a Framework that a job creates again."""

from typing import Any

import pytest

from tests.api.conftest import Api
from tests.api.samples import A, B, framework, made

Json = dict[str, Any]

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "a", "uid": "u", "controller": True}
EXPECTED = (
    '299 - "Framework \\"a\\" is controlled by TFJob \\"a\\", which recreates it; to end the training, delete the job: '
    'kubectl delete tfjobs.kubeflow.org a -n default"'
)


@pytest.mark.parametrize("query", ["", "?propagationPolicy=Background", "?dryRun=All"])
async def test_deleting_the_framework_of_a_job_warns_that_the_job_recreates_it(api: Api, query: str) -> None:
    await made(api, ownerReferences=[OWNER])

    response = await api.delete(f"{A}{query}")

    assert (response.status, response.headers.getall("Warning")) == (200, [EXPECTED])


async def test_deleting_all_frameworks_warns_about_those_of_jobs(api: Api) -> None:
    await made(api, ownerReferences=[OWNER])
    await made(api, "b")

    response = await api.delete(B)

    assert (response.status, response.headers.getall("Warning")) == (200, [EXPECTED])


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([], id="no owner"),
        pytest.param([{**OWNER, "controller": False}], id="an owner that is not its controller"),
        pytest.param([{**OWNER, "apiVersion": "batch/v1", "kind": "Job"}], id="another controller"),
    ],
)
async def test_other_frameworks_are_deleted_without_a_warning(api: Api, owners: list[Json]) -> None:
    await made(api, ownerReferences=owners)

    assert "Warning" not in (await api.delete(A)).headers


async def test_a_completed_framework_is_deleted_without_a_warning(api: Api) -> None:
    await made(api, ownerReferences=[OWNER])
    stored = (await api.get(A)).json()
    await api.put(f"{A}/status", {**framework(), **stored, "status": {"state": "Completed"}})

    assert "Warning" not in (await api.delete(A)).headers
