"""Why a pod, or a gang, has no node: the scheduler's message compared with the nodes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause
from launcher.core.diagnosis.finding import Evidence, Problem, counted
from launcher.core.diagnosis.inputs import Context, NodeFacts, TaskView, shortened
from launcher.core.json_access import as_list, as_object, text
from launcher.core.planning.gang import GANG_PLACED, members, min_members
from launcher.core.pods.resource_requests import Amounts, pod_requests

#: ``3 Insufficient cpu`` and ``1 node(s) had untolerated taint {key: value}`` in the scheduler's message.
_REASON: Final = re.compile(
    r"(\d+) (Insufficient [^\s,]+(?<!\.)|Too many pods|node\(s\) (?:\{[^}]*\}|[^,.{])+)"
)
_INSUFFICIENT: Final = "Insufficient "
_NO_NODES: Final = "no nodes available"
_MEMORY: Final = frozenset({"memory", "ephemeral-storage"})
#: Taints of nodes that do not respond or start.
_NODE_CONDITION_TAINT: Final = re.compile(r"node\.kubernetes\.io/(not-ready|unreachable|network-unavailable)")
_CONDITION_FIELD: Final = "status.conditions[PodScheduled].message"


def explain_unscheduled(view: TaskView) -> Problem:
    """A pod with the condition PodScheduled=False."""
    condition = scheduled_condition(view)
    message = text(condition.get("message"))
    if condition.get("reason") == "SchedulingGated":
        return _gated(view, message)
    reasons = {reason: int(count) for count, reason in _REASON.findall(message.partition("preemption:")[0])}
    evidence = (view.evidence(_CONDITION_FIELD, message),)
    if _NO_NODES in message or (view.context.nodes is not None and not view.context.nodes):
        return Problem(
            causes.NO_NODES,
            "the cluster has no nodes",
            "add a node: launcher serve --node NAME, or join one to the cluster",
            evidence,
        )
    if (problem := _too_large(view, reasons, evidence)) is not None:
        return problem
    for pattern, explain in _REASONS:
        for reason in reasons:
            if pattern.search(reason):
                return explain(view, reason, evidence)
    for pattern, cause, what, step in _VOLUME_MESSAGES:
        if pattern.search(message):
            return Problem(cause, what, step.format(view.context.kubectl("get pvc")), evidence)
    return Problem(
        causes.UNSCHEDULABLE,
        f"the scheduler found no node: {_first_sentence(message)}",
        view.context.kubectl("describe pod", view.pod_name),
        evidence,
    )


def scheduled_condition(view: TaskView) -> Mapping[str, object]:
    """The pod's condition PodScheduled; empty if it has none."""
    for condition in as_list(view.status.get("conditions")):
        if condition.get("type") == "PodScheduled":
            return as_object(condition)
    return {}


def explain_unconsidered(view: TaskView) -> Problem:
    """A pod without a node that no scheduler has reported on."""
    name = view.pod_spec.get("schedulerName") or "default-scheduler"
    return Problem(
        causes.NO_SCHEDULER,
        f"no scheduler has reported on the pod; its schedulerName is {name}",
        f"start a scheduler of that name, or remove schedulerName from {view.field}",
        (view.evidence("spec.schedulerName", name),),
    )


def explain_gang(context: Context) -> Problem | None:
    """A gang that is not placed; None if there is none."""
    status, gang = context.framework.status, context.framework.spec.gang
    condition = status.condition(GANG_PLACED) if status is not None else None
    if status is None or gang is None or condition is None or condition.status:
        return None
    if status.attempt.completion is not None or context.framework.deleting:
        return None
    evidence = (
        Evidence(
            context.reference, f"status.conditions[{GANG_PLACED}].message", shortened(condition.message)
        ),
    )
    minimum = min_members(context.framework.spec)
    capacity = _gang_capacity(context)
    if capacity is not None and capacity < minimum:
        return Problem(
            causes.GANG_EVER,
            f"the gang needs {counted(minimum, 'task')} at once; the whole cluster has capacity for {capacity}",
            f"set spec.gang.minTasks to at most {capacity}, request less, or add nodes"
            if capacity
            else "request less, or add nodes",
            evidence,
        )
    waited = context.now - condition.since
    limit = f"; it fails after {gang.timeout_seconds}s" if gang.timeout_seconds is not None else ""
    return Problem(
        causes.GANG_NOW,
        f"the gang of {members(context.framework.spec)} tasks has waited {waited}s for capacity{limit}",
        "wait until other pods finish, or see what uses the nodes: launcher list -A",
        evidence,
    )


