"""
Gangs of a cluster where nobody knows of gangs: their pods are created with a gate, which goes when all of them fit.

This is admission, not placement: the scheduler still takes the pods one by one, and somebody else may be faster.
"""

from collections.abc import Mapping
from typing import Any, Final

from launcher.controller.gangs.found import Own
from launcher.controller.gangs.wanted import BACKEND_LABEL, Wanted
from launcher.core.extras import Extras
from launcher.core.names import attempt_uid
from launcher.core.spec import RoleName, TaskRole
from launcher.store.port import Object

GATE: Final = "launcher.microsoft.com/gang"
#: Which gang a pod belongs to, and how many of it are let through together.
GANG: Final = "launcher.microsoft.com/gang"
LEAST: Final = "launcher.microsoft.com/gang-min"


def extras(wanted: Wanted) -> Mapping[RoleName, Extras]:
    """What the pods of each role get. Who names its node itself passes by every scheduler, and waits for nobody."""
    gated = [role for role in wanted.roles if not _has_node(role)]
    least = min(wanted.least, sum(role.tasks for role in gated))
    given = Extras(
        labels={BACKEND_LABEL: Own.GATES.value},
        annotations={
            GANG: attempt_uid(wanted.framework.uid, wanted.attempt),
            LEAST: str(least),
        },
        spec={"schedulingGates": [{"name": GATE}]},
    )
    return {role.name: given for role in gated}


def _has_node(role: TaskRole) -> bool:
    return bool((role.pod.get("spec") or {}).get("nodeName"))


def is_gated(pod: Object) -> bool:
    """Whether our gate is still there."""
    return any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ())


def without_gate(pod: Object) -> dict[str, Any]:
    """The change by which it goes, and no other: not if the pod has changed since it was read."""
    gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate.get("name") != GATE]
    return {
        "metadata": {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]},
        "spec": {"schedulingGates": gates or None},
    }
