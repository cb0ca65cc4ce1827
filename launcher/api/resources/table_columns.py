"""What the table of each kind shows of an object."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.replicas import tasks_of_roles
from launcher.core.timestamps import format_age
from launcher.core.validation.pod_template import as_list, as_object
from launcher.job_kinds.job_kind import foreign_of
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Object,
    ResourceKind,
)

#: What stands in one cell: text, a number, or nothing.
Cell = str | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading. A wide one shows with ``-o wide`` alone."""

    name: str
    description: str
    type: str = "string"
    format: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a kind's table, and the cells of one object in it at a time."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, float], list[Cell]]


def shape_of(kind: ResourceKind) -> TableShape:
    """How a table of that kind looks."""
    return _SHAPES.get(kind.kind, _JOB if foreign_of(kind) else _PLAIN)


_NAME = Column("Name", "The object's name", format="name")
_AGE = Column("Age", "How long ago it was created", "date")


def _age(obj: Object, now: float) -> str:
    return format_age(obj["metadata"].get("creationTimestamp"), now)


def _plain(obj: Object, now: float) -> list[Cell]:
    return [obj["metadata"]["name"], _age(obj, now)]


def _framework(obj: Object, now: float) -> list[Cell]:
    status = as_object(obj.get("status"))
    retries = as_object(status.get("retryPolicyStatus")).get("totalRetriedCount")
    return [
        obj["metadata"]["name"],
        _framework_state(obj, status),
        _tasks(obj, status),
        _age(obj, now),
        retries if isinstance(retries, int) else 0,
        str(as_object(obj.get("spec")).get("executionType", "")),
        _text(status.get("message")),
    ]


def _framework_state(obj: Object, status: Mapping[str, Any]) -> Cell:
    """The state; of one that is over, how it ended."""
    state = _text(status.get("state"))
    if state == "Completed":
        conditions = [as_object(condition) for condition in as_list(status.get("conditions"))]
        ended = [each for each in conditions if each.get("type") in _ENDS and each.get("status") == "True"]
        return str(ended[0]["type"]) if ended else state
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else state


_ENDS = ("Succeeded", "Failed")


def _tasks(obj: Object, status: Mapping[str, Any]) -> str:
    """``3/8``: how many tasks are through, of all."""
    counts = [number for number in as_object(status.get("taskCounts")).values() if isinstance(number, int)]
    done = as_object(status.get("taskCounts")).get("Completed", 0)
    if not counts:
        counts = list(tasks_of_roles(as_object(obj.get("spec"))))
    return f"{done}/{sum(counts)}"


def _job(obj: Object, now: float) -> list[Cell]:
    conditions = as_list(as_object(obj.get("status")).get("conditions"))
    state = _text(as_object(conditions[-1]).get("type")) if conditions else None
    return [obj["metadata"]["name"], state, _age(obj, now)]


def _pod(obj: Object, now: float) -> list[Cell]:
    spec, status = as_object(obj.get("spec")), as_object(obj.get("status"))
    states = _containers(status)
    ready = sum(each.get("ready") is True for each in states)
    restarts = sum(count for each in states if isinstance(count := each.get("restartCount"), int))
    return [
        obj["metadata"]["name"],
        f"{ready}/{len(as_list(spec.get('containers')))}",
        _pod_status(obj, status),
        str(restarts),
        _age(obj, now),
        _text(status.get("podIP")) or "<none>",
        _text(spec.get("nodeName")) or "<none>",
        _text(status.get("nominatedNodeName")) or "<none>",
        _gates(spec, status),
    ]


