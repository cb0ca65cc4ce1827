"""The ``oom_score_adj`` of containers, as the kubelet computes it."""

from collections.abc import Mapping
from typing import Any

from launcher.core.pods.resource_requests import container_requests
from launcher.core.quantity import quantity
from launcher.node.pods.pod_status import qos_class
from launcher.store.interface import Object

_GUARANTEED, _BEST_EFFORT = -997, 1000
#: Between Guaranteed and BestEffort.
_MIN_BURSTABLE, _MAX_BURSTABLE = 3, 999


def oom_score(pod: Object, container: Mapping[str, Any], allocatable: Mapping[str, str]) -> int:
    """The score of the container on a node with these *allocatable* resources."""
    qos = qos_class(pod)
    if qos != "Burstable":
        return _GUARANTEED if qos == "Guaranteed" else _BEST_EFFORT
    request = container_requests(container).get("memory")
    capacity = quantity(allocatable.get("memory") or "0")
    if request is None or not capacity:
        return _MAX_BURSTABLE
    score = 1000 - int(1000 * quantity(request) / capacity)
    return min(_MAX_BURSTABLE, max(_MIN_BURSTABLE, score))
