"""One Framework out of the objects that simpletfjob makes for each machine."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from launcher.converters.conversion import Conversion
from launcher.converters.simpletfjob.per_task_objects import documents_in, frameworks_of
from launcher.converters.simpletfjob.template import TemplateTask, render_tasks, tasks_on
from launcher.core.errors import BadRequest, InvalidObject
from launcher.core.manifest import validate_framework
from tests.converters.simpletfjob.test_template import POD

Json = dict[str, Any]

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: mnist-{{.type}}-{{.index}}
  namespace: vision
  labels: {team: vision, host: {{.host}}}
spec:
  template:
    metadata:
      labels: {app: mnist}
    spec:
      nodeName: {{.host}}
      containers:
        - name: tensorflow
          image: tf:1
          env:
            - name: TF_CONFIG
              value: >
{{.TF_CONFIG}}
      restartPolicy: OnFailure
  backoffLimit: 4
"""
#: The same for machines that the scheduler chooses, reached by the names of their pods.
FREE = JOB.replace("      nodeName: {{.host}}\n", "").replace(", host: {{.host}}", "")


def mapped(
    template: str, hosts: tuple[str, ...] = ("h10", "h100", "h14"), psn: int = 1
) -> tuple[Conversion, ...]:
    tasks = tasks_on(hosts, psn)
    texts = render_tasks(template, tasks, 2222)
    return frameworks_of(
        [each for text, task in zip(texts, tasks, strict=True) for each in documents_in(text, task)]
    )


def spec_of(template: str, hosts: tuple[str, ...] = ("h10", "h100", "h14"), psn: int = 1) -> Json:
    (only,) = mapped(template, hosts, psn)
    validate_framework(only.framework, strict=True)
    spec: Json = only.framework["spec"]
    return spec


def roles_of(template: str, hosts: tuple[str, ...] = ("h10", "h100", "h14"), psn: int = 1) -> dict[str, Json]:
    return {role["name"]: role for role in spec_of(template, hosts, psn)["taskRoles"]}


def refusal_of(template: str) -> list[str]:
    with pytest.raises(InvalidObject) as raised:
        mapped(template)
    return [str(problem) for problem in raised.value.errors]


def test_the_jobs_of_all_tasks_become_one_framework() -> None:
    (only,) = mapped(JOB)

    assert only.framework["metadata"] == {
        "name": "mnist",
        "namespace": "vision",
        "labels": {"team": "vision"},
    }
    assert only.framework["spec"]["executionType"] == "Start"
    assert only.framework["spec"]["retryPolicy"]["maxRetryCount"] == 0
    assert validate_framework(only.framework, strict=True).warnings == ()


def test_tasks_on_different_machines_are_separate_roles() -> None:
    roles = roles_of(JOB)

    assert {name: role["task"]["pod"]["spec"]["nodeName"] for name, role in roles.items()} == {
        "ps": "h10",
        "worker0": "h100",
        "worker1": "h14",
    }
    assert {role["taskNumber"] for role in roles.values()} == {1}
    assert roles["worker0"]["task"]["pod"]["metadata"] == {"labels": {"app": "mnist"}}


def test_a_role_per_task_is_noted_with_the_new_pod_name() -> None:
    (only,) = mapped(JOB)

    assert only.notes[0] == (
        "each worker becomes a role, since they differ (spec.nodeName): the pod of worker 0 is named "
        "mnist-worker0-0, not mnist-worker-0"
    )


def test_each_task_keeps_its_own_tf_config() -> None:
    roles = roles_of(JOB)

    configs = [
        json.loads(role["task"]["pod"]["spec"]["containers"][0]["env"][0]["value"]) for role in roles.values()
    ]
    assert [config["task"] for config in configs] == [
        {"index": 0, "type": "ps"},
        {"index": 0, "type": "worker"},
        {"index": 1, "type": "worker"},
    ]
    assert {json.dumps(config["cluster"]) for config in configs} == {
        '{"ps": ["h10:2222"], "worker": ["h100:2222", "h14:2222"]}'
    }


def test_tasks_that_differ_only_by_their_index_are_one_role() -> None:
    roles = roles_of(FREE, ("a", "b", "c", "d", "e"), psn=2)

    assert {name: role["taskNumber"] for name, role in roles.items()} == {"ps": 2, "worker": 3}
    value = roles["worker"]["task"]["pod"]["spec"]["containers"][0]["env"][0]["value"]
    assert '"index": {{FC_TASK_INDEX}},' in value


