"""The definition of a Framework on a real API server: what it takes, what it makes of it, what it refuses."""

import copy
import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.core.crd import framework_crd
from launcher.core.defaults import defaulted
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.spec import ExecutionType
from launcher.core.validation.framework import update_errors
from launcher.store.interface import FRAMEWORKS, MergePatch, Object
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.selectors import parse
from tests.core import statuses
from tests.core.manifests import a_pod, a_role, full_framework
from tests.local.server import until
from tests.store.builders import names, with_
from tests.store.kubernetes.quiet import Quiet, probe_defaulted
from tests.store.kubernetes.samples import a_framework

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/frameworks.launcher.microsoft.com"


def example(path: Path) -> Object:
    """The Framework in an example."""
    found = [obj for obj in yaml.safe_load_all(path.read_text()) if obj["kind"] == "Framework"]
    return placed(found[0])


def placed(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}


def with_spec(obj: Object, **spec: Any) -> Object:
    return {**obj, "spec": {**obj["spec"], **spec}}


async def test_the_definition_says_nothing_that_the_server_does_not_know(
    cluster: KubeStore, quiet: Quiet
) -> None:
    stored = quiet.admin.get(CRD)
    wanted = {**framework_crd(), "metadata": stored["metadata"]}

    answer = quiet.admin.ask("PUT", f"{CRD}?dryRun=All&fieldValidation=Strict", wanted)

    assert answer.status == 200, answer.body
    conditions = {each["type"]: each["status"] for each in stored["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_every_example_is_taken_and_gets_the_defaults_that_the_launcher_gives(
    cluster: KubeStore, path: Path
) -> None:
    made = await cluster.create(FRAMEWORKS, example(path))

    assert made["spec"] == defaulted(example(path))["spec"]


async def test_a_framework_that_uses_every_field_is_taken_whole(cluster: KubeStore) -> None:
    wanted = placed(full_framework())

    made = await cluster.create(FRAMEWORKS, wanted)

    assert made["spec"] == defaulted(wanted)["spec"] | {"taskRoles": made["spec"]["taskRoles"]}
    for role, given in zip(made["spec"]["taskRoles"], wanted["spec"]["taskRoles"], strict=True):
        assert role["task"]["pod"] == given["task"]["pod"]


async def test_nothing_is_taken_from_a_pod_template(cluster: KubeStore) -> None:
    pod = {
        **a_pod(olumeMounts=[{"name": "x"}], fieldOfALaterRelease={"a": [1, {"b": None}]}),
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": None, "other": 1},
        "beside": True,
    }

    made = await cluster.create(FRAMEWORKS, with_spec(a_framework(), taskRoles=[a_role(pod=pod)]))

    assert made["spec"]["taskRoles"][0]["task"]["pod"] == pod


async def test_null_is_read_as_absent_in_every_field_that_may_be_left_out(cluster: KubeStore) -> None:
    def emptied(schema: Any, obj: Object) -> Object:
        return {**dict.fromkeys(schema["properties"]), **obj}

    spec_schema = framework_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    role_schema = spec_schema["properties"]["taskRoles"]["items"]
    task = emptied(role_schema["properties"]["task"], {"pod": a_pod()})
    role = emptied(role_schema, {"name": "worker", "task": task})
    wanted = with_(a_framework(), spec=emptied(spec_schema, {"taskRoles": [role]}))

    made = await cluster.create(FRAMEWORKS, wanted)

    found = defaulted(made)["spec"]
    assert (
        found
        == defaulted(with_spec(a_framework(), taskRoles=[{"name": "worker", "task": {"pod": a_pod()}}]))[
            "spec"
        ]
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"executionType": "Go"}, "spec.executionType", id="no such wish"),
        pytest.param(
            {"retryPolicy": {"maxRetryCount": -3}}, "spec.retryPolicy.maxRetryCount", id="too small"
        ),
        pytest.param({"retryPolicy": {"fancyRetryPolicy": "yes"}}, "fancyRetryPolicy", id="text for a flag"),
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
async def test_what_the_schema_forbids_is_refused_with_its_field(
    cluster: KubeStore, spec: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidObject) as caught:
        await cluster.create(FRAMEWORKS, with_spec(a_framework(), **spec))

    assert any(field in problem.field for problem in caught.value.errors), caught.value.errors


async def test_a_name_that_no_pod_name_can_begin_with_is_refused(cluster: KubeStore) -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.name"):
        await cluster.create(FRAMEWORKS, a_framework("a.b"))


@pytest.mark.parametrize(("old", "new"), [*product(ExecutionType, ExecutionType)])
async def test_a_wish_can_be_changed_just_as_the_launcher_says(
    cluster: KubeStore, old: ExecutionType, new: ExecutionType
) -> None:
    made = await cluster.create(FRAMEWORKS, with_spec(a_framework(), executionType=old.value))
    wanted = with_spec(made, executionType=new.value)
    expected = [(problem.field, said(problem)) for problem in update_errors(made, wanted)]

    told: list[tuple[str, str]] = []
    try:
        await cluster.update(FRAMEWORKS, wanted)
    except InvalidObject as error:
        told = [(problem.field, said(problem)) for problem in error.errors]

    assert told == expected


