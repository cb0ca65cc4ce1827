"""Why a pod has no node: the scheduler's message compared with the nodes."""

from collections.abc import Mapping
from typing import Final

from launcher.core import causes
from launcher.core.causes import Reason
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import NodeFacts, TaskView
from launcher.core.diagnosis.node_choice import NodeChoice, largest, names, node_choice
from launcher.core.json_access import as_list, as_object, text
from launcher.core.pods import unscheduled_reason as reasons
from launcher.core.pods.unscheduled_reason import format_amount

_CONDITION_FIELD: Final = "status.conditions[PodScheduled].message"

#: The next step by cause. ``{field}`` is that of the pod's spec, ``{subject}`` that of the reason.
_STEPS: Mapping[str, str] = {
    causes.INSUFFICIENT_NOW.id: "wait until other pods finish, or see what uses the nodes: launcher list -A",
    causes.NODE_SELECTOR.id: "label a node, or change nodeSelector or affinity in {field}: launcher serve --node "
    "NAME,LABEL=VALUE",
    causes.TAINT.id: "add to {field}.tolerations: {{key: {key}, operator: Exists}}",
    causes.HOST_PORT.id: "use another hostPort in {field}.containers[].ports, or wait until the pod that has it "
    "finishes",
    causes.POD_AFFINITY.id: "wait until other pods finish, or relax {field}.affinity",
    causes.CORDONED.id: "kubectl uncordon NODE; kubectl get nodes shows SchedulingDisabled",
    causes.NO_NODES.id: "add a node: launcher serve --node NAME, or join one to the cluster",
    causes.TOO_MANY_PODS.id: "wait until other pods finish, or add a node",
    causes.SCHEDULING_GATE.id: "the controller that owns the gate has to remove it; check {gates}, or remove it from "
    "{field}.schedulingGates",
    causes.RESERVED.id: "wait; the oldest pods are scheduled first",
    causes.NODES_NOT_READY.id: "kubectl get nodes; kubectl describe node NAME",
    causes.TOPOLOGY_SPREAD.id: "add nodes, or relax {field}.topologySpreadConstraints",
    causes.UNSCHEDULABLE.id: "{kubectl} describe pod {pod}",
    causes.CLAIM_MISSING.id: "{kubectl} get pvc",
    causes.VOLUME_ATTACH.id: "{kubectl} get pvc",
}


def explain_unscheduled(view: TaskView) -> Problem:
    """A pod with the condition PodScheduled=False."""
    condition = scheduled_condition(view)
    reason, message = text(condition.get("reason")), text(condition.get("message"))
    evidence: tuple[Evidence, ...] = (view.evidence(_CONDITION_FIELD, message),)
    if reason == reasons.SCHEDULING_GATED:
        gates = ", ".join(reasons.scheduling_gates(view.pod_spec))
        evidence = (view.evidence("spec.schedulingGates", gates), *evidence)
    elif view.context.nodes is not None and not view.context.nodes:
        message = "no nodes available to schedule pods"
    else:
        choice = node_choice(view.context, view.pod or {})
        if (problem := _excluded(view, choice, evidence)) is not None:
            return problem
        if (problem := _too_large(view, choice, message, evidence)) is not None:
            return problem
    return _problem(view, reasons.unscheduled_reason(reason, message, view.pod_spec), evidence)


def explain_too_large(view: TaskView, message: str, evidence: tuple[Evidence, ...]) -> Problem:
    """A pod whose request exceeded every node, by the scheduler's *message*."""
    choice = node_choice(view.context, view.pod or {"metadata": {}, "spec": view.pod_spec})
    if (problem := _too_large(view, choice, message, evidence)) is not None:
        return problem
    what = f"no node was large enough: {message.removesuffix('.')}"
    step = f"request less in {view.field}.containers[].resources, or add a node"
    return Problem(causes.INSUFFICIENT_EVER, what, step, evidence)


def scheduled_condition(view: TaskView) -> Mapping[str, object]:
    """The pod's condition PodScheduled; empty if it has none."""
    for condition in as_list(view.status.get("conditions")):
        if condition.get("type") == "PodScheduled":
            return as_object(condition)
    return {}


