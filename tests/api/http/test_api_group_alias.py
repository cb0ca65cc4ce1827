"""Frameworks under FrameworkController's name: the same objects, another apiVersion."""

import orjson
import pytest

from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import FrameworkName
from launcher.core.status import new_task
from launcher.store.interface import FRAMEWORKS
from tests.api.client import APPLY, JSON, JSON_PATCH, MERGE, YAML
from tests.api.conftest import Api
from tests.api.samples import TABLE, A, B, Json, framework, made
from tests.core.builders import START
from tests.core.statuses import a_status

SECOND = "frameworkcontroller.microsoft.com"
SECOND_B = B.replace("launcher.microsoft.com", SECOND)
SECOND_A = f"{SECOND_B}/a"
VERSION = f"{SECOND}/v1"


def second(name: str = "a", **metadata: str) -> Json:
    """What a user of FrameworkController writes."""
    return {**framework(name, **metadata), "apiVersion": VERSION}


async def test_a_framework_is_served_in_both_groups(api: Api) -> None:
    created = await api.post(SECOND_B, second())

    assert created.status == 201, created.body
    assert created.json()["apiVersion"] == VERSION
    own, theirs = (await api.get(A)).json(), (await api.get(SECOND_A)).json()
    assert own["apiVersion"] == "launcher.microsoft.com/v1"
    assert theirs == {**own, "apiVersion": VERSION} == created.json()


async def test_frameworks_of_the_alias_delete_pods_with_their_attempt(api: Api) -> None:
    kept = second("b")
    kept["spec"] = {"cleanPodPolicy": "None", **kept["spec"]}

    await api.post(SECOND_B, second())
    await api.post(SECOND_B, kept)
    await made(api, "c")

    policies = [each["spec"]["cleanPodPolicy"] for each in (await api.get(B)).json()["items"]]
    assert policies == ["All", "None", "Running"]


YAML_TEXT = f"""\
apiVersion: {VERSION}
kind: Framework
metadata: {{name: a}}
spec:
  # the roles
  taskRoles:
  - name: worker
    taskNumber: 1
    task:
      pod:
        spec:
          restartPolicy: Never
          containers: [{{name: main, image: x}}]
"""
BRACED = (
    "kind: Framework\nmetadata: {name: a}\nspec: {\n  taskRoles: [{name: worker, taskNumber: 1, task: {pod: {spec: "
    "{restartPolicy: Never, containers: [{name: main, image: x}]}}}}]\n}\n"
    f"apiVersion: '{VERSION}'\n"
)


@pytest.mark.parametrize(
    ("text", "media"),
    [
        pytest.param(YAML_TEXT, YAML, id="YAML"),
        pytest.param(BRACED, YAML, id="braces, and the version last"),
        pytest.param(orjson.dumps(second()).decode(), YAML, id="JSON called YAML"),
        pytest.param(orjson.dumps(second(), option=orjson.OPT_INDENT_2).decode(), JSON, id="JSON"),
        pytest.param(YAML_TEXT.replace("spec:\n  #", "spec: &s\n  #"), YAML, id="an anchor"),
        pytest.param(
            YAML_TEXT.replace(VERSION, f'"{VERSION.replace("f", chr(92) + "x66", 1)}" # {VERSION}'),
            YAML,
            id="escaped",
        ),
    ],
)
async def test_bodies_in_the_alias_group_are_accepted_in_any_format(api: Api, text: str, media: str) -> None:
    response = await api.post(SECOND_B, text, media)

    assert response.status == 201, response.body
    assert (await api.get(A)).json()["spec"]["cleanPodPolicy"] == "All"


async def test_duplicate_and_unknown_fields_are_reported(api: Api) -> None:
    text = YAML_TEXT.replace("    taskNumber: 1\n", "    taskNumber: 1\n    taskNumber: 1\n    olumes: 1\n")

    warned = await api.post(SECOND_B, text, YAML)
    failure = await api.post(f"{SECOND_B}?fieldValidation=Strict", text.replace("name: a", "name: b"), YAML)

    assert len(warned.warnings) == 2, warned.warnings
    assert "spec.taskRoles[0].taskNumber" in failure.failure(400, "BadRequest")["message"]


async def test_lists_and_tables_have_the_requested_group(api: Api) -> None:
    await made(api)

    whole = (await api.get(SECOND_B)).json()
    table = (await api.get(f"{SECOND_B}?includeObject=Object", TABLE)).json()

    assert (whole["apiVersion"], whole["kind"]) == (VERSION, "FrameworkList")
    assert [each["apiVersion"] for each in whole["items"]] == [VERSION]
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [row["object"]["apiVersion"] for row in table["rows"]] == [VERSION]