def _gang_capacity(context: Context) -> int | None:
    """An upper bound of the tasks that fit on all nodes when they are empty; None if it is unknown."""
    nodes = [node for node in context.nodes or () if node.ready and not node.unschedulable]
    if not nodes:
        return None
    fitting, totals = 0, dict[str, int]()
    roles = [role for role in context.framework.spec.roles if not role.background]
    for role in roles:
        spec = as_object(role.pod.get("spec"))
        try:
            requests = pod_requests(spec)
        except ValueError:
            return None
        for name, amount in requests.items():
            totals[name] = totals.get(name, 0) + amount * role.tasks
        eligible = [node for node in nodes if _selected(spec, node)]
        fitting += min(role.tasks, sum(_pods_on(node, requests) for node in eligible))
    available = {name: sum(node.allocatable.get(name, 0) for node in nodes) for name in totals}
    short = [name for name, amount in totals.items() if amount > available[name]]
    if short and fitting == sum(role.tasks for role in roles):
        # Each role fits alone, but not all of them together.
        return fitting - 1
    return fitting


def _pods_on(node: NodeFacts, requests: Amounts) -> int:
    return min(node.allocatable.get(name, 0) // amount for name, amount in requests.items())


def _selected(spec: Mapping[str, object], node: NodeFacts) -> bool:
    selector = as_object(spec.get("nodeSelector"))
    return all(node.labels.get(key) == value for key, value in selector.items())


def _too_large(view: TaskView, reasons: Mapping[str, int], evidence: tuple[Evidence, ...]) -> Problem | None:
    """A request that exceeds the whole of every node; None if there is none, or nodes are unknown."""
    nodes = [node for node in view.context.nodes or () if _selected(view.pod_spec, node)]
    requests = view.requests
    for reason in reasons:
        resource = reason.removeprefix(_INSUFFICIENT)
        if resource == reason or not nodes or resource not in requests:
            continue
        largest = max(nodes, key=lambda node: node.allocatable.get(resource, 0))
        most = largest.allocatable.get(resource, 0)
        if most < requests[resource]:
            needed, available = format_amount(resource, requests[resource]), format_amount(resource, most)
            selected = " that matches nodeSelector" if view.pod_spec.get("nodeSelector") else ""
            text_ = (
                f"no node{selected} has {needed} {resource}; the largest ({largest.name}) has {available}"
                if most
                else f"no node{selected} has {resource}; the pod requests {needed}"
            )
            return Problem(
                causes.INSUFFICIENT_EVER,
                text_,
                f"request at most {available} {resource} in {view.field}.containers[].resources, or add a node"
                if most
                else f"remove {resource} from {view.field}.containers[].resources, or add a node that has it",
                (
                    *evidence,
                    Evidence(f"node/{largest.name}", f"status.allocatable.{resource}", available),
                ),
            )
    return None


def _gated(view: TaskView, message: str) -> Problem:
    gates = [text(as_object(gate).get("name")) for gate in as_list(view.pod_spec.get("schedulingGates"))]
    names = ", ".join(gates) or "a scheduling gate"
    return Problem(
        causes.SCHEDULING_GATE,
        f"held by {names}",
        f"the controller that owns the gate has to remove it; check {names}, or remove it from "
        f"{view.field}.schedulingGates",
        (view.evidence("spec.schedulingGates", names), view.evidence(_CONDITION_FIELD, message)),
    )


def _insufficient(view: TaskView, reason: str, evidence: tuple[Evidence, ...]) -> Problem:
    resource = reason.removeprefix(_INSUFFICIENT)
    needed = format_amount(resource, view.requests.get(resource, 0))
    return Problem(
        causes.INSUFFICIENT_NOW,
        f"no node has {needed} {resource} free",
        "wait until other pods finish, or see what uses the nodes: launcher list -A",
        evidence,
    )


def _simple(cause: Cause, what: str, step: str) -> "_Explain":
    def explain(view: TaskView, reason: str, evidence: tuple[Evidence, ...]) -> Problem:
        return Problem(cause, what.format(reason=reason), step.format(field=view.field), evidence)

    return explain


def _selector(view: TaskView, _: str, evidence: tuple[Evidence, ...]) -> Problem:
    selector = as_object(view.pod_spec.get("nodeSelector"))
    labels = ", ".join(f"{key}={value}" for key, value in selector.items())
    what = f"nodeSelector {labels}" if labels else "nodeAffinity"
    return Problem(
        causes.NODE_SELECTOR,
        f"no suitable node matches {what}",
        f"label a node, or change nodeSelector or affinity in {view.field}: launcher serve --node NAME,LABEL=VALUE",
        (*evidence, view.evidence("spec.nodeSelector", labels)) if labels else evidence,
    )


def _taint(view: TaskView, reason: str, evidence: tuple[Evidence, ...]) -> Problem:
    taint = reason.partition("{")[2].rstrip("} ") or reason
    if _NODE_CONDITION_TAINT.search(taint):
        return _not_ready(view, reason, evidence)
    key = taint.partition(":")[0]
    return Problem(
        causes.TAINT,
        f"nodes have the taint {taint.removesuffix(': ').rstrip(': ')}, which the pod does not tolerate",
        f"add to {view.field}.tolerations: {{key: {key}, operator: Exists}}",
        evidence,
    )


def _not_ready(view: TaskView, _: str, evidence: tuple[Evidence, ...]) -> Problem:
    names = ", ".join(sorted(view.context.unready_nodes)[:5])
    return Problem(
        causes.NODES_NOT_READY,
        f"nodes are not ready{': ' + names if names else ''}",
        "kubectl get nodes; kubectl describe node NAME",
        evidence,
    )


def _port(view: TaskView, _: str, evidence: tuple[Evidence, ...]) -> Problem:
    ports = sorted(
        {
            port.get("hostPort") or port.get("containerPort") or 0
            for container in as_list(view.pod_spec.get("containers"))
            for port in as_list(as_object(container).get("ports"))
        }
    )
    listed = ", ".join(map(str, ports))
    return Problem(
        causes.HOST_PORT,
        f"host port {listed} is in use on every suitable node",
        f"use another hostPort in {view.field}.containers[].ports, or wait until the pod that has it finishes",
        evidence,
    )


_Explain = Callable[[TaskView, str, tuple[Evidence, ...]], Problem]
#: Reasons of the scheduler. A pod needs one node only, so the reason that ends soonest decides.
_REASONS: Sequence[tuple[re.Pattern[str], _Explain]] = (
    (re.compile(r"^Insufficient"), _insufficient),
    (
        re.compile(r"reserved for a pod"),
        _simple(
            causes.RESERVED,
            "free capacity is reserved for pods that have waited longer",
            "wait; the oldest pods are scheduled first",
        ),
    ),
    (re.compile(r"free ports"), _port),
    (
        re.compile(r"^Too many pods"),
        _simple(
            causes.TOO_MANY_PODS,
            "every suitable node runs its maximum number of pods",
            "wait until other pods finish, or add a node",
        ),
    ),
    (
        re.compile(r"pod (anti-)?affinity|pods anti-affinity"),
        _simple(
            causes.POD_AFFINITY,
            "{reason}",
            "wait until other pods finish, or relax {field}.affinity",
        ),
    ),
    (
        re.compile(r"topology spread"),
        _simple(
            causes.TOPOLOGY_SPREAD,
            "{reason}",
            "add nodes, or relax {field}.topologySpreadConstraints",
        ),
    ),
    (
        re.compile(r"were unschedulable"),
        _simple(
            causes.CORDONED,
            "every suitable node is cordoned",
            "kubectl uncordon NODE; kubectl get nodes shows SchedulingDisabled",
        ),
    ),
    (re.compile(r"not ready"), _not_ready),
    (re.compile(r"taint"), _taint),
    (re.compile(r"affinity/selector|didn't match"), _selector),
)

_VOLUME_MESSAGES: Sequence[tuple[re.Pattern[str], Cause, str, str]] = (
    (
        re.compile(r"unbound immediate PersistentVolumeClaims|persistentvolumeclaim .* not found"),
        causes.CLAIM_MISSING,
        "a PersistentVolumeClaim of the pod is missing or not bound",
        "{}",
    ),
    (
        re.compile(r"volume node affinity conflict|exceed max volume count"),
        causes.VOLUME_ATTACH,
        "a volume of the pod cannot be attached to any suitable node",
        "{}",
    ),
)


def _first_sentence(message: str) -> str:
    return message.partition(". ")[0].removesuffix(".") or "it gave no reason"


def format_amount(resource: str, amount: int) -> str:
    """An amount in thousandths as users write it: ``8``, ``500m``, ``16Gi``."""
    if resource in _MEMORY or resource.startswith("hugepages-"):
        size = amount / 1000
        for unit in ("", "Ki", "Mi", "Gi", "Ti"):
            if size < 1024 or unit == "Ti":
                return f"{size:.4g}{unit}"
            size /= 1024
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
