"""
The addresses of the tasks of one attempt, and the tasks that have none yet.

A task does not wait for roles that start after its own; that would deadlock.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.names import TaskIdentity, task_identity
from launcher.core.owner_references import controller_uid
from launcher.core.pods.observed_pod import is_deleted, node_name
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import AUTO_PORT, FrameworkName, FrameworkSpec, PodName, RoleName
from launcher.core.status import State

#: The annotation of a pod with the port that its task reserved on its node.
PORT_ANNOTATION = "launcher.microsoft.com/port"
#: More than the retries of all tasks of an attempt, so that every rescale increases the generation.
_RESCALE_WEIGHT = 1_000_000
_ENDED_STATES = frozenset(
    {
        State.DELETION_PENDING,
        State.DELETION_REQUESTED,
        State.DELETING,
        State.ATTEMPT_COMPLETED,
        State.COMPLETED,
    }
)

#: Roles that start after the role of a task; their addresses are not part of its peer list.
DependentRoles = frozenset[RoleName]


@dataclass(frozen=True, slots=True)
class TaskId:
    """A task of a Framework."""

    role: RoleName
    index: int


@dataclass(frozen=True, slots=True)
class Peer:
    """The address of one task."""

    index: int
    ip: str
    host_ip: str
    pod: PodName
    #: None if unknown.
    port: int | None
    #: The attempt of the task; each may have another address.
    attempt: int


@dataclass(frozen=True, slots=True)
class PeerList:
    """The addresses of all tasks, without those of dependent roles."""

    namespace: str
    framework: FrameworkName
    attempt: int
    #: Increased by every retry of a task and every rescale; the same in all replicas of the launcher.
    generation: int
    #: In the order of the spec.
    roles: Mapping[RoleName, Sequence[Peer]]
    #: Roles that are left out.
    dependent_roles: tuple[RoleName, ...] = ()


@dataclass(frozen=True, slots=True)
class RendezvousTarget:
    """A Framework in its current attempt."""

    namespace: str
    name: FrameworkName
    uid: str
    spec: FrameworkSpec
    attempt: int = 0
    #: Number of rescales in this attempt.
    rescales: int = 0
    #: Whether the attempt has ended or its deletion is pending.
    ended: bool = False


def target_from_json(obj: Mapping[str, Any]) -> RendezvousTarget:
    """Parses a Framework. Raises ValueError if that is not possible."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    attempt = status.get("attemptStatus") or {}
    try:
        return RendezvousTarget(
            namespace=metadata["namespace"],
            name=FrameworkName(metadata["name"]),
            uid=metadata["uid"],
            spec=spec_from_json(obj["spec"], metadata.get("annotations")),
            attempt=int(attempt.get("id") or 0),
            rescales=int(attempt.get("rescaleCount") or 0),
            ended=is_deleted(obj) or status.get("state") in _ENDED_STATES,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__} {error}") from error


def dependent_roles(spec: FrameworkSpec, role: RoleName | None) -> DependentRoles:
    """Returns the roles that start after *role*, directly or through other roles; none for None."""
    found: set[RoleName] = set()
    pending = [role]
    while pending:
        dependency = pending.pop()
        for other in spec.roles:
            if other.name not in found and any(after.role == dependency for after in other.start_after):
                found.add(other.name)
                pending.append(other.name)
    return frozenset(found)


def preceding_roles(spec: FrameworkSpec, role: RoleName) -> tuple[RoleName, ...]:
    """
    Returns the roles whose ports a task of *role* may wait for before it runs.

    They precede it in one order of all roles, that of their creation, so no roles wait for each other.
    """
    roles = {each.name: each for each in spec.roles}
    remaining = [roles[name] for name in (spec.role_sequence or roles) if name in roles]
    order: list[RoleName] = []
    while remaining:
        names = {each.name for each in remaining}
        startable = (each for each in remaining if names.isdisjoint(after.role for after in each.start_after))
        first = next(startable, remaining[0])
        order.append(first.name)
        remaining.remove(first)
    return tuple(name for name in order[: order.index(role)] if not roles[name].background)


@dataclass(frozen=True, slots=True)
class PeerPod:
    """The fields of a pod that determine the address of its task."""

    name: PodName
    uid: str
    #: The uid of the Framework that controls it.
    owner: str
    task: TaskIdentity
    node: str = ""
    ip: str = ""
    host_ip: str = ""
    #: The port of its annotation.
    port: int | None = None
    deleting: bool = False


def peer_pod_from_json(obj: Mapping[str, Any]) -> PeerPod | None:
    """Parses a pod. Returns None if it does not identify its task."""
    task = task_identity(obj)
    if task is None:
        return None
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    host_ip = status.get("hostIP") or ""
    return PeerPod(
        name=PodName(metadata["name"]),
        uid=metadata["uid"],
        owner=controller_uid(obj),
        task=task,
        node=node_name(obj) or "",
        # With hostNetwork the pod has the address of its node, even if podIP is not set yet.
        ip=status.get("podIP") or (host_ip if spec.get("hostNetwork") else ""),
        host_ip=host_ip,
        port=_port((metadata.get("annotations") or {}).get(PORT_ANNOTATION)),
        deleting=is_deleted(obj),
    )


