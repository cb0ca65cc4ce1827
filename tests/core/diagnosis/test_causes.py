"""Every cause in the table is found in its situation, with evidence and a next step."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.core.causes import CAUSES
from launcher.core.completion_codes import Code
from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.inputs import DiagnosisInput
from launcher.core.diagnosis.launcher_state import LauncherState, Leadership
from launcher.core.planning import messages
from launcher.core.spec import ExecutionType, Gang, RetryPolicy, StartAfter, StartCondition
from launcher.core.status import State
from launcher.core.timestamps import format_rfc3339
from tests.builders import a_container, a_node
from tests.core.diagnosis.situations import (
    BEGUN,
    NOW,
    PS,
    UID,
    WORKER,
    Json,
    a_condition,
    a_failed_task,
    a_pod,
    a_pod_end,
    a_retry,
    a_role,
    a_situation,
    a_status,
    a_task,
    an_event,
    an_exit,
    last_exit,
    predefined,
    unschedulable,
    waiting,
)


def requests(**amounts: str) -> Json:
    names = {name.replace("gpu", "nvidia.com/gpu"): amount for name, amount in amounts.items()}
    return a_container("python", resources={"limits": names})


def unscheduled(message: str, reason: str = "Unschedulable", **fields: Any) -> DiagnosisInput:
    role = fields.pop("role", None) or a_role(WORKER, 1)
    return a_situation(a_status([a_task()]), unschedulable(message, role, reason), roles=[role], **fields)


def waits(reason: str, message: str = "", events: tuple[Json, ...] = (), **fields: Any) -> DiagnosisInput:
    return a_situation(a_status([a_task()]), waiting(reason, message, **fields), events=events)


def not_created(message: str, **fields: Any) -> DiagnosisInput:
    return a_situation(a_status([a_task(0, State.CREATION_PENDING, message)]), **fields)


def rejected(error: str, **fields: Any) -> DiagnosisInput:
    return not_created(f'Error creating pod, retrying: pods "mnist-worker-0" is forbidden: {error}', **fields)


def failed(completion: Any, **fields: Any) -> DiagnosisInput:
    """A task failed, and the Framework goes on."""
    return a_situation(a_status([a_failed_task(0, completion), a_task(1, State.RUNNING)]), **fields)


def running(**container: Any) -> Json:
    status = {"name": "main", "state": {"running": {"startedAt": format_rfc3339(BEGUN)}}, **container}
    return a_pod(phase="Running", containerStatuses=[status])


def in_init(name: str) -> Json:
    role = a_role(WORKER, 2, pod_spec={"initContainers": [a_container("sleep", name=name)]})
    state = {"running": {"startedAt": format_rfc3339(BEGUN)}}
    return a_pod(0, role, initContainerStatuses=[{"name": name, "state": state}])


SET_UP = 'MountVolume.SetUp failed for volume "data" :'
AVAILABLE = "0/1 nodes are available: 1 "
GPU_NODE = {**a_node("gpu"), "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4", "pods": "110"}}}
UNREADY = {
    **a_node(),
    "status": {"conditions": [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting."}]},
}
GANG_STATUS = a_status(
    [a_task(0), a_task(1)], conditions=(a_condition("GangPlaced", "0 of 2 tasks have a node."),)
)
ENDED: dict[str, Any] = {"state": State.COMPLETED, "completion_time": NOW - 20}

#: id -> situation, and a keyword of the summary.
SITUATIONS: dict[str, tuple[DiagnosisInput, str]] = {
    "FL-PEND-01": (
        unscheduled(f"{AVAILABLE}Insufficient cpu.", role=a_role(WORKER, 1, requests(cpu="3"))),
        "no node has 3 cpu free",
    ),
    "FL-PEND-02": (
        unscheduled(
            f"{AVAILABLE}Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims.",
            role=a_role(WORKER, 1, requests(gpu="8")),
            nodes=[GPU_NODE],
        ),
        "no node has 8 nvidia.com/gpu; the largest (gpu) has 4",
    ),
    "FL-PEND-03": (
        unscheduled(
            f"{AVAILABLE}node(s) didn't match Pod's node affinity/selector.",
            role=a_role(WORKER, 1, pod_spec={"nodeSelector": {"disk": "ssd"}}),
        ),
        "nodeSelector disk=ssd",
    ),
    "FL-PEND-04": (
        unscheduled(f"{AVAILABLE}node(s) had untolerated taint {{gpu: only}}."),
        "taint gpu=only",
    ),
    "FL-PEND-05": (
        unscheduled(
            f"{AVAILABLE}node(s) didn't have free ports for the requested pod ports.",
            role=a_role(WORKER, 1, a_container(ports=[{"containerPort": 80, "hostPort": 8080}])),
        ),
        "host port 8080",
    ),
    "FL-PEND-06": (unscheduled(f"{AVAILABLE}node(s) didn't match pod anti-affinity rules."), "anti-affinity"),
    "FL-PEND-07": (a_situation(GANG_STATUS, gang=Gang(timeout_seconds=300)), "fails after 300s"),
    "FL-PEND-08": (
        a_situation(GANG_STATUS, roles=[a_role(WORKER, 2, requests(cpu="3"))], gang=Gang()),
        "needs 2 tasks at once; the whole cluster has capacity for 1",
    ),
    "FL-PEND-09": (unscheduled(f"{AVAILABLE}node(s) were unschedulable."), "cordoned"),
    "FL-PEND-10": (unscheduled("no nodes available to schedule pods", nodes=[]), "no nodes"),
    "FL-PEND-11": (unscheduled(f"{AVAILABLE}Too many pods."), "maximum number of pods"),
    "FL-PEND-12": (
        unscheduled(
            "Scheduling is blocked due to non-empty scheduling gates",
            "SchedulingGated",
            role=a_role(WORKER, 1, pod_spec={"schedulingGates": [{"name": "example.com/quota"}]}),
        ),
        "example.com/quota",
    ),
    "FL-PEND-13": (unscheduled(f"{AVAILABLE}node(s) reserved for a pod that has waited longer."), "reserved"),
    "FL-PEND-14": (
        a_situation(
            a_status([a_task()]), a_pod(0, a_role(WORKER, 1, pod_spec={"schedulerName": "hived"}), None)
        ),
        "schedulerName is hived",
    ),
    "FL-PEND-15": (
        unscheduled(
            f"{AVAILABLE}node(s) had untolerated taint {{node.kubernetes.io/not-ready: }}.", nodes=[UNREADY]
        ),
        "not ready: n1",
    ),
    "FL-PEND-16": (
        unscheduled(f"{AVAILABLE}node(s) didn't match pod topology spread constraints."),
        "topology spread",
    ),
    "FL-PEND-17": (unscheduled("the pod waits for a better time."), "a better time"),
    "FL-IMG-01": (waits("InvalidImageName", "couldn't parse image name"), "not a valid image name"),
    "FL-IMG-02": (waits("ErrImagePull", 'failed to pull image "x": not found'), "does not exist"),
    "FL-IMG-03": (
        waits("ImagePullBackOff", "pull access denied, repository does not exist"),
        "denies access",
    ),
    "FL-IMG-04": (
        waits(
            "ImagePullBackOff", "Back-off", (an_event("Failed", "dial tcp: lookup r.example: no such host"),)
        ),
        "cannot be reached",
    ),
    "FL-IMG-05": (waits("ErrImageNeverPull", "not present with pull policy of Never"), "Never"),
    "FL-IMG-06": (waits("ErrImagePull", "toomanyrequests: You have reached your pull rate limit"), "limits"),
    "FL-IMG-07": (waits("ErrImagePull", "short read"), "cannot be pulled"),
    "FL-IMG-08": (
        waits("ContainerCreating", events=(an_event("Pulling", 'Pulling image "busybox"'),)),
        "is being pulled",
    ),
    "FL-VOL-01": (
        waits(
            "ContainerCreating",
            f"{SET_UP} hostPath type check failed: /d is not a directory",
        ),
        "hostPath /d",
    ),
    "FL-VOL-02": (
        waits(
            "ContainerCreating",
            events=(an_event("FailedMount", f'{SET_UP} configmap "conf" not found'),),
        ),
        'ConfigMap "conf"',
    ),
    "FL-VOL-03": (waits("CreateContainerConfigError", 'secret "keys" not found'), 'Secret "keys"'),
    "FL-VOL-04": (
        unscheduled("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        "PersistentVolumeClaim",
    ),
    "FL-VOL-05": (
        waits("ContainerCreating", events=(an_event("FailedMount", "mount.nfs: Connection timed out"),)),
        "NFS export",
    ),
    "FL-VOL-06": (
        waits("ContainerCreating", "hostPath /etc is outside the allowed host paths: /data"),
        "prefixes",
    ),
    "FL-VOL-07": (
        waits("CreateContainerConfigError", "couldn't find key token in Secret default/keys"),
        "key token",
    ),
    "FL-VOL-08": (waits("ContainerCreating", f"{SET_UP} odd"), "odd"),
    "FL-VOL-09": (
        waits("ContainerCreating", events=(an_event("FailedAttachVolume", "Multi-Attach error for volume"),)),
        "another node",
    ),
    "FL-ADM-01": (
        rejected(
            "exceeded quota: team, requested: cpu=2, used: cpu=3, limited: cpu=4",
            quotas=[{"metadata": {"name": "team"}, "status": {"hard": {"cpu": "4"}, "used": {"cpu": "4"}}}],
        ),
        "team, requested: cpu=2",
    ),
    "FL-ADM-02": (rejected("maximum cpu usage per Container is 1, but limit is 2"), "maximum cpu usage"),
    "FL-ADM-03": (rejected('violates PodSecurity "restricted:latest": runAsNonRoot != true'), "runAsNonRoot"),
    "FL-ADM-04": (rejected('admission webhook "policy.example" denied the request: no'), "policy.example"),
    "FL-ADM-05": (
        not_created('Error creating pod, retrying: failed calling webhook "policy.example": refused'),
        "cannot be called",
    ),
    "FL-ADM-06": (
        failed(
            predefined(Code.POD_CREATION_PERMANENT_ERROR, 'Pod creation rejected: Pod "x" is invalid: spec')
        ),
        "is invalid",
    ),
    "FL-ADM-07": (rejected("error looking up service account default/robot: not found"), "default/robot"),
    "FL-ADM-08": (
        not_created("Waiting: pod mnist-worker-0 already exists and belongs to another owner."),
        "another owner",
    ),
    "FL-ADM-09": (
        a_situation(
            a_status(conditions=(a_condition("Valid", "spec.taskRoles: required"),)),
            roles=(),
            spec_errors="bad",
        ),
        "spec.taskRoles: required",
    ),
    "FL-ADM-10": (
        rejected("unable to create new content in namespace x because it is being terminated"),
        "deleted",
    ),
    "FL-ADM-11": (rejected("no PriorityClass with name high was found"), "high"),
    "FL-ADM-12": (rejected("some other plugin"), "some other plugin"),
    "FL-RUN-01": (
        failed(an_exit(128, "StartError", 'exec: "trian": executable file not found in $PATH')),
        "not found",
    ),
    "FL-RUN-02": (failed(an_exit(126)), "may not execute python"),
    "FL-RUN-03": (waits("CreateContainerConfigError", "runAsUser breaks non-root policy"), "non-root"),
    "FL-RUN-04": (waits("CreateContainerError", "name is reserved"), "name is reserved"),
    "FL-RUN-05": (
        waits(
            "CrashLoopBackOff",
            name="fetch",
            field="initContainerStatuses",
            lastState=last_exit(1),
            role=a_role(WORKER, 1, pod_spec={"initContainers": [a_container(name="fetch")]}),
        ),
        "init container fetch failed",
    ),
    "FL-RUN-06": (a_situation(a_status([a_task()]), in_init("download")), "init container download"),
    "FL-RUN-07": (
        waits("CrashLoopBackOff", lastState=last_exit(3, message="a\nno data"), restartCount=4),
        "failed 4 times and is restarted: exit code 3; last line: no data",
    ),
    "FL-RUN-08": (
        failed(
            an_exit(137, "OOMKilled"),
            roles=[a_role(WORKER, 2, a_container(resources={"limits": {"memory": "64Mi"}}))],
        ),
        "ran out of memory (limit 64Mi)",
    ),
    "FL-RUN-09": (failed(an_exit(139)), "SIGSEGV"),
    "FL-RUN-10": (
        failed(an_exit(7, message="KeyError: 'x'")),
        "exited with code 7; last line: KeyError: 'x'",
    ),
    "FL-RUN-11": (
        a_situation(
            a_status([a_task(0, State.RUNNING)]),
            running(ready=False),
            events=[an_event("Unhealthy", "Readiness probe failed: 503")],
        ),
        "Readiness probe failed: 503",
    ),
    "FL-RUN-12": (failed(an_exit(137, "ContainerStatusUnknown")), "does not know"),
    "FL-RUN-13": (failed(an_exit(1, message="OSError: No space left on device")), "no space left"),
    "FL-RUN-14": (
        a_situation(a_status([a_failed_task(0, an_exit(1), NOW), a_failed_task(1, an_exit(3), BEGUN)])),
        "worker-0: failed after worker-1",
    ),
    "FL-RUN-15": (failed(a_pod_end("PodDeadlineExceeded", -1004)), "activeDeadlineSeconds of the pod"),
    "FL-RUN-16": (
        waits(
            "ContainerCreating",
            events=(an_event("FailedCreatePodSandBox", "Failed to create pod sandbox: cni: no address"),),
        ),
        "cni: no address",
    ),
    "FL-RUN-17": (
        replace(
            a_situation(a_status([a_task(0, State.RUNNING)]), running(ready=True)),
            last_output={"mnist-worker-0": NOW - 2520},
        ),
        "has written nothing for 42m",
    ),
    "FL-RUN-18": (
        failed(predefined(Code.STALLED, messages.stalled(600, ("epoch 1", "epoch 2")))),
        "no output and no heartbeat for 600s (progressDeadlineSeconds); last output: epoch 1 / epoch 2",
    ),
    "FL-RUN-19": (
        failed(an_exit(1, message="OSError: [Errno 98] Address already in use\nstopped")),
        "container main cannot listen on its port: it is in use; last line: stopped",
    ),
    "FL-NODE-01": (
        a_situation(a_status([a_task(0, State.RUNNING)]), running(ready=True), nodes=[UNREADY]),
        "node n1 is not ready: Kubelet stopped posting.",
    ),
    "FL-NODE-02": (failed(a_pod_end("PodNodeLost", -1001)), "node was lost"),
    "FL-NODE-03": (failed(a_pod_end("PodEvicted", -1000, "low on resource: ephemeral-storage")), "ephemeral"),
    "FL-NODE-04": (failed(a_pod_end("PodScheduledToInsufficientResourceNode", -1002)), "rejected"),
    "FL-NODE-05": (failed(a_pod_end("PodNodeShutdown", -1007)), "shut down"),
    "FL-ORD-01": (
        a_situation(
            a_status(
                {
                    WORKER: [
                        a_task(0, State.CREATION_PENDING, "Waiting for role ps to be Ready (startAfter).")
                    ],
                    PS: [a_task(0), a_task(1, State.RUNNING)],
                }
            ),
            roles=[
                a_role(WORKER, 1, start_after=(StartAfter(PS, StartCondition.READY),)),
                a_role(PS, 2),
            ],
        ),
        "waits until role ps is Ready: ps-0 (AttemptPreparing)",
    ),
    "FL-ORD-02": (
        a_situation(
            a_status(
                {
                    WORKER: [a_task(0, State.CREATION_PENDING, "Waiting for all pods (roleSequence).")],
                    PS: [a_task(0, State.CREATION_PENDING)],
                }
            ),
            roles=[a_role(WORKER, 1), a_role(PS, 1)],
            role_sequence=(PS, WORKER),
        ),
        "pods of role ps are created: ps-0",
    ),
    "FL-ORD-03": (
        failed(predefined(Code.START_CONDITION_UNREACHABLE, "startAfter can no longer be met: role ps")),
        "can no longer be met",
    ),
    "FL-ORD-04": (
        a_situation(a_status([a_task(0, ip="10.0.0.1"), a_task(1)]), in_init("launcher-discovery")),
        "addresses of 1 task: worker-1",
    ),
    "FL-ORD-05": (
        failed(an_exit(201, message="missing: ps-1", name="launcher-discovery")),
        "missing: ps-1",
    ),
    "FL-RETRY-01": (
        a_situation(
            a_status(
                state=State.ATTEMPT_COMPLETED,
                completion_time=NOW - 4,
                completion=an_exit(1),
                retry=a_retry(total=1, accountable=1, delay=10),
            ),
            retry=RetryPolicy(max_retries=3),
        ),
        "attempt 3 starts in 6s (1 of 3 retries used)",
    ),
    "FL-RETRY-02": (
        a_situation(
            a_status(
                [
                    a_task(
                        0,
                        State.ATTEMPT_COMPLETED,
                        completion=an_exit(1),
                        completion_time=NOW - 4,
                        retry=a_retry(total=2, accountable=1, delay=20),
                    )
                ]
            ),
            roles=[a_role(WORKER, 1, retry=RetryPolicy(max_retries=3))],
        ),
        "attempt 4 starts in 16s (1 of 3 retries used, 1 not counted)",
    ),
    "FL-RETRY-03": (
        a_situation(
            a_status(completion=an_exit(1), retry=a_retry(total=2, accountable=2), **ENDED),
            retry=RetryPolicy(max_retries=2),
        ),
        "attempt 3 was the last: 2 of 2 retries used",
    ),
    "FL-RETRY-04": (a_situation(a_status(completion=an_exit(1), **ENDED)), "maxRetryCount is 0"),
    "FL-RETRY-05": (
        a_situation(
            a_status(
                [
                    a_task(
                        0, State.CREATION_PENDING, "Waiting for the pod of a previous attempt to be deleted."
                    )
                ]
            ),
            a_pod(deletionTimestamp=format_rfc3339(NOW + 80), deletionGracePeriodSeconds=100),
        ),
        "the pod of the previous attempt is still being deleted; its grace period ends in 80s",
    ),
    "FL-LIFE-01": (
        a_situation(
            a_status(),
            execution=ExecutionType.CREATE,
            metadata={
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:executionType": {}}}}]
            },
        ),
        "set by kubectl",
    ),
    "FL-LIFE-02": (
        a_situation(a_status(completion=predefined(Code.STOP_FRAMEWORK_REQUESTED, "Stopped"), **ENDED)),
        "stopped",
    ),
    "FL-LIFE-03": (a_situation(a_status(), roles=[a_role(WORKER, 0)]), "0 tasks"),
    "FL-LIFE-04": (
        a_situation(
            a_status(
                completion=predefined(Code.ACTIVE_DEADLINE_EXCEEDED, "activeDeadlineSeconds (9) exceeded"),
                **ENDED,
            )
        ),
        "activeDeadlineSeconds (9)",
    ),
    "FL-LIFE-05": (
        failed(
            predefined(Code.POD_PENDING_DEADLINE_EXCEEDED, "pendingDeadlineSeconds (5) exceeded (no cpu)")
        ),
        "no cpu",
    ),
    "FL-LIFE-06": (
        a_situation(
            a_status(completion=predefined(Code.GANG_TIMEOUT, "gang.timeoutSeconds (9) exceeded"), **ENDED)
        ),
        "gang.timeoutSeconds (9)",
    ),
    "FL-LIFE-07": (
        a_situation(
            a_status(), a_pod(), metadata={"deletionTimestamp": "x", "finalizers": ["foregroundDeletion"]}
        ),
        "remaining: 1 pod",
    ),
    "FL-LIFE-08": (
        a_situation(a_status(), metadata={"deletionTimestamp": "x", "finalizers": ["example.com/backup"]}),
        "example.com/backup",
    ),
    "FL-LIFE-09": (
        a_situation(a_status([a_task(0, State.DELETING)]), a_pod(deletionTimestamp=format_rfc3339(NOW - 40))),
        "40s after its grace period (node n1)",
    ),
    "FL-LIFE-10": (
        a_situation(
            a_status([a_task(0, State.DELETING)]),
            a_pod(deletionTimestamp=format_rfc3339(NOW - 40), finalizers=["example.com/hold"]),
        ),
        "example.com/hold",
    ),
    "FL-LIFE-11": (
        failed(predefined(Code.POD_EXTERNAL_DELETED, "The pod was deleted by another client.")),
        "deleted by another client",
    ),
    "FL-LIFE-12": (
        failed(predefined(Code.POD_LOCAL_CACHE_CREATION_TIMEOUT, "not observed within 300s")),
        "not observed",
    ),
    "FL-SYS-01": (a_situation(None), "within 60s"),
    "FL-SYS-02": (a_situation(a_status(), generation=3), "generation 3"),
    "FL-SYS-03": (
        not_created("Error creating pod, retrying: too many requests, please try again later"),
        "limits the launcher",
    ),
    "FL-SYS-04": (
        a_situation(a_status(), events=[an_event("InternalError", "KeyError: 'x'", UID)]),
        "KeyError",
    ),
    "FL-SYS-05": (
        DiagnosisInput({"metadata": {"name": "mnist"}, "status": {"state": 1}}, None, (), None, (), NOW),
        "not written by a launcher",
    ),
    "FL-SYS-06": (
        a_situation(a_status(), launcher=LauncherState(disk_full="3 MiB left")),
        "3 MiB left",
    ),
    "FL-SYS-07": (
        not_created("Error creating pod, retrying: cannot connect to the API server"),
        "cannot reach",
    ),
    "FL-SYS-08": (a_situation(a_status([a_task()]), a_pod(containerStatuses=7)), "wrong types"),
    "FL-SYS-09": (
        a_situation(a_status(), launcher=LauncherState(leadership=Leadership("launchers", "pod-1", 12, 15))),
        "pod-1 has not renewed its Lease for 12s; another replica leads after 15s",
    ),
    "FL-SYS-10": (
        a_situation(a_status(), launcher=LauncherState(queued=900, queued_seconds=31.5)),
        "900 Frameworks in the launcher's queue, the first for 31s",
    ),
}


@pytest.mark.parametrize("cause", list(SITUATIONS))
def test_the_situation_of_a_cause_is_diagnosed(cause: str) -> None:
    source, keyword = SITUATIONS[cause]

    findings = {finding.cause.id: finding for finding in diagnose(source)}

    assert cause in findings, sorted(findings)
    assert keyword in findings[cause].summary
    assert "{" not in findings[cause].next_step.replace("tolerations: {", "")
    assert findings[cause].next_step


def test_every_cause_in_the_table_has_a_situation() -> None:
    assert list(SITUATIONS) == list(CAUSES)


def test_a_situation_has_one_cause() -> None:
    # The first failure and those that followed; the timeout and that it is not retried.
    several = {"FL-RUN-14", "FL-LIFE-06"}

    wrong = {
        cause: [finding.cause.id for finding in diagnose(source)]
        for cause, (source, _) in SITUATIONS.items()
        if cause not in several and len(diagnose(source)) != 1
    }

    assert wrong == {}
