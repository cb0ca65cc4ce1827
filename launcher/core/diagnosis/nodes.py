"""Tasks whose node does not respond, or no longer exists."""

from launcher.core import causes
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import TaskView, shortened
from launcher.core.json_access import text


def explain_node(view: TaskView) -> Problem:
    """A pod on a node that is not ready, or not among the nodes."""
    name = text(view.pod_spec.get("nodeName"))
    facts = view.context.unready_nodes.get(name)
    if facts is None:
        return Problem(
            causes.NODE_LOST,
            f"node {name} no longer exists",
            f"delete its pod: {view.context.kubectl('delete pod', view.pod_name, '--force')}",
            (view.evidence("spec.nodeName", name),),
        )
    detail = f": {facts.ready_message}" if facts.ready_message else ""
    return Problem(
        causes.NODE_NOT_READY,
        f"node {name} is not ready{detail}",
        f"kubectl describe node {name}; a task is not replaced before its pod is gone",
        (Evidence(f"node/{name}", "status.conditions[Ready]", shortened(facts.ready_message or "not True")),),
    )
