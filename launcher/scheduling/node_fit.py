"""Whether a node accepts a pod, by labels and taints alone; for the diagnosis of pods without a node."""

from collections.abc import Mapping
from typing import Any

from launcher.core.diagnosis.inputs import NodeFit
from launcher.scheduling.cluster_state import node_attributes
from launcher.scheduling.feasibility import is_cordoned, selects_node, untolerated_taint
from launcher.scheduling.pod_requirements import pod_requirements


def node_fit(pod: Mapping[str, Any], node: Mapping[str, Any]) -> NodeFit:
    """Compares the pod with the node. Raises ValueError if one of them is invalid."""
    requirements, attributes = pod_requirements(pod), node_attributes(node)
    taint = untolerated_taint(requirements, attributes)
    return NodeFit(
        is_selected=selects_node(requirements, attributes),
        is_cordoned=is_cordoned(requirements, attributes),
        taint="" if taint is None else f"{taint.key}={taint.value}" if taint.value else taint.key,
    )
