"""One Framework as text: its state and tasks, or all its details."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.cli.output import framework_summary
from launcher.cli.output.event_table import EVENT_HEADER, event_cells
from launcher.cli.output.tables import table_with_reasons
from launcher.cli.output.task_table import TASK_HEADER, TaskRow, task_rows
from launcher.cli.output.terminal import one_line, width_of, wrapped
from launcher.core.replicas import tasks_of_roles

Json = dict[str, Any]

_LABEL_COLUMNS = 14


def framework_text(
    framework: Json,
    now: float,
    finding: str = "",
    *,
    show_all: bool,
    output_ages: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """
    The state of the Framework, its message and the most important *finding*, then the tasks.

    With *output_ages*, by task, the table has a column for them and may be wider than the terminal.
    """
    yield from wrapped(framework_summary.headline(framework, now), "", "  ")
    yield from wrapped(framework_summary.message_of(framework), "  ")
    yield from wrapped(finding, "  ")
    rows = list(task_rows(framework, now, show_all=show_all))
    if rows:
        yield ""
        yield from _task_table(rows, output_ages)


def _task_table(rows: Sequence[TaskRow], output_ages: Mapping[str, str] | None) -> Iterator[str]:
    if output_ages is None:
        return table_with_reasons(TASK_HEADER, rows, width_of(sys.stdout))
    header = (*TASK_HEADER[:-1], "LAST OUTPUT", TASK_HEADER[-1])
    return table_with_reasons(
        header, [(*row[:-1], output_ages.get(row.task, ""), row.reason) for row in rows], None
    )


def description(framework: Json, events: Sequence[Json], finding: str, now: float) -> Iterator[str]:
    """All details of the Framework, with the most important *finding*."""
    meta, spec, status = framework["metadata"], framework["spec"], framework.get("status") or {}
    facts = {
        "Name": meta["name"],
        "Namespace": meta["namespace"],
        "Description": one_line(spec.get("description") or ""),
        "Labels": _pairs(meta.get("labels")),
        "Annotations": _pairs(meta.get("annotations")),
        "Execution": spec.get("executionType", ""),
        "Retry policy": _retry_text(spec.get("retryPolicy") or {}),
        "Created": meta.get("creationTimestamp", ""),
        "Started": status.get("startTime") or "",
        "Running since": status.get("runTime") or "",
        "Completed": status.get("completionTime") or "",
        "State": framework_summary.state_of(framework, now),
        "Attempt": framework_summary.attempt_of(framework),
        "Message": framework_summary.message_of(framework),
        "Finding": finding,
    }
    for label, fact in facts.items():
        if fact:
            yield from _labelled(f"{label}:", fact)
    yield from _section("Conditions", ("TYPE", "STATUS", "SINCE", "MESSAGE"), _conditions(status))
    yield from _section("Roles", ("ROLE", "TASKS", "COMPLETES THE ATTEMPT", "START AFTER"), _roles(spec))
    yield from _section("Tasks", TASK_HEADER, list(task_rows(framework, now)))
    yield from _section("Events", EVENT_HEADER, [event_cells(event, now) for event in events])


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield ""
        yield f"{title}:"
        width = width_of(sys.stdout)
        lines = table_with_reasons(header, rows, None if width is None else width - 2)
        yield from (f"  {line}" for line in lines)


def _conditions(status: Json) -> list[tuple[str, ...]]:
    return [
        (each["type"], each["status"], each["lastTransitionTime"], one_line(each.get("message") or ""))
        for each in status.get("conditions") or ()
    ]


def _roles(spec: Json) -> list[tuple[str, ...]]:
    return [
        (role["name"], str(tasks), _completion_text(role), _start_after_text(role))
        for role, tasks in zip(spec.get("taskRoles") or (), tasks_of_roles(spec), strict=True)
    ]


def _completion_text(role: Json) -> str:
    if role.get("background"):
        return "never"
    policy = role.get("frameworkAttemptCompletionPolicy") or {}
    words = []
    if (failed := policy.get("minFailedTaskCount", 1)) > 0:
        words.append(f"{failed} failed")
    if (good := policy.get("minSucceededTaskCount", -1)) > 0:
        words.append(f"{good} succeeded")
    if indexes := policy.get("succeededIndexes"):
        words.append(f"{indexes} succeeded")
    return " or ".join(words) or "all completed"


def _start_after_text(role: Json) -> str:
    conditions = role.get("startAfter") or ()
    return ", ".join(f"{each['role']} {each.get('condition', 'Running')}" for each in conditions)


def _retry_text(policy: Json) -> str:
    limit = policy.get("maxRetryCount", 0)
    meaning = {-1: " (retries every failure)", -2: " (retries after success and failure)"}.get(limit, "")
    text = f"maxRetryCount {limit}{meaning}"
    return f"{text}, fancyRetryPolicy" if policy.get("fancyRetryPolicy") else text


def _pairs(mapping: Json | None) -> str:
    return ", ".join(f"{key}={one_line(str(value))}" for key, value in (mapping or {}).items())


def _labelled(label: str, text: str) -> Iterator[str]:
    first, *rest = list(wrapped(text, " " * (_LABEL_COLUMNS + 1)))
    yield f"{label:<{_LABEL_COLUMNS}} {first.lstrip()}"
    yield from rest
