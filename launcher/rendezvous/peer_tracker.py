"""
Who is there of an attempt: the address of each task, and who is still missing.

Nobody is told of a role whose pods start only after his own have: he would wait for those who wait for him.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.names import TaskIdentity, task_identity
from launcher.core.owner_references import controller_of
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName, FrameworkSpec, PodName, RoleName
from launcher.core.status import State

#: On a pod: the port that its task has taken on its node.
PORT = "launcher.microsoft.com/port"
AUTO = "auto"
#: More retries than an attempt sees: a rescale counts for more than all of them.
_RESCALE = 1_000_000
_OVER = frozenset(
    {
        State.DELETION_PENDING,
        State.DELETION_REQUESTED,
        State.DELETING,
        State.ATTEMPT_COMPLETED,
        State.COMPLETED,
    }
)

#: Roles that somebody is not told of.
DependentRoles = frozenset[RoleName]


@dataclass(frozen=True, slots=True)
class Peer:
    """Where one task is."""

    index: int
    ip: str
    host_ip: str
    pod: PodName
    #: Where it listens, if that is known.
    port: int | None
    #: Which try of the task this is; each may have another address.
    attempt: int


@dataclass(frozen=True, slots=True)
class PeerList:
    """Every task's address, of all roles but the later ones."""

    namespace: str
    framework: FrameworkName
    attempt: int
    #: Grows whenever a task is retried or the Framework rescaled: the same for every launcher that looks.
    generation: int
    #: In the order of the spec.
    roles: Mapping[RoleName, Sequence[Peer]]
    later: tuple[RoleName, ...] = ()


@dataclass(frozen=True, slots=True)
class RendezvousTarget:
    """Whose addresses are wanted: a Framework in its current attempt."""

    namespace: str
    name: FrameworkName
    uid: str
    spec: FrameworkSpec
    attempt: int = 0
    #: How often it was rescaled in this attempt.
    rescales: int = 0
    #: The attempt has ended, or is about to.
    over: bool = False


def wanted_from_json(obj: Mapping[str, Any]) -> RendezvousTarget:
    """What is wanted of that Framework. Raises ValueError when it cannot be read."""
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
            over="deletionTimestamp" in metadata or status.get("state") in _OVER,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__} {error}") from error


def later_than(spec: FrameworkSpec, role: RoleName | None) -> DependentRoles:
    """The roles whose pods start only after those of *role* have, directly or by way of others; None is nobody's."""
    found: set[RoleName] = set()
    reached = [role]
    while reached:
        awaited = reached.pop()
        for other in spec.roles:
            if other.name not in found and any(after.role == awaited for after in other.start_after):
                found.add(other.name)
                reached.append(other.name)
    return frozenset(found)


def earlier_than(spec: FrameworkSpec, role: RoleName) -> tuple[RoleName, ...]:
    """
    The roles whose tasks may be waited for until they listen, by tasks of *role* that do not run before.

    They stand before it in one order of all roles, that of their creation, so nobody waits in a circle.
    """
    named = {each.name: each for each in spec.roles}
    left = [named[name] for name in (spec.role_sequence or named) if name in named]
    order: list[RoleName] = []
    while left:
        waiting = {each.name for each in left}
        free = (each for each in left if waiting.isdisjoint(after.role for after in each.start_after))
        first = next(free, left[0])
        order.append(first.name)
        left.remove(first)
    return tuple(name for name in order[: order.index(role)] if not named[name].background)


@dataclass(frozen=True, slots=True)
class PeerPod:
    """One pod, as far as it matters."""

    pod: PodName
    uid: str
    owner: str
    of: TaskIdentity
    node: str = ""
    ip: str = ""
    host_ip: str = ""
    told: int | None = None
    deleting: bool = False


def seen_from_json(obj: Mapping[str, Any]) -> PeerPod | None:
    """The pod; None if it does not say whose it is."""
    of = task_identity(obj)
    if of is None:
        return None
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    host_ip = status.get("hostIP") or ""
    return PeerPod(
        pod=PodName(metadata["name"]),
        uid=metadata["uid"],
        owner=controller_of(metadata).get("uid", ""),
        of=of,
        node=spec.get("nodeName") or "",
        # In the node's network a pod has the node's address, whether it knows already or not.
        ip=status.get("podIP") or (host_ip if spec.get("hostNetwork") else ""),
        host_ip=host_ip,
        told=_port((metadata.get("annotations") or {}).get(PORT)),
        deleting="deletionTimestamp" in metadata,
    )


def _port(text: object) -> int | None:
    if not isinstance(text, str) or not text.isdecimal() or not text.isascii():
        return None
    return int(text) if 0 < int(text[:6]) < 65536 else None


