"""An attempt that failed because its pod could never start has the cause of a pod that waits."""

from typing import Any

import pytest

from launcher.core.causes import Waiting
from launcher.core.completion_codes import Code, Completion
from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.finding import Finding
from launcher.core.planning import messages
from launcher.core.pods.start_failure import EXCEEDS_CAPACITY, start_failure
from tests.builders import a_container
from tests.core.diagnosis.situations import (
    BEGUN,
    WORKER,
    Json,
    a_failed_task,
    a_pod,
    a_role,
    a_situation,
    a_status,
    a_task,
    predefined,
    waiting,
)

MAIN = a_container("trian", image="a b", resources={"requests": {"cpu": "64"}})
ROLE = a_role(WORKER, 1, MAIN, a_container("sleep", name="side"))
START_ERROR = {
    "reason": "StartError",
    "exitCode": 128,
    "message": 'exec: "trian": executable file not found in $PATH',
}


def a_start_failure(pod: Json) -> Completion:
    """The completion of the attempt of a pod that can never start."""
    failure = start_failure(pod["status"], BEGUN)
    assert failure is not None
    return predefined(Code.POD_START_PERMANENT_ERROR, messages.start_failed(failure.reason))


def finding_of(completion: Completion) -> Finding:
    """The first finding after the pod was deleted."""
    return diagnose(a_situation(a_status([a_failed_task(0, completion)]), roles=[ROLE]))[0]


def unable(reason: str, message: str, **fields: Any) -> Json:
    return waiting(reason, message, role=ROLE, **fields)


def too_large() -> Json:
    message = "0/1 nodes are available: 1 Insufficient cpu."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    exceeds = {"type": EXCEEDS_CAPACITY, "status": "True", "message": message}
    return a_pod(0, ROLE, None, conditions=[scheduled, exceeds])


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        pytest.param(
            unable("InvalidImageName", 'couldn\'t parse image name "a b"'), "FL-IMG-01", id="image name"
        ),
        pytest.param(
            unable("CrashLoopBackOff", "back-off", lastState={"terminated": START_ERROR}),
            "FL-RUN-01",
            id="command",
        ),
        pytest.param(
            unable("CreateContainerConfigError", 'secret "keys" not found'), "FL-VOL-03", id="Secret"
        ),
        pytest.param(
            unable("ContainerCreating", 'volume "c": configmap "conf" not found'), "FL-VOL-02", id="ConfigMap"
        ),
        pytest.param(
            unable("CreateContainerConfigError", "couldn't find key token in Secret default/keys"),
            "FL-VOL-07",
            id="key",
        ),
        pytest.param(
            unable("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
            "FL-RUN-03",
            id="runAsNonRoot",
        ),
        pytest.param(unable("CreateContainerError", "no command specified"), "FL-RUN-04", id="no command"),
        pytest.param(too_large(), "FL-PEND-02", id="request"),
    ],
)
def test_a_start_failure_has_the_cause_and_the_words_of_a_pod_that_waits(pod: Json, cause: str) -> None:
    (waits,) = diagnose(a_situation(a_status([a_task()]), pod, roles=[ROLE]))

    failed = finding_of(a_start_failure(pod))

    assert (waits.cause.id, failed.cause.id) == (cause, cause)
    assert failed.summary == waits.summary


def test_a_start_failure_does_not_end_by_waiting() -> None:
    failed = finding_of(a_start_failure(unable("CreateContainerConfigError", 'secret "keys" not found')))

    assert failed.cause.waiting is Waiting.NEVER
    assert failed.next_step.endswith(
        "create secret generic keys --from-file=FILE; then submit the Framework again"
    )
    assert [(each.object, each.field.rpartition(".")[2]) for each in failed.evidence] == [
        ("framework/mnist", "completionStatus")
    ]


def test_a_request_that_exceeded_the_nodes_of_its_time_is_explained_without_them() -> None:
    completion = a_start_failure(too_large())
    source = a_situation(a_status([a_failed_task(0, completion)]), roles=[ROLE], nodes=None)

    finding = diagnose(source)[0]

    assert (
        finding.summary == "worker-0: no node was large enough: 0/1 nodes are available: 1 Insufficient cpu"
    )
