"""What is known of a pod, as the status that a kubelet would report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.core.quantity import quantity
from launcher.core.timestamps import format_rfc3339
from launcher.node.pods.container_state import ContainerState, RunState, WaitingReason
from launcher.node.pods.pod_lifecycle import PodState, awaited, is_initialized, phase_of
from launcher.node.pods.pod_spec import Container, ContainerRole, full_name, run_id, uid_of
from launcher.store.interface import Object

_COUNTED = ("cpu", "memory")


def qos_class(pod: Object) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    resources = [one.get("resources") or {} for one in containers]
    if not any(_given(each, kind) for each in resources for kind in ("requests", "limits")):
        return "BestEffort"
    return "Guaranteed" if resources and all(map(_is_guaranteed, resources)) else "Burstable"


def _given(resources: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What of *kind* is asked for, among the resources that count here; nothing is asked for by a zero."""
    amounts = resources.get(kind) or {}
    return {name: quantity(amounts[name]) for name in _COUNTED if name in amounts and quantity(amounts[name])}


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits = _given(resources, "limits")
    return set(limits) == set(_COUNTED) and {**limits, **_given(resources, "requests")} == limits


#: What the node decides; conditions of other types are left as they are.
_OURS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "DisruptionTarget",
)
_EVICTED = "Evicted"


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why the node ended the pod."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """All that a pod's status is made of."""

    pod: Object
    situation: PodState
    #: When the node took the pod on.
    since: float
    address: str
    #: Its volumes are there.
    prepared: bool = False
    over: bool = False
    verdict: PodFailure | None = None
    #: Seconds that containers wait before their next start, by container.
    pausing: Mapping[str, float] = field(default_factory=dict)


def status_of(known: StatusInputs, now: float) -> Object:
    """The pod's status. Nothing in it depends on *now* but the times of what has changed since the stored one."""
    situation = known.situation
    phase = "Failed" if known.verdict and known.over else phase_of(situation, over=known.over)
    first = [one for one in situation.containers if one.role is not ContainerRole.MAIN]
    status: Object = {"phase": phase}
    if known.verdict:
        status |= {"reason": known.verdict.reason, "message": known.verdict.message}
    status["conditions"] = _conditions(known, phase, now)
    status |= {"hostIP": known.address, "hostIPs": [{"ip": known.address}]}
    status |= {"podIP": known.address, "podIPs": [{"ip": known.address}]}
    status["startTime"] = _stamp(known.since)
    if first:
        status["initContainerStatuses"] = [_container_status(known, one) for one in first]
    status["containerStatuses"] = [_container_status(known, one) for one in situation.of(ContainerRole.MAIN)]
    status["qosClass"] = (known.pod.get("status") or {}).get("qosClass") or qos_class(known.pod)
    return status


def _container_status(known: StatusInputs, container: Container) -> Object:
    record = known.situation.record(container)
    status: Object = {
        "name": container.name,
        "state": _state(known, container, record),
        "lastState": _last_state(known, container, record),
        "ready": _is_ready(container, record),
        "restartCount": record.attempt.restart if record.attempt else 0,
        "image": container.spec.get("image", ""),
        "imageID": "",
        "started": record.running and record.started,
    }
    if record.attempt:
        status["containerID"] = _container_id(known, container, record.attempt)
    return status


def _is_ready(container: Container, record: ContainerState) -> bool:
    if container.role is ContainerRole.INIT:
        return record.ended is not None and record.ended.exit_code == 0
    return record.running and record.started and record.ready


def _state(known: StatusInputs, container: Container, record: ContainerState) -> Object:
    if record.attempt is not None:
        if record.running:
            return {"running": {"startedAt": _stamp(record.attempt.started)}}
        if not _waits(known, container, record):
            return {"terminated": _terminated(known, container, record.attempt)}
    return {"waiting": _waiting(known, container, record)}


def _waits(known: StatusInputs, container: Container, record: ContainerState) -> bool:
    """Whether an ended container waits for its next start."""
    return container.name in known.pausing or (record.hindrance is not None and not known.over)


