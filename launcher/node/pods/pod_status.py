"""Builds a pod's status as a kubelet reports it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.core.quantity import quantity
from launcher.core.timestamps import format_rfc3339
from launcher.node.pods.container_state import ContainerState, RunState, WaitingReason
from launcher.node.pods.gpus import GPU_RESOURCE, GpuAllocation
from launcher.node.pods.pod_lifecycle import PodState, incomplete_init_containers, is_initialized, pod_phase
from launcher.node.pods.pod_spec import Container, ContainerRole, full_name
from launcher.store.interface import Object

_QOS_RESOURCES = ("cpu", "memory")


def qos_class(pod: Object) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    resources = [container.get("resources") or {} for container in containers]
    if not any(_amounts(spec, kind) for spec in resources for kind in ("requests", "limits")):
        return "BestEffort"
    return "Guaranteed" if resources and all(map(_is_guaranteed, resources)) else "Burstable"


def _amounts(resources: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The requests or limits that determine the QoS class; zero counts as absent."""
    amounts = resources.get(kind) or {}
    return {
        name: quantity(amounts[name])
        for name in _QOS_RESOURCES
        if name in amounts and quantity(amounts[name])
    }


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits = _amounts(resources, "limits")
    return set(limits) == set(_QOS_RESOURCES) and {**limits, **_amounts(resources, "requests")} == limits


