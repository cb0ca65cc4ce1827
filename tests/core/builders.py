"""Specs of the core, and statuses of pods: a test passes the fields that matter to it."""

from typing import Any

from launcher.core.spec import CompletionPolicy, FrameworkSpec, RetryPolicy, RoleName, TaskRole

START = 1_767_225_600  # 2026-01-01T00:00:00Z

#: The uid of the Framework.
UID = "11111111-2222-3333-4444-555555555555"


def a_role(
    name: str,
    tasks: int = 1,
    *,
    min_counts: tuple[int, int] = (1, -1),
    retry: tuple[bool, int] = (False, 0),
    **fields: Any,
) -> TaskRole:
    """A role; *min_counts* is (minFailedTaskCount, minSucceededTaskCount), *retry* is (fancy, maxRetryCount)."""
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    policy = CompletionPolicy(*min_counts, succeeded_indexes=fields.pop("succeeded_indexes", frozenset()))
    return TaskRole(RoleName(name), tasks, pod, policy, RetryPolicy(*retry), **fields)


def a_spec(*roles: TaskRole, retry: tuple[bool, int] = (False, 0), **fields: Any) -> FrameworkSpec:
    """A spec of these roles; by default of one role ``w`` with one task."""
    return FrameworkSpec(roles or (a_role("w"),), retry=RetryPolicy(*retry), **fields)


def a_terminated_status(exit_code: int, **terminated: Any) -> dict[str, Any]:
    """``pod.status`` after the termination of the pod's only container."""
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": exit_code, **terminated}}},
        ],
    }