def test_the_framework_succeeds_when_all_workers_of_one_role_succeed() -> None:
    roles = roles_of(FREE)

    assert roles["worker"]["frameworkAttemptCompletionPolicy"] == {
        "minFailedTaskCount": 1,
        "minSucceededTaskCount": 2,
    }
    assert roles["ps"]["frameworkAttemptCompletionPolicy"] == {
        "minFailedTaskCount": 1,
        "minSucceededTaskCount": -1,
    }
    assert "background" not in roles["ps"]


def test_parameter_servers_of_several_worker_roles_do_not_count() -> None:
    roles = roles_of(JOB)

    assert roles["ps"]["background"] is True
    assert all("background" not in roles[name] for name in ("worker0", "worker1"))
    assert roles["worker0"]["frameworkAttemptCompletionPolicy"]["minFailedTaskCount"] == 1


def test_the_completion_of_the_framework_is_noted() -> None:
    (separate_roles,), (one_role,) = mapped(JOB), mapped(FREE)

    assert any("a parameter server does not" in note for note in separate_roles.notes)
    assert any("a task that fails without retries left stops all others" in note for note in one_role.notes)


@pytest.mark.parametrize(
    ("template", "retries"),
    [
        pytest.param(JOB, 4, id="as set by backoffLimit"),
        pytest.param(JOB.replace("  backoffLimit: 4\n", ""), 6, id="six times by default"),
        pytest.param(JOB.replace("limit: 4", "limit: 0").replace("Limit: 4", "Limit: 0"), 0, id="never"),
    ],
)
def test_a_failed_task_is_retried(template: str, retries: int) -> None:
    for role in roles_of(template).values():
        assert role["task"]["retryPolicy"] == {"fancyRetryPolicy": False, "maxRetryCount": retries}
        assert role["task"]["pod"]["spec"]["restartPolicy"] == "Never"


def test_retries_in_a_new_pod_instead_of_in_place_are_noted() -> None:
    (restarted,), (recreated,) = mapped(JOB), mapped(JOB.replace("OnFailure", "Never"))

    assert any(
        note.startswith("restartPolicy OnFailure: ") and "at most 4 times" in note for note in restarted.notes
    )
    assert not any("restartPolicy" in note for note in recreated.notes)


def test_time_limits_of_a_job_apply_to_the_framework() -> None:
    spec = spec_of(f"{JOB}  activeDeadlineSeconds: 60\n  ttlSecondsAfterFinished: 9\n  suspend: true\n")

    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (60, 9)
    assert spec["executionType"] == "Create"


def test_pods_are_converted_without_retries() -> None:
    roles = roles_of(POD)

    assert list(roles) == ["ps", "worker0", "worker1"]
    for role in roles.values():
        assert role["task"]["retryPolicy"]["maxRetryCount"] == 0
        assert "restartPolicy" not in role["task"]["pod"]["spec"]


def test_frameworks_are_not_changed() -> None:
    template = (
        "apiVersion: launcher.microsoft.com/v1\nkind: Framework\nmetadata: {name: '{{.type}}{{.index}}'}\n"
    )

    found = mapped(template)

    assert [each.framework["metadata"]["name"] for each in found] == ["ps0", "worker0", "worker1"]
    assert all(each.notes == () for each in found)


def test_each_tfjob_becomes_a_separate_framework() -> None:
    template = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: '{{.type}}{{.index}}'}
