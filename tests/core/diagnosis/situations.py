"""Inputs of a diagnosis: a Framework with one role, its pods, nodes and events."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.core.completion_codes import (
    Completion,
    ContainerTermination,
    PodDetail,
    completion_for,
)
from launcher.core.diagnosis.inputs import DiagnosisInput
from launcher.core.diagnosis.launcher_state import HEALTHY, LauncherState
from launcher.core.framework import Framework
from launcher.core.names import pod_name
from launcher.core.owner_references import controller_reference
from launcher.core.spec import FrameworkName, FrameworkSpec, RoleName, TaskRole
from launcher.core.status import (
    Condition,
    FrameworkAttempt,
    FrameworkStatus,
    RetryStatus,
    RoleStatus,
    State,
    TaskAttempt,
    TaskStatus,
    Trigger,
)
from launcher.core.timestamps import format_rfc3339
from launcher.scheduling.node_fit import node_fit
from tests.builders import a_container, a_node

Json = dict[str, Any]

NOW = 1_767_225_600
UID = "11111111-2222-3333-4444-555555555555"
NAME, WORKER, PS = FrameworkName("mnist"), RoleName("worker"), RoleName("ps")
BEGUN = NOW - 60


def a_role(name: RoleName = WORKER, tasks: int = 2, *containers: Json, **fields: Any) -> TaskRole:
    spec: Json = {"containers": list(containers or (a_container("python", "train.py"),))}
    spec |= fields.pop("pod_spec", {})
    return TaskRole(name, tasks, {"spec": spec}, **fields)


def a_task(index: int = 0, state: State = State.PREPARING, message: str = "", **fields: Any) -> TaskStatus:
    """A task; attempt fields are passed as ``ip=``, ``completion=`` and so on."""
    own = {name: fields.pop(name) for name in ("retry", "deletion_pending", "history") if name in fields}
    attempt = TaskAttempt(BEGUN, **fields)
    return TaskStatus(index, BEGUN, BEGUN, attempt, state, message=message, **own)


def a_failed_task(index: int, completion: Completion, at: int = NOW - 30, **fields: Any) -> TaskStatus:
    return a_task(index, State.COMPLETED, completion=completion, completion_time=at, **fields)


def an_exit(code: int, reason: str = "Error", message: str = "", name: str = "main") -> Completion:
    """The completion of a task whose container exited."""
    detail = PodDetail(containers=(ContainerTermination(name, code, reason, message),))
    return Completion(code, "ContainerUnrecognizedFailed", True, pod=detail)


def a_pod_end(phrase: str, code: int = -1000, message: str = "") -> Completion:
    """The completion of a task whose pod was ended by its node."""
    return Completion(code, phrase, True, pod=PodDetail(phrase, message))


def predefined(code: int, diagnostics: str) -> Completion:
    return completion_for(code, diagnostics)


def a_status(
    tasks: Sequence[TaskStatus] | Mapping[RoleName, Sequence[TaskStatus]] = (), **fields: Any
) -> FrameworkStatus:
    roles = tasks if isinstance(tasks, Mapping) else {WORKER: tasks}
    attempt = {
        name: fields.pop(name) for name in ("completion", "trigger", "completion_time") if name in fields
    }
    return FrameworkStatus(
        BEGUN,
        BEGUN,
        FrameworkAttempt(0, BEGUN, **attempt),
        tuple(RoleStatus(name, tuple(each)) for name, each in roles.items()),
        **{"state": State.PREPARING, "observed_generation": 1, **fields},
    )


def a_situation(
    status: FrameworkStatus | None,
    *pods: Json,
    roles: Sequence[TaskRole] | None = None,
    nodes: Sequence[Json] | None = (),
    events: Sequence[Json] = (),
    metadata: Mapping[str, Any] | None = None,
    spec_errors: str = "",
    launcher: LauncherState = HEALTHY,
    quotas: Sequence[Json] = (),
    generation: int = 1,
    **spec: Any,
) -> DiagnosisInput:
    """The input for a Framework with these tasks and pods; by default there is one node of 4 CPUs."""
    known = [a_node()] if nodes == () else nodes
    deleting = "deletionTimestamp" in (metadata or {})
    framework = Framework(
        NAME,
        "default",
        UID,
        generation,
        FrameworkSpec(tuple(roles if roles is not None else (a_role(),)), **spec),
        status,
        deleting,
        spec_errors,
    )
    obj = {
        "metadata": {"name": NAME, "uid": UID, "creationTimestamp": format_rfc3339(BEGUN), **(metadata or {})}
    }
    return DiagnosisInput(obj, framework, pods, known, events, NOW, quotas, launcher, node_fit)


_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")


def a_pod(index: int = 0, role: TaskRole | None = None, node: str | None = "n1", **status: Any) -> Json:
    """The pod of a task; without a *node* it is not scheduled. *status* is that of the pod."""
    used = role or a_role()
    name = pod_name(NAME, used.name, index)
    extra = {name: status.pop(name) for name in _DELETION if name in status}
    spec: Json = {**used.pod["spec"]}
    if node is not None:
        spec["nodeName"] = node
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{used.name}-{index}",
            "creationTimestamp": format_rfc3339(BEGUN),
            "ownerReferences": [controller_reference("v1", "Framework", NAME, UID)],
            **extra,
        },
        "spec": spec,
        "status": {"phase": "Pending", **status},
    }


def unschedulable(
    message: str, role: TaskRole | None = None, reason: str = "Unschedulable", index: int = 0
) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return a_pod(index, role, None, conditions=[condition])


def waiting(reason: str, message: str = "", *, name: str = "main", index: int = 0, **fields: Any) -> Json:
    """A pod whose container waits."""
    role = fields.pop("role", None)
    field = fields.pop("field", "containerStatuses")
    state = {"waiting": {"reason": reason, "message": message}}
    status: Json = {field: [{"name": name, "state": state, "image": "busybox", **fields}]}
    return a_pod(index, role, **status)


def last_exit(code: int, reason: str = "Error", message: str = "") -> Json:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def an_event(reason: str, message: str, uid: str = "uid-worker-0", at: int = NOW - 5) -> Json:
    return {
        "involvedObject": {"uid": uid},
        "reason": reason,
        "message": message,
        "lastTimestamp": format_rfc3339(at),
    }


def a_condition(kind: str, message: str, *, status: bool = False) -> Condition:
    return Condition(kind, status, BEGUN, "Reason", message)


def a_trigger(index: int) -> Trigger:
    return Trigger("Role worker: 1 failed task reached minFailedTaskCount 1.", WORKER, index)


def a_retry(**fields: Any) -> RetryStatus:
    return RetryStatus(**fields)
