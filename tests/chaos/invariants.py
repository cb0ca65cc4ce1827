"""Invariants of a namespace after any faults, checked on every version of every object."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from launcher.core.planning.options import PlannerOptions
from launcher.core.pods.observed_pod import pod_from_json
from launcher.store.interface import PODS
from tests.chaos.history import Write
from tests.chaos.workloads import Job, RecordedTaskAttempt
from tests.controller.simulation.audit import Auditor, InvariantViolation
from tests.local.server import ended

#: For one Framework: its attempts, and the uids of the pods created for each.
TaskAttempts = Mapping[RecordedTaskAttempt, AbstractSet[str]]


def violations(
    jobs: Sequence[Job],
    writes: Sequence[Write],
    frameworks: Mapping[str, Any],
    pods: Mapping[str, Any],
    deleted: AbstractSet[str],
    *,
    two_leaders: bool,
) -> list[str]:
    """
    Returns each violated invariant as text.

    *frameworks* and *pods* are the final ones, *deleted* the uids of pods deleted by other clients. Only with
    *two_leaders* may a pod be created for an attempt that the other leader has completed, and a task be retried without
    counting it: a leader that was suspended between a status write and its actions executes them later.
    """
    auditor = Auditor()
    result = list(_simulation_violations(auditor, writes, frameworks, pods, two_leaders))
    late = {uid for uid, pod in auditor.pods.items() if pod.created_late}
    attempts = _attempts(writes)
    for job in jobs:
        framework = frameworks[job.name]
        own = attempts.get(framework["metadata"]["uid"], {})
        if two_leaders:
            own = {attempt: uids - late for attempt, uids in own.items() if uids - late}
        result += [f"{job.name}: {text}" for text in _job_violations(job, framework, own, deleted)]
        if not (two_leaders or any(uids & deleted for uids in own.values())):
            result += [f"{job.name}: {text}" for text in _unexpected_pods(job, framework, own)]
    rerun = _tasks_run_after_success(writes, deleted)
    result += [f"{name} ran again after it had succeeded" for name in rerun]
    return result


def _simulation_violations(
    auditor: Auditor,
    writes: Sequence[Write],
    frameworks: Mapping[str, Any],
    pods: Mapping[str, Any],
    two_leaders: bool,
) -> Iterator[str]:
    """Returns violations of the invariants that are also checked in simulations."""
    for write in writes:
        try:
            auditor(write.kind.resource, write.deleted, write.obj)
        except InvariantViolation as violation:
            yield str(violation)
    late = [pod.task for pod in auditor.pods.values() if pod.created_late]
    if late and not two_leaders:
        yield f"pods were created for attempts that were not saved, were completed, or had a pod: {late}"
    try:
        auditor.check_end(list(frameworks.values()), list(pods.values()), time.time(), PlannerOptions())
    except InvariantViolation as violation:
        yield str(violation)


def _job_violations(
    job: Job, framework: Any, attempts: TaskAttempts, deleted: AbstractSet[str]
) -> Iterator[str]:
    status = framework.get("status", {})
    if status.get("state") != "Completed":
        yield f"not completed: {status.get('state')}"
        return
    end = ended(framework), status["attemptStatus"]["completionStatus"]["code"]
    if end != (job.result, job.code):
        yield f"completed as {end}, expected {(job.result, job.code)}"
    counted = status["retryPolicyStatus"]["accountableRetriedCount"]
    if counted != job.retries:
        yield f"{counted} retries counted, expected {job.retries}"
    task_retries = max(
        task["retryPolicyStatus"]["accountableRetriedCount"]
        for role in status["attemptStatus"]["taskRoleStatuses"]
        for task in role["taskStatuses"]
    )
    if task_retries != job.task_retries:
        yield f"{task_retries} task retries counted, expected {job.task_retries}"
    duplicates = {attempt: uids for attempt, uids in attempts.items() if len(uids - deleted) > 1}
    if duplicates:
        yield f"several pods for one attempt: {duplicates}"


def _unexpected_pods(job: Job, framework: Any, attempts: TaskAttempts) -> Iterator[str]:
    status = framework.get("status", {})
    unexpected, missing = attempts.keys() - job.expected - job.possible, job.expected - attempts.keys()
    if status.get("state") == "Completed" and (unexpected or missing):
        yield f"unexpected pods for {sorted(unexpected)}, no pods for {sorted(missing)}: {_histories(status)}"


def _histories(status: Any) -> list[Any]:
    """Returns the earlier attempts of all tasks in the status."""
    return [
        (role["name"], task["index"], task["attemptHistory"])
        for role in status["attemptStatus"]["taskRoleStatuses"]
        for task in role["taskStatuses"]
        if task.get("attemptHistory")
    ]


def _attempts(writes: Sequence[Write]) -> dict[str, dict[RecordedTaskAttempt, set[str]]]:
    """Returns attempts by the uid of the Framework."""
    attempts: dict[str, dict[RecordedTaskAttempt, set[str]]] = defaultdict(lambda: defaultdict(set))
    for write in writes:
        pod = pod_from_json(write.obj) if write.kind == PODS else None
        if pod is not None and pod.task is not None:
            task = pod.task
            attempt = RecordedTaskAttempt(task.framework_attempt, task.role, task.index, task.task_attempt)
            attempts[pod.owner][attempt].add(pod.uid)
    return attempts


def _tasks_run_after_success(writes: Sequence[Write], deleted: AbstractSet[str]) -> Iterator[str]:
    """
    Returns tasks for which another pod was created in the same attempt after a success.

    A pod deleted by another client may be removed before its success was observed.
    """
    succeeded: dict[tuple[str, int, str], str] = {}
    for write in writes:
        pod = pod_from_json(write.obj) if write.kind == PODS else None
        if pod is None or pod.task is None:
            continue
        task = (pod.owner, pod.task.framework_attempt, pod.name)
        if pod.phase == "Succeeded" and pod.uid not in deleted:
            succeeded.setdefault(task, pod.uid)
        elif succeeded.get(task, pod.uid) != pod.uid:
            yield f"{pod.name} ({pod.task})"
            succeeded[task] = pod.uid