def said(problem: FieldError) -> str:
    """The last words of a problem, after the value that it is about."""
    return problem.message.rpartition(": ")[2]


def running(tasks: int) -> Object:
    return statuses.written(statuses.a_status(statuses.all_running(random.Random(1))[:tasks]))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(running(5), id="small"),
        pytest.param(running(statuses.MANY), id="large"),
        pytest.param(
            {"state": "Completed", "laterRelease": {"a": [1]}, "attemptStatus": {"new": 1}}, id="newer"
        ),
    ],
)
async def test_a_status_is_kept_as_it_was_written(cluster: KubeStore, status: Object) -> None:
    made = await cluster.create(FRAMEWORKS, a_framework())

    after = await cluster.update_status(FRAMEWORKS, with_(made, status=status))

    assert after["status"] == status
    assert after["spec"] == made["spec"]
    assert after["metadata"]["generation"] == 1


async def test_a_status_is_nobodys_to_write_but_where_it_belongs(cluster: KubeStore) -> None:
    made = await cluster.create(FRAMEWORKS, with_(a_framework(), status={"state": "Completed"}))
    after = await cluster.patch(
        FRAMEWORKS, "default", "mnist", MergePatch({"status": {"state": "Completed"}})
    )

    assert "status" not in made
    assert after == made


async def test_frameworks_can_be_selected_by_state_and_by_wish(cluster: KubeStore) -> None:
    made = await cluster.create(FRAMEWORKS, a_framework("ended"))
    await cluster.update_status(FRAMEWORKS, with_(made, status={"state": "Completed"}))
    await cluster.create(FRAMEWORKS, with_spec(a_framework("held"), executionType="Create"))

    assert names((await cluster.list(FRAMEWORKS, where=parse(fields="status.state=Completed"))).items) == [
        "ended"
    ]
    assert names((await cluster.list(FRAMEWORKS, where=parse(fields="spec.executionType=Create"))).items) == [
        "held"
    ]


async def test_frameworks_survive_an_upgrade_of_the_definition(cluster: KubeStore, quiet: Quiet) -> None:
    older = copy.deepcopy(framework_crd())
    (version,) = older["spec"]["versions"]
    version["selectableFields"] = []
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    fields["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    del fields["spec"]["properties"]["cleanPodPolicy"]
    quiet.define(older, {name: part for name, part in probe_defaulted().items() if name != "cleanPodPolicy"})
    made = await cluster.create(FRAMEWORKS, a_framework())
    made = await cluster.update_status(
        FRAMEWORKS, with_(made, status={"state": "AttemptRunning", "old": [1]})
    )

    quiet.define_frameworks()
    after = await cluster.get(FRAMEWORKS, "default", "mnist")
    await cluster.update_status(FRAMEWORKS, with_(after, status={"state": "Completed"}))
    await cluster.update(
        FRAMEWORKS, {**await cluster.get(FRAMEWORKS, "default", "mnist"), "spec": made["spec"]}
    )

    assert after["status"] == made["status"]
    assert defaulted(after)["spec"] == defaulted(made)["spec"]


# What people see


async def test_kubectl_explains_every_level(cluster: KubeStore, quiet: Quiet) -> None:
    described = "/openapi/v3/apis/launcher.microsoft.com/v1"
    until(
        lambda: "completionStatus" in str(quiet.admin.ask("GET", described).body) or None, "it is described"
    )
    told = quiet.plane.kubectl("explain", "fw.spec.taskRoles.taskNumber")
    pod = quiet.plane.kubectl("explain", "framework.spec.taskRoles.task.pod")
    status = quiet.plane.kubectl("explain", "frameworks.status.attemptStatus.completionStatus")

    assert "How many tasks. May be changed while the Framework runs." in told
    assert "kubectl explain pod.spec" in pod
    assert "diagnostics" in status


async def test_kubectl_shows_how_frameworks_are(cluster: KubeStore, quiet: Quiet) -> None:
    made = await cluster.create(FRAMEWORKS, a_framework())
    ended = {"completionStatus": {"type": {"name": "Succeeded"}}}
    counts = {"AttemptRunning": 3, "Completed": 2}
    status = {"state": "Completed", "message": "all done", "taskCounts": counts, "attemptStatus": ended}
    await cluster.update_status(FRAMEWORKS, with_(made, status=status))

    head, row = quiet.plane.kubectl("get", "fw").splitlines()
    wide = quiet.plane.kubectl("get", "all", "-o", "wide")

    assert head.split() == ["NAME", "STATE", "RESULT", "RUNNING", "DONE", "AGE"]
    assert row.split()[:5] == ["mnist", "Completed", "Succeeded", "3", "2"]
    assert "all done" in wide
