"""How likely the kernel kills a container when the machine runs out of memory, as the kubelet decides it."""

from collections.abc import Mapping
from typing import Any

from launcher.core.quantity import quantity
from launcher.node.pods.pod_status import qos_class
from launcher.store.interface import Object

_GUARANTEED, _MOST = -997, 1000
#: Between those that are guaranteed their memory and those that asked for none.
_LEAST_BURSTABLE, _MOST_BURSTABLE = 3, 999


def oom_score(pod: Object, container: Mapping[str, Any], allocatable: Mapping[str, str]) -> int:
    """``oom_score_adj`` of the container on a node with that much *allocatable*."""
    quality = qos_class(pod)
    if quality != "Burstable":
        return _GUARANTEED if quality == "Guaranteed" else _MOST
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.get("memory")
    whole = quantity(allocatable.get("memory") or "0")
    if asked is None or not whole:
        return _MOST_BURSTABLE
    score = _MOST - int(1000 * quantity(asked) / whole)
    return min(_MOST_BURSTABLE, max(_LEAST_BURSTABLE, score))