def _port(text: object) -> int | None:
    if not isinstance(text, str) or not text.isdecimal() or not text.isascii():
        return None
    return int(text) if 0 < int(text[:6]) < 65536 else None


class PeerTracker:
    """The pods of one Framework, and the addresses of the tasks of its current attempt."""

    def __init__(self) -> None:
        self.target: RendezvousTarget | None = None
        self._pods: dict[str, PeerPod] = {}
        self._tasks: dict[RoleName, int] = {}
        self._peers: dict[RoleName, dict[int, Peer]] = {}

    def set_target(self, target: RendezvousTarget) -> None:
        """Sets the Framework and the attempt whose tasks are tracked."""
        self.target = target
        self._tasks = {role.name: role.tasks for role in target.spec.roles}
        self._peers = {role.name: {} for role in target.spec.roles}
        for pod in self._pods.values():
            self._add_peer(pod)

    def upsert(self, pod: PeerPod) -> bool:
        """Adds or updates a pod. Returns whether it has changed."""
        previous = self._pods.get(pod.name)
        self._pods[pod.name] = pod
        if pod == previous:
            return False
        if previous is not None:
            self._remove_peer(previous)
        self._add_peer(pod)
        return True

    def delete(self, name: str) -> None:
        """Removes a pod."""
        if (pod := self._pods.pop(name, None)) is not None:
            self._remove_peer(pod)

    def contradicts_target(self, pod: PeerPod) -> bool:
        """Whether the pod is a sign that the Framework has changed since it was read."""
        target = self.target
        if target is None:
            return False
        is_older_attempt = pod.owner == target.uid and pod.task.framework_attempt < target.attempt
        return pod.deleting or not (self._belongs_to_target(pod) or is_older_attempt)

    def pod(self, name: str) -> PeerPod | None:
        """Returns the pod if it belongs to the current attempt and is not being deleted."""
        pod = self._pods.get(name)
        return pod if pod is not None and self._belongs_to_target(pod) and not pod.deleting else None

    def pods_with_port(self) -> Iterator[PeerPod]:
        """Yields the pods that have reserved a port."""
        return (pod for pod in self._pods.values() if pod.port is not None)

    def missing(self, excluded: DependentRoles) -> Iterator[TaskId]:
        """Yields the tasks without an address, except those of *excluded* roles."""
        for role in self.target.spec.roles if self.target is not None else ():
            peers = self._peers[role.name]
            if role.name not in excluded and len(peers) < role.tasks:
                yield from (TaskId(role.name, index) for index in range(role.tasks) if index not in peers)

    def peer_list(self, excluded: DependentRoles) -> PeerList | None:
        """Returns the addresses of all tasks except those of *excluded* roles; None while one is missing."""
        target = self.target
        if target is None:
            return None
        roles = [role for role in target.spec.roles if role.name not in excluded]
        if any(len(self._peers[role.name]) < role.tasks for role in roles):
            return None
        peers = {
            role.name: tuple(self._peers[role.name][index] for index in range(role.tasks)) for role in roles
        }
        retries = sum(peer.attempt for of_role in peers.values() for peer in of_role)
        return PeerList(
            namespace=target.namespace,
            framework=target.name,
            attempt=target.attempt,
            generation=1 + target.rescales * _RESCALE_WEIGHT + retries,
            roles=peers,
            dependent_roles=tuple(role.name for role in target.spec.roles if role.name in excluded),
        )

    def has_auto_port(self, role: RoleName) -> bool:
        """Whether the tasks of the role choose their ports themselves."""
        return self._configured_port(role) == AUTO_PORT

    def _configured_port(self, role: RoleName) -> int | str | None:
        discovery = self.target.spec.discovery if self.target is not None else None
        return discovery.ports.get(role) if discovery is not None else None

    def _belongs_to_target(self, pod: PeerPod) -> bool:
        target = self.target
        if target is None or (pod.owner, pod.task.framework_attempt) != (target.uid, target.attempt):
            return False
        return pod.task.index < self._tasks.get(pod.task.role, 0)

    def _add_peer(self, pod: PeerPod) -> None:
        if self._belongs_to_target(pod) and (peer := self._peer(pod)) is not None:
            self._peers[pod.task.role][pod.task.index] = peer

    def _remove_peer(self, pod: PeerPod) -> None:
        if self._belongs_to_target(pod):
            self._peers[pod.task.role].pop(pod.task.index, None)

    def _peer(self, pod: PeerPod) -> Peer | None:
        """Returns the address of the pod's task; None while it is incomplete or the pod is being deleted."""
        is_auto = self.has_auto_port(pod.task.role)
        port = pod.port if is_auto else self._configured_port(pod.task.role)
        if pod.deleting or not pod.ip or (is_auto and port is None):
            return None
        return Peer(
            index=pod.task.index,
            ip=pod.ip,
            host_ip=pod.host_ip or pod.ip,
            pod=pod.name,
            port=port if isinstance(port, int) else None,
            attempt=pod.task.task_attempt,
        )