def _waiting(known: StatusInputs, container: Container, record: ContainerState) -> Object:
    pause = known.pausing.get(container.name)
    if pause is not None:
        said = WaitingReason(
            "CrashLoopBackOff",
            f"back-off {_duration(pause)} restarting failed container={container.name} pod={full_name(known.pod)}",
        )
    else:
        said = record.hindrance or WaitingReason("")
    waits_for_others = container.role is not ContainerRole.MAIN or not is_initialized(known.situation)
    reason = said.reason or ("PodInitializing" if waits_for_others else "ContainerCreating")
    return {"reason": reason, **({"message": said.message} if said.message else {})}


def _duration(seconds: float) -> str:
    """``1m20s``, as Go writes it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _last_state(known: StatusInputs, container: Container, record: ContainerState) -> Object:
    attempt = record.attempt
    if attempt is None or record.running or not _waits(known, container, record):
        attempt = record.last
    return {"terminated": _terminated(known, container, attempt)} if attempt else {}


def _terminated(known: StatusInputs, container: Container, attempt: RunState) -> Object:
    end = attempt.end
    assert end is not None
    return {
        "exitCode": end.exit_code,
        "reason": end.reason,
        **({"message": end.message} if end.message else {}),
        "startedAt": _stamp(attempt.started),
        "finishedAt": _stamp(end.at),
        "containerID": _container_id(known, container, attempt),
    }


def _container_id(known: StatusInputs, container: Container, attempt: RunState) -> str:
    return f"process://{run_id(uid_of(known.pod), container.name, attempt.restart)}"


def _stamp(time: float | None) -> str | None:
    return None if time is None else format_rfc3339(int(time))


@dataclass(frozen=True, slots=True)
class _Condition:
    type: str
    holds: bool
    reason: str = ""
    message: str = ""


def _conditions(known: StatusInputs, phase: str, now: float) -> list[Object]:
    """Ours, each with the time of its last change, then those of others."""
    before = {one["type"]: one for one in (known.pod.get("status") or {}).get("conditions") or ()}
    ours = [_written(one, before.get(one.type), now) for one in _facts(known, phase)]
    return [*ours, *[one for one in before.values() if one["type"] not in _OURS]]


def _facts(known: StatusInputs, phase: str) -> Iterator[_Condition]:
    situation = known.situation
    yield _Condition("PodReadyToStartContainers", known.prepared and not known.over)
    yield _initialized(situation, phase)
    unready = [
        one.name
        for one in situation.containers
        if one.role is not ContainerRole.INIT and not _is_ready(one, situation.record(one))
    ]
    for kind in ("Ready", "ContainersReady"):
        yield _readiness(kind, phase, unready)
    yield _Condition("PodScheduled", True)
    if known.verdict and known.verdict.reason == _EVICTED:
        yield _Condition("DisruptionTarget", True, "TerminationByKubelet", known.verdict.message)


def _initialized(situation: PodState, phase: str) -> _Condition:
    if phase == "Succeeded":
        return _Condition("Initialized", True, "PodCompleted")
    waiting = list(awaited(situation))
    if not waiting:
        return _Condition("Initialized", True)
    return _Condition("Initialized", False, "ContainersNotInitialized", _of("incomplete", _names(waiting)))


def _readiness(kind: str, phase: str, unready: Sequence[str]) -> _Condition:
    if phase == "Succeeded":
        return _Condition(kind, False, "PodCompleted")
    if phase == "Failed":
        return _Condition(kind, False, "PodFailed")
    if unready:
        return _Condition(kind, False, "ContainersNotReady", _of("unready", unready))
    return _Condition(kind, True)


def _names(containers: Iterable[Container]) -> list[str]:
    return [one.name for one in containers]


def _of(what: str, names: Sequence[str]) -> str:
    return f"containers with {what} status: [{' '.join(names)}]"


def _written(fact: _Condition, before: Mapping[str, Any] | None, now: float) -> Object:
    value = "True" if fact.holds else "False"
    kept = before is not None and before.get("status") == value and before.get("lastTransitionTime")
    condition: Object = {
        "type": fact.type,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": kept or format_rfc3339(int(now)),
    }
    if fact.reason:
        condition["reason"] = fact.reason
    if fact.message:
        condition["message"] = fact.message
    return condition
