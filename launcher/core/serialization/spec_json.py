"""
The spec from and to JSON.

The JSON must be valid. Null means absent, an absent field has its default, and 1.0 is the integer 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.core.replicas import tasks_of_roles
from launcher.core.role_order import annotated_sequence, complete_sequence
from launcher.core.serialization import index_ranges
from launcher.core.spec import (
    DEFAULT_ATTEMPT_HISTORY,
    CleanPodPolicy,
    CompletionPolicy,
    Discovery,
    ExecutionType,
    FrameworkSpec,
    Gang,
    RetryPolicy,
    RoleName,
    StartAfter,
    StartCondition,
    TaskRole,
)

#: Longer grace periods are reduced to this one (68 years), so that it can be added to any time.
MAX_GRACE_SECONDS = 2**31 - 1

DEFAULT_MOUNT_PATH = "/configdir"

Json = dict[str, Any]
_NOTHING: Mapping[str, Any] = {}


def spec_from_json(spec: Mapping[str, Any], annotations: Mapping[str, Any] | None = None) -> FrameworkSpec:
    """
    The typed spec; the role sequence may come from *annotations*. Pod templates are shared with *spec*.

    Raises ValueError when a role has too many tasks, since callers create objects for each task.
    """
    tasks = tasks_of_roles(spec)
    if max(tasks, default=0) > index_ranges.INDEXES_END:
        raise ValueError(
            f"spec.taskRoles: a role has {max(tasks)} tasks; the maximum is {index_ranges.INDEXES_END}"
        )
    roles = tuple(map(_role_from_json, spec.get("taskRoles") or (), tasks))
    gang, discovery = spec.get("gang"), spec.get("discovery")
    return FrameworkSpec(
        roles=roles,
        execution=ExecutionType(spec.get("executionType") or ExecutionType.START),
        retry=_retry_from_json(spec.get("retryPolicy")),
        description=spec.get("description") or "",
        role_sequence=_sequence(spec.get("roleSequence") or (), roles, annotations),
        gang=None if gang is None else _gang_from_json(gang),
        discovery=None if discovery is None else _discovery_from_json(discovery),
        active_deadline_seconds=_count(spec.get("activeDeadlineSeconds")),
        ttl_seconds=_count(spec.get("ttlSecondsAfterFinished")),
        clean_pods=CleanPodPolicy(spec.get("cleanPodPolicy") or CleanPodPolicy.RUNNING),
        attempt_history_limit=_attempt_history_limit(spec.get("attemptHistoryLimit")),
    )


def spec_to_json(spec: FrameworkSpec) -> Json:
    """The spec as JSON, with its defaults; fields that are absent by default are omitted."""
    return _without_none(
        {
            "description": spec.description or None,
            "executionType": spec.execution.value,
            "retryPolicy": _retry_to_json(spec.retry),
            "roleSequence": list(spec.role_sequence) or None,
            "gang": None if spec.gang is None else _gang_to_json(spec.gang),
            "discovery": None if spec.discovery is None else _discovery_to_json(spec.discovery),
            "activeDeadlineSeconds": spec.active_deadline_seconds,
            "ttlSecondsAfterFinished": spec.ttl_seconds,
            "cleanPodPolicy": spec.clean_pods.value,
            "attemptHistoryLimit": spec.attempt_history_limit,
            "taskRoles": [_role_to_json(role) for role in spec.roles],
        }
    )


def _role_from_json(role: Mapping[str, Any], tasks: int) -> TaskRole:
    task = role.get("task") or _NOTHING
    grace = _count(task.get("podGracefulDeletionTimeoutSec"))
    return TaskRole(
        name=RoleName(role["name"]),
        tasks=tasks,
        pod=task.get("pod") or {},
        completion=_completion_from_json(role.get("frameworkAttemptCompletionPolicy") or _NOTHING),
        retry=_task_retry_from_json(task.get("retryPolicy")),
        start_after=tuple(map(_start_after_from_json, role.get("startAfter") or ())),
        background=bool(role.get("background")),
        graceful_deletion_seconds=None if grace is None else min(grace, MAX_GRACE_SECONDS),
        pending_deadline_seconds=_count(task.get("pendingDeadlineSeconds")),
        progress_deadline_seconds=_count(task.get("progressDeadlineSeconds")),
        fail_fast=task.get("failFast") is not False,
        pod_failure_spec=tuple(task.get("podFailureSpec") or ()),
    )


def _role_to_json(role: TaskRole) -> Json:
    return _without_none(
        {
            "name": role.name,
            "taskNumber": role.tasks,
            "startAfter": [_start_after_to_json(after) for after in role.start_after] or None,
            "frameworkAttemptCompletionPolicy": _completion_to_json(role.completion),
            "background": role.background,
            "task": _without_none(
                {
                    "retryPolicy": _retry_to_json(role.retry),
                    "podGracefulDeletionTimeoutSec": role.graceful_deletion_seconds,
                    "pendingDeadlineSeconds": role.pending_deadline_seconds,
                    "progressDeadlineSeconds": role.progress_deadline_seconds,
                    "failFast": role.fail_fast,
                    "podFailureSpec": list(role.pod_failure_spec) or None,
                    "pod": role.pod,
                }
            ),
        }
    )


def _retry_from_json(policy: Mapping[str, Any] | None) -> RetryPolicy:
    if policy is None:
        return RetryPolicy()
    return RetryPolicy(
        fancy=bool(policy.get("fancyRetryPolicy")), max_retries=int(policy.get("maxRetryCount") or 0)
    )


def _task_retry_from_json(policy: Mapping[str, Any] | None) -> RetryPolicy:
    codes = None if policy is None else policy.get("retryableExitCodes")
    return replace(_retry_from_json(policy), exit_codes=None if codes is None else _indexes_from_json(codes))


def _retry_to_json(policy: RetryPolicy) -> Json:
    codes = policy.exit_codes
    return _without_none(
        {
            "fancyRetryPolicy": policy.fancy,
            "maxRetryCount": policy.max_retries,
            "retryableExitCodes": None if codes is None else index_ranges.to_text(sorted(codes)),
        }
    )


def _completion_from_json(policy: Mapping[str, Any]) -> CompletionPolicy:
    return CompletionPolicy(
        min_failed=threshold(policy.get("minFailedTaskCount"), 1),
        min_succeeded=threshold(policy.get("minSucceededTaskCount"), -1),
        succeeded_indexes=_indexes_from_json(policy.get("succeededIndexes")),
    )


def _completion_to_json(policy: CompletionPolicy) -> Json:
    return _without_none(
        {
            "minFailedTaskCount": policy.min_failed,
            "minSucceededTaskCount": policy.min_succeeded,
            "succeededIndexes": index_ranges.to_text(sorted(policy.succeeded_indexes)) or None,
        }
    )


def threshold(count: float | None, default: int) -> int:
    """The threshold; 0 is read as -1, which is never."""
    return default if count is None else int(count) or -1


def _indexes_from_json(indexes: str | float | None) -> frozenset[int]:
    """The task indexes of ``0,2-5``, or of a single number, which is not quoted in YAML."""
    if indexes is None:
        return frozenset()
    if not isinstance(indexes, str):
        return frozenset({int(indexes)})
    return frozenset(index_ranges.from_text(indexes))


def _start_after_from_json(after: Mapping[str, Any]) -> StartAfter:
    return StartAfter(
        role=RoleName(after["role"]),
        condition=StartCondition(after.get("condition") or StartCondition.RUNNING),
        at_least=_count(after.get("atLeast")),
    )


def _start_after_to_json(after: StartAfter) -> Json:
    return _without_none({"role": after.role, "condition": after.condition.value, "atLeast": after.at_least})


def _gang_from_json(gang: Mapping[str, Any]) -> Gang:
    return Gang(
        timeout_seconds=_count(gang.get("timeoutSeconds")),
        min_tasks=_count(gang.get("minTasks")),
        queue=gang.get("queue") or "",
    )


def _gang_to_json(gang: Gang) -> Json:
    return _without_none(
        {"timeoutSeconds": gang.timeout_seconds, "minTasks": gang.min_tasks, "queue": gang.queue or None}
    )


def _discovery_from_json(discovery: Mapping[str, Any]) -> Discovery:
    ports: Mapping[str, int | float | str] = discovery.get("ports") or {}
    return Discovery(
        mount_path=discovery.get("mountPath") or DEFAULT_MOUNT_PATH,
        ports={RoleName(role): port if isinstance(port, str) else int(port) for role, port in ports.items()},
        wait_for_ports=bool(discovery.get("waitForPorts")),
        timeout_seconds=_count(discovery.get("timeoutSeconds")),
        image=discovery.get("image") or "",
    )


def _discovery_to_json(discovery: Discovery) -> Json:
    return _without_none(
        {
            "mountPath": discovery.mount_path,
            "ports": dict(discovery.ports),
            "waitForPorts": discovery.wait_for_ports,
            "timeoutSeconds": discovery.timeout_seconds,
            "image": discovery.image or None,
        }
    )


def _sequence(
    named: Sequence[str], roles: Sequence[TaskRole], annotations: Mapping[str, Any] | None
) -> tuple[RoleName, ...]:
    """The order of creation of all roles; empty when there is no role sequence."""
    named = named or annotated_sequence(annotations, {role.name for role in roles})[0]
    waits: dict[str, Sequence[str]] = {
        role.name: [after.role for after in role.start_after] for role in roles
    }
    return tuple(map(RoleName, complete_sequence(named, waits)))


def _attempt_history_limit(value: float | None) -> int:
    return DEFAULT_ATTEMPT_HISTORY if value is None else int(value)


def _count(value: float | None) -> int | None:
    return None if value is None else int(value)


def _without_none(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
