"""How a container ended: the cause that the exit itself names, its last lines, and the evidence."""

import re
from dataclasses import replace
from signal import Signals
from typing import Final

from launcher.core import causes
from launcher.core.completion_codes import ContainerTermination
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import TaskView
from launcher.core.json_access import as_list, as_object

#: Reasons of a container that could not be started.
START_REASONS: Final = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
UNKNOWN_EXIT_STEP: Final = "the node restarted or lost its state; submit the Framework again"

_NOT_FOUND: Final = re.compile(r"(?i)not found|no such file|cannot find")
_DENIED: Final = re.compile(r"(?i)permission denied")
_NO_SPACE: Final = re.compile(r"(?i)no space left on device|disk quota exceeded")
_ADDRESS_IN_USE: Final = re.compile(r"(?i)address already in use|EADDRINUSE")
_SIGNAL_BASE: Final = 128
_COMMAND_NOT_FOUND, _COMMAND_DENIED = 127, 126
_MEANINGS: Final = {_COMMAND_NOT_FOUND: "(command not found)", _COMMAND_DENIED: "(permission denied)"}
#: The last lines of a container's output that are shown.
_MAX_LINES: Final = 5


def explain_exit(
    view: TaskView, termination: ContainerTermination, evidence: tuple[Evidence, ...]
) -> Problem | None:
    """The cause of an exit that the exit itself names; None if only the program knows it."""
    name, message, code = termination.name, termination.message, termination.code
    if termination.reason == "OOMKilled":
        limit = as_object(as_object(view.container(name).get("resources")).get("limits")).get("memory")
        known = f" (limit {limit})" if limit else ""
        return Problem(
            causes.OUT_OF_MEMORY,
            f"container {name} ran out of memory{known}",
            f"raise {view.field}.containers[{name}].resources.limits.memory",
            evidence,
        )
    if is_disk_full(message):
        return explain_full_disk(view, evidence)
    if _ADDRESS_IN_USE.search(message):
        return _explain_address_in_use(view, termination, evidence)
    if termination.reason in START_REASONS or code in (_COMMAND_NOT_FOUND, _COMMAND_DENIED):
        described = message if termination.reason in START_REASONS else f"exit code {code} {_MEANINGS[code]}"
        if (problem := explain_command(view, name, described, evidence)) is not None:
            return problem
    if termination.reason == "ContainerStatusUnknown":
        return Problem(
            causes.UNKNOWN_EXIT,
            f"the node does not know how container {name} ended",
            UNKNOWN_EXIT_STEP,
            evidence,
        )
    if signal_name(code):
        return Problem(
            causes.SIGNAL,
            f"container {name} was killed by {signal_name(code)} (exit code {code}){output_text(termination)}",
            view.logs_command,
            evidence,
        )
    return None


def explain_command(
    view: TaskView, name: str, message: str, evidence: tuple[Evidence, ...]
) -> Problem | None:
    command = " ".join(map(str, as_list(view.container(name).get("command"))[:1])) or "its command"
    if _DENIED.search(message):
        return Problem(
            causes.COMMAND_DENIED,
            f"container {name} may not execute {command}",
            f"make the file executable, or correct {view.field}.containers[{name}].command",
            evidence,
        )
    if _NOT_FOUND.search(message):
        return Problem(
            causes.COMMAND_NOT_FOUND,
            f"container {name}: a command was not found ({command})",
            f"correct {view.field}.containers[{name}].command, or install the program in the image; in local mode "
            "images are not pulled: install it on this machine, or launcher serve --image NAME=DIR",
            evidence,
        )
    return None


def explain_full_disk(view: TaskView, evidence: tuple[Evidence, ...]) -> Problem:
    node = view.pod_spec.get("nodeName") or view.task.attempt.node or ""
    return Problem(
        causes.DISK_FULL,
        f"no space left on a disk of node {node}" if node else "no space left on a disk of the node",
        "free disk space on the node, or mount a larger volume at the path that is written to",
        evidence,
    )


def _explain_address_in_use(
    view: TaskView, termination: ContainerTermination, evidence: tuple[Evidence, ...]
) -> Problem:
    step = "listen on a port that no other pod of the node uses"
    if not view.pod_spec.get("hostNetwork"):
        step = (
            "in local mode, start the launcher with --pod-network isolated, so that the pod has its own ports; "
            f"otherwise {step}"
        )
    return Problem(
        causes.ADDRESS_IN_USE,
        f"container {termination.name} cannot listen on its port: it is in use{output_text(termination)}",
        step,
        evidence,
    )


def is_disk_full(message: str) -> bool:
    """Whether the message, or the output, reports a full disk."""
    return _NO_SPACE.search(message) is not None


def signal_name(code: int) -> str:
    """``SIGKILL`` for 137; empty if the exit code does not name a signal."""
    try:
        return Signals(code - _SIGNAL_BASE).name if code > _SIGNAL_BASE else ""
    except ValueError:
        return ""


def exit_text(last: ContainerTermination) -> str:
    return f"exit code {last.code}" + (f" ({last.reason})" if last.reason not in ("", "Error") else "")


def with_output(view: TaskView, termination: ContainerTermination) -> ContainerTermination:
    """The termination with the last lines of its log in place of a termination message, if it has none."""
    lines = view.context.source.last_lines.get((view.pod_name, termination.name), "")
    return termination if termination.message.strip() or not lines else replace(termination, message=lines)


def output_text(termination: ContainerTermination | None) -> str:
    """The last line of the output, which most often names the error."""
    lines = termination.message.strip().splitlines() if termination is not None else []
    return f"; last line: {lines[-1].strip()[:200]}" if lines else ""


def last_lines(message: str) -> str:
    """The last lines of a termination message or log."""
    return "\n".join(message.strip().splitlines()[-_MAX_LINES:])


def termination_evidence(
    view: TaskView, termination: ContainerTermination, field: str
) -> tuple[Evidence, ...]:
    found = [view.evidence(f"{field}.exitCode", termination.code)]
    if termination.reason:
        found.append(view.evidence(f"{field}.reason", termination.reason))
    lines = last_lines(with_output(view, termination).message)
    if lines:
        is_message = bool(termination.message.strip())
        found.append(view.evidence(f"{field}.message" if is_message else f"log[{termination.name}]", lines))
    return tuple(found)
