"""
Status from and to JSON. It alone knows the field names of ``status``.

Small Frameworks list every task in full, under FrameworkController's field names. Large ones must fit into one object
as well, so there a task that has nothing to tell is *folded*: tasks alike share one entry of ``foldedTasks`` (see
``core.wirefold``). So is, in any Framework, what no room is left for; the task that ended the attempt is always listed
in full. Counts per role and state stand at the top in any case.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from launcher.core import names
from launcher.core.completion_codes import Completion, completion_to_json
from launcher.core.serialization.folded_tasks import TaskFolder, end_from_json, retry_of, unfold, whole
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
from launcher.core.timestamps import Time, format_rfc3339, parse_rfc3339

#: Up to this many tasks, every one is listed in full.
LISTED_IN_FULL = 300
#: As long as they take no more bytes than this: a log's last lines can make an entry long.
FULL_ENTRY_BYTES = 900_000
#: In larger Frameworks, at most this many bytes of full entries: room for about 350 tasks with something to tell.
TELLING_ENTRY_BYTES = 350_000


def status_to_json(status: FrameworkStatus, framework: FrameworkName, uid: str) -> dict[str, Any]:
    """``status`` of the Framework called *framework*, as it is stored."""
    lister = _Lister(framework, uid, status.attempt, sum(len(role.tasks) for role in status.roles))
    return _written(status, framework, uid, lister)


def listed_in_full(status: Mapping[str, Any], framework: FrameworkName, uid: str) -> Mapping[str, Any]:
    """
    The same ``status`` with an entry for each task, as FrameworkController has it, whatever room that takes.

    Raises ValueError when it was not written by a launcher.
    """
    roles = (status.get("attemptStatus") or {}).get("taskRoleStatuses") or ()
    if not any("foldedTasks" in role for role in roles) or (record := status_from_json(status)) is None:
        return status
    return _written(record, framework, uid, _FullLister(framework, uid, record.attempt, 0))


def _written(
    status: FrameworkStatus, framework: FrameworkName, uid: str, lister: "_Lister"
) -> dict[str, Any]:
    attempt = status.attempt
    return {
        "observedGeneration": status.observed_generation,
        "state": status.state.value,
        "message": status.message,
        "taskCounts": _counts(task for role in status.roles for task in role.tasks),
        **_scale_to_json(status.roles, framework),
        "startTime": format_rfc3339(status.start_time),
        "runTime": _time(status.run_time),
        "completionTime": _time(status.completion_time),
        "transitionTime": format_rfc3339(status.transition_time),
        "conditions": [_condition_to_json(condition) for condition in status.conditions],
        "retryPolicyStatus": _retry_to_json(status.retry),
        "attemptStatus": {
            "id": attempt.id,
            "startTime": format_rfc3339(attempt.start_time),
            "runTime": _time(attempt.run_time),
            "completionTime": _time(attempt.completion_time),
            "instanceUID": names.instance_uid(attempt.id, names.attempt_uid(uid, attempt.id)),
            "configMapName": names.config_map_name(framework),
            "configMapUID": names.attempt_uid(uid, attempt.id),
            "completionStatus": _end_to_json(attempt.completion, attempt.trigger),
            "rescaleCount": attempt.rescales,
            "taskRoleStatuses": [lister.role(role) for role in status.roles],
        },
    }


def status_from_json(status: Mapping[str, Any]) -> FrameworkStatus | None:
    """The record that *status* tells of; None for an empty one. Raises ValueError when it is none of ours."""
    if not status:
        return None
    try:
        return _status_from_json(status)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"status was not written by a launcher: {type(error).__name__} {error}") from error


def _status_from_json(status: Mapping[str, Any]) -> FrameworkStatus:
    attempt, end = status["attemptStatus"], status["attemptStatus"].get("completionStatus")
    began = parse_rfc3339(attempt["startTime"])
    return FrameworkStatus(
        start_time=parse_rfc3339(status["startTime"]),
        transition_time=parse_rfc3339(status["transitionTime"]),
        attempt=FrameworkAttempt(
            id=whole(attempt["id"]),
            start_time=began,
            run_time=_moment(attempt.get("runTime")),
            completion_time=_moment(attempt.get("completionTime")),
            completion=end_from_json(end) if end else None,
            trigger=_trigger_from_json(end.get("trigger")) if end else None,
            rescales=whole(attempt.get("rescaleCount", 0)),
        ),
        roles=tuple(_role_from_json(role, began) for role in attempt.get("taskRoleStatuses") or ()),
        state=State(status["state"]),
        run_time=_moment(status.get("runTime")),
        completion_time=_moment(status.get("completionTime")),
        retry=_retry_from_json(status["retryPolicyStatus"]),
        conditions=tuple(_condition_from_json(condition) for condition in status.get("conditions") or ()),
        observed_generation=whole(status.get("observedGeneration", 0)),
        message=status.get("message", ""),
    )


def _scale_to_json(roles: Sequence[RoleStatus], framework: FrameworkName) -> dict[str, Any]:
    """What Kubernetes' scale reads of a status; several roles have no one scale."""
    if len(roles) != 1:
        return {}
    (role,) = roles
    return {"replicas": len(role.tasks), "selector": names.role_selector(framework, role.name)}


