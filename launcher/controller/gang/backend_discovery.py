"""Who can place a gang in this cluster, by what its API server says that it serves."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.gang_request import DEFAULT_SCHEDULER, GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.errors import FieldError, InvalidObject, NotServed
from launcher.store.interface import Object

log = logging.getLogger(__name__)

#: Gives what the API server answers to a GET of that path.
Ask = Callable[[str], Awaitable[Object]]

#: Seconds for which what was found counts.
_FRESH: Final = 300.0
KUEUE_GROUP: Final = "kueue.x-k8s.io"
_KUEUE_RESOURCE: Final = "localqueues"


class BuiltinBackend(StrEnum):
    """Ways without a scheduler that knows of gangs."""

    KUEUE = "kueue"
    GATES = "gates"


Backend = PodGroupBackend | BuiltinBackend


@dataclass(frozen=True, slots=True)
class AvailableBackends:
    """What of all that could place gangs is there."""

    #: In the order in which they are taken.
    shapes: tuple[PodGroupBackend, ...] = ()
    #: The version of Kueue's API; empty when there is none.
    kueue: str = ""

    @property
    def has_volcano(self) -> bool:
        return volcano.SHAPE in self.shapes

    def by_name(self, name: str) -> Backend:
        """Who placed the pods with that label. Raises NotServed when they are not there any more."""
        if name == BuiltinBackend.GATES or (name == BuiltinBackend.KUEUE and self.kueue):
            return BuiltinBackend(name)
        for shape in self.shapes:
            if shape.backend == name:
                return shape
        raise NotServed(f"the gang is placed by {name}, which this cluster does not have any more")


class BackendDiscovery:
    """Asks what there is, and remembers it for some minutes."""

    def __init__(self, ask: Ask, clock: Callable[[], float]) -> None:
        self._ask, self._clock = ask, clock
        self._known: AvailableBackends | None = None
        self._until = 0.0

    async def served(self) -> AvailableBackends:
        """What is there. Raises Unavailable when that cannot be known now."""
        if self._known is None or self._clock() >= self._until:
            self._known = await self._look()
            self._until = self._clock() + _FRESH
        return self._known

    def forget(self) -> None:
        """Something was not there: look again before the next gang."""
        self._known = None

    async def _look(self) -> AvailableBackends:
        groups = {one["name"]: _versions(one) for one in (await self._ask("/apis")).get("groups") or ()}
        shapes: list[PodGroupBackend] = []
        for shape in native.SHAPES:
            if await self._has(groups, native.GROUP, shape.kind.version, shape.kind.plural):
                shapes.append(shape)
                break
        shapes += [
            shape
            for shape in (volcano.SHAPE, scheduler_plugins.SHAPE)
            if await self._has(groups, shape.kind.group, shape.kind.version, shape.kind.plural)
        ]
        kueue = ""
        for version in groups.get(KUEUE_GROUP, ()):
            if await self._has(groups, KUEUE_GROUP, version, _KUEUE_RESOURCE):
                kueue = version
                break
        served = AvailableBackends(tuple(shapes), kueue)
        if served != self._known:
            found = [shape.kind.resource for shape in shapes] + [f"{KUEUE_GROUP}/{kueue}"] * bool(kueue)
            log.info("looked for who places gangs", extra={"found": found})
        return served

    async def _has(self, groups: Mapping[str, list[str]], group: str, version: str, plural: str) -> bool:
        """Whether objects of that kind can be made: of an old group there may be others in that version."""
        if version not in groups.get(group, ()):
            return False
        try:
            found = await self._ask(f"/apis/{group}/{version}")
        except NotServed:
            return False  # it went between the two questions
        return any(one.get("name") == plural for one in found.get("resources") or ())


def _versions(group: Mapping[str, Any]) -> list[str]:
    """Every version, the preferred one first."""
    return [one["version"] for one in group.get("versions") or ()]


def choice(wanted: GangRequest, served: AvailableBackends, queue: str) -> Backend:
    """
    Who places this gang, which is to wait in that *queue* of Kueue, if any.

    Raises InvalidObject when it asks for a queue and nobody has any.
    """
    named = wanted.schedulers()
    possible = _by_scheduler(named, served)
    # Volcano has queues too: for pods that name it, a queue is one of its own.
    if queue and served.kueue and not (volcano.SCHEDULER in named and served.has_volcano):
        return BuiltinBackend.KUEUE
    if wanted.gang.queue:
        if volcano.SHAPE not in possible:
            raise InvalidObject((FieldError("spec.gang.queue", _no_queues(wanted, served)),))
        return volcano.SHAPE
    return next(iter(possible), BuiltinBackend.GATES)


def _by_scheduler(named: frozenset[str], served: AvailableBackends) -> Sequence[PodGroupBackend]:
    """Those that can work with the schedulers that the pods name, the one to take first."""
    if volcano.SCHEDULER in named and served.has_volcano:
        return [volcano.SHAPE]
    others = [shape for shape in served.shapes if shape is not volcano.SHAPE]
    if named - {DEFAULT_SCHEDULER}:
        # One of another name is most likely the one that has the plugin.
        return sorted(others, key=lambda shape: shape is not scheduler_plugins.SHAPE)
    return others if named else served.shapes


def _no_queues(wanted: GangRequest, served: AvailableBackends) -> str:
    looked = f"{_KUEUE_RESOURCE}.{KUEUE_GROUP} and {volcano.KIND.resource}"
    why = f"this cluster has no queues (looked for {looked})"
    if served.has_volcano:
        why = f"there is no {_KUEUE_RESOURCE}.{KUEUE_GROUP}, and with schedulerName "
        why += f"{' and '.join(sorted(wanted.schedulers()))} the pods do not go to Volcano's queues"
    return f'Invalid value: "{wanted.gang.queue}": {why}: install Kueue or Volcano, or leave the queue out'
