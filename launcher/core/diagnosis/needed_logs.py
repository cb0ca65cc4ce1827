"""The logs that a diagnosis needs beside the objects: of the first failure, and of running tasks."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from launcher.core.diagnosis.culprit import find_culprit, has_failed
from launcher.core.diagnosis.inputs import (
    DiagnosisInput,
    DiagnosisScope,
    Json,
    LogReference,
    owner_uid,
    parsed_time,
)
from launcher.core.json_access import as_list, as_object, text
from launcher.core.names import pod_name
from launcher.core.planning import messages
from launcher.core.spec import RoleName
from launcher.core.status import FrameworkStatus, State, TaskStatus
from launcher.core.timestamps import Time

#: The last lines that are read of a log, and the most bytes of them.
LAST_LINES: Final = 5
MAX_BYTES: Final = 4096
#: States of a task whose attempt has ended; the pod is kept until its retry.
_FAILED_STATES: Final = frozenset({State.COMPLETED, State.ATTEMPT_COMPLETED, State.DELETION_PENDING})


class RunningPod(NamedTuple):
    """A pod whose logs may be silent."""

    name: str
    uid: str
    containers: Sequence[str]
    #: When its last container was started; None if that is unknown.
    started: Time | None


def running_pods(source: DiagnosisInput, selector: DiagnosisScope | None, limit: int) -> Sequence[RunningPod]:
    """Some pods of the selected tasks that run, at most *limit*."""
    return list(islice(_running_pods(source, selector), limit))


def _running_pods(source: DiagnosisInput, selector: DiagnosisScope | None) -> Iterator[RunningPod]:
    for pod in _selected_pods(source, selector):
        status = as_object(pod.get("status"))
        if status.get("phase") == "Running":
            containers = as_list(as_object(pod.get("spec")).get("containers"))
            names = [text(as_object(each).get("name")) for each in containers]
            yield RunningPod(pod["metadata"]["name"], pod["metadata"]["uid"], names, _last_start(status))


def _selected_pods(source: DiagnosisInput, selector: DiagnosisScope | None) -> Iterator[Json]:
    """The pods of the selected tasks, which are known by their names."""
    framework = source.framework
    if framework is None:
        return
    for pod in source.pods:
        prefix, _, index = pod["metadata"]["name"].rpartition("-")
        if selector is not None and (
            prefix != f"{framework.name}-{selector.role}"
            or (selector.index is not None and index != str(selector.index))
        ):
            continue
        if owner_uid(pod) == framework.uid:
            yield pod


def _last_start(status: Json) -> Time | None:
    states = [as_object(as_object(each).get("state")) for each in as_list(status.get("containerStatuses"))]
    times = [parsed_time(as_object(state.get("running")).get("startedAt")) for state in states]
    return max((each for each in times if each is not None), default=None)


def log_of_failure(source: DiagnosisInput, selector: DiagnosisScope | None = None) -> LogReference | None:
    """
    The log whose last lines explain a failure: that of the first failed task, or of a container that is restarted.

    None if there is no failure, or the termination message of the container has the last lines already.
    """
    framework = source.framework
    if framework is None or framework.status is None:
        return None
    if (failed := _failed_task(framework.status, selector)) is None:
        return _log_of_restart(source, selector)
    role, task = failed
    completion = task.attempt.completion
    container = messages.failed_container(completion) if completion is not None else None
    if container is None or container.message.strip():
        return None
    return LogReference(pod_name(framework.name, role, task.index), task.attempt.pod_uid, container.name)


def _failed_task(
    status: FrameworkStatus, selector: DiagnosisScope | None
) -> tuple[RoleName, TaskStatus] | None:
    """The first failed task, or else one that waits for its retry."""
    failed = {
        (role.name, task.index): task
        for role in status.roles
        for task in role.tasks
        if task.state in _FAILED_STATES
        and has_failed(task)
        and (selector is None or selector.matches(role.name, task.index))
    }
    culprit = find_culprit(status)
    key = culprit if culprit in failed else next(iter(failed), None)
    return (key[0], failed[key]) if key is not None else None


def _log_of_restart(source: DiagnosisInput, selector: DiagnosisScope | None) -> LogReference | None:
    for pod in _selected_pods(source, selector):
        status = as_object(pod.get("status"))
        containers = [
            *as_list(status.get("initContainerStatuses")),
            *as_list(status.get("containerStatuses")),
        ]
        for container in map(as_object, containers):
            last = as_object(as_object(container.get("lastState")).get("terminated"))
            if last.get("exitCode") and not text(last.get("message")).strip():
                # The current log of a container that waits is that of its last run.
                previous = "running" in as_object(container.get("state"))
                name = text(container.get("name"))
                return LogReference(pod["metadata"]["name"], pod["metadata"]["uid"], name, previous)
    return None
