"""Failed attempts of tasks that ran on a node, as recorded in the status of Frameworks and in FrameworkAttempts."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from launcher.core.json_access import as_object, as_objects, text
from launcher.core.timestamps import Time, parse_rfc3339

#: A longer reason is cut.
MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """An attempt of a task that failed on a node."""

    node: str
    completion_time: Time
    role: str
    index: int
    #: Of the container that failed; None if there was none.
    exit_code: int | None
    reason: str


def node_failures(attempt: Mapping[str, Any]) -> Iterator[NodeFailure]:
    """
    The failed attempts of tasks in *attempt*, an ``attemptStatus``.

    Attempts that ended because the Framework did are not failures of their node, and an attempt without a node, such as
    that of a folded task, is none either.
    """
    for role in as_objects(attempt.get("taskRoleStatuses")):
        for task in as_objects(role.get("taskStatuses")):
            for entry in as_objects(task.get("attemptHistory")):
                yield from _failure(role, task, entry, entry.get("exitCode"), text(entry.get("reason")))
            current = as_object(task.get("attemptStatus"))
            end = as_object(current.get("completionStatus"))
            if as_object(end.get("type")).get("name") == "Failed" and (pod := as_object(end.get("pod"))):
                reason = text(task.get("message")) or text(end.get("diagnostics"))
                yield from _failure(role, task, current, _exit_code(pod), reason)


def _failure(
    role: Mapping[str, Any], task: Mapping[str, Any], entry: Mapping[str, Any], exit_code: Any, reason: str
) -> Iterator[NodeFailure]:
    # A status that another program wrote may contain anything.
    with suppress(KeyError, TypeError, ValueError):
        time, node = parse_rfc3339(entry["completionTime"]), text(entry.get("podNodeName"))
        if node:
            code = exit_code if isinstance(exit_code, int) else None
            yield NodeFailure(node, time, text(role["name"]), int(task["index"]), code, reason[:MAX_REASON])


def _exit_code(pod: Mapping[str, Any]) -> int | None:
    codes = [container.get("code") for container in as_objects(pod.get("containers"))]
    return next((code for code in codes if isinstance(code, int) and code), None)
