"""
Gangs: which pods belong to which, who of them waits, and who has been given a node.

A gang is decided upon whole. So if one of its pods has a node, or had one and has ended, that was decided before: by
us, or by a launcher that came no further. Those of it that wait then get their nodes one by one, as many as the gang
needs before everybody else; and so do pods that come to it later.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from launcher.scheduling.cluster_state import GangMembership, PodInfo
from launcher.scheduling.scheduling_queue import QueuedPod, SchedulingUnit
from launcher.store.interface import Key

#: The namespace, and the name that its pods carry.
GangKey = tuple[str, str]


class GangPhase(Enum):
    """How the pods of a gang that wait are to be given their nodes."""

    #: Not at all: too few of them are there.
    GATHERING = "gathering"
    TOGETHER = "together"
    #: One by one, and before everybody else.
    COMPLETING = "completing"
    COMPLETE = "complete"

    @property
    def one_by_one(self) -> bool:
        return self in (GangPhase.COMPLETING, GangPhase.COMPLETE)


@dataclass(slots=True, eq=False)
class GangState:
    """The pods of one gang."""

    key: GangKey
    waiting: dict[Key, QueuedPod] = field(default_factory=dict)
    #: Pods that have a node, or have ended.
    there: set[Key] = field(default_factory=set)
    #: The parties of those of its pods that are in one; and the stage that they were made for.
    parties: dict[Key, SchedulingUnit] = field(default_factory=dict)
    stage: GangPhase = GangPhase.GATHERING
    #: How many of its pods say that so many are needed.
    _needs: Counter[int] = field(default_factory=Counter)

    @property
    def need(self) -> int:
        """How many have to be placed together. Where pods say different things, the least: others may be outdated."""
        return min(self._needs, default=1)

    def count(self, mark: GangMembership, by: int) -> None:
        self._needs[mark.need] += by
        if not self._needs[mark.need]:
            del self._needs[mark.need]

    def __bool__(self) -> bool:
        return bool(self.waiting or self.there)

    def due(self) -> GangPhase:
        """The stage that it is in by now."""
        if self.there:
            return GangPhase.COMPLETING if len(self.there) < self.need else GangPhase.COMPLETE
        return GangPhase.TOGETHER if len(self.waiting) >= self.need else GangPhase.GATHERING

    def words(self) -> str:
        """Why pods of a gang that gathers are not tried."""
        return (
            f"gang of {self.need}: waits for {self.need - len(self.waiting)} more of its pods to be created"
        )


class Gangs:
    """Every gang of which a pod is there."""

    def __init__(self) -> None:
        self._gangs: dict[GangKey, GangState] = {}
        self._of: dict[Key, tuple[GangState, GangMembership]] = {}
        self._touched: dict[GangState, None] = {}

    def of(self, key: Key) -> GangState | None:
        """The gang of that pod."""
        known = self._of.get(key)
        return known[0] if known is not None else None

    def wait(self, waiting: QueuedPod, mark: GangMembership) -> None:
        """The pod wants a node with the others of its gang."""
        self._join(waiting.guest.key, mark).waiting[waiting.guest.key] = waiting

    def arrive(self, guest: PodInfo) -> None:
        """The pod has a node, if it is one of a gang."""
        if guest.gang is not None:
            self.end(guest.key, guest.gang)

    def end(self, key: Key, mark: GangMembership) -> None:
        """The pod has a node, or has had one and ended."""
        gang = self._join(key, mark)
        gang.waiting.pop(key, None)
        gang.there.add(key)

    def leave(self, key: Key) -> None:
        """The pod is no longer there."""
        known = self._of.pop(key, None)
        if known is None:
            return
        gang, mark = known
        gang.count(mark, -1)
        gang.waiting.pop(key, None)
        gang.there.discard(key)
        self._touched[gang] = None
        if not gang:
            del self._gangs[gang.key]

    def touched(self) -> Iterator[GangState]:
        """Those whose pods may have to be given their nodes in another way than before."""
        while self._touched:
            gang, _ = self._touched.popitem()
            yield gang

    def _join(self, key: Key, mark: GangMembership) -> GangState:
        known = self._of.get(key)
        name = key[0], mark.name
        if known is not None and (known[0].key, known[1]) == (name, mark):
            gang = known[0]
        else:
            self.leave(key)
            gang = self._gangs.get(name) or self._gangs.setdefault(name, GangState(name))
            gang.count(mark, 1)
            self._of[key] = gang, mark
        self._touched[gang] = None
        return gang


def parties_of(gang: GangState) -> Iterator[SchedulingUnit]:
    """Those of the gang who wait and are in no party yet, as they are to be placed in its stage."""
    match gang.stage:
        case GangPhase.GATHERING:
            return
        case GangPhase.TOGETHER:
            yield SchedulingUnit(tuple(gang.waiting.values()), gang.need)
        case GangPhase.COMPLETING | GangPhase.COMPLETE:
            for key, waiting in gang.waiting.items():
                if key not in gang.parties:
                    yield SchedulingUnit((waiting,), ahead=gang.stage is GangPhase.COMPLETING)
