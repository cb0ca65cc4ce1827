"""The CRD of Frameworks on a real API server: validation, defaults, status, columns."""

import copy
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate.framework_crd import framework_crd
from launcher.core.defaults import with_defaults
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.spec import ExecutionType
from launcher.core.validation.framework import update_errors
from launcher.store.interface import FRAMEWORKS, MergePatch, Object
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.selectors import parse
from tests.builders import a_pod_template, a_role
from tests.core import statuses
from tests.core.manifests import full_framework
from tests.eventually import until
from tests.store.builders import a_framework, names, with_
from tests.store.kubernetes.real_api_server import BareApiServer, probe_defaulted

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/frameworks.launcher.microsoft.com"


def example(path: Path) -> Object:
    """The Framework in an example."""
    found = [obj for obj in yaml.safe_load_all(path.read_text()) if obj["kind"] == "Framework"]
    return in_namespace(found[0])


def in_namespace(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}


def with_spec(obj: Object, **spec: Any) -> Object:
    return {**obj, "spec": {**obj["spec"], **spec}}


async def test_the_crd_has_no_fields_unknown_to_the_server(
    crd_store: KubeStore, bare_api_server: BareApiServer
) -> None:
    stored = bare_api_server.admin.get(CRD)
    expected = {**framework_crd(), "metadata": stored["metadata"]}

    response = bare_api_server.admin.request("PUT", f"{CRD}?dryRun=All&fieldValidation=Strict", expected)

    assert response.status == 200, response.body
    conditions = {each["type"]: each["status"] for each in stored["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_every_example_is_accepted_and_defaulted(crd_store: KubeStore, path: Path) -> None:
    created = await crd_store.create(FRAMEWORKS, example(path))

    assert created["spec"] == with_defaults(example(path))["spec"]


async def test_a_framework_with_every_field_is_stored_completely(crd_store: KubeStore) -> None:
    expected = in_namespace(full_framework())

    created = await crd_store.create(FRAMEWORKS, expected)

    assert created["spec"] == with_defaults(expected)["spec"] | {"taskRoles": created["spec"]["taskRoles"]}
    for role, sent in zip(created["spec"]["taskRoles"], expected["spec"]["taskRoles"], strict=True):
        assert role["task"]["pod"] == sent["task"]["pod"]


async def test_no_field_of_a_pod_template_is_pruned(crd_store: KubeStore) -> None:
    pod = {
        **a_pod_template(olumeMounts=[{"name": "x"}], fieldOfALaterRelease={"a": [1, {"b": None}]}),
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": None, "other": 1},
        "beside": True,
    }

    created = await crd_store.create(FRAMEWORKS, with_spec(a_framework(), taskRoles=[a_role(pod=pod)]))

    assert created["spec"]["taskRoles"][0]["task"]["pod"] == pod


async def test_null_means_absent_in_every_optional_field(crd_store: KubeStore) -> None:
    def with_nulls(schema: Any, obj: Object) -> Object:
        return {**dict.fromkeys(schema["properties"]), **obj}

    spec_schema = framework_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    role_schema = spec_schema["properties"]["taskRoles"]["items"]
    task = with_nulls(role_schema["properties"]["task"], {"pod": a_pod_template()})
    role = with_nulls(role_schema, {"name": "worker", "task": task})
    expected = with_(a_framework(), spec=with_nulls(spec_schema, {"taskRoles": [role]}))

    created = await crd_store.create(FRAMEWORKS, expected)

    stored = with_defaults(created)["spec"]
    assert (
        stored
        == with_defaults(
            with_spec(a_framework(), taskRoles=[{"name": "worker", "task": {"pod": a_pod_template()}}])
        )["spec"]
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"executionType": "Go"}, "spec.executionType", id="unknown execution type"),
        pytest.param(
            {"retryPolicy": {"maxRetryCount": -3}}, "spec.retryPolicy.maxRetryCount", id="too small"
        ),
        pytest.param(
            {"retryPolicy": {"fancyRetryPolicy": "yes"}}, "fancyRetryPolicy", id="text for a boolean"
        ),
        pytest.param({"taskRoles": [a_role("Worker")]}, "spec.taskRoles[0].name", id="bad role name"),
        pytest.param(
            {"taskRoles": [a_role(tasks=10_001)]}, "spec.taskRoles[0].taskNumber", id="too many tasks"
        ),
        pytest.param({"taskRoles": [{"taskNumber": 1}]}, "spec.taskRoles[0].name", id="role without a name"),
        pytest.param({"taskRoles": [a_role(), a_role()]}, "spec.taskRoles[1]", id="two roles of one name"),
        pytest.param({"discovery": {"mountPath": "here"}}, "spec.discovery.mountPath", id="relative path"),
        pytest.param({"discovery": {"ports": {"worker": 0}}}, "spec.discovery.ports.worker", id="port 0"),
        pytest.param(
            {"discovery": {"ports": {"worker": "any"}}}, "spec.discovery.ports.worker", id="port any"
        ),
        pytest.param(
            {"taskRoles": [a_role(frameworkAttemptCompletionPolicy={"succeededIndexes": "x"})]},
            "succeededIndexes",
            id="no indexes",
        ),
    ],
)
async def test_schema_violations_are_rejected_with_their_field(
    crd_store: KubeStore, spec: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidObject) as caught:
        await crd_store.create(FRAMEWORKS, with_spec(a_framework(), **spec))

    assert any(field in problem.field for problem in caught.value.errors), caught.value.errors


async def test_a_name_that_is_too_long_for_pod_names_is_rejected(crd_store: KubeStore) -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.name"):
        await crd_store.create(FRAMEWORKS, a_framework("a.b"))


