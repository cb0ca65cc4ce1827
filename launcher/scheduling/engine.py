"""
Who goes where: the scheduler's decisions, without a store, a clock or a wait.

Pods are tried by priority, then by how long they have waited. One that has no node now does not hold up the others,
until it has waited so long that room is kept for it. What a pod was told stays true until something ends, leaves or
changes; so until then nobody is tried twice, and of pods that ask for the same only the first is tried.

Pods of a gang are one party: all that it needs get their nodes in one decision, or none does. A pod that was given a
node counts as being there at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from launcher.scheduling.bin_packing import Assignment
from launcher.scheduling.cluster_state import ClusterState, GangMembership, NodeAttributes, PodInfo
from launcher.scheduling.gang_tracker import Gangs, parties_of
from launcher.scheduling.placement import PlacementSearch
from launcher.scheduling.reservation import Reservation, moved, reserve
from launcher.scheduling.scheduling_queue import (
    EquivalenceClass,
    LineKey,
    QueuedPod,
    Rank,
    SchedulingUnit,
    line_key,
)
from launcher.store.interface import PODS, Key, Object, key_of
from launcher.store.object_errors import object_errors

#: How errors call the scheduler.
COMPONENT = "scheduler"


@dataclass(frozen=True, slots=True)
class Binding:
    """This pod goes to that node."""

    guest: PodInfo
    node: str


class SchedulingEngine:
    """Everything that is known of nodes and pods, and what to do about those without a node."""

    def __init__(self, patience: float) -> None:
        """After waiting *patience* seconds a party has room kept for it."""
        self._patience = patience
        self._site = ClusterState()
        self._lines: dict[LineKey, EquivalenceClass] = {}
        #: Of these, the lines of pods that want to be near others.
        self._near: dict[EquivalenceClass, None] = {}
        #: Every pod that waits; and those that can be tried, with their parties and lines.
        self._waiting: dict[Key, QueuedPod] = {}
        self._entered: dict[Key, tuple[SchedulingUnit, EquivalenceClass]] = {}
        self._gangs = Gangs()
        #: Pods that were given a node, until somebody has seen them there.
        self._assumed: dict[Key, QueuedPod] = {}
        self._untold: dict[QueuedPod, None] = {}
        self._room: Reservation | None = None
        self._serial = 0

    # What is known.

    def set_node(self, facts: NodeAttributes) -> None:
        """The node is there, as *facts* say."""
        if self._site.set_node(facts):
            self._nodes_changed(facts.name)

    def drop_node(self, name: str) -> None:
        """The node is no longer there."""
        self._site.drop_node(name)
        self._nodes_changed(name)

    def _nodes_changed(self, name: str) -> None:
        if self._room is not None and self._room.is_at(name):
            self._room = None
        for line in self._lines.values():
            line.refusals.clear()
            line.is_hopeless = False
        self._reopen()

    def add_pending(self, guest: PodInfo, priority: int, since: float) -> None:
        """The pod wants a node. Said again, it changes nothing but what has changed."""
        given = self._assumed.get(guest.key)
        if given is not None and given.guest.uid == guest.uid:
            return
        known = self._waiting.get(guest.key)
        if known is not None and known.guest.uid == guest.uid:
            if known.priority == priority and _asks_the_same(known.guest, guest):
                return
            since = known.since
        self.leave(guest.key)
        self._serial += 1
        self._admit(QueuedPod(guest, priority, since, self._serial))

    def _admit(self, waiting: QueuedPod) -> None:
        self._waiting[waiting.guest.key] = waiting
        self._untold[waiting] = None
        if waiting.guest.gang is None:
            self._enter(SchedulingUnit((waiting,)))
        else:
            self._gangs.wait(waiting, waiting.guest.gang)

    def _enter(self, party: SchedulingUnit) -> None:
        key = line_key(party)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = EquivalenceClass(key)
            for demand in key.demands:
                self._site.crowds.ask(demand.terms)
                if demand.affinity:
                    self._near[line] = None
        line.add(party)
        for member in party.members:
            self._entered[member.guest.key] = party, line

    def knows(self, pod: Object, node: str) -> bool:
        """Whether that pod has been seen on that node, with nothing new about it."""
        key, meta = key_of(pod), pod["metadata"]
        guest = self._site.guest(key)
        return (
            guest is not None
            and guest.uid == meta["uid"]
            and guest.leaving == ("deletionTimestamp" in meta)
            and guest.labels == (meta.get("labels") or {})
            and self._site.node_of(key) == node
            and key not in self._assumed
        )

    def pod_bound(self, guest: PodInfo, node: str) -> None:
        """The pod is on that node, whoever sent it there."""
        given = self._assumed.pop(guest.key, None)
        if given is not None and self._site.node_of(guest.key) == node and _same(given.guest, guest):
            return
        self._stop_waiting(guest.key)
        self._release(guest.key)
        self._put(guest, node)
        self._gangs.arrive(guest)

    def leave(self, key: Key) -> None:
        """The pod is gone, or no longer wants a node."""
        self._assumed.pop(key, None)
        self._stop_waiting(key)
        self._release(key)
        self._gangs.leave(key)

    def end(self, key: Key, gang: GangMembership | None) -> None:
        """The pod has ended: it takes nothing any more, but whoever is of its gang is not the first of it."""
        self.leave(key)
        if gang is not None:
            self._gangs.end(key, gang)

    def forget_assumed(self, guest: PodInfo) -> None:
        """The pod did not get to the node that it was given, if nobody has seen it there: it waits as before."""
        waiting = self._assumed.get(guest.key)
        if waiting is not None and waiting.guest is guest:
            self.leave(guest.key)
            self._admit(waiting)

    def _release(self, key: Key) -> None:
        """What the pod took is free again."""
        if self._site.remove(key) is not None:
            if self._room is not None:
                self._room.left(key)
            self._reopen()

    def _put(self, guest: PodInfo, node: str) -> None:
        self._site.place(guest, node)
        if self._room is not None:
            self._room.let_in(guest, node)
        for line in self._near:
            # The company that somebody has been waiting for may just have come.
            near = (term for demand in line.key.demands for term in demand.affinity)
            if any(term.selection.holds(guest.key[0], guest.labels) for term in near):
                line.reopen()

    def _stop_waiting(self, key: Key) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            self._untold.pop(waiting, None)
            self._withdraw(key)

    def _withdraw(self, key: Key) -> None:
        """The party of that pod is no more; others of it may make up another."""
        entered = self._entered.get(key)
        if entered is None:
            return
        party, line = entered
        line.remove(party)
        gang = self._gangs.of(key)
        for member in party.members:
            del self._entered[member.guest.key]
            if gang is not None:
                gang.parties.pop(member.guest.key, None)
        if not line:
            del self._lines[line.key]
            self._near.pop(line, None)
            for demand in line.key.demands:
                self._site.crowds.forget(demand.terms)
        if self._room is not None and self._room.party is party:
            self._room = None
            self._reopen()

    def _reopen(self) -> None:
        for line in self._lines.values():
            line.reopen()

    def _regroup(self) -> None:
        """Make up the parties of gangs as they have to be by now."""
        for gang in self._gangs.touched():
            stage = gang.due()
            if stage is not gang.stage or not stage.one_by_one:
                for key in list(gang.parties):
                    self._withdraw(key)
            gang.stage = stage
            for party in list(parties_of(gang)):
                self._enter(party)
                gang.parties.update((member.guest.key, party) for member in party.members)

    # What to do.

    def decide(self, now: float, most: int) -> Sequence[Binding]:
        """
        About *most* pods and their nodes. Fewer: nobody else can be given a node at present.

        All pods of a gang are in one answer, however many.
        """
        found: list[Binding] = []
        self._fill(found, most)
        while len(found) < most and self._keep_room(now):
            self._fill(found, most)
        return found

    def _fill(self, found: list[Binding], most: int) -> None:
        """Try all who are worth trying, as long as there are no more than *most* found."""
        while len(found) < most and (heads := self._heads()):
            while heads and len(found) < most:
                _, line = heappop(heads)
                party = line.first()
                if party is None:
                    continue
                try:
                    if seats := self._try(party, line):
                        found += self._give(party, seats)
                except Exception as error:  # what is wrong with one pod must not keep others from their nodes
                    key = party.members[0].guest.key
                    object_errors.record(COMPONENT, PODS.plural, key, error)
                    line.set_aside(party, f"the pod cannot be read: {error}")
                if line.closed is None and (then := line.first()) is not None:
                    heappush(heads, (then.rank, line))

    def _heads(self) -> list[tuple[Rank, EquivalenceClass]]:
        """The lines worth trying, as a heap."""
        self._regroup()
        firsts = ((line.first(), line) for line in self._lines.values() if line.closed is None)
        heads = [(party.rank, line) for party, line in firsts if party is not None]
        heapify(heads)
        return heads

    def _try(self, party: SchedulingUnit, line: EquivalenceClass) -> Assignment:
        """Nodes for this party; or none, and the line knows why."""
        found = PlacementSearch(self._site, self._room, line).seats(party)
        if found.seats:
            return found.seats
        if found.personal:
            line.set_aside(party, found.why)
        else:
            line.closed = found.why
        return {}

    def _give(self, party: SchedulingUnit, seats: Assignment) -> list[Binding]:
        given: list[Binding] = []
        for member in party.members:
            guest = member.guest
            node = seats.get(guest.key)
            if node is not None:
                self._stop_waiting(guest.key)
                self._assumed[guest.key] = member
                self._put(guest, node)
                self._gangs.arrive(guest)
                given.append(Binding(guest, node))
        return given

    def _keep_room(self, now: float) -> bool:
        """Room for the first that has waited too long; True when other pods are worth trying again for that."""
        room = self._room
        for party, line in self._impatient(now):
            if room is not None and room.party is party:
                other = moved(room, self._site, now, self._patience) if now >= room.review else None
            else:
                other = reserve(party, self._site, now, self._patience)
                if other is None:
                    # Company may come; room on empty nodes will not.
                    line.is_hopeless = line not in self._near
                    continue
            if other is None:
                return False
            self._room = other
            if room is not None:
                self._reopen()
            return room is not None
        return False

    def _impatient(self, now: float) -> list[tuple[SchedulingUnit, EquivalenceClass]]:
        """Of each line the one that has waited longest, if it has waited too long, by rank."""
        firsts = ((line.longest(), line) for line in self._lines.values() if not line.is_hopeless)
        late = [(party, line) for party, line in firsts if party.since + self._patience <= now]
        return sorted(late, key=lambda found: found[0].rank)

    def next_look(self, now: float) -> float | None:
        """When to decide again even if nothing has changed; None: not before something has."""
        times = [line.longest().since + self._patience for line in self._lines.values()]
        if self._room is not None:
            times.append(self._room.review)
        return min((time for time in times if time > now), default=None)

    # What to tell.

    def unschedulable_reason(self, key: Key) -> str | None:
        """Why the pod has no node; None when that is not known, or it has one."""
        entered = self._entered.get(key)
        if entered is not None:
            return entered[1].answer(entered[0])
        gang = self._gangs.of(key) if key in self._waiting else None
        return gang.words() if gang is not None else None

    def untold(self) -> Iterator[Key]:
        """Those that have come since the last time, and were tried, and had to wait."""
        told = [
            waiting
            for waiting in self._untold
            if waiting.guest.key in self._entered and self.unschedulable_reason(waiting.guest.key) is not None
        ]
        for waiting in told:
            del self._untold[waiting]
            yield waiting.guest.key

    def waiting(self) -> Iterator[Key]:
        """Everybody who waits."""
        return iter(self._waiting)


def _asks_the_same(one: PodInfo, other: PodInfo) -> bool:
    return one.demand is other.demand and one.labels == other.labels and one.gang == other.gang


def _same(one: PodInfo, other: PodInfo) -> bool:
    return one.uid == other.uid and one.labels == other.labels and one.leaving == other.leaving
