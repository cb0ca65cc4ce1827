"""
The controller: it hears that something changed, looks at everything, asks the core, saves, then acts.

Each Framework is worked on by one worker at a time. Its status is stored before any action that follows from it, so
after a crash it names every pod that there may be. Errors of one Framework never touch another.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.controller.attempt_hook import AttemptHook
from launcher.controller.framework_state import FrameworkState, Validator
from launcher.controller.pod_control import PodControl
from launcher.core.errors import Conflict, LauncherError, NotFound, OutcomeUnknown
from launcher.core.names import PodIdentityKey
from launcher.core.planning.actions import ListPodsLive, ObjectEvent
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import PlanResult
from launcher.core.pods.observed_pod import ObservedPod, pod_from_json
from launcher.core.role_order import SEQUENCE_ANNOTATION, annotated
from launcher.core.spec import PodName
from launcher.core.status import State
from launcher.core.validation.framework import validation_errors
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, Informer
from launcher.store.interface import FRAMEWORKS, PODS, Key, Object, ResourceKind, Store, version_of
from launcher.store.object_errors import object_errors
from launcher.store.selectors import parse
from launcher.store.work_queue import WorkQueue

log = logging.getLogger(__name__)


#: The reason of the event.
REASON = "RoleSequence"


def log_sequence(obj: Object) -> str | None:
    """Log the sequence of that Framework in the words of Arena's operator, and return them; None without a sequence."""
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    known = [role["name"] for role in obj["spec"].get("taskRoles") or ()]
    roles = obj["spec"].get("roleSequence") or annotated(annotations, known)[0]
    if not roles:
        return None
    # The log line of Arena's operator has the roles as its users wrote them.
    written = annotations.get(SEQUENCE_ANNOTATION)
    names = written.replace(",", " ") if written else " ".join(roles)
    message = f"the Role Sequence of job {metadata['name']} is: [{names}]"
    log.info(message, extra={"job": f"{metadata['namespace']}.{metadata['name']}", "uid": metadata["uid"]})
    return message