spec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: 'tf:1'}]}}}}}
"""

    found = mapped(template)

    assert [each.framework["metadata"]["name"] for each in found] == ["ps0", "worker0", "worker1"]
    assert {each.framework["kind"] for each in found} == {"Framework"}


def test_a_template_may_omit_a_type() -> None:
    roles = roles_of('{{if eq .type "worker"}}' + FREE + "{{end}}")

    assert list(roles) == ["worker"]
    assert "background" not in roles["worker"]


def test_the_index_of_a_missing_task_is_not_reused() -> None:
    same_for_all = re.sub(r"          env:(\n.*){3}\n", "", FREE)

    roles = roles_of('{{if ne .index "0"}}' + same_for_all + "{{end}}", ("a", "b", "c", "d"))

    assert list(roles) == ["worker1", "worker2"]


def test_tasks_with_different_retries_are_separate_roles() -> None:
    template = FREE.replace("backoffLimit: 4", "backoffLimit: {{.index}}")

    roles = roles_of(template)

    assert [role["task"]["retryPolicy"]["maxRetryCount"] for role in roles.values()] == [0, 0, 1]
    assert list(roles) == ["ps", "worker0", "worker1"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(
            lambda job: job.replace("backoffLimit: 4", "podFailurePolicy: {}"),
            "Job mnist-ps-0: spec.podFailurePolicy: Forbidden: not supported by Frameworks; remove it",
            id="a field without counterpart",
        ),
        pytest.param(
            lambda job: job.replace("backoffLimit: 4", "parallelism: 2"),
            "Job mnist-ps-0: spec.parallelism: Invalid value: 2: must be 1: each task has its own Job",
            id="several pods in a Job",
        ),
        pytest.param(
            lambda job: job.replace("backoffLimit: 4", "backoffLimit: many"),
            'Job mnist-ps-0: spec.backoffLimit: Invalid value: "many": must be an integer of at least 0',
            id="no number of retries",
        ),
        pytest.param(
            lambda job: job.replace("OnFailure", "Always"),
            "Job mnist-ps-0: spec.template.spec.restartPolicy: Unsupported value: "
            '"Always": supported values: "Never", "OnFailure"',
            id="a Job that never ends",
        ),
        pytest.param(
            lambda job: job.replace("      restartPolicy: OnFailure\n", ""),
            "Job mnist-ps-0: spec.template.spec.restartPolicy: Required value: must be Never or OnFailure",
            id="no restart policy",
        ),
        pytest.param(
            lambda job: job.replace("  namespace: vision", "  finalizers: [x]"),
            "Job mnist-ps-0: metadata.finalizers: Forbidden: not supported by Frameworks; remove it",
            id="metadata without counterpart",
        ),
        pytest.param(
            lambda job: job.replace("  name: mnist-{{.type}}-{{.index}}\n", "", 1),
            "Job of ps 0: metadata.name: Required value: must be set: it determines the name of the Framework",
            id="no name",
        ),
        pytest.param(
            lambda job: job.replace("mnist-{{.type}}-{{.index}}", "mnist-{{.host}}"),
            "Job mnist-h10: metadata.name: must be NAME-{{.type}}-{{.index}} in the template, "
            "with the same NAME for all tasks",
            id="a name of another form",
        ),
        pytest.param(
            lambda job: job.replace("mnist-{{.type}}", "{{.host}}-{{.type}}"),
            "metadata.name: must be NAME-{{.type}}-{{.index}} in the template, "
            "with the same NAME for all tasks; here NAME is h10, h100, h14",
            id="names of their own",
        ),
        pytest.param(
            lambda job: job.replace("namespace: vision", "namespace: '{{.type}}'"),
            "Job mnist-worker-0: metadata.namespace: must be the same for every task: a Framework has one",
            id="namespaces of their own",
        ),
        pytest.param(
            lambda job: job.replace("backoffLimit: 4", "ttlSecondsAfterFinished: {{len .type}}"),
            "Job mnist-worker-0: spec.ttlSecondsAfterFinished: must be the same for every task: a Framework has one",
            id="times of their own",
        ),
        pytest.param(
            lambda job: job.replace("kind: Job", "kind: CronJob"),
            "CronJob mnist-ps-0: kind: CronJob (batch/v1) cannot be part of a Framework; make Jobs (batch/v1), Pods, "
            "TFJobs or Frameworks, and create other objects with kubectl",
            id="another kind",
        ),
        pytest.param(
            lambda job: f"{job}\n---\n{job}",
            "Job mnist-ps-0: kind: more than one Job or Pod for this task; only one is allowed",
            id="two of a task",
        ),
        pytest.param(
            lambda job: re.sub(r"metadata:\n  name.*\n  name.*\n  labels.*", "metadata: x", job),
            'Job of ps 0: metadata: Invalid value: "string": must be an object',
            id="no object",
        ),
        pytest.param(
            lambda job: job.replace("labels: {app: mnist}", "labels: mnist"),
            'Job mnist-ps-0: spec.template.metadata.labels: Invalid value: "string": must be an object',
            id="labels that are none",
        ),
        pytest.param(
            lambda job: "# {{.host}}",
            "the template contains no objects",
            id="nothing",
        ),
        pytest.param(lambda job: "[a]", "ps 0: must be an object with apiVersion and kind", id="a list"),
    ],
)
def test_an_unsupported_field_is_rejected_once_by_name(change: Callable[[str], str], problem: str) -> None:
    assert refusal_of(change(JOB)) == [problem]


def test_all_unsupported_fields_are_reported_at_once() -> None:
    assert len(refusal_of(JOB.replace("backoffLimit: 4", "parallelism: 2\n  selector: {}"))) == 2


def test_invalid_yaml_of_a_template_is_rejected_with_its_line() -> None:
    with pytest.raises(BadRequest, match="line 2"):
        documents_in("a: 1\n b: 2", TemplateTask("ps", 0, "h10"))
