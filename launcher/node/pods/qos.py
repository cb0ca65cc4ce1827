"""The quality of service that a pod's requests and limits make it."""

from collections.abc import Mapping
from typing import Any

from launcher.core.quantity import quantity
from launcher.store.port import Object

_COUNTED = ("cpu", "memory")


def qos_class(pod: Object) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    resources = [one.get("resources") or {} for one in containers]
    if not any(_given(each, kind) for each in resources for kind in ("requests", "limits")):
        return "BestEffort"
    return "Guaranteed" if resources and all(map(_is_guaranteed, resources)) else "Burstable"


def _given(resources: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What of *kind* is asked for, among the resources that count here; nothing is asked for by a zero."""
    amounts = resources.get(kind) or {}
    return {name: quantity(amounts[name]) for name in _COUNTED if name in amounts and quantity(amounts[name])}


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits = _given(resources, "limits")
    return set(limits) == set(_COUNTED) and {**limits, **_given(resources, "requests")} == limits
