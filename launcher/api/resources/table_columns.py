"""Columns and cells of the tables of each kind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from launcher.core.completion_codes import Code
from launcher.core.json_access import as_list, as_object
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.pods.pod_status_column import container_statuses, pod_status_column
from launcher.core.replicas import tasks_of_roles
from launcher.core.timestamps import age, format_age, parse_rfc3339
from launcher.job_kinds.job_kind import job_kind_of
from launcher.store.interface import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    FRAMEWORK_ATTEMPTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Object,
    ResourceKind,
)

#: The value of a cell.
Cell = str | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column; a *wide* one is shown only with ``-o wide``."""

    name: str
    description: str
    type: str = "string"
    format: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a kind's table, and a function that returns the cells of an object at a time."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, float], list[Cell]]


def table_shape(kind: ResourceKind) -> TableShape:
    """Returns the columns of a kind."""
    return _SHAPES.get(kind.kind, _JOB if job_kind_of(kind) else _PLAIN)


_MAX_SHOWN = 3
_NAME = Column("Name", "The name of the object", format="name")
_AGE = Column("Age", "Time since the creation of the object", "date")


def _age(obj: Object, now: float) -> str:
    return format_age(obj["metadata"].get("creationTimestamp"), now)


def _plain(obj: Object, now: float) -> list[Cell]:
    return [obj["metadata"]["name"], _age(obj, now)]


def _framework(obj: Object, now: float) -> list[Cell]:
    status = as_object(obj.get("status"))
    retries = as_object(status.get("retryPolicyStatus")).get("totalRetriedCount")
    return [
        obj["metadata"]["name"],
        _framework_state(obj, status, now),
        _tasks(obj, status),
        _age(obj, now),
        retries if isinstance(retries, int) else 0,
        str(as_object(obj.get("spec")).get("executionType", "")),
        _text(status.get("message")),
        _task_states(status),
    ]


def _task_states(status: Mapping[str, Any]) -> str:
    """Returns the number of tasks in each state as JSON, as kube-apiserver prints an object in a column."""
    counts = as_object(status.get("taskCounts"))
    return orjson.dumps(counts, option=orjson.OPT_SORT_KEYS).decode() if counts else ""


def _framework_attempt(obj: Object, now: float) -> list[Cell]:
    attempt = as_object(obj.get("attemptStatus"))
    completion = as_object(attempt.get("completionStatus"))
    completed = attempt.get("completionTime")
    return [
        obj["metadata"]["name"],
        _text(obj.get("frameworkName")),
        obj.get("attempt"),
        _text(as_object(completion.get("type")).get("name")),
        obj.get("counted"),
        format_age(completed, now),
        _text(obj.get("message")),
    ]


def _framework_state(obj: Object, status: Mapping[str, Any], now: float) -> Cell:
    """Returns the state; of a completed Framework its result, and during the back-off the time of the retry."""
    state = _text(status.get("state"))
    attempt = as_object(status.get("attemptStatus"))
    if state == "Completed":
        if as_object(attempt.get("completionStatus")).get("code") == Code.STOP_FRAMEWORK_REQUESTED:
            return "Stopped"
        conditions = [as_object(condition) for condition in as_list(status.get("conditions"))]
        final = [each for each in conditions if each.get("type") in _RESULTS and each.get("status") == "True"]
        return str(final[0]["type"]) if final else state
    if is_deleted(obj):
        return "Terminating"
    return _retry(status, attempt, now) if state == "AttemptCompleted" else state


def _retry(status: Mapping[str, Any], attempt: Mapping[str, Any], now: float) -> str:
    """Returns ``Retrying in 7s`` for a Framework whose retry is scheduled."""
    delay: Any = as_object(status.get("retryPolicyStatus")).get("retryDelaySec")
    completed = attempt.get("completionTime")
    try:
        left = parse_rfc3339(str(completed)) + int(delay) - now
    except (TypeError, ValueError):
        return "AttemptCompleted"
    return f"Retrying in {age(left)}" if left >= 1 else "Retrying"


_RESULTS = ("Succeeded", "Failed")


def _tasks(obj: Object, status: Mapping[str, Any]) -> str:
    """Returns ``3/8``: completed and total tasks."""
    counts = [number for number in as_object(status.get("taskCounts")).values() if isinstance(number, int)]
    completed = as_object(status.get("taskCounts")).get("Completed", 0)
    if not counts:
        counts = list(tasks_of_roles(as_object(obj.get("spec"))))
    return f"{completed}/{sum(counts)}"


def _job(obj: Object, now: float) -> list[Cell]:
    conditions = as_list(as_object(obj.get("status")).get("conditions"))
    state = _text(as_object(conditions[-1]).get("type")) if conditions else None
    return [obj["metadata"]["name"], state, _age(obj, now)]