def _pod_status(obj: Object, status: Mapping[str, Any]) -> str:
    """What kubectl shows: the phase, unless a container has more to say."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    said = _init_status(obj, status) or next(_container_words(status), None)
    if said == "Completed" and any("running" in as_object(each.get("state")) for each in _containers(status)):
        # Its neighbours go on.
        said = "Running" if all(each.get("ready") for each in _containers(status)) else "NotReady"
    return said or _text(status.get("reason")) or _text(status.get("phase")) or "Unknown"


def _init_status(obj: Object, status: Mapping[str, Any]) -> str | None:
    """``Init:1/2`` and the like, while init containers are not through."""
    states = [as_object(each) for each in as_list(status.get("initContainerStatuses"))]
    declared = [as_object(each) for each in as_list(as_object(obj.get("spec")).get("initContainers"))]
    total = len(declared)
    always = {each.get("name") for each in declared if each.get("restartPolicy") == "Always"}
    for index, each in enumerate(states):
        state = as_object(each.get("state"))
        ended = as_object(state.get("terminated"))
        if (ended and ended.get("exitCode") == 0) or (each.get("name") in always and each.get("started")):
            continue
        word = _ended_word(ended) if ended else as_object(state.get("waiting")).get("reason")
        if word and word != "PodInitializing":
            return f"Init:{word}"
        return f"Init:{index}/{total}"
    return None


def _container_words(status: Mapping[str, Any]) -> Iterator[str]:
    """What each container that does not simply run has to say."""
    for each in _containers(status):
        state = as_object(each.get("state"))
        if reason := as_object(state.get("waiting")).get("reason"):
            yield str(reason)
        elif ended := as_object(state.get("terminated")):
            yield _ended_word(ended)


def _containers(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [as_object(each) for each in as_list(status.get("containerStatuses"))]


def _ended_word(ended: Mapping[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode')}"


def _gates(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
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
    about, source = as_object(obj.get("involvedObject")), as_object(obj.get("source"))
    count = obj.get("count")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    return [
        format_age(obj.get("lastTimestamp") or first, now),
        _text(obj.get("type")),
        _text(obj.get("reason")),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        (_text(obj.get("message")) or "").strip(),
        _text(about.get("fieldPath")),
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
    words = ["Unknown" if not ready else "Ready" if ready[0].get("status") == "True" else "NotReady"]
    if as_object(obj.get("spec")).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


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
        ",".join(map(str, as_list(spec.get("externalIPs")))) or "<none>",
        ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>",
        _age(obj, now),
        ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or "<none>",
    ]


def _config_map(obj: Object, now: float) -> list[Cell]:
    return [
        obj["metadata"]["name"],
        len(as_object(obj.get("data"))) + len(as_object(obj.get("binaryData"))),
        _age(obj, now),
    ]


def _secret(obj: Object, now: float) -> list[Cell]:
    return [obj["metadata"]["name"], _text(obj.get("type")), len(as_object(obj.get("data"))), _age(obj, now)]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _wide(*headings: tuple[str, str]) -> Sequence[Column]:
    return [Column(name, description, wide=True) for name, description in headings]


_PLAIN = TableShape((_NAME, _AGE), _plain)
_JOB = TableShape((_NAME, Column("State", "What has happened last"), _AGE), _job)
_SHAPES: Mapping[str, TableShape] = {
    FRAMEWORKS.kind: TableShape(
        (
            _NAME,
            Column("State", "Where the Framework is, or how it ended"),
            Column("Tasks", "How many tasks are completed, of all"),
            _AGE,
            Column("Retries", "How often the whole Framework has been run again", "integer", wide=True),
            *_wide(
                ("Execution", "What its user wants of it: Create, Start or Stop"),
                ("Message", "Why it is where it is"),
            ),
        ),
        _framework,
    ),
    PODS.kind: TableShape(
        (
            _NAME,
            Column("Ready", "How many containers are ready, of all"),
            Column("Status", "The phase, or what a container has to say"),
            Column("Restarts", "How often its containers have been started again"),
            _AGE,
            *_wide(
                ("IP", "Its address"),
                ("Node", "Where it runs"),
                ("Nominated Node", "Where it may run soon"),
                ("Readiness Gates", "How many further conditions of its readiness hold, of all"),
            ),
        ),
        _pod,
    ),
    EVENTS.kind: TableShape(
        (
            Column("Last Seen", "How long ago it happened last", "date"),
            Column("Type", "Normal or Warning"),
            Column("Reason", "What happened, in one word"),
            Column("Object", "What it happened to"),
            Column("Message", "What happened, for people"),
            *_wide(
                ("Subobject", "Which part of the object"),
                ("Source", "Who tells"),
                ("First Seen", "How long ago it happened first"),
            ),
            Column("Count", "How often it has happened", "integer", wide=True),
            Column("Name", "The event's name", format="name", wide=True),
        ),
        _event,
    ),
    NODES.kind: TableShape(
        (
            _NAME,
            Column("Status", "Whether pods can run there"),
            Column("Roles", "What it is for"),
            _AGE,
            Column("Version", "Of what runs the pods"),
            *_wide(
                ("Internal-IP", "Its address inside"),
                ("External-IP", "Its address outside"),
                ("OS-Image", "Its operating system"),
                ("Kernel-Version", "Its kernel"),
                ("Container-Runtime", "What its containers are run by"),
            ),
        ),
        _node,
    ),
    NAMESPACES.kind: TableShape((_NAME, Column("Status", "Active, or on its way out"), _AGE), _namespace),
    SERVICES.kind: TableShape(
        (
            _NAME,
            Column("Type", "How it can be reached"),
            Column("Cluster-IP", "Its address inside"),
            Column("External-IP", "Its addresses outside"),
            Column("Port(s)", "Its ports"),
            _AGE,
            *_wide(("Selector", "Which pods it leads to")),
        ),
        _service,
    ),
    CONFIG_MAPS.kind: TableShape(
        (_NAME, Column("Data", "How many entries it has", "integer"), _AGE), _config_map
    ),
    SECRETS.kind: TableShape(
        (
            _NAME,
            Column("Type", "What it is for"),
            Column("Data", "How many entries it has", "integer"),
            _AGE,
        ),
        _secret,
    ),
}