#: Seconds by which a timer may ring before its time: what the clock of a loop cannot tell apart, and more.
_EARLY = 0.001
_COMPONENT, _RECONCILER = "controller", "framework-reconciler"
#: Only pods that say they belong to a Framework are of interest.
FRAMEWORK_PODS = parse(labels=PodIdentityKey.FRAMEWORK_NAME)


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How often and how widely the controller works."""

    #: Frameworks worked on at the same time.
    workers: int = 16
    #: Calls to the store under way at the same time, over all Frameworks.
    calls: int = 64
    #: Seconds between two looks at one Framework, per task: keeps the cost of saving a large status small.
    min_interval_seconds_per_task: float = 50e-6
    #: A status that nothing waits for is saved this many seconds after its first change, with all that came since.
    coalesce_seconds: float = 0.1
    #: And so many more for each task: to write a large one down, and for others to read it, is as much more work.
    gather_per_task: float = 0.0
    #: And so many more for each other Framework whose status waits: many small ones are as much work as a large one.
    gather_per_framework: float = 0.0
    #: Not before this many seconds while there are pods and none has run: it says nothing then that they do not say.
    gather_at_first: float = 0.0
    #: No more than this many seconds for the sake of other Frameworks.
    longest_gather: float = 5.0
    #: Seconds between two events, when there are many.
    event_pause: float = 0.0
    #: However far away the next deadline: look again after this many seconds, should the clock have jumped.
    max_requeue_seconds: float = 600.0


@dataclass(slots=True)
class PodIndex:
    """Every pod of ours, by the Framework that it belongs to."""

    pods: dict[Key, dict[PodName, ObservedPod]] = field(default_factory=dict)
    #: Whose pod a name is, for the day it is gone.
    owners: dict[Key, Key] = field(default_factory=dict)

    def of(self, framework: Key, uid: str) -> list[ObservedPod]:
        """The pods that the Framework of that uid controls."""
        return [pod for pod in self.pods.get(framework, {}).values() if pod.owner == uid]

    def put(self, key: Key, framework: Key, pod: ObservedPod) -> None:
        self.pods.setdefault(framework, {})[pod.name] = pod
        self.owners[key] = framework

    def drop(self, key: Key) -> Key | None:
        """Whose pod it was."""
        framework = self.owners.pop(key, None)
        if framework is not None:
            shelf = self.pods[framework]
            shelf.pop(PodName(key[1]), None)
            if not shelf:
                del self.pods[framework]
        return framework


class FrameworkController:
    """Runs every Framework of a store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
        rules: PlannerOptions | None = None,
        pace: ControllerOptions | None = None,
        check: Validator = validation_errors,
        attendants: Sequence[AttemptHook] = (),
    ) -> None:
        """*check* tells what is wrong with a Framework that others should not have let pass: it is not run then."""
        self._check = check
        self._store, self._clock, self._chance = store, clock, chance
        self._rules, self._pace = rules or PlannerOptions(), pace or ControllerOptions()
        self._queue: WorkQueue[Key] = WorkQueue()
        self._stopping = asyncio.Event()
        self._desks: dict[Key, FrameworkState] = {}
        #: Frameworks whose status has changed and is not saved yet.
        self._gathering: set[Key] = set()
        self._shelf = PodIndex()
        self._frameworks = Informer(
            store,
            FRAMEWORKS,
            EventHandlerFuncs(self.on_framework_upsert, self.framework_gone),
            chance=chance,
            component=_COMPONENT,
        )
        self._pods = Informer(
            store,
            PODS,
            EventHandlerFuncs(self.pod_seen, self.on_pod_delete),
            FRAMEWORK_PODS,
            chance=chance,
            component=_COMPONENT,
        )
        self._events = EventRecorder(store, clock, pause=self._pace.event_pause)
        self._hands = PodControl(store, self._pods, self._pace.calls, attendants)

    async def run(self) -> None:
        """
        Work until ``stop``, then finish what is under way and save what is known.

        Cancelled, it ends at once. Nothing is lost by that either: what was not saved is thought of again.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            ears = [group.create_task(self._pods.run())]
            # First, so that no Framework is looked at without its pods.
            await self._first_of(self._pods.synced, self._stopping)
            ears.append(group.create_task(self._frameworks.run()))
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._pace.workers):
                    workers.create_task(self._work())
            for ear in ears:
                ear.cancel()
            await self._save_all()
            self._events.close()

    def stop(self) -> None:
        """Take nothing more on; ``run`` returns when what is under way is done."""
        self._stopping.set()
        self._queue.close()

    def counts(self, kind: ResourceKind) -> Mapping[str, int]:
        """How many Frameworks are in each state, or pods of theirs in each phase."""
        if kind == FRAMEWORKS:
            return Counter(desk.planner.state.value for desk in self._desks.values())
        return Counter(pod.phase for pods in self._shelf.pods.values() for pod in pods.values())

    @staticmethod
    async def _first_of(*events: asyncio.Event) -> None:
        waiting = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    # What the informers tell.

    def on_framework_upsert(self, key: Key, obj: Object) -> None:
        desk = self._desks.get(key)
        try:
            if desk is None or desk.uid != obj["metadata"]["uid"]:
                pods = self._shelf.of(key, obj["metadata"]["uid"])
                desk = self._desks[key] = FrameworkState(obj, self._rules, pods, self._check)
                if not desk.framework.fault:
                    self._report_sequence(desk, obj)
            elif not desk.observe(obj):
                return
        except Exception as error:
            # Somebody wrote past every check. It is told, and left alone until it changes.
            self._desks.pop(key, None)
            self._events.record(
                obj, [ObjectEvent("CannotBeRead", f"{type(error).__name__}: {error}", warning=True)]
            )
            raise
        self._queue.add(key)

    def _report_sequence(self, desk: FrameworkState, obj: Object) -> None:
        """Log the order of the roles; for a new Framework it is an event as well, which its user can read."""
        message = log_sequence(obj)
        if message is not None and not obj.get("status"):
            self._events.record(desk.reference, [ObjectEvent(REASON, message)])

    def framework_gone(self, key: Key) -> None:
        self._desks.pop(key, None)
        self._gathering.discard(key)
        self._queue.forget(key)
        object_errors.resolve(_RECONCILER, FRAMEWORKS.plural, key)

    def pod_seen(self, key: Key, obj: Object) -> None:
        pod = pod_from_json(obj)
        framework = (key[0], obj["metadata"]["labels"][PodIdentityKey.FRAMEWORK_NAME])
        if self._shelf.owners.get(key, framework) != framework:
            self.on_pod_delete(key)
        self._shelf.put(key, framework, pod)
        desk = self._desks.get(framework)
        if desk is not None and desk.uid == pod.owner:
            desk.planner.attempt_state.observe_pod(pod)
            self._queue.add(framework)

    def on_pod_delete(self, key: Key) -> None:
        framework = self._shelf.drop(key)
        desk = self._desks.get(framework) if framework is not None else None
        if framework is not None and desk is not None and PodName(key[1]) in desk.planner.attempt_state.pods:
            desk.planner.attempt_state.pod_deleted(PodName(key[1]))
            self._queue.add(framework)

    # Work.

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            try:
                await self._process(key)
            finally:
                self._queue.done(key)
            await asyncio.sleep(0)  # others get their turn, also when nothing had to be waited for

    async def _process(self, key: Key) -> None:
        """Look at one Framework; whatever goes wrong stays with it."""
        desk = self._desks.get(key)
        if desk is None:
            return
        try:
            await self._reconcile(desk)
            object_errors.resolve(_RECONCILER, FRAMEWORKS.plural, key)
            return
        except LauncherError as error:
            log.warning("framework could not be worked on", extra={"framework": key, "why": str(error)})
            self._hands.apply_retry_after(desk, error)
        except Exception as error:  # a bug shows on one Framework, and must not end the others
            if object_errors.record(_RECONCILER, FRAMEWORKS.plural, key, error):
                self._events.record(
                    desk.reference,
                    [ObjectEvent("InternalError", f"{type(error).__name__}: {error}", warning=True)],
                )
        desk.planner.attempt_state.enqueue_all()  # whatever was to be done is thought of again
        desk.failed = True
        self._requeue_unfinished(desk)

    async def _reconcile(self, desk: FrameworkState) -> None:
        now = asyncio.get_running_loop().time()
        rests_until = max(desk.not_before, desk.retry_at if desk.failed else 0.0)
        if rests_until - now > _EARLY:
            self._queue.add_after(desk.key, rests_until - now)
            return
        await self._hands.confirm_creations(desk)
        if desk.status_unconfirmed:
            await self._confirm_status_write(desk)
            if self._desks.get(desk.key) is not desk:
                return
        if desk.retry_at - now <= _EARLY:
            for name in desk.retry_pods:
                desk.planner.attempt_state.enqueue(name)
            desk.retry_pods.clear()
            desk.failed = False
        look = await self._plan_and_execute(desk)
        while look is not None and ListPodsLive() in look.actions:
            await self._hands.refresh_pods(desk)
            look = await self._plan_and_execute(desk, fresh=True)
        if look is not None and look.requeue_at is not None:
            nap = max(0.001, look.requeue_at - self._clock())
            self._queue.add_after(desk.key, min(nap, self._pace.max_requeue_seconds))
        self._requeue_unfinished(desk)

    async def _plan_and_execute(self, desk: FrameworkState, *, fresh: bool = False) -> PlanResult | None:
        """One look, saved and acted upon; None when the status could not be saved."""
        look = desk.planner.plan(self._clock(), chance=self._chance(), fresh=fresh)
        self._events.record(desk.reference, look.notices)
        actions = [action for action in look.actions if not isinstance(action, ListPodsLive)]
        # Saved before acted on: after a crash the status still names every pod there may be.
        if not desk.planner.changed:
            desk.save_by = None
            self._gathering.discard(desk.key)
            is_current = not actions or await self._is_current(desk)
        else:
            is_current = not self._is_time_to_save(desk, look) or await self._save(desk)
        if not is_current:
            desk.planner.attempt_state.enqueue_all()  # the actions, if they are still right, are thought of again
            return None
        await self._hands.execute(desk, actions)
        if any(step.role is None and step.after is State.COMPLETED for step in look.steps):
            await self._hands.finish(desk)
        return look

    def _is_time_to_save(self, desk: FrameworkState, look: PlanResult) -> bool:
        if look.actions or desk.planner.is_completed:
            return True
        return self._flush_in(desk) <= _EARLY

    def _flush_in(self, desk: FrameworkState) -> float:
        """Seconds that a change may still wait for others, to be saved with them."""
        now, pace = asyncio.get_running_loop().time(), self._pace
        self._gathering.add(desk.key)
        others = min(pace.gather_per_framework * (len(self._gathering) - 1), pace.longest_gather)
        patience = pace.coalesce_seconds + pace.gather_per_task * desk.tasks + others
        if desk.planner.attempt_state.pods and not desk.planner.has_run:
            patience = max(patience, pace.gather_at_first + others)
        latest = now + patience
        desk.save_by = latest if desk.save_by is None else min(desk.save_by, latest)
        return desk.save_by - now

    async def _save(self, desk: FrameworkState) -> bool:
        """Store the status; False when the Framework is not what it was and has to be looked at again."""
        desk.not_before = (
            asyncio.get_running_loop().time() + self._pace.min_interval_seconds_per_task * desk.tasks
        )
        try:
            saved = desk.status_stored(await self._store.update_status(FRAMEWORKS, desk.status_update()))
            self._gathering.discard(desk.key)
            return saved
        except NotFound:
            self.framework_gone(desk.key)
            return False
        except (Conflict, OutcomeUnknown) as error:
            log.info("settling a status write", extra={"framework": desk.key, "why": str(error)})
        desk.status_unconfirmed = True
        return await self._confirm_status_write(desk)

    async def _confirm_status_write(self, desk: FrameworkState) -> bool:
        """Find out whether the status as it was last sent is stored."""
        live = await self._live(desk)
        if live is None:
            return False
        desk.status_unconfirmed = False
        return desk.settle(live)

    async def _is_current(self, desk: FrameworkState) -> bool:
        """
        Whether the store has the Framework as it is known here.

        Asked before anything is done that no status write has gone before: a pod that seems to be left over may
        well belong to what another leader, or a user, has decided since.
        """
        live = await self._live(desk)
        if live is None:
            return False
        if version_of(live) == desk.version:
            return True
        self.on_framework_upsert(desk.key, live)
        return False

    async def _live(self, desk: FrameworkState) -> Object | None:
        """The Framework as the store has it now; None when it is gone, or another has its name."""
        try:
            live = await self._store.get(FRAMEWORKS, *desk.key)
        except NotFound:
            self.framework_gone(desk.key)
            return None
        if live["metadata"]["uid"] == desk.uid:
            return live
        self.on_framework_upsert(desk.key, live)
        return None

    async def _save_all(self) -> None:
        for desk in [desk for desk in self._desks.values() if desk.planner.changed]:
            try:
                if not desk.status_unconfirmed or not await self._confirm_status_write(desk):
                    await self._save(desk)
            except LauncherError as error:
                log.warning("status not saved at the end", extra={"framework": desk.key, "why": str(error)})
            except Exception as error:  # the others are still to be saved
                object_errors.record(_RECONCILER, FRAMEWORKS.plural, desk.key, error)

    def _requeue_unfinished(self, desk: FrameworkState) -> None:
        """See to it that whatever is left undone is looked at again."""
        now = asyncio.get_running_loop().time()
        if desk.planner.attempt_state.has_queued and not desk.failed:
            self._queue.add(desk.key)
        if desk.planner.changed:  # by what came of the actions, or not worth a write of its own
            self._queue.add_after(desk.key, self._flush_in(desk))
        if not (desk.retry_pods or desk.failed or desk.needs_preparing):
            desk.pauses.reset()
            return
        if desk.retry_at - now <= _EARLY:
            desk.retry_at = now + desk.pauses.next_delay()
        self._queue.add_after(desk.key, desk.retry_at - now)
