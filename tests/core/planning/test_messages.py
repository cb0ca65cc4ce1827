"""The status messages of planning, as users read them."""

import pytest

from launcher.core.completion_codes import (
    Attribute,
    Code,
    Completion,
    ContainerTermination,
    PodDetail,
    completion_for,
)
from launcher.core.failures.classifier import DEFAULT_CLASSIFIER
from launcher.core.failures.default_spec import DEFAULT_SPEC
from launcher.core.planning import messages
from launcher.core.spec import RoleName, StartAfter, StartCondition, TaskRole

WORKER = RoleName("worker")


def a_completion(
    code: int, phrase: str = "ContainerUnrecognizedFailed", *containers: ContainerTermination
) -> Completion:
    return Completion(code, phrase, True, frozenset(), "", PodDetail(containers=containers))


def a_role_with_limit(memory: str | None) -> TaskRole:
    limits = {"limits": {"memory": memory}} if memory else {}
    return TaskRole(WORKER, 1, {"spec": {"containers": [{"name": "main", "resources": limits}]}})


OUT_OF_MEMORY = ContainerTermination("main", 137, "OOMKilled")


@pytest.mark.parametrize(
    ("completion", "memory", "description"),
    [
        (
            a_completion(7, "ContainerUnrecognizedFailed", ContainerTermination("main", 7)),
            None,
            "container main exited with code 7",
        ),
        (
            a_completion(137, "ContainerSigKillReceived", ContainerTermination("main", 137)),
            None,
            "container main was killed by SIGKILL (exit code 137)",
        ),
        (
            a_completion(-1200, "ContainerDockerOOMKilled", OUT_OF_MEMORY),
            "64Mi",
            "container main was killed: out of memory (limit 64Mi); raise resources.limits.memory",
        ),
        (
            a_completion(-1200, "ContainerDockerOOMKilled", OUT_OF_MEMORY),
            None,
            "container main was killed: out of memory; raise resources.limits.memory",
        ),
        (
            a_completion(210, "ContainerPermanentFailed", ContainerTermination("main", 210)),
            None,
            "container main exited with code 210 (ContainerPermanentFailed)",
        ),
        (
            a_completion(1000, "CudaError", ContainerTermination("init"), ContainerTermination("main", 3)),
            None,
            "container main exited with code 3 (CudaError 1000)",
        ),
        (a_completion(-2000, "MyRule"), None, "MyRule (-2000)"),
        (a_completion(-1000, "PodEvicted"), None, "the node evicted the pod"),
        (Completion(7, "ContainerUnrecognizedFailed", True), None, "the container exited with code 7"),
        (
            completion_for(Code.POD_EXTERNAL_DELETED, messages.POD_DELETED),
            None,
            "the pod was deleted by another client",
        ),
        (completion_for(Code.SUCCEEDED, ""), None, "succeeded"),
    ],
)
def test_a_completion_is_described_by_its_cause(
    completion: Completion, memory: str | None, description: str
) -> None:
    assert messages.describe_completion(completion, a_role_with_limit(memory)) == description


def test_every_default_failure_rule_of_pods_has_a_description() -> None:
    for rule in DEFAULT_SPEC:
        completion = Completion(rule["code"], rule["phrase"], True, frozenset({Attribute.TRANSIENT}))

        assert rule["phrase"] not in messages.describe_completion(completion)


def test_a_classified_out_of_memory_kill_names_the_limit() -> None:
    killed = {"exitCode": 137, "reason": "OOMKilled"}
    status = {
        "phase": "Failed",
        "containerStatuses": [{"name": "main", "state": {"terminated": killed}}],
    }

    completion = DEFAULT_CLASSIFIER.classify(status, "mnist-worker-0")

    assert "(limit 64Mi)" in messages.describe_completion(completion, a_role_with_limit("64Mi"))


AFTER = StartAfter(RoleName("ps"), StartCondition.RUNNING, 2)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (messages.all_tasks_completed(2, 0), "All 2 tasks completed: 2 succeeded, 0 failed."),
        (messages.all_tasks_completed(1, 0), "All tasks completed: 1 succeeded, 0 failed."),
        (messages.failed_tasks(WORKER, 1, 1), "Role worker: 1 failed task reached minFailedTaskCount 1."),
        (
            messages.succeeded_tasks(WORKER, 2, 2),
            "Role worker: 2 succeeded tasks reached minSucceededTaskCount 2.",
        ),
        (messages.tasks_running(2, 2), "2 of 2 tasks running."),
        (
            messages.waiting_for_start_after(AFTER),
            "Waiting for 2 tasks of role ps to be Running (startAfter).",
        ),
        (
            messages.retrying("container main exited with code 7", 10, "attempt 2 of 3"),
            "Container main exited with code 7. Retrying after 10s: attempt 2 of 3.",
        ),
        (
            messages.not_retried("startAfter can no longer be met", "maxRetryCount is 0"),
            "startAfter can no longer be met. Not retried: maxRetryCount is 0.",
        ),
        (
            messages.pending_deadline(60, "Unschedulable: 0/1 nodes."),
            "pendingDeadlineSeconds (60) exceeded (Unschedulable: 0/1 nodes)",
        ),
        (
            messages.gang_unschedulable("volcano", messages.gang_progress(1, 4, 3, "")),
            "Gang not scheduled by volcano: 1 of 4 tasks have a node (minTasks 3).",
        ),
    ],
)
def test_messages_are_plain_sentences(message: str, text: str) -> None:
    assert message == text
