"""
Diagnosis: why a Framework or its tasks are not where their user expects them. Returns findings, most important first.

Every task is reduced to a *symptom*: the function that explains it and the few values that decide the result. Each
distinct symptom is explained once, for the first task that has it, so the cost per task is that of a dictionary entry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from launcher.core import causes
from launcher.core.causes import Severity, Waiting
from launcher.core.completion_codes import Code
from launcher.core.diagnosis.admission import (
    explain_blocked_creation,
    explain_creation,
    explain_invalid_spec,
)
from launcher.core.diagnosis.containers import (
    explain_creating,
    explain_init,
    explain_restarted,
    explain_silent,
    explain_unready,
    explain_waiting,
    is_sidecar,
)
from launcher.core.diagnosis.failures import explain_failed
from launcher.core.diagnosis.finding import Finding, Problem, counted
from launcher.core.diagnosis.first_failed_task import (
    CONSEQUENCES,
    TaskReference,
    failed_tasks,
    first_failed_task,
)
from launcher.core.diagnosis.gangs import explain_gang
from launcher.core.diagnosis.inputs import Context, DiagnosisInput, DiagnosisScope, Json, TaskView
from launcher.core.diagnosis.launcher_health import explain_launcher, explain_malformed, explain_unreadable
from launcher.core.diagnosis.lifecycle import (
    deletion_request_time,
    explain_framework,
    explain_terminating,
    is_overdue,
)
from launcher.core.diagnosis.nodes import explain_node
from launcher.core.diagnosis.retries import (
    explain_exhausted,
    explain_exhausted_task,
    explain_framework_backoff,
    explain_previous_pod,
    explain_task_backoff,
)
from launcher.core.diagnosis.scheduling import explain_unconsidered, explain_unscheduled
from launcher.core.diagnosis.start_order import explain_sequence, explain_start_after
from launcher.core.planning import messages
from launcher.core.pods.creation_reason import is_creation_error
from launcher.core.pods.image_reason import IMAGE_REASONS
from launcher.core.spec import RoleName
from launcher.core.status import State, TaskStatus
from launcher.core.timestamps import Time, parse_rfc3339

#: Tasks of one finding that are listed by name.
MAX_TASK_NAMES: Final = 20
#: A pod may take so long to be scheduled, started or removed before that is a finding.
_TOLERANCE_SECONDS: Final = 10
#: A running pod that has written nothing for longer is a finding.
SILENT_SECONDS: Final = 1800
_SEVERITIES: Final = {severity: rank for rank, severity in enumerate(Severity)}
_WAITING: Final = {waiting: rank for rank, waiting in enumerate(Waiting)}
#: Causes that are found for the Framework and for its tasks; the latter have more evidence.
_REPEATED: Final = frozenset({causes.THROTTLED, causes.GANG_TIMEOUT, causes.ACTIVE_DEADLINE})
#: Completions whose pods are deleted at the request of the user, without another attempt.
_REQUESTED_ENDS: Final = frozenset({Code.STOP_FRAMEWORK_REQUESTED, Code.DELETE_TASK_REQUESTED})
_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
#: Reasons of waiting containers whose message has the cause.
_EXPLAINED_BY_MESSAGE: Final = IMAGE_REASONS | _STARTING

#: Raised by the access to fields of wrong types. Pods come from other programs.
_MALFORMED: Final = (TypeError, AttributeError, KeyError, IndexError, ValueError, StopIteration)

#: The function that explains a symptom, and the values that decide its result.
Symptom = tuple[Any, ...]
Explain = Callable[[TaskView], Problem | None]


def diagnose(source: DiagnosisInput, selector: DiagnosisScope | None = None) -> tuple[Finding, ...]:
    """Returns the findings, the most important first; none if nothing is wrong. *selector* limits the tasks."""
    framework = source.framework
    if framework is None:
        return (_finding(explain_unreadable(source), _Tasks(), 0),)
    context = Context.of(source, framework)
    status = framework.status
    first_failed = first_failed_task(status, failed_tasks(status)) if status is not None else None
    found = _task_findings(context, selector, first_failed)
    repeated = {finding.cause for finding in found} & _REPEATED
    found += [
        _finding(problem, _Tasks(), 0)
        for problem in _framework_problems(context)
        if problem.cause not in repeated
    ]
    found.sort(key=lambda finding: _rank(finding, first_failed))
    return tuple(found)


def _framework_problems(context: Context) -> Iterator[Problem]:
    yield from explain_launcher(context)
    yield from explain_framework(context)
    for explain in (explain_invalid_spec, explain_gang, explain_framework_backoff, explain_exhausted):
        if (problem := explain(context)) is not None:
            yield problem


def _task_findings(
    context: Context, selector: DiagnosisScope | None, first_failed: TaskReference | None
) -> list[Finding]:
    """Explains each distinct symptom once; symptoms with the same result become one finding."""
    folded: dict[tuple[str, str, bool], tuple[Problem, _Tasks]] = {}
    first: list[Finding] = []
    total = context.total_tasks
    for symptom, indexes in _symptoms(context, selector).items():
        explain: Explain = symptom[0]
        role: RoleName = symptom[1]
        if first_failed is not None and first_failed.role == role and first_failed.task_index in indexes:
            indexes.remove(first_failed.task_index)
            problem = _explained(explain, _view(context, first_failed))
            if problem is not None:
                first.append(_finding(problem, _Tasks.of(first_failed), total))
            if (problem := explain_exhausted_task(_view(context, first_failed))) is not None:
                first.append(_finding(problem, _Tasks.of(first_failed), total))
        if not indexes:
            continue
        if (problem := _explained(explain, _view(context, TaskReference(role, indexes[0])))) is not None:
            key = problem.cause.id, problem.text, explain is explain_failed
            folded.setdefault(key, (problem, _Tasks()))[1].add(role, indexes)
    if first and first_failed is not None:
        return [*first, *_secondary(context, first_failed, folded)]
    return [_finding(problem, tasks, total) for problem, tasks in folded.values()]


class _Tasks:
    """The number of the tasks of a finding, and the names of the first ones."""

    def __init__(self) -> None:
        self.number = 0
        self.names: list[str] = []

    @classmethod
    def of(cls, task: TaskReference) -> "_Tasks":
        tasks = cls()
        tasks.add(task.role, [task.task_index])
        return tasks

    def add(self, role: RoleName, indexes: Sequence[int]) -> None:
        self.number += len(indexes)
        missing = MAX_TASK_NAMES - len(self.names)
        self.names += [TaskReference(role, index).name for index in indexes[:missing]]

    def extend(self, other: "_Tasks") -> None:
        self.number += other.number
        self.names = [*self.names, *other.names][:MAX_TASK_NAMES]


def _explained(explain: Explain, view: TaskView) -> Problem | None:
    try:
        return explain(view)
    except _MALFORMED:
        return explain_malformed(view)


def _secondary(
    context: Context,
    first_failed: TaskReference,
    folded: Mapping[tuple[str, str, bool], tuple[Problem, _Tasks]],
) -> Iterator[Finding]:
    """Failures after the first one, in one finding; other problems as they are."""
    failed = _Tasks()
    kinds: dict[str, int] = {}
    for (_, _, has_failed), (problem, tasks) in folded.items():
        if not has_failed or problem.cause is causes.START_UNREACHABLE:
            yield _finding(problem, tasks, context.total_tasks)
            continue
        failed.extend(tasks)
        kinds[problem.text] = kinds.get(problem.text, 0) + tasks.number
    if failed.number:
        most = max(kinds, key=lambda text: kinds[text])
        others = f" (and {counted(len(kinds) - 1, 'other kind')})" if len(kinds) > 1 else ""
        problem = Problem(
            causes.SECONDARY_FAILURES,
            f"failed after {first_failed.name}: {most}{others}",
            f"correct {first_failed.name} first; these failures often follow from it",
        )
        yield _finding(problem, failed, context.total_tasks)


def _symptoms(context: Context, selector: DiagnosisScope | None) -> dict[Symptom, list[int]]:
    """The indexes of the tasks by symptom, whose second value is the role; tasks in order have none."""
    status = context.framework.status
    found: dict[Symptom, list[int]] = {}
    if status is None:
        return found
    gang_unplaced = explain_gang(context) is not None
    known_nodes = frozenset(node.name for node in context.nodes) if context.nodes else None
    is_deleted = context.framework.deleting
    symptoms = _SymptomFinder(
        context.now,
        frozenset(context.unready_nodes),
        known_nodes,
        context.source.last_output,
        gang_unplaced=gang_unplaced,
    )
    symptom_of, pods = symptoms.task, context.pods
    for role in status.roles:
        name = role.name
        # As task_name composes it, which costs a call for each task.
        prefix = f"{context.framework.name}-{name}-"
        for task in role.tasks:
            index = task.index
            if selector is not None and not selector.matches(name, index):
                continue
            pod = pods.get(f"{prefix}{index}")
            if is_deleted and (pod is None or "deletionTimestamp" not in pod["metadata"]):
                continue  # that its pods end is what was requested
            try:
                symptom = symptom_of(name, task, pod)
                if symptom is None:
                    continue
                indexes = found.get(symptom)
                if indexes is None:
                    indexes = found[symptom] = []
                indexes.append(index)
            except _MALFORMED:
                found.setdefault((explain_malformed, name), []).append(index)
    return found


class _SymptomFinder:
    """Finds the symptom of a task. Called for every task, so it only reads what decides."""

    def __init__(
        self,
        now: Time,
        unready_nodes: frozenset[str],
        known_nodes: frozenset[str] | None,
        last_output: Mapping[str, Time],
        *,
        gang_unplaced: bool,
    ) -> None:
        self._now, self._unready, self._known = now, unready_nodes, known_nodes
        self._last_output = last_output
        self._gang_unplaced = gang_unplaced

    def task(self, role: RoleName, task: TaskStatus, pod: Json | None) -> Symptom | None:
        if pod is not None and "deletionTimestamp" in pod["metadata"]:
            return self._deleted_pod(role, task, pod)
        completion, state = task.attempt.completion, task.state
        if completion is not None and completion.failed:
            if completion.code in CONSEQUENCES:
                return None
            if state is State.COMPLETED:
                return explain_failed, role, completion.code, completion.phrase
            if task.retry.delay is not None:
                return explain_task_backoff, role, completion.code, completion.phrase
            return None
        if state is State.CREATION_PENDING:
            return self._creation(role, task)
        return self._pod(role, pod) if pod is not None and state is not State.COMPLETED else None

    def _deleted_pod(self, role: RoleName, task: TaskStatus, pod: Json) -> Symptom | None:
        if is_overdue(pod, self._now, _TOLERANCE_SECONDS):
            return explain_terminating, role, tuple(pod["metadata"].get("finalizers") or ())
        completion = task.attempt.completion
        is_requested = completion is not None and completion.code in _REQUESTED_ENDS
        if is_requested or self._now - deletion_request_time(pod) <= _TOLERANCE_SECONDS:
            return None
        return explain_previous_pod, role

    def _creation(self, role: RoleName, task: TaskStatus) -> Symptom | None:
        message = task.message
        if message == messages.WAITING_FOR_PREVIOUS_POD:
            return explain_previous_pod, role
        if message.endswith("(startAfter)."):
            return explain_start_after, role, message
        if message.endswith("(roleSequence)."):
            return explain_sequence, role, message
        if is_creation_error(message):
            return _explain_creation_message, role, message
        return explain_blocked_creation, role

    def _pod(self, role: RoleName, pod: Json) -> Symptom | None:
        status, node = pod.get("status") or {}, (pod.get("spec") or {}).get("nodeName")
        if node is None:
            return self._unscheduled(role, pod, status)
        if node in self._unready or (self._known is not None and node not in self._known):
            return explain_node, role, node
        if status.get("phase") == "Running":
            found = _running(role, status.get("containerStatuses") or ())
            return found if found is not None or not self._last_output else self._silent(role, pod)
        for container in status.get("initContainerStatuses") or ():
            if (symptom := self._starting(role, pod, container, is_init=True)) is not None:
                return symptom
        for container in status.get("containerStatuses") or ():
            if (symptom := self._starting(role, pod, container, is_init=False)) is not None:
                return symptom
        return None

    def _unscheduled(self, role: RoleName, pod: Json, status: Json) -> Symptom | None:
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                if self._gang_unplaced:
                    return None
                return explain_unscheduled, role, condition.get("reason"), condition.get("message")
        return (explain_unconsidered, role) if self._is_old(pod) else None

    def _silent(self, role: RoleName, pod: Json) -> Symptom | None:
        last = self._last_output.get(pod["metadata"]["name"])
        return (explain_silent, role) if last is not None and self._now - last > SILENT_SECONDS else None

    def _starting(self, role: RoleName, pod: Json, container: Json, *, is_init: bool) -> Symptom | None:
        state = container.get("state") or {}
        if "waiting" not in state:
            if "running" not in state:
                return None
            if is_init and self._is_old(pod) and not is_sidecar(pod, container.get("name")):
                return explain_init, role, container.get("name")
            return _restarted(role, container)
        waiting = state["waiting"] or {}
        reason = waiting.get("reason") or ""
        if reason not in _EXPLAINED_BY_MESSAGE:
            return explain_waiting, role, container.get("name"), reason, _last_exit_code(container)
        message = waiting.get("message") or ""
        if message or reason not in _STARTING:
            return explain_waiting, role, reason, message
        # A container that waits for an earlier one has nothing to explain.
        return (explain_creating, role) if self._is_old(pod) else None

    def _is_old(self, pod: Json) -> bool:
        created = pod["metadata"].get("creationTimestamp")
        return created is not None and self._now - parse_rfc3339(created) > _TOLERANCE_SECONDS


def _explain_creation_message(view: TaskView) -> Problem | None:
    return explain_creation(view, view.task.message)


def _running(role: RoleName, containers: Sequence[Json]) -> Symptom | None:
    for container in containers:
        if container.get("ready") and not container.get("restartCount"):
            continue
        state = container.get("state") or {}
        if "waiting" in state:
            reason = (state["waiting"] or {}).get("reason") or ""
            return explain_waiting, role, container.get("name"), reason, _last_exit_code(container)
        if (symptom := _restarted(role, container)) is not None:
            return symptom
        if "running" in state and not container.get("ready"):
            return explain_unready, role, container.get("name")
    return None


def _restarted(role: RoleName, container: Json) -> Symptom | None:
    code = _last_exit_code(container)
    return (explain_restarted, role, container.get("name"), code) if code else None


def _last_exit_code(container: Json) -> int:
    code: int = ((container.get("lastState") or {}).get("terminated") or {}).get("exitCode") or 0
    return code


def _view(context: Context, task: TaskReference) -> TaskView:
    status = context.framework.status
    role = status.role(task.role) if status is not None else None
    assert role is not None, "symptoms are those of tasks in the status"
    return context.view(role, role.tasks[task.task_index])


def _finding(problem: Problem, tasks: _Tasks, total: int) -> Finding:
    if not tasks.number:
        summary = problem.text
    elif tasks.number == 1:
        summary = f"{tasks.names[0]}: {problem.text}"
    else:
        summary = f"{tasks.number} of {total} tasks: {problem.text}"
    return Finding(
        problem.cause, summary, problem.next_step, problem.evidence, tasks.number, tuple(tasks.names)
    )


def _rank(finding: Finding, first_failed: TaskReference | None) -> tuple[bool, int, int, int, str]:
    """The first failed task first, then by severity, by whether waiting helps, and by the number of tasks."""
    is_first = first_failed is not None and finding.task_names == (first_failed.name,)
    cause = finding.cause
    return not is_first, _SEVERITIES[cause.severity], _WAITING[cause.waiting], -finding.tasks, cause.id
