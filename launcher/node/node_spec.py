"""
The nodes of local mode: their configuration, and their Node objects in the store.

A node is written ``NAME[,PART…]``. The parts are

* ``ip=127.0.0.5``: its address; by default 127.0.0.2 and so on,
* ``cpu=8``, ``memory=16Gi``, ``pods=50``, ``ephemeral-storage=10Gi``, ``hugepages-2Mi=1Gi``: its capacity,
* ``nvidia.com/gpu=4``: any other resource. A key with a domain and a whole number is one, unless the domain is
  Kubernetes' own (``kubernetes.io``, ``k8s.io`` and those below them),
* ``taint=KEY[=VALUE]:EFFECT``, repeatable,
* ``KEY=VALUE``: a label, except for a number with an alias of a resource, such as ``gpu=4``, which is an error;
  ``label:KEY=VALUE`` is always a label.
"""

import asyncio
import ipaddress
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import count
from typing import Final

from launcher.core.errors import AlreadyExists, LauncherError, NotFound
from launcher.core.json_access import as_list, as_object
from launcher.core.quantity import quantity
from launcher.core.timestamps import format_rfc3339
from launcher.core.validation.names import label_key_error, label_value_error, name_error
from launcher.node import machine
from launcher.node.pods.gpus import GPU_RESOURCE
from launcher.scheduling.cluster_state import Taint
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import NODES, DeleteOptions, Object, Store
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: The default of the kubelet; `pods=` of a node overrides it.
MAX_PODS: Final = 110
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

#: Seconds between two heartbeats. Node and store are one program, so no component waits for a heartbeat.
HEARTBEAT_SECONDS: Final = 300.0

#: The release of Kubernetes whose pods these nodes run.
KUBERNETES: Final = "v1.34.0"

_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "memory pressure is not monitored"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "disk pressure is not monitored"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "PID pressure is not monitored"),
    ("Ready", "True", "KubeletReady", "the launcher runs pods on this node"),
)
_PLAIN_RESOURCES = re.compile(r"cpu|memory|pods|ephemeral-storage|hugepages-.+")
_KUBERNETES = re.compile(r"(.+\.)?(kubernetes|k8s)\.io")
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^=:]*))?:(?P<effect>[A-Za-z]+)")
_WHOLE = re.compile(r"[0-9]+")


#: Aliases that users write for a resource; as the key of a number they are rejected.
_RESOURCE_ALIASES = {
    "gpu": GPU_RESOURCE,
    "gpus": GPU_RESOURCE,
    "nvidia": GPU_RESOURCE,
    "cpu": "cpu",
    "cpus": "cpu",
    "cores": "cpu",
    "memory": "memory",
    "mem": "memory",
    "ram": "memory",
    "disk": "ephemeral-storage",
    "storage": "ephemeral-storage",
    "pods": "pods",
}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The configuration of a node."""

    name: str
    #: Empty until one is assigned.
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Quantities as configured.
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


def this_machine() -> NodeSpec:
    """A node with this machine's name, address and resources."""
    capacity = _default_capacity()
    if gpus := machine.gpus():
        capacity[GPU_RESOURCE] = str(gpus)
    return NodeSpec(machine.name(), machine.address(), capacity=capacity)


def _default_capacity() -> dict[str, str]:
    """The capacity of a node that sets none."""
    cpus = machine.cpus()
    return {
        "cpu": str(int(cpus)) if cpus == int(cpus) else f"{int(cpus * 1000)}m",
        "memory": f"{machine.memory() // 1024}Ki",
        "pods": str(MAX_PODS),
    }


def parse_nodes(texts: Sequence[str]) -> tuple[NodeSpec, ...]:
    """
    The nodes of these texts, each with its own address.

    cpu, memory and pods default to those of this machine. Raises ValueError, which names the part.
    """
    specs = [parse(text) for text in texts]
    for part, values in (
        ("name", [spec.name for spec in specs]),
        ("ip", [spec.address for spec in specs if spec.address]),
    ):
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"{part} {value!r} is used by two nodes: each needs its own")
    free = _free_addresses({spec.address for spec in specs})
    defaults = _default_capacity()
    return tuple(
        replace(spec, address=spec.address or next(free), capacity=defaults | dict(spec.capacity))
        for spec in specs
    )


