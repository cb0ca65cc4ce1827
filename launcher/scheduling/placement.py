"""The nodes as those find them who want to go there: who is there already, and what is kept for others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from launcher.scheduling.bin_packing import Assignment, by_size, has_affinity, packed
from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.feasibility import (
    EXISTING_ANTI_AFFINITY,
    KEPT,
    company_of,
    insufficient_resources,
    static_mismatch,
    unschedulable_message,
)
from launcher.scheduling.pod_requirements import PodRequirements
from launcher.scheduling.reservation import Reservation
from launcher.scheduling.scheduling_queue import EquivalenceClass, QueuedPod, SchedulingUnit
from launcher.scheduling.scoring import highest_scoring
from launcher.store.interface import Key

Choose = Callable[[PodInfo, Sequence[NodeInfo]], NodeInfo | None]


@dataclass(slots=True)
class FeasibilityReport:
    """Which nodes a pod fits at present, and why not the others."""

    fit: list[NodeInfo] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    #: What is in the way has to do with this pod's own labels: others that ask for the same need not meet it.
    depends_on_pod_labels: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Seats for a party; or none, and why."""

    seats: Assignment = field(default_factory=dict)
    why: str = ""
    personal: bool = False


class PlacementSearch:
    """The site and the room that is kept on it, as the first of a line finds them."""

    def __init__(self, site: ClusterState, room: Reservation | None, line: EquivalenceClass) -> None:
        self._site, self._room = site, room
        self._refusals, self._priority = line.refusals, line.key.priority

    def seats(self, party: SchedulingUnit) -> Placement:
        """Nodes for as many of the party as it needs, or for none. The site is left as it was."""
        if len(party.members) > 1:
            return _Table(self, self._site, party).find(self._room)
        member = party.members[0]
        survey = self.survey(member)
        if survey.fit:
            return Placement(
                {member.guest.key: highest_scoring(member.guest, survey.fit, self._site).facts.name}
            )
        return Placement(why=self.words(survey), personal=survey.depends_on_pod_labels)

    def words(self, survey: FeasibilityReport) -> str:
        return unschedulable_message(len(self._site.nodes), survey.reasons)

    def survey(self, member: QueuedPod) -> FeasibilityReport:
        guest, room, found = member.guest, self._room, FeasibilityReport()
        company = company_of(guest, self._site)
        known = self._refusals_of(guest.demand)
        for name, node in self._site.nodes.items():
            if (why := known[name]) is not None:
                found.reasons.append(why)
            elif short := insufficient_resources(guest.demand, node):
                found.reasons += short
            elif company is not None and (why := company.refusal(node.facts)) is not None:
                found.reasons.append(why)
                found.depends_on_pod_labels |= why == EXISTING_ANTI_AFFINITY
            elif room is not None and room.refuses(guest, self._priority, node):
                found.reasons.append(KEPT)
            elif room is not None and room.repels(guest, self._priority, node):
                found.reasons.append(KEPT)
                found.depends_on_pod_labels = True
            else:
                found.fit.append(node)
        return found

    def never(self, demand: PodRequirements, node: NodeInfo) -> bool:
        """Whether the node would not have such a pod even if it were empty."""
        return self._refusals_of(demand)[node.facts.name] is not None

    def _refusals_of(self, demand: PodRequirements) -> Mapping[str, str | None]:
        """Of each node why it would not have such a pod even if it were empty; asked once, until nodes change."""
        known = self._refusals.get(demand)
        if known is None:
            nodes = self._site.nodes.items()
            known = self._refusals[demand] = {
                name: static_mismatch(demand, node.facts) for name, node in nodes
            }
        return known

    @contextmanager
    def trying(self) -> Iterator[Callable[[PodInfo, str], None]]:
        """Inside, pods can be put on nodes for the time being."""
        put: list[Key] = []

        def seat(guest: PodInfo, node: str) -> None:
            put.append(guest.key)
            self._site.place(guest, node)
            if self._room is not None:
                self._room.let_in(guest, node)

        try:
            yield seat
        finally:
            for key in reversed(put):
                self._site.remove(key)
                if self._room is not None:
                    self._room.left(key)