async def test_a_watch_has_the_requested_group(api: Api) -> None:
    await made(api)

    async with api.watch(
        f"{SECOND_B}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    ) as stream:
        first, mark = await stream.take(2)
        await api.patch(A, {"metadata": {"labels": {"x": "y"}}}, MERGE)
        changed = await stream.next()

    assert [each["type"] for each in (first, mark, changed)] == ["ADDED", "BOOKMARK", "MODIFIED"]
    assert {each["object"]["apiVersion"] for each in (first, mark, changed)} == {VERSION}
    assert changed["object"]["metadata"]["labels"] == {"x": "y"}


@pytest.mark.parametrize(
    ("body", "media"),
    [
        pytest.param(
            [
                {"op": "test", "path": "/apiVersion", "value": VERSION},
                {"op": "replace", "path": "/spec/executionType", "value": "Stop"},
            ],
            JSON_PATCH,
            id="as FrameworkController's manual stops one",
        ),
        pytest.param({"apiVersion": VERSION, "spec": {"executionType": "Stop"}}, MERGE, id="a merge patch"),
    ],
)
async def test_patches_in_the_alias_group_change_the_same_object(api: Api, body: object, media: str) -> None:
    await made(api)

    response = await api.patch(SECOND_A, body, media)

    assert (response.status, response.json()["apiVersion"]) == (200, VERSION), response.body
    own = (await api.get(A)).json()
    assert (own["spec"]["executionType"], own["spec"]["cleanPodPolicy"]) == ("Stop", "Running")


async def test_a_framework_can_be_applied_and_replaced_in_the_alias_group(api: Api) -> None:
    applied = await api.patch(f"{SECOND_A}?fieldManager=me", YAML_TEXT, APPLY)
    read = applied.json()
    replaced = await api.put(SECOND_A, {**read, "metadata": {**read["metadata"], "labels": {"x": "y"}}})

    assert (applied.status, read["apiVersion"], read["spec"]["cleanPodPolicy"]) == (201, VERSION, "All")
    assert (replaced.status, replaced.json()["apiVersion"]) == (200, VERSION), replaced.body
    assert (await api.get(A)).json()["metadata"]["labels"] == {"x": "y"}


async def test_a_framework_is_deleted_in_both_groups(api: Api) -> None:
    await made(api)
    options = {"apiVersion": VERSION, "kind": "DeleteOptions", "propagationPolicy": "Background"}

    response = await api.delete(SECOND_A, options)

    assert response.status == 200, response.body
    (await api.get(A)).failure(404, "NotFound")


async def test_errors_have_the_requested_group(api: Api) -> None:
    missing = (await api.get(SECOND_A)).failure(404, "NotFound")
    wrong = (await api.post(SECOND_B, {**second(), "apiVersion": "v1"})).failure(400, "BadRequest")
    bad = second()
    bad["spec"] = {**bad["spec"], "executionType": "Begin"}
    invalid = (await api.post(SECOND_B, bad)).failure(422, "Invalid")

    assert missing["message"] == f'frameworks.{SECOND} "a" not found'
    assert missing["details"]["group"] == SECOND
    assert VERSION in wrong["message"]
    assert invalid["message"].startswith(f'Framework.{SECOND} "a" is invalid: spec.executionType')


async def test_the_launchers_group_is_listed_before_the_alias(api: Api) -> None:
    groups = [each["name"] for each in (await api.get("/apis")).json()["groups"]]
    (resource, *_) = (await api.get(f"/apis/{VERSION}")).json()["resources"]
    document = (await api.get(f"/openapi/v3/apis/{VERSION}")).json()

    assert groups.index("launcher.microsoft.com") < groups.index(SECOND)
    assert (resource["name"], "shortNames" in resource, "categories" in resource) == (
        "frameworks",
        False,
        False,
    )
    assert "com.microsoft.frameworkcontroller.v1.Framework" in document["components"]["schemas"]
    assert f"/apis/{VERSION}/namespaces/{{namespace}}/frameworks" in document["paths"]


async def test_the_status_in_the_alias_group_has_an_entry_for_each_task(api: Api) -> None:
    await made(api)
    tasks = [new_task(index, START) for index in range(400)]
    stored = await api.store.get(FRAMEWORKS, "default", "a")
    status = status_to_json(a_status(tasks), FrameworkName("a"), stored["metadata"]["uid"])
    await api.store.update_status(FRAMEWORKS, {**stored, "status": status})

    own, theirs = (await api.get(A)).json(), (await api.get(SECOND_A)).json()

    (folded,) = own["status"]["attemptStatus"]["taskRoleStatuses"]
    (full,) = theirs["status"]["attemptStatus"]["taskRoleStatuses"]
    assert (len(folded["taskStatuses"]), len(full["taskStatuses"])) == (0, 400)


async def test_a_malformed_status_is_returned_unchanged(api: Api) -> None:
    await made(api)
    malformed = {"attemptStatus": {"taskRoleStatuses": [{"foldedTasks": 7}]}}
    stored = await api.store.get(FRAMEWORKS, "default", "a")
    await api.store.update_status(FRAMEWORKS, {**stored, "status": malformed})

    assert (await api.get(SECOND_A)).json()["status"] == malformed
