"""Free ports for roles without one."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from launcher.core.errors import InvalidObject
from launcher.core.pods.observed_pod import has_terminated, node_name
from launcher.core.validation.field_errors import required

Json = dict[str, Any]

_FROM, _TO = 20000, 30000


def used_ports(pods: Iterable[Json], services: Iterable[Json]) -> frozenset[int]:
    """The ports that pods and Services use on any node."""
    return frozenset((*_of_pods(pods), *_of_services(services)))


def _of_pods(pods: Iterable[Json]) -> Iterator[int]:
    for pod in pods:
        spec = pod["spec"]
        if not node_name(pod) or has_terminated(pod):
            continue
        for container in spec.get("containers") or ():
            for port in container.get("ports") or ():
                yield port.get("hostPort") or (port["containerPort"] if spec.get("hostNetwork") else 0)


def _of_services(services: Iterable[Json]) -> Iterator[int]:
    for service in services:
        if service["spec"].get("type") in ("NodePort", "LoadBalancer"):
            yield from (port.get("nodePort") or 0 for port in service["spec"].get("ports") or ())


def free_ports(used: Collection[int]) -> Iterator[int]:
    """The free ports in ascending order. Raises InvalidObject when there are no more."""
    yield from (port for port in range(_FROM, _TO) if port not in used)
    raise InvalidObject(
        (required("--worker-port", f"no port from {_FROM} to {_TO - 1} is free; set the ports of the roles"),)
    )
