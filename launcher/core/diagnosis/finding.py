"""Findings of a diagnosis: causes with a stable id, evidence and the next step."""

from dataclasses import dataclass
from typing import Any

from launcher.core.causes import Cause


@dataclass(frozen=True, slots=True)
class Evidence:
    """A field of an object that shows the cause: ``pod/mnist-worker-0``, its field and the value."""

    object: str
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A cause found at one task or at the Framework. Tasks with the same cause and text become one finding."""

    cause: Cause
    #: A clause without the task's name.
    text: str
    next_step: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of the Framework, or of some of its tasks."""

    cause: Cause
    summary: str
    next_step: str
    evidence: tuple[Evidence, ...] = ()
    #: The number of tasks that it concerns, and the names of the first ones; 0 if it concerns the whole Framework.
    tasks: int = 0
    task_names: tuple[str, ...] = ()


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """A finding in the response of the diagnosis subresource."""
    return {
        "id": finding.cause.id,
        "severity": finding.cause.severity.value,
        "summary": finding.summary,
        "waiting": finding.cause.waiting.value,
        "nextStep": finding.next_step,
        "evidence": [
            {"object": each.object, "field": each.field, "value": each.value} for each in finding.evidence
        ],
        "tasks": finding.tasks,
        "taskNames": list(finding.task_names),
    }