class _Table:
    """The ways in which a party of several pods may find its seats, one after the other."""

    def __init__(self, ground: PlacementSearch, site: ClusterState, party: SchedulingUnit) -> None:
        self._ground, self._site, self._party = ground, site, party
        self._members = by_size(party, (node.facts for node in site.nodes.values()))
        #: What was in the way of the first for whom there was no seat.
        self._obstacle: FeasibilityReport | None = None
        self._personal = False

    def find(self, room: Reservation | None) -> Placement:
        mine = room is not None and room.party is self._party
        seats = self._seat(lambda guest, fit: highest_scoring(guest, fit, self._site))
        count, obstacle = len(seats), self._obstacle
        if not self._is_enough(seats) and room is not None and mine:
            seats = self._seat(_as_told(room.seats))
        if not self._is_enough(seats) and (
            tight := self._packed({} if room is None or mine else room.promised)
        ):
            seats = self._seat(_as_told(tight))
        if self._is_enough(seats):
            return Placement(seats)
        return Placement(why=self._words(count, obstacle), personal=self._personal)

    def _is_enough(self, seats: Assignment) -> bool:
        return len(seats) >= self._party.need

    def _words(self, count: int, obstacle: FeasibilityReport | None) -> str:
        need, total = self._party.need, len(self._party.members)
        size = f"gang of {total}" if need == total else f"gang of {total}, {need} at least"
        return f"{size}: {count} fit now" + (
            f"; {self._ground.words(obstacle)}" if obstacle is not None else ""
        )

    def _packed(self, limits: Mapping[str, NodeInfo]) -> Assignment | None:
        """Wherever there is room, however tight. Of pods that all ask for the same, no other choice takes more."""
        if len({member.guest.demand for member in self._members}) == 1 or has_affinity(self._party):
            return None
        nodes = list(self._site.nodes.values())
        return packed(self._party, nodes, self._may, limits)

    def _may(self, member: QueuedPod, node: NodeInfo) -> bool:
        company = company_of(member.guest, self._site)
        return not self._ground.never(member.guest.demand, node) and (
            company is None or company.refusal(node.facts) is None
        )

    def _seat(self, choose: Choose) -> Assignment:
        """One after the other, as many as can be had so."""
        seats: dict[Key, str] = {}
        left = self._members
        with self._ground.trying() as seat:
            while left:
                later = self._pass(left, choose, seat, seats)
                # Some may have waited for company that is there now.
                if len(later) == len(left) or not any(member.guest.demand.affinity for member in later):
                    break
                left = later
        return seats

    def _pass(
        self,
        members: Sequence[QueuedPod],
        choose: Choose,
        seat: Callable[[PodInfo, str], None],
        seats: dict[Key, str],
    ) -> list[QueuedPod]:
        """Those for whom there was no seat."""
        later: list[QueuedPod] = []
        hopeless: set[PodRequirements] = set()
        for member in members:
            guest = member.guest
            if guest.demand in hopeless:
                later.append(member)
                continue
            survey = self._ground.survey(member)
            node = choose(guest, survey.fit) if survey.fit else None
            if node is not None:
                seat(guest, node.facts.name)
                seats[guest.key] = node.facts.name
                continue
            later.append(member)
            self._obstacle = self._obstacle or survey
            self._personal |= survey.depends_on_pod_labels
            if not survey.fit and not survey.depends_on_pod_labels:
                hopeless.add(guest.demand)
        return later


def _as_told(seats: Assignment) -> Choose:
    """These seats, if they are free."""

    def choose(guest: PodInfo, fit: Sequence[NodeInfo]) -> NodeInfo | None:
        return next((node for node in fit if node.facts.name == seats.get(guest.key)), None)

    return choose
