"""
The status from and to JSON.

Small Frameworks list every task in full, with FrameworkController's field names. The status of a large Framework has
to fit into one object as well, so most tasks are *folded*: similar tasks share one entry of ``foldedTasks``
(see ``folded_tasks``). In any Framework, tasks are folded when the size limit is reached, except the one that
completed the attempt. Counts per role and state are always complete.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from launcher.core import names
from launcher.core.completion_codes import Completion
from launcher.core.serialization.attempt_json import attempt_from_json, attempt_to_json
from launcher.core.serialization.completion_json import completion_to_json
from launcher.core.serialization.folded_tasks import (
    TaskFolder,
    completion_from_entry,
    integer,
    retry_from_counters,
    unfold,
)
from launcher.core.spec import FrameworkName, RoleName
from launcher.core.status import (
    NO_RETRIES,
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
from launcher.core.timestamps import Time, format_optional, format_rfc3339, parse_optional, parse_rfc3339

#: Maximum number of tasks that are all listed in full.
LISTED_IN_FULL = 300
#: Maximum size of full entries in small Frameworks; log excerpts can make an entry large.
FULL_ENTRY_BYTES = 900_000
#: Maximum size of full entries in large Frameworks, enough for about 350 of them.
FULL_ENTRY_BYTES_IF_LARGE = 350_000


def status_to_json(status: FrameworkStatus, framework: FrameworkName, uid: str) -> dict[str, Any]:
    """The ``status`` of a Framework, as it is stored."""
    return _to_json(status, framework, uid, _serializer(status, framework, uid))


def _serializer(
    status: FrameworkStatus, framework: FrameworkName, uid: str, *, has_pod_uids: bool = False
) -> "_RoleSerializer":
    tasks = sum(len(role.tasks) for role in status.roles)
    return _RoleSerializer(framework, uid, status.attempt, tasks, has_pod_uids=has_pod_uids)


def listed_in_full(status: Mapping[str, Any], framework: FrameworkName, uid: str) -> Mapping[str, Any]:
    """
    The ``status`` with a full entry for each task, as in FrameworkController, without size limits.

    Raises ValueError when it was not written by a launcher.
    """
    roles = (status.get("attemptStatus") or {}).get("taskRoleStatuses") or ()
    if not any("foldedTasks" in role for role in roles) or (parsed := status_from_json(status)) is None:
        return status
    return _to_json(parsed, framework, uid, _FullRoleSerializer(framework, uid, parsed.attempt, 0))


def _to_json(
    status: FrameworkStatus, framework: FrameworkName, uid: str, serializer: "_RoleSerializer"
) -> dict[str, Any]:
    return {
        "observedGeneration": status.observed_generation,
        "state": status.state.value,
        "message": status.message,
        "taskCounts": _counts(task for role in status.roles for task in role.tasks),
        **_scale_to_json(status.roles, framework),
        "startTime": format_rfc3339(status.start_time),
        "runTime": format_optional(status.run_time),
        "completionTime": format_optional(status.completion_time),
        "transitionTime": format_rfc3339(status.transition_time),
        "conditions": [_condition_to_json(condition) for condition in status.conditions],
        "retryPolicyStatus": _retry_to_json(status.retry),
        "attemptStatus": _attempt_to_json(status, framework, uid, serializer),
    }


def attempt_status_to_json(status: FrameworkStatus, framework: FrameworkName, uid: str) -> dict[str, Any]:
    """
    ``status.attemptStatus``: the current attempt with its tasks, within the size limits of the status.

    Folded tasks have the uids of their pods too: the attempt is recorded without the spec, so there is room for them.
    """
    serializer = _serializer(status, framework, uid, has_pod_uids=True)
    return _attempt_to_json(status, framework, uid, serializer)


def _attempt_to_json(
    status: FrameworkStatus, framework: FrameworkName, uid: str, serializer: "_RoleSerializer"
) -> dict[str, Any]:
    attempt = status.attempt
    return {
        "id": attempt.id,
        "startTime": format_rfc3339(attempt.start_time),
        "runTime": format_optional(attempt.run_time),
        "completionTime": format_optional(attempt.completion_time),
        "instanceUID": names.instance_uid(attempt.id, names.attempt_uid(uid, attempt.id)),
        "configMapName": names.config_map_name(framework),
        "configMapUID": names.attempt_uid(uid, attempt.id),
        "completionStatus": _end_to_json(attempt.completion, attempt.trigger),
        "rescaleCount": attempt.rescales,
        "taskRoleStatuses": [serializer.role(role) for role in status.roles],
    }


def status_from_json(status: Mapping[str, Any]) -> FrameworkStatus | None:
    """Parses *status*; None for an empty one. Raises ValueError when it was not written by a launcher."""
    if not status:
        return None
    try:
        return _status_from_json(status)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"status was not written by a launcher: {type(error).__name__} {error}") from error


def _status_from_json(status: Mapping[str, Any]) -> FrameworkStatus:
    attempt, end = status["attemptStatus"], status["attemptStatus"].get("completionStatus")
    attempt_started = parse_rfc3339(attempt["startTime"])
    return FrameworkStatus(
        start_time=parse_rfc3339(status["startTime"]),
        transition_time=parse_rfc3339(status["transitionTime"]),
        attempt=FrameworkAttempt(
            id=integer(attempt["id"]),
            start_time=attempt_started,
            run_time=parse_optional(attempt.get("runTime")),
            completion_time=parse_optional(attempt.get("completionTime")),
            completion=completion_from_entry(end) if end else None,
            trigger=_trigger_from_json(end.get("trigger")) if end else None,
            rescales=integer(attempt.get("rescaleCount", 0)),
        ),
        roles=tuple(_role_from_json(role, attempt_started) for role in attempt.get("taskRoleStatuses") or ()),
        state=State(status["state"]),
        run_time=parse_optional(status.get("runTime")),
        completion_time=parse_optional(status.get("completionTime")),
        retry=_retry_from_json(status["retryPolicyStatus"]),
        conditions=tuple(_condition_from_json(condition) for condition in status.get("conditions") or ()),
        observed_generation=integer(status.get("observedGeneration", 0)),
        message=status.get("message", ""),
    )


def _scale_to_json(roles: Sequence[RoleStatus], framework: FrameworkName) -> dict[str, Any]:
    """The fields of the scale subresource, for Frameworks with one role."""
    if len(roles) != 1:
        return {}
    (role,) = roles
    return {"replicas": len(role.tasks), "selector": names.role_selector(framework, role.name)}


class _RoleSerializer:
    """Serializes roles, with full entries up to the size limit."""

    def __init__(
        self,
        framework: FrameworkName,
        uid: str,
        attempt: FrameworkAttempt,
        tasks: int,
        *,
        has_pod_uids: bool = False,
    ) -> None:
        self._framework, self._uid, self._attempt = framework, uid, attempt
        self._is_large = tasks > LISTED_IN_FULL
        self._remaining_bytes = FULL_ENTRY_BYTES_IF_LARGE if self._is_large else FULL_ENTRY_BYTES
        self._folder = TaskFolder(attempt.start_time, has_pod_uids=has_pod_uids)

    def role(self, role: RoleStatus) -> dict[str, Any]:
        """The entry of one role in ``taskRoleStatuses``."""
        full: list[dict[str, Any]] = []
        folded: list[TaskStatus] = []
        for task in role.tasks:
            if (entry := self._full_entry(role.name, task)) is not None:
                full.append(entry)
            else:
                folded.append(task)
        entry = {
            "name": role.name,
            "instanceUID": names.role_uid(self._uid, self._attempt.id, role.name),
            "podGracefulDeletionTimeoutSec": role.graceful_deletion_seconds,
            "taskCounts": _counts(role.tasks),
            "taskStatuses": full,
        }
        if folded:
            entry |= self._folder.fold(folded)
        return entry

    def _full_entry(self, role: RoleName, task: TaskStatus) -> dict[str, Any] | None:
        """The full entry of the task; None when it is folded."""
        if self._is_trigger(role, task):
            return self._task(role, task)
        if self._remaining_bytes <= 0 or (self._is_large and not _has_own_entry(task)):
            return None
        entry = self._task(role, task)
        self._remaining_bytes -= len(orjson.dumps(entry))
        return entry if self._remaining_bytes >= 0 else None

    def _is_trigger(self, role: RoleName, task: TaskStatus) -> bool:
        trigger = self._attempt.trigger
        return trigger is not None and trigger.role == role and trigger.index == task.index

    def _task(self, role: RoleName, task: TaskStatus) -> dict[str, Any]:
        attempt, number = task.attempt, task.retry.total
        entry: dict[str, Any] = {
            "index": task.index,
            "instanceUID": names.task_uid(self._uid, self._attempt.id, role, task.index, task.incarnation),
            "state": task.state.value,
            "message": task.message,
            "startTime": format_rfc3339(task.start_time),
            "runTime": format_optional(task.run_time),
            "completionTime": format_optional(task.completion_time),
            "transitionTime": format_rfc3339(task.transition_time),
            "deletionPending": task.deletion_pending,
            "retryPolicyStatus": _retry_to_json(task.retry),
            "attemptStatus": {
                "id": number,
                "startTime": format_rfc3339(attempt.start_time),
                "runTime": format_optional(attempt.run_time),
                "completionTime": format_optional(attempt.completion_time),
                "instanceUID": None
                if attempt.pod_uid is None
                else names.instance_uid(number, attempt.pod_uid),
                "podName": names.pod_name(self._framework, role, task.index),
                "podUID": attempt.pod_uid,
                "podNodeName": attempt.node,
                "podIP": attempt.ip,
                "podHostIP": attempt.host_ip,
                "completionStatus": _end_to_json(attempt.completion),
            },
        }
        if task.incarnation:
            entry["incarnation"] = task.incarnation
        if task.history:
            entry["attemptHistory"] = [attempt_to_json(attempt) for attempt in task.history]
        return entry


class _FullRoleSerializer(_RoleSerializer):
    """Serializes all tasks in full."""

    def _full_entry(self, role: RoleName, task: TaskStatus) -> dict[str, Any] | None:
        return self._task(role, task)


def _has_own_entry(task: TaskStatus) -> bool:
    """Whether the task failed, was retried or is deleted, so that it gets an entry of its own."""
    end = task.attempt.completion
    own = end is not None and end.failed and end.pod is not None
    return own or task.retry != NO_RETRIES or task.deletion_pending


def _role_from_json(role: Mapping[str, Any], attempt_started: Time) -> RoleStatus:
    tasks = [_task_from_json(task) for task in role.get("taskStatuses") or ()]
    tasks.extend(unfold(role, attempt_started))
    tasks.sort(key=lambda task: task.index)
    if [task.index for task in tasks] != list(range(len(tasks))):
        raise ValueError(f"status of role {role['name']} does not contain every task once")
    return RoleStatus(RoleName(role["name"]), tuple(tasks), role.get("podGracefulDeletionTimeoutSec"))


def _task_from_json(task: Mapping[str, Any]) -> TaskStatus:
    attempt = task["attemptStatus"]
    end = attempt.get("completionStatus")
    return TaskStatus(
        index=integer(task["index"]),
        start_time=parse_rfc3339(task["startTime"]),
        transition_time=parse_rfc3339(task["transitionTime"]),
        attempt=TaskAttempt(
            start_time=parse_rfc3339(attempt["startTime"]),
            run_time=parse_optional(attempt.get("runTime")),
            completion_time=parse_optional(attempt.get("completionTime")),
            pod_uid=attempt.get("podUID"),
            node=attempt.get("podNodeName"),
            ip=attempt.get("podIP"),
            host_ip=attempt.get("podHostIP"),
            completion=completion_from_entry(end) if end else None,
        ),
        state=State(task["state"]),
        run_time=parse_optional(task.get("runTime")),
        completion_time=parse_optional(task.get("completionTime")),
        retry=_retry_from_json(task["retryPolicyStatus"]),
        deletion_pending=task.get("deletionPending", False),
        incarnation=integer(task.get("incarnation", 0)),
        message=task.get("message", ""),
        history=tuple(attempt_from_json(entry) for entry in task.get("attemptHistory") or ()),
    )


def _counts(tasks: Iterable[TaskStatus]) -> dict[str, int]:
    """How many tasks are in which state, in the order of states; states that no task is in are left out."""
    counter = Counter(task.state for task in tasks)
    return {state.value: counter[state] for state in State if counter[state]}


def _retry_to_json(retry: RetryStatus) -> dict[str, Any]:
    entry = {
        "totalRetriedCount": retry.total,
        "accountableRetriedCount": retry.accountable,
        "retryDelaySec": retry.delay,
    }
    return (
        {**entry, "quickRetryCount": retry.consecutive_quick_retries}
        if retry.consecutive_quick_retries
        else entry
    )


def _retry_from_json(entry: Mapping[str, Any]) -> RetryStatus:
    return retry_from_counters(
        entry["totalRetriedCount"],
        entry["accountableRetriedCount"],
        entry.get("retryDelaySec"),
        entry.get("quickRetryCount", 0),
    )


def _end_to_json(end: Completion | None, trigger: Trigger | None = None) -> dict[str, Any] | None:
    if end is None:
        return None
    entry = completion_to_json(end)
    if trigger is not None:
        entry["trigger"] = {
            "message": trigger.message,
            "taskRoleName": trigger.role,
            "taskIndex": trigger.index,
        }
    return entry


def _trigger_from_json(entry: Mapping[str, Any] | None) -> Trigger | None:
    return (
        None
        if entry is None
        else Trigger(entry["message"], entry.get("taskRoleName"), entry.get("taskIndex"))
    )


def _condition_to_json(condition: Condition) -> dict[str, Any]:
    about = {} if condition.generation is None else {"observedGeneration": condition.generation}
    return {
        "type": condition.type,
        "status": "True" if condition.status else "False",
        **about,
        "lastTransitionTime": format_rfc3339(condition.since),
        "reason": condition.reason,
        "message": condition.message,
    }


def _condition_from_json(entry: Mapping[str, Any]) -> Condition:
    about = entry.get("observedGeneration")
    return Condition(
        entry["type"],
        entry["status"] == "True",
        parse_rfc3339(entry["lastTransitionTime"]),
        entry.get("reason", ""),
        entry.get("message", ""),
        None if about is None else integer(about),
    )
