"""
What names of Services lead to, as the lines of a hosts file.

On a cluster a DNS server answers for these names. Here a Service leads to its pods themselves: whatever port it maps to
another, the port to speak to is the container's.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.names import KIND
from launcher.core.pods.observed_pod import has_terminated
from launcher.node.pods.hostname import DOMAIN, pod_names
from launcher.store.interface import Object

#: Some C libraries read no longer lines.
_LONGEST_LINE = 500


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod that Services may lead to."""

    name: str
    address: str
    labels: Mapping[str, str]
    is_ready: bool
    hostname: str
    subdomain: str
    #: The names under which it knows itself; none on the host network, where they are those of its node.
    own_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedService:
    """A Service that leads to pods."""

    name: str
    namespace: str
    selector: Mapping[str, str]
    #: Pods have names of their own in it.
    names_pods: bool
    #: Also pods that are not ready are led to.
    takes_unready: bool
    #: Whose it is; empty where no Framework owns it.
    framework: str

    def selects(self, pod: NamedPod) -> bool:
        return self.selector.items() <= pod.labels.items()


def named_pod(pod: Object) -> NamedPod | None:
    """The pod as Services see it; None while it has no address, and once it is over. Raises TypeError."""
    status, spec = pod.get("status") or {}, pod["spec"]
    if not status.get("podIP") or has_terminated(pod):
        return None
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    return NamedPod(
        pod["metadata"]["name"],
        _text(status["podIP"], "status.podIP"),
        pod["metadata"].get("labels") or {},
        ready and "deletionTimestamp" not in pod["metadata"],
        _text(spec.get("hostname") or "", "spec.hostname"),
        _text(spec.get("subdomain") or "", "spec.subdomain"),
        () if spec.get("hostNetwork") else pod_names(pod),
    )


def named_service(service: Object) -> NamedService | None:
    """The Service as pods see it; None for one that leads to no pods. Raises TypeError."""
    meta, spec = service["metadata"], service.get("spec") or {}
    if not spec.get("selector"):
        return None
    return NamedService(
        meta["name"],
        meta["namespace"],
        _texts(spec["selector"], "spec.selector"),
        spec.get("clusterIP") == "None",
        bool(spec.get("publishNotReadyAddresses")),
        framework_of(service),
    )


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{field} is no string")
    return value


def _texts(value: Any, field: str) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise TypeError(f"{field} is no object whose values are strings")
    return value


def framework_of(obj: Object) -> str:
    """The name of the Framework that owns the object; empty if none does."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner["name"] for owner in owners if owner.get("kind") == KIND), "")


def hosts_lines(services: Iterable[NamedService], pods: Sequence[NamedPod]) -> Iterator[str]:
    """A line for every name and address that it leads to."""
    labelled = _by_label(pods)
    for service in services:
        found = [pod for pod in _selected(service, labelled) if pod.is_ready or service.takes_unready]
        for address in dict.fromkeys(pod.address for pod in found):
            yield from _lines(address, service.name, service.namespace)
        if service.names_pods:
            for pod in found:
                if pod.hostname and pod.subdomain == service.name:
                    yield from _lines(pod.address, f"{pod.hostname}.{service.name}", service.namespace)


def own_lines(pods: Iterable[NamedPod]) -> Iterator[str]:
    """A line for every pod by which it finds itself: its canonical name first, as ``hostname -f`` shows it."""
    for pod in pods:
        if pod.own_names:
            yield " ".join((pod.address, *pod.own_names))


def node_lines(nodes: Mapping[str, str]) -> Iterator[str]:
    """A line for every node, by its name and address; a name that is an address needs none."""
    for name, address in nodes.items():
        if not _is_address(name):
            yield f"{address} {name}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _by_label(pods: Iterable[NamedPod]) -> dict[tuple[str, str], list[NamedPod]]:
    """The pods that have a label of that key and value."""
    labelled: dict[tuple[str, str], list[NamedPod]] = {}
    for pod in pods:
        for label in pod.labels.items():
            labelled.setdefault(label, []).append(pod)
    return labelled


def _selected(service: NamedService, labelled: Mapping[tuple[str, str], list[NamedPod]]) -> list[NamedPod]:
    """The pods that the Service leads to, found among the fewest that have one of its labels."""
    fewest = min((labelled.get(label, []) for label in service.selector.items()), key=len)
    return [pod for pod in fewest if service.selects(pod)]


def _lines(address: str, name: str, namespace: str) -> Iterator[str]:
    inner = f"{name}.{namespace}"
    names = (f"{inner}.svc.{DOMAIN}", f"{inner}.svc", inner, name)
    line = " ".join((address, *names))
    if len(line) <= _LONGEST_LINE:
        yield line
    else:
        yield from (f"{address} {each}" for each in names)
