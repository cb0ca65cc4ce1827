"""Findings are ordered and folded, and their cost per task is small."""

from launcher.core.completion_codes import Code
from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.finding import finding_to_json
from launcher.core.diagnosis.inputs import DiagnosisScope
from launcher.core.status import State
from launcher.core.timestamps import format_rfc3339
from tests.builders import a_container
from tests.core.diagnosis.situations import (
    BEGUN,
    NOW,
    PS,
    WORKER,
    a_failed_task,
    a_pod,
    a_role,
    a_situation,
    a_status,
    a_task,
    a_trigger,
    an_exit,
    last_exit,
    predefined,
    unschedulable,
    waiting,
)

NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."


def test_a_framework_that_runs_has_no_findings() -> None:
    container = {"name": "main", "ready": True, "state": {"running": {}}}
    pods = [a_pod(index, phase="Running", containerStatuses=[container]) for index in range(2)]

    assert diagnose(a_situation(a_status([a_task(0, State.RUNNING), a_task(1, State.RUNNING)]), *pods)) == ()


def test_tasks_with_the_same_cause_are_folded_into_one_finding() -> None:
    role = a_role(WORKER, 8, a_container(resources={"requests": {"cpu": "3"}}))
    tasks = [a_task(index, State.PREPARING if index < 3 else State.RUNNING) for index in range(8)]
    pods = [unschedulable(NO_CPU, role, index=index) for index in range(3)]

    (finding,) = diagnose(a_situation(a_status(tasks), *pods, roles=[role]))

    assert finding.summary == "3 of 8 tasks: no node has 3 cpu free"
    assert (finding.tasks, finding.task_names) == (3, ("worker-0", "worker-1", "worker-2"))


def test_the_first_failure_comes_first_with_its_last_lines_and_the_others_are_folded() -> None:
    tasks = [
        a_failed_task(0, an_exit(1, message="connection reset"), BEGUN + 9),
        a_failed_task(1, an_exit(1, message="connection reset"), BEGUN + 8),
        a_failed_task(2, an_exit(2, message="step 1\nCUDA error"), BEGUN + 7),
    ]

    first, second = diagnose(a_situation(a_status(tasks)))

    assert first.summary == "worker-2: container main exited with code 2; last line: CUDA error"
    assert "step 1\nCUDA error" in [each.value for each in first.evidence]
    assert second.cause.id == "FL-RUN-14"
    assert second.summary.startswith("2 of 3 tasks: failed after worker-2:")


def test_of_failures_in_the_same_second_the_one_that_completed_the_attempt_comes_first() -> None:
    tasks = [a_failed_task(0, an_exit(1), NOW), a_failed_task(1, an_exit(3), NOW)]
    status = a_status(tasks, completion=an_exit(3), trigger=a_trigger(1), state=State.COMPLETED)

    assert next(finding.summary for finding in diagnose(a_situation(status))).startswith("worker-1:")


def test_findings_that_never_resolve_precede_those_that_may() -> None:
    tasks = [a_task(0), a_task(1)]
    pods = (unschedulable(NO_CPU), waiting("InvalidImageName", index=1))

    causes = [finding.cause.id for finding in diagnose(a_situation(a_status(tasks), *pods))]

    assert causes == ["FL-IMG-01", "FL-PEND-01"]


def test_a_selector_limits_the_diagnosis_to_a_role_or_a_task() -> None:
    roles = [a_role(WORKER, 2), a_role(PS, 1)]
    status = a_status({WORKER: [a_task(0), a_task(1)], PS: [a_task(0)]})
    pods = (
        unschedulable(NO_CPU, roles[0]),
        waiting("ErrImagePull", "not found", role=roles[0], index=1),
        waiting("InvalidImageName", role=roles[1]),
    )
    source = a_situation(status, *pods, roles=roles)

    def found(selector: DiagnosisScope) -> list[str]:
        return [finding.cause.id for finding in diagnose(source, selector)]

    assert found(DiagnosisScope("ps")) == ["FL-IMG-01"]
    assert found(DiagnosisScope("worker")) == ["FL-IMG-02", "FL-PEND-01"]
    assert found(DiagnosisScope("worker", 0)) == ["FL-PEND-01"]


def test_pods_of_another_owner_are_ignored() -> None:
    pod = waiting("InvalidImageName")
    pod["metadata"]["ownerReferences"][0]["uid"] = "other"

    assert diagnose(a_situation(a_status([a_task(0)]), pod)) == ()