def _pod(obj: Object, now: float) -> list[Cell]:
    spec, status = as_object(obj.get("spec")), as_object(obj.get("status"))
    containers = container_statuses(status)
    ready = sum(each.get("ready") is True for each in containers)
    restarts = sum(count for each in containers if isinstance(count := each.get("restartCount"), int))
    return [
        obj["metadata"]["name"],
        f"{ready}/{len(as_list(spec.get('containers')))}",
        pod_status_column(obj),
        str(restarts),
        _age(obj, now),
        _text(status.get("podIP")) or "<none>",
        _text(spec.get("nodeName")) or "<none>",
        _text(status.get("nominatedNodeName")) or "<none>",
        _readiness_gates(spec, status),
    ]


def _readiness_gates(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    gates = [as_object(gate).get("conditionType") for gate in as_list(spec.get("readinessGates"))]
    if not gates:
        return "<none>"
    true = {
        as_object(each).get("type")
        for each in as_list(status.get("conditions"))
        if as_object(each).get("status") == "True"
    }
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _event(obj: Object, now: float) -> list[Cell]:
    involved, source = as_object(obj.get("involvedObject")), as_object(obj.get("source"))
    count = obj.get("count")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    return [
        format_age(obj.get("lastTimestamp") or first, now),
        _text(obj.get("type")),
        _text(obj.get("reason")),
        f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}",
        (_text(obj.get("message")) or "").strip(),
        _text(involved.get("fieldPath")),
        ", ".join(str(source[key]) for key in ("component", "host") if source.get(key)),
        format_age(first, now),
        count if isinstance(count, int) else 1,
        obj["metadata"]["name"],
    ]


def _node(obj: Object, now: float) -> list[Cell]:
    status = as_object(obj.get("status"))
    info = as_object(status.get("nodeInfo"))
    addresses = {
        as_object(each).get("type"): as_object(each).get("address")
        for each in as_list(status.get("addresses"))
    }
    return [
        obj["metadata"]["name"],
        _node_status(obj, status),
        ",".join(sorted(_roles(as_object(obj["metadata"].get("labels"))))) or "<none>",
        _age(obj, now),
        _text(info.get("kubeletVersion")),
        _text(addresses.get("InternalIP")) or "<none>",
        _text(addresses.get("ExternalIP")) or "<none>",
        _text(info.get("osImage")) or "<unknown>",
        _text(info.get("kernelVersion")) or "<unknown>",
        _text(info.get("containerRuntimeVersion")) or "<unknown>",
    ]


def _node_status(obj: Object, status: Mapping[str, Any]) -> str:
    ready = [
        as_object(each)
        for each in as_list(status.get("conditions"))
        if as_object(each).get("type") == "Ready"
    ]
    statuses = ["Unknown" if not ready else "Ready" if ready[0].get("status") == "True" else "NotReady"]
    if as_object(obj.get("spec")).get("unschedulable"):
        statuses.append("SchedulingDisabled")
    return ",".join(statuses)


def _roles(labels: Mapping[str, Any]) -> Iterator[str]:
    for key in labels:
        if key.startswith(_ROLE) and key != _ROLE:
            yield key.removeprefix(_ROLE)


_ROLE = "node-role.kubernetes.io/"


def _namespace(obj: Object, now: float) -> list[Cell]:
    return [obj["metadata"]["name"], _text(as_object(obj.get("status")).get("phase")), _age(obj, now)]


def _service(obj: Object, now: float) -> list[Cell]:
    spec = as_object(obj.get("spec"))
    ports = [as_object(port) for port in as_list(spec.get("ports"))]
    selector = as_object(spec.get("selector"))
    return [
        obj["metadata"]["name"],
        _text(spec.get("type")) or "ClusterIP",
        _text(spec.get("clusterIP")) or "<none>",
        _external_address(spec),
        ",".join(map(_service_port, ports)) or "<none>",
        _age(obj, now),
        ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or "<none>",
    ]


def _external_address(spec: Object) -> str:
    addresses = ",".join(map(str, as_list(spec.get("externalIPs"))))
    if spec.get("type") == "LoadBalancer":
        return addresses or "<pending>"
    alias = _text(spec.get("externalName")) if spec.get("type") == "ExternalName" else ""
    return addresses or alias or "<none>"


def _service_port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _config_map(obj: Object, now: float) -> list[Cell]:
    return [
        obj["metadata"]["name"],
        len(as_object(obj.get("data"))) + len(as_object(obj.get("binaryData"))),
        _age(obj, now),
    ]


def _secret(obj: Object, now: float) -> list[Cell]:
    return [obj["metadata"]["name"], _text(obj.get("type")), len(as_object(obj.get("data"))), _age(obj, now)]


def _endpoints(obj: Object, now: float) -> list[Cell]:
    shown = [
        f"{address.get('ip')}:{port['port']}" if port.get("port") else str(address.get("ip"))
        for subset in map(as_object, as_list(obj.get("subsets")))
        for address in map(as_object, as_list(subset.get("addresses")))
        for port in map(as_object, as_list(subset.get("ports")) or ({},))
    ]
    return [obj["metadata"]["name"], _first(shown) or "<none>", _age(obj, now)]


