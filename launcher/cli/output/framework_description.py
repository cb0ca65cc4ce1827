"""Frameworks as text: the list, one with its tasks, and all that is known of one."""

import sys
import time
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from launcher.cli.output import framework_summary
from launcher.cli.output.event_table import EVENT_HEADER, event_cells
from launcher.cli.output.framework_summary import TASK_HEADER, task_rows
from launcher.cli.output.tables import table, table_with_reasons
from launcher.cli.output.terminal import one_line, width_of
from launcher.core.replicas import tasks_of_roles

Json = dict[str, Any]

_LABEL = 14


def framework_table(items: Sequence[Json], *, wide: bool, namespaces: bool) -> Iterator[str]:
    """One line per Framework. Names are cut only where a terminal is too narrow for them."""
    now = time.time()
    header = ("NAME", "STATE", "TASKS", "RETRIES", "AGE", *(("DURATION", "MESSAGE") if wide else ()))
    rows = [
        (
            item["metadata"]["name"],
            framework_summary.state_of(item),
            framework_summary.tasks_done(item),
            str(framework_summary.retries(item)),
            framework_summary.age(item, now),
            *((framework_summary.duration(item, now), framework_summary.message_of(item)) if wide else ()),
        )
        for item in items
    ]
    if namespaces:
        header = ("NAMESPACE", *header)
        rows = [(item["metadata"]["namespace"], *row) for item, row in zip(items, rows, strict=True)]
    if not items:
        return iter(())
    return (table_with_reasons if wide else table)(header, rows, width_of(sys.stdout))


def framework_text(framework: Json, *, every: bool, wide: bool) -> Iterator[str]:
    """Where the Framework stands and why, then its tasks."""
    yield from _wrapped(framework_summary.headline(framework, time.time()), "", "  ")
    yield from _wrapped(framework_summary.message_of(framework), "  ")
    rows = list(task_rows(framework, every=every))
    if rows:
        yield ""
        width = None if wide else width_of(sys.stdout)
        yield from table_with_reasons(TASK_HEADER, [row.cells for row in rows], width)


def description(framework: Json, events: Sequence[Json]) -> Iterator[str]:
    """All that is known of the Framework."""
    meta, spec, status = framework["metadata"], framework["spec"], framework.get("status") or {}
    facts = {
        "Name": meta["name"],
        "Namespace": meta["namespace"],
        "Description": one_line(spec.get("description") or ""),
        "Labels": _pairs(meta.get("labels")),
        "Annotations": _pairs(meta.get("annotations")),
        "Execution": spec.get("executionType", ""),
        "Retry policy": _retry_words(spec.get("retryPolicy") or {}, framework_summary.retries(framework)),
        "Created": meta.get("creationTimestamp", ""),
        "Started": status.get("startTime") or "",
        "Running since": status.get("runTime") or "",
        "Completed": status.get("completionTime") or "",
        "State": framework_summary.state_of(framework),
        "Message": framework_summary.message_of(framework),
    }
    for label, fact in facts.items():
        if fact:
            yield from _labelled(f"{label}:", fact)
    yield from _section("Conditions", ("TYPE", "STATUS", "SINCE", "MESSAGE"), _conditions(status))
    yield from _section("Roles", ("ROLE", "TASKS", "ENDS THE ATTEMPT", "START AFTER"), _roles(spec))
    yield from _section("Tasks", TASK_HEADER, [row.cells for row in task_rows(framework)])
    now = time.time()
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
        (role["name"], str(tasks), _policy_words(role), _after_words(role))
        for role, tasks in zip(spec.get("taskRoles") or (), tasks_of_roles(spec), strict=True)
    ]


def _policy_words(role: Json) -> str:
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
    return " or ".join(words) or "all over"


def _after_words(role: Json) -> str:
    afters = role.get("startAfter") or ()
    return ", ".join(f"{after['role']} {after.get('condition', 'Running')}" for after in afters)


def _retry_words(policy: Json, retried: int) -> str:
    most = policy.get("maxRetryCount", 0)
    limit = {-1: "after every failure", -2: "whatever the end"}.get(most, f"at most {most}")
    return f"{limit}{', fancy' if policy.get('fancyRetryPolicy') else ''}; {retried} so far"


def _pairs(mapping: Json | None) -> str:
    return ", ".join(f"{key}={one_line(str(value))}" for key, value in (mapping or {}).items())


def _labelled(label: str, text: str) -> Iterator[str]:
    first, *rest = list(_wrapped(text, " " * (_LABEL + 1)))
    yield f"{label:<{_LABEL}} {first.lstrip()}"
    yield from rest


def _wrapped(text: str, indent: str, hanging: str | None = None) -> Iterator[str]:
    """The text in lines of the terminal's width, those after the first indented by *hanging* if that is another."""
    width, later = width_of(sys.stdout), indent if hanging is None else hanging
    if not text:
        return
    if width is None:
        yield indent + text
    else:
        yield from wrap(text, max(width, 40), initial_indent=indent, subsequent_indent=later)
