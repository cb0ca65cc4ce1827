"""The input of a diagnosis, and the views of it that the modules of each area read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from launcher.core.diagnosis.finding import Evidence
from launcher.core.diagnosis.launcher_state import HEALTHY, LauncherState
from launcher.core.framework import Framework
from launcher.core.json_access import as_list, as_object, text
from launcher.core.names import pod_name
from launcher.core.owner_references import controller_of
from launcher.core.pods.resource_requests import Amounts, thousandths
from launcher.core.serialization.framework_json import framework_from_json
from launcher.core.spec import RoleName, TaskRole
from launcher.core.status import RoleStatus, TaskStatus
from launcher.core.timestamps import Time, parse_rfc3339

Json = Mapping[str, Any]

#: The longest value of one piece of evidence.
_MAX_VALUE_CHARACTERS = 500


class NodeFit(NamedTuple):
    """Whether a node accepts a pod, apart from its free resources."""

    #: The node matches nodeSelector and nodeAffinity.
    is_selected: bool
    is_cordoned: bool
    #: A taint that the pod does not tolerate, as ``key=value``; empty if there is none.
    taint: str


class LogReference(NamedTuple):
    """The log of one container. *uid* is that of its pod, if it is known."""

    pod: str
    uid: str | None
    container: str
    #: Whether the run before the current one is meant.
    previous: bool = False


@dataclass(frozen=True, slots=True)
class DiagnosisScope:
    """The tasks to diagnose: all of a role, or one."""

    role: str
    index: int | None = None

    def matches(self, role: str, index: int) -> bool:
        return self.role == role and self.index in (None, index)


@dataclass(frozen=True, slots=True)
class DiagnosisInput:
    """All that a diagnosis depends on. Objects are JSON as the API returns them."""

    object: Json
    #: None: the status was not written by a launcher.
    framework: Framework | None
    pods: Sequence[Json]
    #: None: unknown, for example because the caller may not list nodes.
    nodes: Sequence[Json] | None
    events: Sequence[Json]
    now: Time
    quotas: Sequence[Json] = ()
    launcher: LauncherState = HEALTHY
    #: Compares a pod with a node. Raises ValueError if one of them is invalid.
    node_fit: Callable[[Json, Json], NodeFit] | None = None
    #: The last lines of some logs, by pod and container.
    last_lines: Mapping[tuple[str, str], str] = field(default_factory=dict)
    #: When running pods last wrote to a log, by pod; only of those that were checked.
    last_output: Mapping[str, Time] = field(default_factory=dict)


def diagnosable_framework(obj: Json) -> Framework | None:
    """The Framework as a value, without an invalid spec; None if the status was not written by a launcher."""
    conditions = as_list(as_object(obj.get("status")).get("conditions"))
    spec_errors = next((text(each.get("message")) for each in conditions if _is_invalid(each)), "")
    try:
        return framework_from_json(obj, spec_errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        # A spec that was stored without validation; the launcher has not rejected it yet.
        try:
            return framework_from_json(obj, "invalid spec")
        except ValueError:
            return None


def _is_invalid(condition: Json) -> bool:
    return condition.get("type") == "Valid" and condition.get("status") == "False"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, as far as scheduling depends on it."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    ready: bool
    ready_message: str
    unschedulable: bool
    object: Json


@dataclass(frozen=True)
class Context:
    """The input, indexed once for all tasks."""

    source: DiagnosisInput
    framework: Framework
    now: Time
    pods: Mapping[str, Json] = field(default_factory=dict)
    #: Events by the uid of their object, in the order of the list.
    events: Mapping[str, Sequence[Json]] = field(default_factory=dict)

    @classmethod
    def of(cls, source: DiagnosisInput, framework: Framework) -> "Context":
        """Indexes pods of this Framework by name, and events by the uid of their object."""
        uid = framework.uid
        pods = {pod["metadata"]["name"]: pod for pod in source.pods if owner_uid(pod) == uid}
        events: dict[str, list[Json]] = {}
        for event in source.events:
            involved = as_object(event.get("involvedObject")).get("uid")
            if isinstance(involved, str):
                events.setdefault(involved, []).append(event)
        return cls(source, framework, source.now, pods, events)

    @cached_property
    def total_tasks(self) -> int:
        status = self.framework.status
        return sum(len(role.tasks) for role in status.roles) if status is not None else 0

    @cached_property
    def nodes(self) -> Sequence[NodeFacts] | None:
        """All nodes; None if they are unknown."""
        return None if self.source.nodes is None else [_node_facts(node) for node in self.source.nodes]

    @cached_property
    def unready_nodes(self) -> Mapping[str, NodeFacts]:
        return {node.name: node for node in self.nodes or () if not node.ready}

    @cached_property
    def roles(self) -> Mapping[str, TaskRole]:
        return {role.name: role for role in self.framework.spec.roles}

    @property
    def framework_events(self) -> Sequence[Json]:
        return self.events.get(self.framework.uid, ())

    @property
    def reference(self) -> str:
        """``framework/mnist``, as ``kubectl`` and ``launcher`` print it."""
        return f"framework/{self.framework.name}"

    def command(self, verb: str, *words: str) -> str:
        """``launcher logs mnist worker/0``, with the namespace if it is not the default."""
        namespace = self.framework.namespace
        scope = [] if namespace == "default" else ["-n", namespace]
        return " ".join(["launcher", verb, self.framework.name, *words, *scope])

    def kubectl(self, *words: str) -> str:
        """``kubectl -n NAMESPACE …``, for objects that ``launcher`` has no command for."""
        return " ".join(["kubectl", "-n", self.framework.namespace, *words])

    def view(self, role: RoleStatus, task: TaskStatus) -> "TaskView":
        name = pod_name(self.framework.name, role.name, task.index)
        return TaskView(self, role.name, self.roles.get(role.name), task, name, self.pods.get(name))


@dataclass(frozen=True)
class TaskView:
    """One task and its pod."""

    context: Context
    role_name: RoleName
    #: None: the role was removed from the spec, or the spec is invalid.
    role: TaskRole | None
    task: TaskStatus
    pod_name: str
    pod: Json | None

    @property
    def status(self) -> Json:
        return as_object((self.pod or {}).get("status"))

    @property
    def pod_spec(self) -> Json:
        """The spec of the pod; of its template, if there is no pod."""
        if self.pod is not None:
            return as_object(self.pod.get("spec"))
        return as_object(self.role.pod.get("spec")) if self.role is not None else {}

    @property
    def events(self) -> Sequence[Json]:
        """The events of the pod."""
        uid = as_object((self.pod or {}).get("metadata")).get("uid")
        return self.context.events.get(uid, ()) if uid else ()

    @property
    def field(self) -> str:
        """The field of the Framework that holds the pod's spec."""
        return f"spec.taskRoles[{self.role_name}].task.pod.spec"

    @property
    def logs_command(self) -> str:
        return self.context.command("logs", f"{self.role_name}/{self.task.index}")

    def evidence(self, field: str, value: object) -> Evidence:
        """A field of the task's pod."""
        return Evidence(f"pod/{self.pod_name}", field, shortened(value))

    def container(self, name: str) -> Json:
        """The container of that name in the pod's spec; empty if there is none."""
        spec = self.pod_spec
        containers = [*as_list(spec.get("initContainers")), *as_list(spec.get("containers"))]
        return next((each for each in containers if as_object(each).get("name") == name), {})

    def is_init_container(self, name: str) -> bool:
        """Whether the pod's spec has an init container of that name."""
        return any(
            as_object(each).get("name") == name for each in as_list(self.pod_spec.get("initContainers"))
        )