def _endpoint_slice(obj: Object, now: float) -> list[Cell]:
    ports = [str(as_object(port).get("port")) for port in as_list(obj.get("ports"))]
    addresses = [
        str(address)
        for endpoint in map(as_object, as_list(obj.get("endpoints")))
        for address in as_list(endpoint.get("addresses"))
    ]
    return [
        obj["metadata"]["name"],
        _text(obj.get("addressType")),
        _first(ports) or "<unset>",
        _first(addresses) or "<unset>",
        _age(obj, now),
    ]


def _first(texts: Sequence[str]) -> str:
    """The texts, or the first three of them and the number of the others."""
    more = f" + {len(texts) - _MAX_SHOWN} more..." if len(texts) > _MAX_SHOWN else ""
    return ",".join(texts[:_MAX_SHOWN]) + more


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _wide(*headings: tuple[str, str]) -> Sequence[Column]:
    return [Column(name, description, wide=True) for name, description in headings]


_PLAIN = TableShape((_NAME, _AGE), _plain)
_JOB = TableShape((_NAME, Column("State", "The type of the last condition"), _AGE), _job)
_SHAPES: Mapping[str, TableShape] = {
    FRAMEWORKS.kind: TableShape(
        (
            _NAME,
            Column("State", "The state of the Framework, or its result"),
            Column("Tasks", "Completed and total tasks"),
            _AGE,
            Column("Retries", "The number of retries of the Framework", "integer", wide=True),
            *_wide(
                ("Execution", "The executionType: Create, Start or Stop"),
                ("Message", "The message of the status"),
                ("Task States", "The number of tasks in each state, as JSON"),
            ),
        ),
        _framework,
    ),
    FRAMEWORK_ATTEMPTS.kind: TableShape(
        (
            _NAME,
            Column("Framework", "The Framework"),
            Column("Attempt", "The number of the attempt, from 1", "integer"),
            Column("Result", "How the attempt ended"),
            Column("Counted", "Whether the retry counts towards maxRetryCount", "boolean"),
            Column("Completed", "The time since the attempt completed", "date"),
            *_wide(("Message", "Why the attempt completed")),
        ),
        _framework_attempt,
    ),
    PODS.kind: TableShape(
        (
            _NAME,
            Column("Ready", "Ready and total containers"),
            Column("Status", "The phase of the pod, or the reason of a container"),
            Column("Restarts", "The number of container restarts"),
            _AGE,
            *_wide(
                ("IP", "The IP of the pod"),
                ("Node", "The node of the pod"),
                ("Nominated Node", "The node that preemption has nominated"),
                ("Readiness Gates", "True and total readiness gates"),
            ),
        ),
        _pod,
    ),
    EVENTS.kind: TableShape(
        (
            Column("Last Seen", "Time since the last occurrence", "date"),
            Column("Type", "Normal or Warning"),
            Column("Reason", "The reason of the event"),
            Column("Object", "The involved object"),
            Column("Message", "The description of the event"),
            *_wide(
                ("Subobject", "The involved part of the object"),
                ("Source", "The component that reported the event"),
                ("First Seen", "Time since the first occurrence"),
            ),
            Column("Count", "The number of occurrences", "integer", wide=True),
            Column("Name", "The name of the event", format="name", wide=True),
        ),
        _event,
    ),
    NODES.kind: TableShape(
        (
            _NAME,
            Column("Status", "Whether the node is ready and schedulable"),
            Column("Roles", "The roles of the node"),
            _AGE,
            Column("Version", "The kubelet version"),
            *_wide(
                ("Internal-IP", "The internal IP"),
                ("External-IP", "The external IP"),
                ("OS-Image", "The operating system"),
                ("Kernel-Version", "The kernel version"),
                ("Container-Runtime", "The container runtime"),
            ),
        ),
        _node,
    ),
    NAMESPACES.kind: TableShape((_NAME, Column("Status", "Active or Terminating"), _AGE), _namespace),
    SERVICES.kind: TableShape(
        (
            _NAME,
            Column("Type", "The type of the Service"),
            Column("Cluster-IP", "The cluster IP"),
            Column("External-IP", "The external IPs"),
            Column("Port(s)", "The ports"),
            _AGE,
            *_wide(("Selector", "The label selector of its pods")),
        ),
        _service,
    ),
    ENDPOINTS.kind: TableShape(
        (_NAME, Column("Endpoints", "The addresses and ports of ready pods"), _AGE), _endpoints
    ),
    ENDPOINT_SLICES.kind: TableShape(
        (
            _NAME,
            Column("AddressType", "The type of the addresses"),
            Column("Ports", "The ports of the pods"),
            Column("Endpoints", "The addresses of the pods"),
            _AGE,
        ),
        _endpoint_slice,
    ),
    CONFIG_MAPS.kind: TableShape(
        (_NAME, Column("Data", "The number of entries", "integer"), _AGE), _config_map
    ),
    SECRETS.kind: TableShape(
        (
            _NAME,
            Column("Type", "The type of the secret"),
            Column("Data", "The number of entries", "integer"),
            _AGE,
        ),
        _secret,
    ),
}
