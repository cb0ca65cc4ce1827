"""
Whether many pods at once fit the nodes of a cluster, by what they ask for: a try, on paper.

Pods are tried as a scheduler would take them, the greediest first, each on the emptiest of some nodes that it fits. So
if all find a place here, a scheduler that takes them in that order is likely to find one too. What it looks at beside
requests, ports, labels, taints and other pods, such as volumes, is not looked at.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo, facts_of
from launcher.scheduling.feasibility import (
    company_of,
    insufficient_resources,
    is_crowded,
    static_mismatch,
    unschedulable_message,
)
from launcher.scheduling.pod_info import guest_of
from launcher.scheduling.pod_requirements import PodRequirements
from launcher.scheduling.scoring import highest_scoring
from launcher.store.interface import Key, Object, key_of

log = logging.getLogger(__name__)

#: Of so many nodes that a pod fits, the best is taken; looking at all of a thousand for each of many pods takes long.
_ENOUGH: Final = 16


class ClusterCapacity:
    """The nodes of a cluster and what is taken of them."""

    def __init__(self) -> None:
        self._site = ClusterState()
        #: Where the next search begins, so that not all pods go to the first nodes.
        self._next = 0
        #: Those that have been promised room and have no node yet, as far as is known.
        self._promised: dict[Key, PodInfo] = {}
        #: Something has changed since those of them who have no place were last tried.
        self._has_changed = False

    def set_node(self, node: Object) -> None:
        """The node is there, as its object says."""
        name = node["metadata"]["name"]
        try:
            if not self._site.set_node(facts_of(node)):
                return
        except ValueError as error:
            log.warning("node cannot be counted", extra={"node": name, "why": str(error)})
            self.drop_node(name)
        else:
            self._make_way(name)

    def drop_node(self, name: str) -> None:
        """The node is no longer there."""
        self._move_out([key for key in self._promised if self._site.node_of(key) == name])
        self._site.drop_node(name)

    def put(self, pod: Object) -> None:
        """The pod takes what it asks for of the node that it names."""
        key, node = key_of(pod), pod["spec"]["nodeName"]
        self._promised.pop(key, None)
        known = self._site.guest(key)
        if known is not None and known.uid == pod["metadata"]["uid"] and self._site.node_of(key) == node:
            return
        try:
            self._site.place(guest_of(pod), node)
        except ValueError as error:
            log.warning("pod on a node cannot be counted", extra={"pod": key, "why": str(error)})
            self._site.remove(key)
        self._make_way(node)

    def drop(self, key: Key) -> None:
        """The pod takes nothing any more."""
        self._promised.pop(key, None)
        self._has_changed |= self._site.remove(key) is not None

    def reserve(self, pods: Sequence[Object], least: int) -> str | None:
        """
        None when there is room for *least* of these pods: it is taken, and so is room for the others that fit.

        Else why there is not, and they have nothing. What is taken is so until the pod is ``put`` or ``drop``-ped.
        """
        try:
            guests = [guest for guest in map(guest_of, pods) if not self._has_node(guest)]
        except ValueError as error:
            return f"a pod cannot be read: {error}"
        for guest in guests:
            self._promised.pop(guest.key, None)
            self._site.remove(guest.key)  # what it was promised before is not in its own way
        self._house()
        trial = self._seat(guests)
        fit = len(pods) - len(guests) + len(trial.seated)
        if fit < least:
            trial.undo()
            return f"{fit} of {len(pods)} tasks fit now, {least} have to: {trial.why}"
        self._promised.update((guest.key, guest) for guest in guests)
        return None

    def _has_node(self, guest: PodInfo) -> bool:
        """Whether that pod was ``put`` on one."""
        known = self._site.guest(guest.key)
        return known is not None and known.uid == guest.uid and guest.key not in self._promised

    def _make_way(self, name: str) -> None:
        """
        That node has changed, or who is there: those who were promised room there have to go elsewhere, if it is full.

        A pod that was thought to go to one node and went to another takes somebody's place, and the place that it was
        thought to take is free only as long as that somebody has not been given another.
        """
        self._has_changed = True
        node = self._site.nodes.get(name)
        if self._site.crowds:
            self._move_out([*self._promised])  # who may be where can have changed on all nodes
        elif node is not None and is_crowded(node):
            self._move_out([key for key in node.guests if key in self._promised])

    def _move_out(self, keys: Iterable[Key]) -> None:
        """Those were promised room, and have none for the moment."""
        for key in keys:
            self._site.remove(key)
            self._has_changed = True

    def _house(self) -> None:
        """Whoever was promised room has it as things are now, before anybody else, as far as there is any."""
        if self._has_changed:
            self._seat([guest for key, guest in self._promised.items() if self._site.guest(key) is None])
            self._has_changed = False

    def _seat(self, guests: Sequence[PodInfo]) -> "_Trial":
        trial = _Trial(self._site, self._next)
        greed = {demand: self._dominant_share(demand) for demand in {guest.demand for guest in guests}}
        for guest in sorted(guests, key=lambda guest: (-greed[guest.demand], guest.key)):
            trial.seat(guest)
        self._next = trial.next
        return trial

    def _dominant_share(self, demand: PodRequirements) -> float:
        """The largest share of all that there is of something."""
        return max(amount / (self._total(name) or 1) for name, amount in demand.amounts.items())

    def _total(self, resource: str) -> int:
        return sum(node.facts.allocatable.get(resource, 0) for node in self._site.nodes.values())


class _Trial:
    """Pods put on nodes, and taken off again if it comes to nothing."""

    def __init__(self, site: ClusterState, first: int) -> None:
        self._site = site
        self._nodes = list(site.nodes.values())
        self.next = first
        self.seated: list[PodInfo] = []
        #: Why somebody had no place.
        self.why = ""
        #: Nodes that a demand has not been turned away by; room only gets less, so who is full stays full.
        self._open: dict[PodRequirements, deque[NodeInfo]] = {}
        #: What has no place at all any more.
        self._hopeless: set[PodRequirements] = set()

    def seat(self, guest: PodInfo) -> None:
        """Put the pod where it fits, if it fits anywhere."""
        demand = guest.demand
        self._site.crowds.ask(demand.terms)
        try:
            if demand in self._hopeless:
                return
            fit = list(self._fit(guest))
            if fit:
                self._site.place(guest, highest_scoring(guest, fit, self._site).facts.name)
                self.seated.append(guest)
                return
            self.why = self.why or self._verdict(guest)
            if not demand.affinity:  # whom it wants to be near may still come
                self._hopeless.add(demand)
        finally:
            self._site.crowds.forget(demand.terms)

    def _fit(self, guest: PodInfo) -> Iterator[NodeInfo]:
        """Some nodes that the pod fits."""
        demand = guest.demand
        nodes = self._open.get(demand)
        if nodes is None:
            nodes = self._open[demand] = deque(
                node for node in self._nodes if static_mismatch(demand, node.facts) is None
            )
            nodes.rotate(-self.next)
        company = company_of(guest, self._site)
        found = 0
        for _ in range(len(nodes)):
            node = nodes.popleft()
            if insufficient_resources(demand, node):
                continue
            # To the end of the line: the next pod looks at others first.
            nodes.append(node)
            if company is None or company.refusal(node.facts) is None:
                yield node
                found += 1
                if found == _ENOUGH:
                    break
        self.next += found

    def _verdict(self, guest: PodInfo) -> str:
        company = company_of(guest, self._site)
        reasons: list[str] = []
        for node in self._nodes:
            told = static_mismatch(guest.demand, node.facts)
            if told is None and company is not None:
                told = company.refusal(node.facts)
            reasons += insufficient_resources(guest.demand, node) if told is None else [told]
        return f"pod {guest.key[1]}: {unschedulable_message(len(self._nodes), reasons)}"

    def undo(self) -> None:
        for guest in self.seated:
            self._site.remove(guest.key)