def shortened(value: object) -> str:
    """The value as one piece of evidence, cut where it is long."""
    result = str(value)
    return result if len(result) <= _MAX_VALUE_CHARACTERS else f"{result[:_MAX_VALUE_CHARACTERS]}…"


def last_event(events: Sequence[Json], *reasons: str) -> Json | None:
    """The newest event with one of these reasons, or None."""
    found = [event for event in events if event.get("reason") in reasons]
    return max(found, key=_event_time, default=None)


def _event_time(event: Json) -> str:
    series = as_object(event.get("series"))
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((time for time in times if isinstance(time, str)), "")


def parsed_time(value: object) -> Time | None:
    """The time in whole seconds; None if it is absent or invalid."""
    try:
        return parse_rfc3339(value) if isinstance(value, str) else None
    except ValueError:
        return None


def owner_uid(pod: Json) -> str:
    """The uid of the pod's controller."""
    metadata = pod["metadata"]
    references = metadata.get("ownerReferences")
    # Most pods have one owner; this is the fast path for thousands of them.
    owner = references[0] if references and len(references) == 1 else controller_of(metadata)
    uid: str = owner.get("uid", "")
    return uid


def _node_facts(node: Json) -> NodeFacts:
    metadata, status = as_object(node.get("metadata")), as_object(node.get("status"))
    conditions = map(as_object, as_list(status.get("conditions")))
    ready: Json = next((each for each in conditions if each.get("type") == "Ready"), {})
    try:
        allocatable = thousandths(as_object(status.get("allocatable")), "status.allocatable")
    except ValueError:
        allocatable = {}
    return NodeFacts(
        name=text(metadata.get("name")),
        labels=as_object(metadata.get("labels")),
        allocatable=allocatable,
        # A node without conditions is a simulated one.
        ready=ready.get("status", "True") == "True",
        ready_message=text(ready.get("message")),
        unschedulable=bool(as_object(node.get("spec")).get("unschedulable")),
        object=node,
    )