def test_a_container_that_runs_again_after_a_failure_is_reported() -> None:
    container = {
        "name": "main",
        "ready": True,
        "restartCount": 2,
        "state": {"running": {}},
        "lastState": last_exit(137, "OOMKilled"),
    }
    pod = a_pod(phase="Running", containerStatuses=[container])

    (finding,) = diagnose(a_situation(a_status([a_task(0, State.RUNNING)]), pod))

    assert finding.cause.id == "FL-RUN-08"


def test_a_request_that_fits_no_selected_node_can_never_be_scheduled() -> None:
    role = a_role(
        WORKER, 1, a_container(resources={"requests": {"cpu": "3"}}), pod_spec={"nodeSelector": {"zone": "b"}}
    )
    small = {
        "metadata": {"name": "small", "labels": {"zone": "b"}},
        "status": {"allocatable": {"cpu": "1500m"}},
    }
    large = {"metadata": {"name": "large", "labels": {"zone": "a"}}, "status": {"allocatable": {"cpu": "64"}}}

    (finding,) = diagnose(
        a_situation(a_status([a_task()]), unschedulable(NO_CPU, role), roles=[role], nodes=[small, large])
    )

    assert finding.cause.id == "FL-PEND-02"
    assert "no node that matches nodeSelector has 3 cpu; the largest (small) has 1500m" in finding.summary


def test_without_nodes_an_unschedulable_pod_is_not_called_impossible() -> None:
    role = a_role(WORKER, 1, a_container(resources={"requests": {"cpu": "300"}}))

    (finding,) = diagnose(
        a_situation(a_status([a_task()]), unschedulable(NO_CPU, role), roles=[role], nodes=None)
    )

    assert finding.cause.id == "FL-PEND-01"


def test_a_finding_in_json_has_its_id_severity_evidence_and_next_step() -> None:
    (finding,) = diagnose(a_situation(a_status([a_task(0)]), waiting("InvalidImageName", "bad")))

    assert finding_to_json(finding) == {
        "id": "FL-IMG-01",
        "severity": "Error",
        "summary": 'worker-0: "busybox" is not a valid image name',
        "waiting": "Never",
        "nextStep": "correct spec.taskRoles[worker].task.pod.spec.containers[main].image",
        "evidence": [
            {
                "object": "pod/mnist-worker-0",
                "field": "status.containerStatuses[].state.waiting",
                "value": "InvalidImageName: bad",
            }
        ],
        "tasks": 1,
        "taskNames": ["worker-0"],
    }


def test_a_task_that_waits_for_a_failed_role_does_not_hide_the_failure() -> None:
    unreachable = predefined(Code.START_CONDITION_UNREACHABLE, "startAfter can no longer be met")
    tasks = [a_failed_task(0, unreachable, NOW), a_failed_task(1, an_exit(3), NOW)]

    causes = [finding.cause.id for finding in diagnose(a_situation(a_status(tasks)))]

    assert causes == ["FL-RUN-10", "FL-ORD-03"]


def test_a_task_that_cannot_be_scheduled_is_not_folded_into_failures() -> None:
    role = a_role(WORKER, 2, pod_spec={"nodeSelector": {"disk": "ssd"}})
    pod = unschedulable(
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", role, index=1
    )
    status = a_status([a_failed_task(0, an_exit(3)), a_task(1)])

    causes = [finding.cause.id for finding in diagnose(a_situation(status, pod, roles=[role]))]

    assert causes == ["FL-RUN-10", "FL-PEND-03"]


def test_the_end_of_pods_of_a_deleted_framework_is_no_finding() -> None:
    ended = a_failed_task(0, predefined(Code.POD_EXTERNAL_DELETED, "deleted"))
    deleted = {"deletionTimestamp": format_rfc3339(NOW), "finalizers": ["foregroundDeletion"]}

    causes = [finding.cause.id for finding in diagnose(a_situation(a_status([ended]), metadata=deleted))]

    assert causes == ["FL-LIFE-07"]


def test_a_sidecar_that_runs_is_not_an_unfinished_init_container() -> None:
    sidecar = a_container(name="proxy", restartPolicy="Always")
    role = a_role(WORKER, 1, pod_spec={"initContainers": [sidecar]})
    pod = a_pod(0, role, initContainerStatuses=[{"name": "proxy", "state": {"running": {}}}])

    assert diagnose(a_situation(a_status([a_task(0)]), pod, roles=[role])) == ()
