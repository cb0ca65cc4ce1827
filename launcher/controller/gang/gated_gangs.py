"""Gangs behind gates, and whose turn it is: what is known of them, without a store or a wait."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from launcher.controller.gang.backend_discovery import BuiltinBackend
from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest
from launcher.core.names import PodIdentityKey, attempt_uid
from launcher.core.owner_references import controller_of
from launcher.core.pods.observed_pod import has_terminated
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName, TaskRole
from launcher.core.timestamps import parse_rfc3339
from launcher.store.interface import Key, Object

GATE: Final = "launcher.microsoft.com/gang"
#: Which gang a pod belongs to, and how many of it are let through together.
GANG: Final = "launcher.microsoft.com/gang"
LEAST: Final = "launcher.microsoft.com/gang-min"


def extras(wanted: GangRequest) -> Mapping[RoleName, PodOverlay]:
    """What the pods of each role get. Who names its node itself passes by every scheduler, and waits for nobody."""
    gated = [role for role in wanted.roles if not _has_node(role)]
    least = min(wanted.least, sum(role.tasks for role in gated))
    given = PodOverlay(
        labels={BACKEND_LABEL: BuiltinBackend.GATES.value},
        annotations={
            GANG: attempt_uid(wanted.framework.uid, wanted.attempt),
            LEAST: str(least),
        },
        spec={"schedulingGates": [{"name": GATE}]},
    )
    return {role.name: given for role in gated}


def _has_node(role: TaskRole) -> bool:
    return bool((role.pod.get("spec") or {}).get("nodeName"))


def is_gated(pod: Object) -> bool:
    """Whether our gate is still there."""
    return any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ())


def without_gate(pod: Object) -> dict[str, Any]:
    """The change by which it goes, and no other: not if the pod has changed since it was read."""
    gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate.get("name") != GATE]
    return {
        "metadata": {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]},
        "spec": {"schedulingGates": gates or None},
    }


@dataclass(slots=True, eq=False)
class GatedGang:
    """The pods of one gang."""

    #: The same for all pods of one attempt of one Framework, and for no other.
    id: str
    namespace: str
    framework: str
    attempt: int
    least: int
    #: Those that were seen earlier have a smaller one.
    serial: int
    #: Behind the gate, each as it was last seen.
    gated: dict[Key, Object] = field(default_factory=dict)
    #: Let through, and without a node yet.
    released: dict[Key, Object] = field(default_factory=dict)
    #: On a node, or over.
    scheduled: set[Key] = field(default_factory=set)
    #: What was last told about it; and, on the loop's clock, when something else may be told.
    told: str = ""
    tell_at: float = 0.0
    #: Somebody knows that it has been placed before.
    was_placed: bool = False
    #: One of its pods has gone: it may have become smaller.
    has_lost: bool = False
    #: On the loop's clock: when to ask why it is not complete.
    ask_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was its turn already: then whoever is left, or comes again, just follows."""
        return bool(self.released or self.scheduled or self.was_placed)

    @property
    def is_complete(self) -> bool:
        return len(self.gated) >= self.least

    @property
    def since(self) -> tuple[float, int]:
        """When the first of those who wait was created: that is told in seconds, so what was seen first may decide."""
        return min(
            parse_rfc3339(pod["metadata"]["creationTimestamp"]) for pod in self.gated.values()
        ), self.serial

    def forget(self, key: Key) -> None:
        """That pod is not where it was."""
        self.gated.pop(key, None)
        self.released.pop(key, None)
        self.scheduled.discard(key)

    def owner(self) -> Object:
        """The Framework as events refer to it."""
        pod = next(iter((self.gated or self.released).values()))
        owner = controller_of(pod["metadata"])
        return {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "metadata": {"namespace": self.namespace, "name": owner["name"], "uid": owner["uid"]},
        }


class GatedGangs:
    """Every gang behind gates."""

    def __init__(self) -> None:
        self._parties: dict[str, GatedGang] = {}
        self._of: dict[Key, str] = {}
        self._serial = 0

    def see(self, key: Key, pod: Object) -> None:
        """The pod is there, as it is now."""
        if is_gated(pod) and (has_terminated(pod) or "deletionTimestamp" in pod["metadata"]):
            self.lose(key)  # it will never be let through
            return
        party = self._party_of(key, pod)
        party.forget(key)
        if has_terminated(pod) or pod["spec"].get("nodeName"):
            party.scheduled.add(key)
        elif is_gated(pod):
            party.gated[key] = pod
        else:
            party.released[key] = pod

    def _party_of(self, key: Key, pod: Object) -> GatedGang:
        labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        if self._of.get(key, notes[GANG]) != notes[GANG]:
            self.lose(key)  # another pod of that name has come
        self._of[key] = notes[GANG]
        party = self._parties.get(notes[GANG])
        if party is None:
            attempt, least = int(labels[PodIdentityKey.FRAMEWORK_ATTEMPT_ID]), int(notes[LEAST])
            self._serial += 1
            party = GatedGang(
                notes[GANG], key[0], labels[PodIdentityKey.FRAMEWORK_NAME], attempt, least, self._serial
            )
            self._parties[party.id] = party
        return party

    def lose(self, key: Key) -> None:
        """The pod is not there any more."""
        party = self._parties.get(self._of.pop(key, ""))
        if party is None:
            return
        party.forget(key)
        party.has_lost = True
        if not (party.gated or party.released or party.scheduled):
            del self._parties[party.id]

    def followers(self) -> list[GatedGang]:
        """Those that were let through, but for some of their pods: they are completed before anybody else's turn."""
        return [party for party in self._parties.values() if party.gated and party.is_open]

    def waiting(self) -> list[GatedGang]:
        """Those that are all there and wait for room, the oldest first."""
        found = [party for party in self._parties.values() if party.gated and not party.is_open]
        return sorted((party for party in found if party.is_complete), key=lambda party: party.since)

    def incomplete(self) -> list[GatedGang]:
        """Those of which too few are there."""
        return [
            party
            for party in self._parties.values()
            if party.gated and not party.is_open and not party.is_complete
        ]

    def going(self) -> Iterator[Object]:
        """Every pod that was let through and has no node yet: its room is taken."""
        return (pod for party in self._parties.values() for pod in party.released.values())