@pytest.mark.parametrize(("old", "new"), [*product(ExecutionType, ExecutionType)])
async def test_spec_changes_are_validated_as_by_the_launcher(
    crd_store: KubeStore, old: ExecutionType, new: ExecutionType
) -> None:
    created = await crd_store.create(FRAMEWORKS, with_spec(a_framework(), executionType=old.value))
    changed = with_spec(created, executionType=new.value)
    expected = [(problem.field, message_of(problem)) for problem in update_errors(created, changed)]

    message: list[tuple[str, str]] = []
    try:
        await crd_store.update(FRAMEWORKS, changed)
    except InvalidObject as error:
        message = [(problem.field, message_of(problem)) for problem in error.errors]

    assert message == expected


def message_of(problem: FieldError) -> str:
    """The end of an error message, after the value."""
    return problem.message.rpartition(": ")[2]


def running_status(tasks: int) -> Object:
    return statuses.stored_json(statuses.a_status(statuses.all_running(random.Random(1), tasks)))


@pytest.mark.parametrize(
    "make_status",
    [
        pytest.param(lambda: running_status(5), id="small"),
        pytest.param(lambda: running_status(statuses.MANY), id="large"),
        pytest.param(
            lambda: {"state": "Completed", "laterRelease": {"a": [1]}, "attemptStatus": {"new": 1}},
            id="newer",
        ),
    ],
)
async def test_a_status_is_stored_as_written(crd_store: KubeStore, make_status: Callable[[], Object]) -> None:
    status = make_status()
    created = await crd_store.create(FRAMEWORKS, a_framework())

    after = await crd_store.update_status(FRAMEWORKS, with_(created, status=status))

    assert after["status"] == status
    assert after["spec"] == created["spec"]
    assert after["metadata"]["generation"] == 1


async def test_a_status_can_be_written_only_through_its_subresource(crd_store: KubeStore) -> None:
    created = await crd_store.create(FRAMEWORKS, with_(a_framework(), status={"state": "Completed"}))
    after = await crd_store.patch(
        FRAMEWORKS, "default", "mnist", MergePatch({"status": {"state": "Completed"}})
    )

    assert "status" not in created
    assert after == created


async def test_frameworks_can_be_selected_by_state_and_execution_type(crd_store: KubeStore) -> None:
    created = await crd_store.create(FRAMEWORKS, a_framework("ended"))
    await crd_store.update_status(FRAMEWORKS, with_(created, status={"state": "Completed"}))
    await crd_store.create(FRAMEWORKS, with_spec(a_framework("held"), executionType="Create"))

    assert names(
        (await crd_store.list(FRAMEWORKS, selector=parse(fields="status.state=Completed"))).items
    ) == ["ended"]
    assert names(
        (await crd_store.list(FRAMEWORKS, selector=parse(fields="spec.executionType=Create"))).items
    ) == ["held"]


async def test_frameworks_survive_an_upgrade_of_the_crd(
    crd_store: KubeStore, bare_api_server: BareApiServer
) -> None:
    older = copy.deepcopy(framework_crd())
    (version,) = older["spec"]["versions"]
    version["selectableFields"] = []
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    fields["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    del fields["spec"]["properties"]["cleanPodPolicy"]
    bare_api_server.apply_crd(
        older, {name: part for name, part in probe_defaulted().items() if name != "cleanPodPolicy"}
    )
    created = await crd_store.create(FRAMEWORKS, a_framework())
    created = await crd_store.update_status(
        FRAMEWORKS, with_(created, status={"state": "AttemptRunning", "old": [1]})
    )

    bare_api_server.apply_framework_crd()
    after = await crd_store.get(FRAMEWORKS, "default", "mnist")
    await crd_store.update_status(FRAMEWORKS, with_(after, status={"state": "Completed"}))
    await crd_store.update(
        FRAMEWORKS, {**await crd_store.get(FRAMEWORKS, "default", "mnist"), "spec": created["spec"]}
    )

    assert after["status"] == created["status"]
    assert with_defaults(after)["spec"] == with_defaults(created)["spec"]


# kubectl


async def test_kubectl_explains_every_level(crd_store: KubeStore, bare_api_server: BareApiServer) -> None:
    described = "/openapi/v3/apis/launcher.microsoft.com/v1"
    until(
        lambda: "completionStatus" in str(bare_api_server.admin.request("GET", described).body) or None,
        "it is described",
    )
    explanation = bare_api_server.plane.kubectl("explain", "fw.spec.taskRoles.taskNumber")
    pod = bare_api_server.plane.kubectl("explain", "framework.spec.taskRoles.task.pod")
    status = bare_api_server.plane.kubectl("explain", "frameworks.status.attemptStatus.completionStatus")

    assert "The number of tasks. It can be changed while the Framework runs." in explanation
    assert "kubectl explain pod.spec" in pod
    assert "diagnostics" in status


async def test_kubectl_prints_the_columns_of_frameworks(
    crd_store: KubeStore, bare_api_server: BareApiServer
) -> None:
    created = await crd_store.create(FRAMEWORKS, a_framework())
    ended = {"completionStatus": {"type": {"name": "Succeeded"}}}
    counts = {"AttemptRunning": 3, "Completed": 2}
    status = {"state": "Completed", "message": "all done", "taskCounts": counts, "attemptStatus": ended}
    await crd_store.update_status(FRAMEWORKS, with_(created, status=status))

    head, row = bare_api_server.plane.kubectl("get", "fw").splitlines()
    wide = bare_api_server.plane.kubectl("get", "all", "-o", "wide")

    assert head.split() == ["NAME", "STATE", "RESULT", "RUNNING", "DONE", "AGE"]
    assert row.split()[:5] == ["mnist", "Completed", "Succeeded", "3", "2"]
    assert "all done" in wide