class _Lister:
    """Writes roles one after another, in full while there is room."""

    def __init__(self, framework: FrameworkName, uid: str, attempt: FrameworkAttempt, tasks: int) -> None:
        self._framework, self._uid, self._attempt = framework, uid, attempt
        self._folds = tasks > LISTED_IN_FULL
        self._room = TELLING_ENTRY_BYTES if self._folds else FULL_ENTRY_BYTES
        self._folder = TaskFolder(attempt.start_time)

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
        """The task's own entry; None when it is to be folded."""
        if self._is_trigger(role, task):
            return self._task(role, task)
        if self._room <= 0 or (self._folds and not _tells(task)):
            return None
        entry = self._task(role, task)
        self._room -= len(orjson.dumps(entry))
        return entry if self._room >= 0 else None

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
            "runTime": _time(task.run_time),
            "completionTime": _time(task.completion_time),
            "transitionTime": format_rfc3339(task.transition_time),
            "deletionPending": task.deletion_pending,
            "retryPolicyStatus": _retry_to_json(task.retry),
            "attemptStatus": {
                "id": number,
                "startTime": format_rfc3339(attempt.start_time),
                "runTime": _time(attempt.run_time),
                "completionTime": _time(attempt.completion_time),
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
        return entry


class _FullLister(_Lister):
    """Has room for everything."""

    def _full_entry(self, role: RoleName, task: TaskStatus) -> dict[str, Any] | None:
        return self._task(role, task)


def _tells(task: TaskStatus) -> bool:
    """Whether something happened to the task that its neighbours do not share."""
    end = task.attempt.completion
    own = end is not None and end.failed and end.pod is not None
    return own or task.retry != NO_RETRIES or task.deletion_pending


def _role_from_json(role: Mapping[str, Any], began: Time) -> RoleStatus:
    tasks = [_task_from_json(task) for task in role.get("taskStatuses") or ()]
    tasks.extend(unfold(role, began))
    tasks.sort(key=lambda task: task.index)
    if [task.index for task in tasks] != list(range(len(tasks))):
        raise ValueError(f"status of role {role['name']} does not tell of every task once")
    return RoleStatus(RoleName(role["name"]), tuple(tasks), role.get("podGracefulDeletionTimeoutSec"))


def _task_from_json(task: Mapping[str, Any]) -> TaskStatus:
    attempt = task["attemptStatus"]
    end = attempt.get("completionStatus")
    return TaskStatus(
        index=whole(task["index"]),
        start_time=parse_rfc3339(task["startTime"]),
        transition_time=parse_rfc3339(task["transitionTime"]),
        attempt=TaskAttempt(
            start_time=parse_rfc3339(attempt["startTime"]),
            run_time=_moment(attempt.get("runTime")),
            completion_time=_moment(attempt.get("completionTime")),
            pod_uid=attempt.get("podUID"),
            node=attempt.get("podNodeName"),
            ip=attempt.get("podIP"),
            host_ip=attempt.get("podHostIP"),
            completion=end_from_json(end) if end else None,
        ),
        state=State(task["state"]),
        run_time=_moment(task.get("runTime")),
        completion_time=_moment(task.get("completionTime")),
        retry=_retry_from_json(task["retryPolicyStatus"]),
        deletion_pending=task.get("deletionPending", False),
        incarnation=whole(task.get("incarnation", 0)),
        message=task.get("message", ""),
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
    return retry_of(
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
        None if about is None else whole(about),
    )


def _time(time: Time | None) -> str | None:
    return None if time is None else format_rfc3339(time)


def _moment(text: str | None) -> Time | None:
    return None if text is None else parse_rfc3339(text)