def gpu_indexes(specs: Iterable[NodeSpec]) -> dict[str, list[str]]:
    """The indexes of the GPUs of each node: those of the first node are the first of this machine, and so on."""
    indexes = count()
    return {
        spec.name: [str(next(indexes)) for _ in range(int(quantity(spec.capacity.get(GPU_RESOURCE, 0))))]
        for spec in specs
    }


def _free_addresses(taken: set[str]) -> Iterator[str]:
    """Loopback addresses except 127.0.0.1, which is that of the machine."""
    first = int(ipaddress.IPv4Address("127.0.0.2"))
    return (
        text for number in range(1 << 16) if (text := str(ipaddress.IPv4Address(first + number))) not in taken
    )


def parse(text: str) -> NodeSpec:
    """The node of *text*, in the format of the module docstring. Raises ValueError with the part and a correction."""
    name, *parts = [entry.strip() for entry in text.split(",")]
    if not name or "=" in name:
        raise ValueError(f"{text!r} must begin with the node's name, such as gpu-1,cpu=8,memory=16Gi")
    if error := name_error(name):
        raise ValueError(f"{name!r} is not a valid node name: {error}")
    address, labels, capacity, taints = "", {}, {}, []
    for entry in parts:
        is_label = entry.startswith("label:")
        key, sign, value = entry.removeprefix("label:").partition("=")
        if not sign or not key:
            raise ValueError(f"node {name}: {entry!r} must be written KEY=VALUE")
        if key in labels or key in capacity or (key == "ip" and address):
            raise ValueError(f"node {name}: {key} is set twice")
        if is_label:
            labels[key] = _label(name, key, value)
        elif key == "ip":
            address = _address(name, value)
        elif key == "taint":
            taints.append(_taint(name, value))
        elif _is_resource(key, value):
            capacity[key] = _amount(name, key, value)
        else:
            _check_alias(name, key, value)
            labels[key] = _label(name, key, value)
    return NodeSpec(name, address, labels, capacity, tuple(taints))


def _is_resource(key: str, value: str) -> bool:
    if _PLAIN_RESOURCES.fullmatch(key):
        return True
    domain, sign, _ = key.partition("/")
    return bool(sign and _WHOLE.fullmatch(value)) and not _KUBERNETES.fullmatch(domain)


def _check_alias(name: str, key: str, value: str) -> None:
    """Raises ValueError for a number with an alias of a resource, which is not meant as a label."""
    resource = _RESOURCE_ALIASES.get(key.lower())
    if resource is not None and value[:1].isdecimal():
        part = f"{key}={value}"
        raise ValueError(
            f"node {name}: {part!r} is not a resource; write {resource}={value}, or label:{part} for a label"
        )


