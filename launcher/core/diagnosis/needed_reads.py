"""What a diagnosis reads beside the objects: some logs, and the events of some objects."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from launcher.core.diagnosis.first_failed_task import failed_tasks, first_failed_task
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
from launcher.core.status import FrameworkStatus, TaskStatus
from launcher.core.timestamps import Time

#: The last lines that are read of a log, and the most bytes of them.
LAST_LINES: Final = 5
MAX_BYTES: Final = 4096


#: Pods whose events are read.
_MAX_PODS_WITH_EVENTS: Final = 5


def objects_with_events(source: DiagnosisInput, selector: DiagnosisScope | None = None) -> Sequence[str]:
    """
    The uids of the objects whose events a diagnosis uses: the Framework, and some pods that do not start or get ready.

    Of all pods of a role in one state the first is explained, so the events of that one suffice.
    """
    if source.framework is None:
        return ()
    first: dict[tuple[str, str], tuple[int, str]] = {}
    for pod in source.pods:
        if (state := _unexplained_state(as_object(pod.get("status")))) and _is_selected(
            source, pod, selector
        ):
            role, _, index = pod["metadata"]["name"].rpartition("-")
            found = (int(index) if index.isdecimal() else 0, pod["metadata"]["uid"])
            first[role, state] = min(found, first.get((role, state), found))
    pods = [uid for _, uid in sorted(first.values())]
    return [source.framework.uid, *pods[:_MAX_PODS_WITH_EVENTS]]


def _unexplained_state(status: Json) -> str:
    """The state of a pod whose events have the reason of it; empty for other pods."""
    if status.get("phase") == "Running":
        is_ready = all(as_object(each).get("ready") for each in as_list(status.get("containerStatuses")))
        return "" if is_ready else "unready"
    if status.get("phase") != "Pending":
        return ""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in map(as_object, as_list(status.get(field))):
            waiting = as_object(container.get("state")).get("waiting")
            if isinstance(waiting, dict):
                return text(waiting.get("reason")) or "waiting"
    return ""


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
    for pod in source.pods:
        status = pod.get("status")
        if not isinstance(status, dict) or status.get("phase") != "Running":
            continue
        if _is_selected(source, pod, selector):
            containers = as_list(as_object(pod.get("spec")).get("containers"))
            names = [text(as_object(each).get("name")) for each in containers]
            yield RunningPod(pod["metadata"]["name"], pod["metadata"]["uid"], names, _last_start(status))


def _is_selected(source: DiagnosisInput, pod: Json, selector: DiagnosisScope | None) -> bool:
    """Whether the pod is that of a selected task of the Framework, which is known by its name."""
    framework = source.framework
    if framework is None or owner_uid(pod) != framework.uid:
        return False
    if selector is None:
        return True
    prefix, _, index = pod["metadata"]["name"].rpartition("-")
    if prefix != f"{framework.name}-{selector.role}":
        return False
    return selector.index is None or index == str(selector.index)


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
    failed = failed_tasks(status)
    first_failed = first_failed_task(status, failed)
    if selector is not None:
        failed = [each for each in failed if selector.matches(each[0], each[1].index)]
    found = next((each for each in failed if first_failed == (each[0], each[1].index)), None)
    return found or (failed[0] if failed else None)


def _log_of_restart(source: DiagnosisInput, selector: DiagnosisScope | None) -> LogReference | None:
    """The log of the first container that was restarted after a failure."""
    for pod, container in _restarted_containers(source.pods):
        last = as_object(as_object(container.get("lastState")).get("terminated"))
        if not last.get("exitCode") or not _is_selected(source, pod, selector):
            continue
        if text(last.get("message")).strip():
            return None
        # The current log of a container that waits is that of its last run.
        previous = "running" in as_object(container.get("state"))
        name = text(container.get("name"))
        return LogReference(pod["metadata"]["name"], pod["metadata"]["uid"], name, previous)
    return None


def _restarted_containers(pods: Sequence[Json]) -> Iterator[tuple[Json, Json]]:
    """The containers that were restarted, each after its pod. Called for every pod, so it calls little itself."""
    for pod in pods:
        status = pod.get("status")
        if not isinstance(status, dict):
            continue
        for field in ("initContainerStatuses", "containerStatuses"):
            containers = status.get(field)
            if not isinstance(containers, list):
                continue
            for container in containers:
                if isinstance(container, dict) and container.get("restartCount"):
                    yield pod, container
