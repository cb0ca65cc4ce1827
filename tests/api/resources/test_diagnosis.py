"""``GET …/frameworks/{name}/diagnosis`` in local mode."""

from typing import Any
from weakref import WeakSet

import pytest

from launcher.api.system_endpoints import Health
from launcher.core.errors import Unavailable
from launcher.store import instrumentation
from launcher.store.interface import FRAMEWORKS
from launcher.store.object_errors import object_errors
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.samples import A, B, Json, framework, made, with_spec
from tests.builders import a_role


@pytest.fixture(autouse=True)
def _no_queues_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queues of the whole process are diagnosed."""
    monkeypatch.setattr(instrumentation, "_queues", WeakSet())


async def diagnosis(api: Api, query: str = "") -> Any:
    response = await api.get(f"{A}/diagnosis{query}")
    assert response.status == 200, response.body
    return response.json()


async def test_a_new_framework_has_no_findings(api: Api) -> None:
    stored = await made(api)

    found = await diagnosis(api)

    assert (found["apiVersion"], found["kind"]) == ("launcher.microsoft.com/v1", "Diagnosis")
    assert found["metadata"]["name"] == stored["metadata"]["name"]
    assert (found["findings"], found["missingEvidence"]) == ([], [])


async def test_a_suspended_framework_is_explained_with_the_command_that_starts_it(api: Api) -> None:
    await api.post(B, with_spec(framework(), executionType="Create"))

    (finding,) = (await diagnosis(api))["findings"]

    assert (finding["id"], finding["severity"], finding["waiting"]) == ("FL-LIFE-01", "Info", "Never")
    assert finding["nextStep"].startswith("launcher start ")
    assert finding["evidence"][0]["field"] == "spec.executionType"


async def test_a_framework_that_does_not_exist_is_not_found(api: Api) -> None:
    assert (await api.get(f"{A}/diagnosis")).status == 404


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        pytest.param("?role=worker", 200, "", id="a role"),
        pytest.param("?role=worker&index=1", 200, "", id="a task"),
        pytest.param("?index=1", 400, "role: is required", id="an index without its role"),
        pytest.param("?role=", 400, "must not be empty", id="an empty role"),
        pytest.param("?role=worker&index=one", 400, "must be the index of a task", id="no number"),
        pytest.param("?role=worker&index=", 400, "must be the index of a task", id="an empty index"),
        pytest.param("?role=chief", 404, "it has: worker", id="a role that does not exist"),
    ],
)
async def test_role_and_index_select_tasks(api: Api, query: str, status: int, words: str) -> None:
    await api.post(B, with_spec(framework(), taskRoles=[a_role("worker")]))

    response = await api.get(f"{A}/diagnosis{query}")

    assert response.status == status
    assert words in response.json().get("message", "")


async def test_only_get_is_supported(api: Api) -> None:
    await made(api)

    assert (await api.post(f"{A}/diagnosis", {})).status == 405


async def test_a_full_disk_of_the_launcher_is_a_finding() -> None:
    async def fail() -> None:
        raise Unavailable("3 MiB of disk space are left")

    async with serving(api_dependencies(memory_store(), health=Health({"disk": fail}))) as api:
        await made(api)
        (finding,) = (await diagnosis(api))["findings"]

    assert finding["id"] == "FL-SYS-06"
    assert "3 MiB" in finding["summary"]


async def test_an_error_of_the_launcher_with_the_framework_is_a_finding(api: Api) -> None:
    stored = await made(api)
    key = (stored["metadata"]["namespace"], stored["metadata"]["name"])
    object_errors.record("framework controller", FRAMEWORKS.plural, key, KeyError("x"))
    object_errors.record("framework controller", FRAMEWORKS.plural, ("other", key[1]), TypeError("y"))
    try:
        (finding,) = (await diagnosis(api))["findings"]
    finally:
        object_errors.resolve("framework controller", FRAMEWORKS.plural, key)
        object_errors.resolve("framework controller", FRAMEWORKS.plural, ("other", key[1]))

    assert finding["id"] == "FL-SYS-04"
    assert "KeyError" in finding["summary"]
    assert len(finding["evidence"]) == 1


async def test_a_status_that_no_launcher_wrote_is_a_finding(api: Api) -> None:
    stored = await made(api)
    foreign: Json = {**stored, "status": {"state": "Odd"}}
    await api.store.update_status(FRAMEWORKS, foreign)

    (finding,) = (await diagnosis(api))["findings"]

    assert finding["id"] == "FL-SYS-05"


async def test_discovery_and_openapi_list_the_subresource(api: Api) -> None:
    resources = (await api.get("/apis/launcher.microsoft.com/v1")).json()["resources"]
    document = (await api.get("/openapi/v2")).json()

    (listed,) = [each for each in resources if each["name"] == "frameworks/diagnosis"]
    assert (listed["kind"], listed["verbs"]) == ("Diagnosis", ["get"])
    path = "/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks/{name}/diagnosis"
    assert set(document["paths"][path]) == {"get", "parameters"}
    assert "findings" in document["definitions"]["com.microsoft.launcher.v1.Diagnosis"]["properties"]
