"""Messages as kube-apiserver, kubelets and containerd report them."""

import pytest

from launcher.core.completion_codes import Completion, ContainerTermination, PodDetail
from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.finding import Finding
from launcher.core.diagnosis.inputs import DiagnosisInput
from launcher.core.status import State
from tests.core.diagnosis.situations import (
    a_failed_task,
    a_pod,
    a_situation,
    a_status,
    a_task,
    predefined,
    waiting,
)

PULL = 'failed to pull and unpack image "registry.test/a/b:1": failed to resolve reference "registry.test/a/b:1": '


def only_finding(source: DiagnosisInput) -> Finding:
    (finding,) = diagnose(source)
    return finding


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        pytest.param(f"{PULL}registry.test/a/b:1: not found", "FL-IMG-02", id="not found"),
        pytest.param(
            f"{PULL}pulling from host 10.0.0.1:40111 failed with status code [manifests 1]: 403 Forbidden",
            "FL-IMG-03",
            id="forbidden",
        ),
        pytest.param(
            f'{PULL}failed to do request: Head "http://10.0.0.1:4290/v2": dial tcp 10.0.0.1:4290: connect: '
            "connection refused",
            "FL-IMG-04",
            id="a port that resembles a status code",
        ),
        pytest.param(
            f"{PULL}pulling from host 10.0.0.1:5000 failed with status code [manifests 1]: 429 Too Many Requests",
            "FL-IMG-06",
            id="too many requests",
        ),
        pytest.param(
            f"{PULL}pulling from host 10.0.0.1:4031 failed with status code [manifests 1]: 500 Internal Server Error",
            "FL-IMG-07",
            id="an error of the registry",
        ),
    ],
)
def test_an_error_of_the_runtime_names_the_cause_of_a_failed_pull(message: str, cause: str) -> None:
    finding = only_finding(a_situation(a_status([a_task()]), waiting("ErrImagePull", message)))

    assert finding.cause.id == cause


def test_the_id_of_a_container_is_left_out() -> None:
    message = f'failed to generate container "{"63fd" * 16}" spec: no command specified'

    finding = only_finding(a_situation(a_status([a_task()]), waiting("CreateContainerError", message)))

    assert (
        finding.summary
        == "worker-0: container main cannot be created: failed to generate container spec: no command specified"
    )


def test_the_reason_of_a_pod_is_the_evidence_instead_of_the_exit_codes_of_its_killed_containers() -> None:
    killed = ContainerTermination("main", 137, "Error", "")
    detail = PodDetail("Preempting", "Preempted in order to admit critical pod", (killed,))
    failed = a_failed_task(0, Completion(-1003, "PodPreemptedForCriticalPod", True, pod=detail))

    finding = only_finding(a_situation(a_status([failed, a_task(1, State.RUNNING)])))

    assert [(each.field, each.value) for each in finding.evidence] == [
        ("status.reason", "Preempting"),
        ("status.message", "Preempted in order to admit critical pod"),
    ]


def test_a_field_that_the_api_server_rejects_is_named() -> None:
    message = "Pod creation rejected: spec.dnsConfig: Required value: must provide `dnsConfig`"
    failed = a_failed_task(0, predefined(-200, message))

    finding = only_finding(a_situation(a_status([failed, a_task(1, State.RUNNING)])))

    assert "spec.dnsConfig: Required value" in finding.summary


@pytest.mark.parametrize(
    "error",
    [
        "https://10.96.0.1:443 cannot be reached: Cannot connect to host 10.96.0.1:443",
        "POST /api/v1/namespaces/x/pods: the response of the API server was lost (Server disconnected): the request "
        "may have been applied; read the object before retrying",
    ],
)
def test_an_api_server_that_does_not_respond_does_not_reject_the_pod(error: str) -> None:
    pending = a_task(0, State.CREATION_PENDING, f"Error creating pod, retrying: {error}")

    assert only_finding(a_situation(a_status([pending]))).cause.id == "FL-SYS-07"


def test_a_finalizer_holds_a_framework_whose_pods_are_deleted_after_it() -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/backup"]}
    foreground = {**metadata, "finalizers": ["example.com/backup", "foregroundDeletion"]}

    assert only_finding(a_situation(a_status(), a_pod(), metadata=metadata)).cause.id == "FL-LIFE-08"
    assert only_finding(a_situation(a_status(), a_pod(), metadata=foreground)).cause.id == "FL-LIFE-07"
