"""Resource requests of pods, as kube-scheduler computes them."""

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from typing import Any, Final

from launcher.core.quantity import quantity

#: Whole thousandths, so that comparisons are exact and fast.
Amounts = Mapping[str, int]

#: Every pod uses one of these.
PODS_RESOURCE: Final = "pods"


def thousandths(amounts: Mapping[str, Any] | None, field: str) -> dict[str, int]:
    """Converts quantities to whole thousandths. Raises ValueError that names *field*."""
    result = {}
    for name, text in (amounts or {}).items():
        try:
            result[name] = int((quantity(text) * 1000).to_integral_value(ROUND_CEILING))
        except ValueError as error:
            raise ValueError(f"{field}.{name}: {error}") from None
    return result


def container_requests(container: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the quantities of a container's requests; a missing one defaults to the limit, as in the API server."""
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Returns the requests of a pod with that ``spec``. Raises ValueError, naming the field, if they are invalid."""
    return total_requests(spec.get("containers") or (), spec.get("initContainers") or (), spec)


def total_requests(
    containers: Iterable[Mapping[str, Any]], init: Iterable[Mapping[str, Any]], spec: Mapping[str, Any]
) -> Amounts:
    """
    Returns the sum over all containers or the peak of the init containers, whichever is greater.

    Pod-level resources and overhead are those of *spec*.
    """
    running = _sum(_requests(container, "spec.containers") for container in containers)
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in init:
        requests = _requests(container, "spec.initContainers")
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, requests))
            requests = {}
        peak = _max(peak, _sum((sidecars, requests)))
    total = _max(_sum((running, sidecars)), peak)
    # Pod-level resources replace those of the containers.
    total |= _requests(spec, "spec")
    total = _sum((total, thousandths(spec.get("overhead"), "spec.overhead")))
    return {name: amount for name, amount in total.items() if amount > 0} | {PODS_RESOURCE: 1000}


def _requests(holder: Mapping[str, Any], field: str) -> dict[str, int]:
    """Returns requests; a missing request defaults to the limit, as in the API server."""
    resources = holder.get("resources") or {}
    return thousandths(resources.get("limits"), f"{field}.resources.limits") | thousandths(
        resources.get("requests"), f"{field}.resources.requests"
    )


def _sum(all_amounts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in all_amounts:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max(first: Amounts, second: Amounts) -> dict[str, int]:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}