#: The conditions that the node writes; those of other types are not changed.
_NODE_CONDITIONS = (
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
    """Why the node terminated the pod."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """The inputs of ``pod_status``."""

    pod: Object
    state: PodState
    #: When the node accepted the pod.
    start_time: float
    host_address: str
    pod_address: str
    #: Its volumes are mounted.
    prepared: bool = False
    terminated: bool = False
    failure: PodFailure | None = None
    #: Seconds of back-off before the next start, by container.
    backing_off: Mapping[str, float] = field(default_factory=dict)
    gpus: GpuAllocation = field(default_factory=dict)


def pod_status(inputs: StatusInputs, now: float) -> Object:
    """The pod's status. Only the transition times of changed conditions depend on *now*."""
    state = inputs.state
    failed = inputs.failure and inputs.terminated
    phase = "Failed" if failed else pod_phase(state, terminated=inputs.terminated)
    init_containers = [
        container for container in state.containers if container.role is not ContainerRole.MAIN
    ]
    status: Object = {"phase": phase}
    if inputs.failure:
        status |= {"reason": inputs.failure.reason, "message": inputs.failure.message}
    status["conditions"] = _conditions(inputs, phase, now)
    status |= {"hostIP": inputs.host_address, "hostIPs": [{"ip": inputs.host_address}]}
    status |= {"podIP": inputs.pod_address, "podIPs": [{"ip": inputs.pod_address}]}
    status["startTime"] = _timestamp(inputs.start_time)
    if init_containers:
        status["initContainerStatuses"] = [
            _container_status(inputs, container) for container in init_containers
        ]
    status["containerStatuses"] = [
        _container_status(inputs, container) for container in state.with_role(ContainerRole.MAIN)
    ]
    status["qosClass"] = (inputs.pod.get("status") or {}).get("qosClass") or qos_class(inputs.pod)
    return status


def _container_status(inputs: StatusInputs, container: Container) -> Object:
    state = inputs.state.of_container(container)
    status: Object = {
        "name": container.name,
        "state": _state(inputs, container, state),
        "lastState": _last_state(inputs, container, state),
        "ready": _is_ready(container, state),
        "restartCount": state.run.restart if state.run else 0,
        "image": container.spec.get("image", ""),
        "imageID": state.run.image_ref if state.run else "",
        "started": state.running and state.started,
    }
    if state.run and state.run.container_id:
        status["containerID"] = state.run.container_id
    if gpus := inputs.gpus.get(container.name):
        # Their health is not monitored.
        resources = [{"resourceID": gpu, "health": "Unknown"} for gpu in gpus]
        status["allocatedResourcesStatus"] = [{"name": GPU_RESOURCE, "resources": resources}]
    return status


def _is_ready(container: Container, state: ContainerState) -> bool:
    if container.role is ContainerRole.INIT:
        return state.exit is not None and state.exit.exit_code == 0
    return state.running and state.started and state.ready


def _state(inputs: StatusInputs, container: Container, state: ContainerState) -> Object:
    if state.run is not None:
        if state.running:
            return {"running": {"startedAt": _timestamp(state.run.started)}}
        if not _is_waiting(inputs, container, state):
            return {"terminated": _terminated(state.run)}
    return {"waiting": _waiting(inputs, container, state)}


def _is_waiting(inputs: StatusInputs, container: Container, state: ContainerState) -> bool:
    """Whether an ended container waits for its next start."""
    return container.name in inputs.backing_off or (state.waiting is not None and not inputs.terminated)


def _waiting(inputs: StatusInputs, container: Container, state: ContainerState) -> Object:
    delay = inputs.backing_off.get(container.name)
    if delay is not None:
        waiting = WaitingReason(
            "CrashLoopBackOff",
            f"back-off {_duration(delay)} restarting failed container={container.name} pod={full_name(inputs.pod)}",
        )
    else:
        waiting = state.waiting or WaitingReason("")
    is_initializing = container.role is not ContainerRole.MAIN or not is_initialized(inputs.state)
    reason = waiting.reason or ("PodInitializing" if is_initializing else "ContainerCreating")
    return {"reason": reason, **({"message": waiting.message} if waiting.message else {})}


def _duration(seconds: float) -> str:
    """``1m20s``, in Go's format."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _last_state(inputs: StatusInputs, container: Container, state: ContainerState) -> Object:
    run = state.run
    if run is None or state.running or not _is_waiting(inputs, container, state):
        run = state.last_run
    return {"terminated": _terminated(run)} if run else {}


def _terminated(run: RunState) -> Object:
    status = run.exit
    assert status is not None
    return {
        "exitCode": status.exit_code,
        "reason": status.reason,
        **({"message": status.message} if status.message else {}),
        "startedAt": _timestamp(run.started),
        "finishedAt": _timestamp(status.finished_at),
        **({"containerID": run.container_id} if run.container_id else {}),
    }


def _timestamp(time: float | None) -> str | None:
    return None if time is None else format_rfc3339(int(time))


@dataclass(frozen=True, slots=True)
class _PodCondition:
    type: str
    is_true: bool
    reason: str = ""
    message: str = ""


def _conditions(inputs: StatusInputs, phase: str, now: float) -> list[Object]:
    """The node's conditions, each with the time of its last transition, then those of other clients."""
    stored = {
        condition["type"]: condition for condition in (inputs.pod.get("status") or {}).get("conditions") or ()
    }
    conditions = [
        _condition_json(condition, stored.get(condition.type), now)
        for condition in _node_conditions(inputs, phase)
    ]
    others = [condition for condition in stored.values() if condition["type"] not in _NODE_CONDITIONS]
    return [*conditions, *others]


def _node_conditions(inputs: StatusInputs, phase: str) -> Iterator[_PodCondition]:
    state = inputs.state
    yield _PodCondition("PodReadyToStartContainers", inputs.prepared and not inputs.terminated)
    yield _initialized(state, phase)
    unready = [
        container.name
        for container in state.containers
        if container.role is not ContainerRole.INIT
        and not _is_ready(container, state.of_container(container))
    ]
    for kind in ("Ready", "ContainersReady"):
        yield _readiness(kind, phase, unready)
    yield _PodCondition("PodScheduled", True)
    if inputs.failure and inputs.failure.reason == _EVICTED:
        yield _PodCondition("DisruptionTarget", True, "TerminationByKubelet", inputs.failure.message)


def _initialized(state: PodState, phase: str) -> _PodCondition:
    if phase == "Succeeded":
        return _PodCondition("Initialized", True, "PodCompleted")
    incomplete = list(incomplete_init_containers(state))
    if not incomplete:
        return _PodCondition("Initialized", True)
    return _PodCondition(
        "Initialized", False, "ContainersNotInitialized", _with_status("incomplete", _names(incomplete))
    )


def _readiness(kind: str, phase: str, unready: Sequence[str]) -> _PodCondition:
    if phase == "Succeeded":
        return _PodCondition(kind, False, "PodCompleted")
    if phase == "Failed":
        return _PodCondition(kind, False, "PodFailed")
    if unready:
        return _PodCondition(kind, False, "ContainersNotReady", _with_status("unready", unready))
    return _PodCondition(kind, True)


def _names(containers: Iterable[Container]) -> list[str]:
    return [container.name for container in containers]


def _with_status(status: str, names: Sequence[str]) -> str:
    return f"containers with {status} status: [{' '.join(names)}]"


def _condition_json(condition: _PodCondition, stored: Mapping[str, Any] | None, now: float) -> Object:
    value = "True" if condition.is_true else "False"
    is_unchanged = stored is not None and stored.get("status") == value
    transition = stored.get("lastTransitionTime") if stored is not None and is_unchanged else None
    result: Object = {
        "type": condition.type,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": transition or format_rfc3339(int(now)),
    }
    if condition.reason:
        result["reason"] = condition.reason
    if condition.message:
        result["message"] = condition.message
    return result