def explain_unconsidered(view: TaskView) -> Problem:
    """A pod without a node that no scheduler has reported on."""
    name = view.pod_spec.get("schedulerName") or "default-scheduler"
    claims = [
        text(claim.get("resourceClaimName")) or text(claim.get("name"))
        for claim in map(as_object, as_list(view.pod_spec.get("resourceClaims")))
    ]
    if claims:
        # kube-scheduler ignores a pod, and reports nothing, until its resource claims exist.
        listed = ", ".join(claims)
        return Problem(
            causes.UNSCHEDULABLE,
            f"the scheduler has not considered the pod; it waits for its resource claims: {listed}",
            view.context.kubectl("get resourceclaims"),
            (view.evidence("spec.resourceClaims", listed),),
        )
    return Problem(
        causes.NO_SCHEDULER,
        f"no scheduler has reported on the pod; its schedulerName is {name}",
        f"start a scheduler of that name, or remove schedulerName from {view.field}",
        (view.evidence("spec.schedulerName", name),),
    )


def _problem(view: TaskView, reason: Reason, evidence: tuple[Evidence, ...]) -> Problem:
    words = {
        "field": view.field,
        "key": reason.subject.partition("=")[0] or "KEY",
        "gates": ", ".join(reasons.scheduling_gates(view.pod_spec)) or "its gates",
        "kubectl": view.context.kubectl(),
        "pod": view.pod_name,
    }
    return Problem(reason.cause, reason.text, _STEPS[reason.cause.id].format(**words), evidence)


def _excluded(view: TaskView, choice: NodeChoice | None, evidence: tuple[Evidence, ...]) -> Problem | None:
    """A pod that no node accepts, whatever is free there; None if one does, or nodes are unknown."""
    if choice is None or choice.accepting:
        return None
    spec = view.pod_spec
    if not choice.selected:
        labels = reasons.selector_text(spec)
        own = (view.evidence("spec.nodeSelector", labels),) if labels else ()
        return _problem(view, reasons.selector_reason(spec), (*evidence, *own))
    if choice.unready:
        found = choice.unready[0]
        shown = Evidence(f"node/{found.name}", "status.conditions[Ready]", found.ready_message or "not True")
        return _problem(view, reasons.unready_reason(names(choice.unready)), (*evidence, shown))
    if choice.cordoned:
        shown = Evidence(f"node/{choice.cordoned[0].name}", "spec.unschedulable", "true")
        return _problem(view, reasons.cordoned_reason(names(choice.cordoned)), (*evidence, shown))
    taint, nodes = max(choice.tainted.items(), key=lambda each: len(each[1]))
    shown = Evidence(f"node/{nodes[0].name}", "spec.taints", taint)
    return _problem(view, reasons.taint_reason(taint, names(nodes)), (*evidence, shown))


def _too_large(
    view: TaskView, choice: NodeChoice | None, message: str, evidence: tuple[Evidence, ...]
) -> Problem | None:
    """A request that exceeds the whole of every node; None if there is none, or nodes are unknown."""
    nodes = choice.accepting if choice is not None else ()
    requests = reasons.requested(view.pod_spec)
    for resource in reasons.insufficient_resources(message) if nodes else ():
        found = largest(nodes, resource)
        if found.allocatable.get(resource, 0) < requests.get(resource, 0):
            return _largest(view, resource, requests[resource], found, evidence)
    return None


def _largest(
    view: TaskView, resource: str, amount: int, node: NodeFacts, evidence: tuple[Evidence, ...]
) -> Problem:
    needed, most = format_amount(resource, amount), node.allocatable.get(resource, 0)
    available = format_amount(resource, most)
    selected = " that matches nodeSelector" if view.pod_spec.get("nodeSelector") else ""
    if most:
        what = f"no node{selected} has {needed} {resource}; the largest ({node.name}) has {available}"
        step = f"request at most {available} {resource} in {view.field}.containers[].resources, or add a node"
    else:
        what = f"no node{selected} has {resource}; the pod requests {needed}"
        step = f"remove {resource} from {view.field}.containers[].resources, or add a node that has it"
    shown = Evidence(f"node/{node.name}", f"status.allocatable.{resource}", available)
    return Problem(causes.INSUFFICIENT_EVER, what, step, (*evidence, shown))
