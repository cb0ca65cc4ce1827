"""
Who goes where: the scheduler's decisions, without a store, a clock or a wait.

Pods are tried by priority, then by how long they have waited. One that has no node now does not hold up the others,
until it has waited so long that room is kept for it. What a pod was told stays true until something ends, leaves or
changes; so until then nobody is tried twice, and of pods that ask for the same only the first is tried.

A pod that was given a node counts as being there at once. Pods of one group, all those of a Framework, carry the same
``group``: whoever decides on all of a group at once finds them by it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from launcher.node.scheduling.fitting import KEPT, SHUNNED, company_of, refusal, shortages, verdict
from launcher.node.scheduling.room import Room, keep_room, moved
from launcher.node.scheduling.scoring import best
from launcher.node.scheduling.site import Facts, Guest, Node, Site
from launcher.node.scheduling.waiting import Line, LineKey, Rank, Waiting, line_key
from launcher.store.port import Key, Object, key_of


@dataclass(frozen=True, slots=True)
class Binding:
    """This pod goes to that node."""

    guest: Guest
    node: str


class Placer:
    """Everything that is known of nodes and pods, and what to do about those without a node."""

    def __init__(self, patience: float) -> None:
        """After waiting *patience* seconds a pod has room kept for it."""
        self._patience = patience
        self._site = Site()
        self._lines: dict[LineKey, Line] = {}
        #: Of these, the lines of pods that want to be near others.
        self._near: dict[Line, None] = {}
        #: Every pod that waits, by key, with its line.
        self._waiting: dict[Key, tuple[Waiting, Line]] = {}
        #: Pods that were given a node, until somebody has seen them there.
        self._given: dict[Key, Waiting] = {}
        self._untold: dict[Waiting, None] = {}
        self._room: Room | None = None
        self._serial = 0

    # What is known.

    def set_node(self, facts: Facts) -> None:
        """The node is there, as *facts* say."""
        if self._site.set_node(facts):
            self._nodes_changed(facts.name)

    def drop_node(self, name: str) -> None:
        """The node is no longer there."""
        self._site.drop_node(name)
        self._nodes_changed(name)

    def _nodes_changed(self, name: str) -> None:
        if self._room is not None and self._room.name == name:
            self._room = None
        for line in self._lines.values():
            line.refusals.clear()
        self._reopen()

    def wait(self, guest: Guest, priority: int, since: float) -> None:
        """The pod wants a node. Said again, it changes nothing but what has changed."""
        given = self._given.get(guest.key)
        if given is not None and given.guest.uid == guest.uid:
            return
        known = self._waiting.get(guest.key)
        if known is not None:
            waiting, line = known
            if waiting.guest.uid == guest.uid and line.key == line_key(guest, priority):
                if waiting.guest.labels == guest.labels:
                    return
                since = waiting.since
        self.leave(guest.key)
        self._serial += 1
        self._enter(Waiting(guest, priority, since, self._serial))

    def _enter(self, waiting: Waiting) -> None:
        key = line_key(waiting.guest, waiting.priority)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key)
            self._site.crowds.ask(key.demand.terms)
            if key.demand.near:
                self._near[line] = None
        line.add(waiting)
        self._waiting[waiting.guest.key] = waiting, line
        self._untold[waiting] = None

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
            and key not in self._given
        )

    def arrive(self, guest: Guest, node: str) -> None:
        """The pod is on that node, whoever sent it there."""
        given = self._given.pop(guest.key, None)
        if given is not None and self._site.node_of(guest.key) == node and _same(given.guest, guest):
            return
        self._stop_waiting(guest.key)
        self._release(guest.key)
        self._put(guest, node)

    def leave(self, key: Key) -> None:
        """The pod has ended, or is gone, or no longer wants a node."""
        self._given.pop(key, None)
        self._stop_waiting(key)
        self._release(key)

    def give_back(self, guest: Guest) -> None:
        """The pod did not get to the node that it was given, if nobody has seen it there: it waits as before."""
        waiting = self._given.get(guest.key)
        if waiting is not None and waiting.guest is guest:
            del self._given[guest.key]
            self._release(guest.key)
            self._enter(waiting)

    def _release(self, key: Key) -> None:
        """What the pod took is free again."""
        if self._site.remove(key) is not None:
            if self._room is not None:
                self._room.left(key)
            self._reopen()

    def _put(self, guest: Guest, node: str) -> None:
        self._site.place(guest, node)
        if self._room is not None and self._room.name == node:
            self._room.let_in(guest)
        for line in self._near:
            # The company that somebody has been waiting for may just have come.
            if any(term.selection.holds(guest.key[0], guest.labels) for term in line.key.demand.near):
                line.reopen()

    def _stop_waiting(self, key: Key) -> None:
        known = self._waiting.pop(key, None)
        if known is None:
            return
        waiting, line = known
        line.remove(waiting)
        self._untold.pop(waiting, None)
        if not line:
            del self._lines[line.key]
            self._near.pop(line, None)
            self._site.crowds.forget(line.key.demand.terms)
        if self._room is not None and self._room.waiting is waiting:
            self._room = None
            self._reopen()

    def _reopen(self) -> None:
        for line in self._lines.values():
            line.reopen()

    # What to do.

    def decide(self, now: float, most: int) -> Sequence[Binding]:
        """Up to *most* pods and their nodes. Fewer: nobody else can be given a node at present."""
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
                waiting = line.first()
                if waiting is None:
                    continue
                if (node := self._try(waiting, line)) is not None:
                    self._give(waiting, node.facts.name)
                    found.append(Binding(waiting.guest, node.facts.name))
                if line.closed is None and (then := line.first()) is not None:
                    heappush(heads, (then.rank, line))

    def _heads(self) -> list[tuple[Rank, Line]]:
        """The lines worth trying, as a heap."""
        firsts = ((line.first(), line) for line in self._lines.values() if line.closed is None)
        heads = [(waiting.rank, line) for waiting, line in firsts if waiting is not None]
        heapify(heads)
        return heads

    def _give(self, waiting: Waiting, node: str) -> None:
        self._stop_waiting(waiting.guest.key)
        self._given[waiting.guest.key] = waiting
        self._put(waiting.guest, node)

    def _try(self, waiting: Waiting, line: Line) -> Node | None:
        """The node for this pod; or None, and the line knows why."""
        guest, nodes = waiting.guest, self._site.nodes
        company = company_of(guest, self._site)
        fit: list[Node] = []
        reasons: list[str] = []
        personal = False
        for name, node in nodes.items():
            if name not in line.refusals:
                line.refusals[name] = refusal(guest.demand, node.facts)
            if (why := line.refusals[name]) is not None:
                reasons.append(why)
            elif short := shortages(guest.demand, node):
                reasons += short
            elif company is not None and (why := company.refusal(node.facts)) is not None:
                reasons.append(why)
                personal |= why == SHUNNED
            elif self._room is not None and self._room.refuses(guest, waiting.priority, node):
                reasons.append(KEPT)
            elif self._room is not None and self._room.repels(guest, waiting.priority, node):
                reasons.append(KEPT)
                personal = True
            else:
                fit.append(node)
        if fit:
            return best(guest, fit, self._site)
        why = verdict(len(nodes), reasons)
        if personal:
            line.set_aside(waiting, why)
        else:
            line.closed = why
        return None

    def _keep_room(self, now: float) -> bool:
        """Room for the first that has waited too long; True when other pods are worth trying again for that."""
        room = self._room
        for waiting in self._impatient(now):
            if room is not None and room.waiting is waiting:
                other = moved(room, self._site, now, self._patience) if now >= room.review else None
            else:
                other = keep_room(waiting, self._site, now, self._patience)
                if other is None:
                    continue
            if other is None:
                return False
            self._room = other
            if room is not None:
                self._reopen()
            return room is not None
        return False

    def _impatient(self, now: float) -> list[Waiting]:
        """Of each line the one that has waited longest, if it has waited too long, by rank."""
        firsts = (line.longest() for line in self._lines.values())
        late = [waiting for waiting in firsts if waiting.since + self._patience <= now]
        return sorted(late, key=lambda waiting: waiting.rank)

    def next_look(self, now: float) -> float | None:
        """When to decide again even if nothing has changed; None: not before something has."""
        times = [line.longest().since + self._patience for line in self._lines.values()]
        if self._room is not None:
            times.append(self._room.review)
        return min((time for time in times if time > now), default=None)

    # What to tell.

    def answer(self, key: Key) -> str | None:
        """Why the pod has no node; None when that is not known, or it has one."""
        known = self._waiting.get(key)
        return known[1].answer(known[0]) if known is not None else None

    def untold(self) -> Iterator[Key]:
        """Those that have come since the last time and had to wait."""
        told = [waiting for waiting in self._untold if self.answer(waiting.guest.key) is not None]
        for waiting in told:
            del self._untold[waiting]
            yield waiting.guest.key

    def waiting(self) -> Iterator[Key]:
        """Everybody who waits."""
        return iter(self._waiting)


def _same(one: Guest, other: Guest) -> bool:
    return one.uid == other.uid and one.labels == other.labels and one.leaving == other.leaving
