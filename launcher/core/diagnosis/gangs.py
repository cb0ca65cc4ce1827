"""Why a gang has no nodes: for now, or because the cluster is too small."""

from launcher.core import causes
from launcher.core.diagnosis.finding import Evidence, Problem, counted
from launcher.core.diagnosis.inputs import Context, shortened
from launcher.core.diagnosis.node_choice import capacity, node_choice
from launcher.core.json_access import as_object
from launcher.core.planning.gang import GANG_PLACED, members, min_members
from launcher.core.pods.resource_requests import pod_requests


def explain_gang(context: Context) -> Problem | None:
    """A gang that is not placed; None if there is none."""
    status, gang = context.framework.status, context.framework.spec.gang
    condition = status.condition(GANG_PLACED) if status is not None else None
    if status is None or gang is None or condition is None or condition.status:
        return None
    if status.attempt.completion is not None or context.framework.deleting:
        return None
    field = f"status.conditions[{GANG_PLACED}].message"
    evidence = (Evidence(context.reference, field, shortened(condition.message)),)
    minimum = min_members(context.framework.spec)
    fitting = _gang_capacity(context)
    if fitting is not None and fitting < minimum:
        return Problem(
            causes.GANG_EVER,
            f"the gang needs {counted(minimum, 'task')} at once; the whole cluster has capacity for {fitting}",
            f"set spec.gang.minTasks to at most {fitting}, request less, or add nodes"
            if fitting
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
    """
    An upper bound of the tasks that fit on all nodes when they are empty; None if it is unknown.

    Nodes that are cordoned or not ready are included, since they may return.
    """
    roles = [role for role in context.framework.spec.roles if not role.background]
    fitting, needed = 0, dict[str, int]()
    for role in roles:
        spec = as_object(role.pod.get("spec"))
        choice = node_choice(context, {"metadata": {}, "spec": spec})
        try:
            requests = pod_requests(spec)
        except ValueError:
            return None
        if choice is None:
            return None
        for name, amount in requests.items():
            needed[name] = needed.get(name, 0) + amount * role.tasks
        fitting += min(role.tasks, capacity([*choice.accepting, *choice.cordoned, *choice.unready], requests))
    nodes = context.nodes or ()
    total = {name: sum(node.allocatable.get(name, 0) for node in nodes) for name in needed}
    if fitting == sum(role.tasks for role in roles) and any(needed[name] > total[name] for name in needed):
        # Each role fits alone, but not all of them together.
        return fitting - 1
    return fitting if nodes else None