def _address(name: str, value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError(f"node {name}: ip={value}: write an address such as 127.0.0.2") from None


def _amount(name: str, key: str, value: str) -> str:
    try:
        amount = quantity(value)
    except ValueError as error:
        raise ValueError(f"node {name}: {key}: {error}") from None
    if amount < 0:
        raise ValueError(f"node {name}: {key}={value}: must not be negative")
    return value


def _label(name: str, key: str, value: str) -> str:
    if error := label_key_error(key) or label_value_error(value):
        raise ValueError(f"node {name}: label {key}={value}: {error}")
    return value


def _taint(name: str, text: str) -> Taint:
    match = _TAINT.fullmatch(text)
    if match is None:
        raise ValueError(f"node {name}: taint={text}: write taint=KEY=VALUE:EFFECT or taint=KEY:EFFECT")
    key, value, effect = match["key"], match["value"] or "", match["effect"]
    if effect not in EFFECTS:
        raise ValueError(f"node {name}: taint={text}: the effect must be one of {', '.join(EFFECTS)}")
    if error := label_key_error(key) or label_value_error(value):
        raise ValueError(f"node {name}: taint={text}: {error}")
    return Taint(key, value, effect)


class NodeRegistration:
    """Writes the configured Node objects. Other clients may only cordon a node; their other changes are overwritten."""

    def __init__(
        self, store: Store, specs: Sequence[NodeSpec], clock: Callable[[], float], runtime_version: str
    ) -> None:
        self._store, self._clock, self._runtime_version = store, clock, runtime_version
        self._specs = {spec.name: spec for spec in specs}
        self._info = machine.info()
        self._backoff = ExponentialBackoff(initial=0.2, maximum=30.0)

    async def run(self) -> None:
        """Writes the nodes now and at every heartbeat, until cancelled."""
        while True:
            try:
                await self._reconcile()
                self._backoff.reset()
                delay = HEARTBEAT_SECONDS
            except LauncherError as error:
                delay = self._backoff.next_delay()
                log.warning("nodes not registered", extra={"error": str(error)})
            await asyncio.sleep(delay)

    async def _reconcile(self) -> None:
        stored = {node["metadata"]["name"]: node for node in (await self._store.list(NODES)).items}
        for name, node in stored.items():
            if name not in self._specs:
                with object_errors.handling("node-registration", NODES.plural, ("", name)):
                    await self._remove(node)
        for name, spec in self._specs.items():
            await self._register(spec, stored.get(name))

    async def _remove(self, node: Object) -> None:
        """Deletes the node; the garbage collector deletes its pods."""
        meta = node["metadata"]
        log.info("node is no longer configured", extra={"node": meta["name"]})
        with suppress(NotFound):
            await self._store.delete(NODES, "", meta["name"], DeleteOptions(uid=meta["uid"]))

    async def _register(self, spec: NodeSpec, stored: Object | None) -> None:
        if stored is None:
            try:
                await self._store.create(NODES, self._node(spec, None))
                return
            except AlreadyExists:
                stored = await self._store.get(NODES, "", spec.name)
        stored = await self._store.update(NODES, self._node(spec, stored))
        await self._store.update_status(NODES, {**stored, "status": self._status(spec, stored)})

    def _node(self, spec: NodeSpec, stored: Object | None) -> Object:
        default_labels = {
            "kubernetes.io/arch": self._info["architecture"],
            "kubernetes.io/hostname": spec.name,
            "kubernetes.io/os": self._info["operatingSystem"],
        }
        taints = [
            {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
            for taint in spec.taints
        ]
        node_spec: Object = {"taints": taints} if taints else {}
        if stored is not None and as_object(stored.get("spec")).get("unschedulable"):
            node_spec["unschedulable"] = True
        return {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "metadata": {
                **(stored["metadata"] if stored is not None else {}),
                "name": spec.name,
                "labels": default_labels | dict(spec.labels),
            },
            "spec": node_spec,
            "status": self._status(spec, stored),
        }

    def _status(self, spec: NodeSpec, stored: Object | None) -> Object:
        launcher = version("framework-launcher")
        return {
            "capacity": dict(spec.capacity),
            "allocatable": dict(spec.capacity),
            "addresses": [
                {"type": "InternalIP", "address": spec.address},
                {"type": "Hostname", "address": spec.name},
            ],
            "conditions": self._conditions(stored),
            "nodeInfo": {
                **self._info,
                "containerRuntimeVersion": self._runtime_version,
                "kubeletVersion": f"{KUBERNETES}+launcher.{launcher}",
                "kubeProxyVersion": "",
            },
        }

    def _conditions(self, stored: Object | None) -> list[Object]:
        now = format_rfc3339(int(self._clock()))
        conditions = map(as_object, as_list(as_object((stored or {}).get("status")).get("conditions")))
        existing = {str(condition.get("type")): condition for condition in conditions}
        return [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": existing.get(kind, {}).get("lastTransitionTime", now),
            }
            for kind, status, reason, message in _CONDITIONS
        ]