class PeerTracker:
    """The tasks of one Framework's current attempt as they come and go."""

    def __init__(self) -> None:
        self.wanted: RendezvousTarget | None = None
        self._pods: dict[str, PeerPod] = {}
        self._tasks: dict[RoleName, int] = {}
        self._peers: dict[RoleName, dict[int, Peer]] = {}

    def expect(self, wanted: RendezvousTarget) -> None:
        """From now on *wanted* says who belongs to it."""
        self.wanted = wanted
        self._tasks = {role.name: role.tasks for role in wanted.spec.roles}
        self._peers = {role.name: {} for role in wanted.spec.roles}
        for seen in self._pods.values():
            self._count(seen)

    def see(self, seen: PeerPod) -> bool:
        """Take in a pod; whether that changes anything for anybody."""
        before = self._pods.get(seen.pod)
        self._pods[seen.pod] = seen
        if seen == before:
            return False
        if before is not None:
            self._uncount(before)
        self._count(seen)
        return True

    def lose(self, pod: str) -> None:
        """The pod is no longer there."""
        if (before := self._pods.pop(pod, None)) is not None:
            self._uncount(before)

    def doubts(self, seen: PeerPod) -> bool:
        """Whether such a pod means that the Framework may be another than is known."""
        wanted = self.wanted
        if wanted is None:
            return False
        is_old = seen.owner == wanted.uid and seen.of.framework_attempt < wanted.attempt
        return seen.deleting or not (self._fits(seen) or is_old)

    def pod(self, name: str) -> PeerPod | None:
        """The pod of that name, if it serves this attempt."""
        seen = self._pods.get(name)
        return seen if seen is not None and self._fits(seen) and not seen.deleting else None

    def pods_with_port(self) -> Iterator[PeerPod]:
        """Every pod that has told its port."""
        return (seen for seen in self._pods.values() if seen.told is not None)

    def missing(self, later: DependentRoles) -> Iterator[tuple[RoleName, int]]:
        """Role and index of each task without an address, but for the *later* roles."""
        for role in self.wanted.spec.roles if self.wanted is not None else ():
            there = self._peers[role.name]
            if role.name not in later and len(there) < role.tasks:
                yield from ((role.name, index) for index in range(role.tasks) if index not in there)

    def roster(self, later: DependentRoles) -> PeerList | None:
        """What is told to those for whom these roles come *later*; None while somebody is missing."""
        wanted = self.wanted
        if wanted is None:
            return None
        roles = [role for role in wanted.spec.roles if role.name not in later]
        if any(len(self._peers[role.name]) < role.tasks for role in roles):
            return None
        found = {
            role.name: tuple(self._peers[role.name][index] for index in range(role.tasks)) for role in roles
        }
        retries = sum(peer.attempt for peers in found.values() for peer in peers)
        return PeerList(
            namespace=wanted.namespace,
            framework=wanted.name,
            attempt=wanted.attempt,
            generation=1 + wanted.rescales * _RESCALE + retries,
            roles=found,
            later=tuple(role.name for role in wanted.spec.roles if role.name in later),
        )

    def _fits(self, seen: PeerPod) -> bool:
        wanted = self.wanted
        if wanted is None or (seen.owner, seen.of.framework_attempt) != (wanted.uid, wanted.attempt):
            return False
        return seen.of.index < self._tasks.get(seen.of.role, 0)

    def _count(self, seen: PeerPod) -> None:
        if self._fits(seen) and (peer := self._peer(seen)) is not None:
            self._peers[seen.of.role][seen.of.index] = peer

    def _uncount(self, seen: PeerPod) -> None:
        if self._fits(seen):
            self._peers[seen.of.role].pop(seen.of.index, None)

    def _peer(self, seen: PeerPod) -> Peer | None:
        """Where the pod's task is; None while that is not known, or about to change."""
        assert self.wanted is not None
        discovery = self.wanted.spec.discovery
        port = discovery.ports.get(seen.of.role) if discovery is not None else None
        if port == AUTO:
            port = seen.told
        if seen.deleting or not seen.ip or (port is None and self.is_auto(seen.of.role)):
            return None
        return Peer(
            index=seen.of.index,
            ip=seen.ip,
            host_ip=seen.host_ip or seen.ip,
            pod=seen.pod,
            port=port if isinstance(port, int) else None,
            attempt=seen.of.task_attempt,
        )

    def is_auto(self, role: RoleName | None) -> bool:
        """Whether tasks of that role find their ports themselves."""
        discovery = self.wanted.spec.discovery if self.wanted is not None else None
        return discovery is not None and role is not None and discovery.ports.get(role) == AUTO
