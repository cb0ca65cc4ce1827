"""Gangs whose pods have scheduling gates, and the order in which they are admitted. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from launcher.controller.gang.backend_discovery import BuiltinBackend
from launcher.controller.gang.gang_request import GangRequest
from launcher.core.events import framework_reference
from launcher.core.names import (
    BACKEND_LABEL,
    GANG_ANNOTATION,
    GANG_MIN_ANNOTATION,
    PodIdentityKey,
    attempt_uid,
)
from launcher.core.owner_references import controller_of
from launcher.core.pods.observed_pod import has_terminated, is_deleted, node_name
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName, TaskRole
from launcher.core.timestamps import parse_rfc3339
from launcher.store.interface import Key, Object

GATE: Final = "launcher.microsoft.com/gang"


def pod_overlays(request: GangRequest) -> Mapping[RoleName, PodOverlay]:
    """Returns the overlay of each role. Pods with a nodeName bypass the scheduler and get no gate."""
    gated = [role for role in request.roles if not _has_node(role)]
    minimum = min(request.minimum, sum(role.tasks for role in gated))
    overlay = PodOverlay(
        labels={BACKEND_LABEL: BuiltinBackend.GATES.value},
        annotations={
            GANG_ANNOTATION: attempt_uid(request.framework.uid, request.attempt),
            GANG_MIN_ANNOTATION: str(minimum),
        },
        spec={"schedulingGates": [{"name": GATE}]},
    )
    return {role.name: overlay for role in gated}


def _has_node(role: TaskRole) -> bool:
    return bool((role.pod.get("spec") or {}).get("nodeName"))


def is_gated(pod: Object) -> bool:
    """Whether the pod has the scheduling gate."""
    return any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ())


def gate_removal(pod: Object) -> dict[str, Any]:
    """Returns the patch that removes the gate, of this version of the pod only."""
    gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate.get("name") != GATE]
    return {
        "metadata": {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]},
        "spec": {"schedulingGates": gates or None},
    }


@dataclass(slots=True, eq=False)
class GatedGang:
    """The pods of one gang."""

    #: Unique for one attempt of one Framework.
    id: str
    namespace: str
    framework: str
    attempt: int
    minimum: int
    #: Increases in the order in which gangs were observed.
    sequence_number: int
    #: Pods with the gate.
    gated: dict[Key, Object] = field(default_factory=dict)
    #: Pods without the gate and without a node.
    released: dict[Key, Object] = field(default_factory=dict)
    #: Pods with a node, or terminated.
    scheduled: set[Key] = field(default_factory=set)
    #: The message of the last event, and the earliest time of the next one on the event loop's clock.
    last_message: str = ""
    next_event_at: float = 0.0
    #: The Framework reports that the gang was placed.
    was_placed: bool = False
    #: A pod was deleted: the gang may have become smaller.
    has_lost_pod: bool = False
    #: On the event loop's clock: when to read the Framework of an incomplete gang.
    recheck_at: float | None = None

    @property
    def is_admitted(self) -> bool:
        """Whether the gang was admitted; then its remaining pods are admitted at once."""
        return bool(self.released or self.scheduled or self.was_placed)

    @property
    def is_complete(self) -> bool:
        return len(self.gated) >= self.minimum

    @property
    def waiting_since(self) -> tuple[float, int]:
        """The creation time of the oldest waiting pod, in seconds; ties are resolved by the order of observation."""
        return min(
            parse_rfc3339(pod["metadata"]["creationTimestamp"]) for pod in self.gated.values()
        ), self.sequence_number

    def remove(self, key: Key) -> None:
        """Removes the pod from all sets."""
        self.gated.pop(key, None)
        self.released.pop(key, None)
        self.scheduled.discard(key)

    def framework_reference(self) -> Object:
        """Returns the object reference of the Framework for events."""
        pod = next(iter((self.gated or self.released).values()))
        owner = controller_of(pod["metadata"])
        return framework_reference(self.namespace, owner["name"], owner["uid"])


class GatedGangs:
    """All gangs with gates."""

    def __init__(self) -> None:
        self._gangs: dict[str, GatedGang] = {}
        self._gang_ids: dict[Key, str] = {}
        self._last_sequence_number = 0

    def upsert(self, key: Key, pod: Object) -> None:
        """Adds or updates a pod."""
        if is_gated(pod) and (has_terminated(pod) or is_deleted(pod)):
            self.remove(key)  # it will never be admitted
            return
        gang = self._gang_of(key, pod)
        gang.remove(key)
        if has_terminated(pod) or node_name(pod):
            gang.scheduled.add(key)
        elif is_gated(pod):
            gang.gated[key] = pod
        else:
            gang.released[key] = pod

    def _gang_of(self, key: Key, pod: Object) -> GatedGang:
        labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        if self._gang_ids.get(key, annotations[GANG_ANNOTATION]) != annotations[GANG_ANNOTATION]:
            self.remove(key)  # another pod has the same name
        self._gang_ids[key] = annotations[GANG_ANNOTATION]
        gang = self._gangs.get(annotations[GANG_ANNOTATION])
        if gang is None:
            attempt, minimum = (
                int(labels[PodIdentityKey.FRAMEWORK_ATTEMPT_ID]),
                int(annotations[GANG_MIN_ANNOTATION]),
            )
            self._last_sequence_number += 1
            gang = GatedGang(
                annotations[GANG_ANNOTATION],
                key[0],
                labels[PodIdentityKey.FRAMEWORK_NAME],
                attempt,
                minimum,
                self._last_sequence_number,
            )
            self._gangs[gang.id] = gang
        return gang

    def remove(self, key: Key) -> None:
        """Removes a deleted pod."""
        gang = self._gangs.get(self._gang_ids.pop(key, ""))
        if gang is None:
            return
        gang.remove(key)
        gang.has_lost_pod = True
        if not (gang.gated or gang.released or gang.scheduled):
            del self._gangs[gang.id]

    def partially_admitted(self) -> list[GatedGang]:
        """Returns admitted gangs with pods that still have the gate. They are admitted before all others."""
        return [gang for gang in self._gangs.values() if gang.gated and gang.is_admitted]

    def waiting(self) -> list[GatedGang]:
        """Returns complete gangs that wait for capacity, the oldest first."""
        not_admitted = (gang for gang in self._gangs.values() if gang.gated and not gang.is_admitted)
        return sorted(
            (gang for gang in not_admitted if gang.is_complete), key=lambda gang: gang.waiting_since
        )

    def incomplete(self) -> list[GatedGang]:
        """Returns gangs with too few pods."""
        return [
            gang
            for gang in self._gangs.values()
            if gang.gated and not gang.is_admitted and not gang.is_complete
        ]

    def released_pods(self) -> Iterator[Object]:
        """Returns admitted pods without a node: their capacity is reserved."""
        return (pod for gang in self._gangs.values() for pod in gang.released.values())
