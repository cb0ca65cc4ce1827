"""Previews of manifests: errors with positions, pods and simulated steps, within limits."""

from pathlib import Path
from typing import Any

import pytest

from launcher.api.resources.preview import MAX_BYTES, MAX_DOCUMENTS, MAX_STEPS
from tests.api.client import YAML, HttpResponse
from tests.api.conftest import Api
from tests.api.samples import B, framework

PREVIEWS = B.replace("/frameworks", "/previews")
EXAMPLES = Path(__file__).parents[3] / "examples"

Json = dict[str, Any]

TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: mnist
  namespace: team
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: tensorflow, image: train, command: [train]}
"""


def documents(response: HttpResponse) -> list[Json]:
    assert response.status == 200, response.body
    found: list[Json] = response.json()["documents"]
    return found


async def preview(api: Api, text: str, query: str = "") -> list[Json]:
    return documents(await api.post(PREVIEWS + query, text, YAML))


async def test_a_valid_framework_has_its_first_pods_and_its_simulated_course(api: Api) -> None:
    (found,) = documents(await api.post(PREVIEWS, framework("mnist")))

    assert (found["errors"], found["objectKind"], found["name"]) == ([], "Framework", "mnist")
    assert found["path"] == B
    (role,) = found["taskRoles"]
    assert role["firstPod"]["metadata"]["name"] == f"mnist-{role['name']}-0"
    assert found["stepsComplete"] is True
    assert found["steps"][-1]["state"] == "Completed"
    assert found["steps"][0]["seconds"] == 0


async def test_nothing_is_stored(api: Api) -> None:
    await api.post(PREVIEWS, framework("mnist"))

    assert (await api.get(B)).json()["items"] == []


async def test_errors_have_their_line_and_column(api: Api) -> None:
    text = TFJOB.replace("image: train", "image: train, ports: [{containerPort: 0}]")

    (found,) = await preview(api, text)

    (error,) = found["errors"]
    assert error["field"].startswith("spec.tfReplicaSpecs.Worker.template.spec.containers[0].ports[0]")
    assert text.splitlines()[error["line"] - 1][error["column"] - 1 :].startswith(("0}]", "containerPort"))
    assert "steps" not in found


async def test_a_syntax_error_has_its_line_and_column(api: Api) -> None:
    (found,) = await preview(api, "apiVersion: x\nkind: [\n")

    (error,) = found["errors"]
    assert error["line"] >= 2
    assert "line" not in error["message"].split(":")[0]


async def test_every_document_is_previewed_with_its_own_lines(api: Api) -> None:
    text = "# first\n" + TFJOB + "---\n" + TFJOB.replace("replicas: 2", "replicas: two")

    first, second = await preview(api, text)

    assert (first["errors"], first["firstLine"]) == ([], 1)
    assert [error["line"] for error in second["errors"]] == [len(TFJOB.splitlines()) + 2 + 9]
    assert second["lastLine"] == len(text.splitlines())


async def test_a_job_is_converted_and_keeps_its_own_path_and_namespace(api: Api) -> None:
    (found,) = await preview(api, TFJOB)

    assert found["errors"] == []
    assert (found["objectKind"], found["namespace"]) == ("TFJob", "team")
    assert found["path"] == "/apis/kubeflow.org/v1/namespaces/team/tfjobs"
    assert [(role["name"], role["tasks"]) for role in found["taskRoles"]] == [("worker", 2)]


@pytest.mark.parametrize(("query", "errors"), [("", 0), ("?fieldValidation=Strict", 1)])
async def test_unknown_fields_are_warnings_or_with_strict_validation_errors(
    api: Api, query: str, errors: int
) -> None:
    obj = framework("mnist")
    obj["spec"]["taskRols"] = []

    (found,) = documents(await api.post(PREVIEWS + query, obj))

    assert len(found["errors"]) == errors
    assert errors or "taskRols" in found["warnings"][0]


async def test_the_object_of_another_kind_is_an_error(api: Api) -> None:
    (found,) = await preview(api, "apiVersion: v1\nkind: Pod\n")

    assert "apiVersion" in found["errors"][0]["message"]


async def test_an_empty_text_has_no_documents(api: Api) -> None:
    assert await preview(api, "# nothing\n") == []


async def test_size_and_number_of_documents_are_limited(api: Api) -> None:
    large = await api.post(PREVIEWS, "#" * (MAX_BYTES + 1), YAML)
    many = await api.post(PREVIEWS, "---\na: 1\n" * (MAX_DOCUMENTS + 1), YAML)

    large.failure(413, "RequestEntityTooLarge")
    assert str(MAX_DOCUMENTS) in many.failure(400, "BadRequest")["message"]


async def test_the_simulated_steps_are_limited(api: Api) -> None:
    obj = framework("mnist")
    obj["spec"]["taskRoles"][0]["taskNumber"] = 1000

    (found,) = documents(await api.post(PREVIEWS, obj))

    assert found["errors"] == []
    assert len(found["steps"]) <= MAX_STEPS
    assert found["stepsComplete"] is False


@pytest.mark.parametrize(
    "text",
    [pytest.param(path.read_text(), id=path.stem) for path in sorted(EXAMPLES.glob("*.yaml"))],
)
async def test_every_example_has_a_preview(api: Api, text: str) -> None:
    found = await preview(api, text)

    assert found
    assert [each["errors"] for each in found] == [[]] * len(found)
