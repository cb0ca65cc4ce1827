"""
Jobs of somebody else's kind, run by Frameworks: each has one, which follows it, and its status tells how that goes.

The Framework is owned by its job and has its name. It is made when the job is there, changed when the job's spec is,
and gone while the job is suspended. A Framework of that name that belongs to nobody, or to another, is left alone; one
of a deleted job of that name is waited for.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.core.errors import AlreadyExists, Conflict, FieldError, InvalidObject, LauncherError, NotFound
from launcher.core.manifest import validate_framework
from launcher.core.owner_references import controller_of, controller_reference
from launcher.core.planning.actions import ObjectEvent
from launcher.core.timestamps import parse_rfc3339
from launcher.job_kinds.job_kind import FOREIGN, JOB_KIND, JobKind, convert_job, translated
from launcher.job_kinds.job_progress import NOTHING_YET, Progress, progress_of
from launcher.job_kinds.job_status import (
    StatusContext,
    blocked,
    is_finished,
    looked,
    running,
    same,
    status_events,
    suspended,
)
from launcher.job_kinds.ownership import JobKindOwnership
from launcher.store.backoff import ExponentialBackoff
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, Informer
from launcher.store.interface import (
    FRAMEWORKS,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    Propagation,
    Store,
    key_of,
)
from launcher.store.object_errors import object_errors
from launcher.store.selectors import Selector
from launcher.store.work_queue import WorkQueue

log = logging.getLogger(__name__)

#: On a Framework: the generation of the job that it was last made to follow.
GENERATION = "launcher.microsoft.com/job-generation"

_WORKERS = 4
_COMPONENT, _RECONCILER = "job-controller", "job-reconciler"
#: However far away the end of a job's time is: look again after this many seconds, should the clock have jumped.
_LONGEST_NAP = 600.0


@dataclass(frozen=True, slots=True)
class _ObservedFramework:
    """A Framework, as far as its job is concerned."""

    uid: str
    owner: str
    #: The kind and the name of the owner.
    owned_by: tuple[str, str]
    generation: str
    is_going: bool
    progress: Progress


@dataclass(frozen=True, slots=True)
class _DesiredFramework:
    """What a job of that uid and generation wants: a Framework, or to be left alone, or nothing that can be done."""

    of: tuple[str, int]
    framework: Object
    #: Seconds for which the job is kept after its end; None: for ever.
    ttl: int | None = None
    problems: tuple[FieldError, ...] = ()

    @property
    def is_held(self) -> bool:
        return not self.problems and self.framework["spec"]["executionType"] == "Create"


class JobController:
    """Keeps a Framework for each job of one kind, and the status of each job true."""

    def __init__(
        self,
        store: Store,
        foreign: JobKind,
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
        forbidden: Callable[[Object], Sequence[FieldError]],
    ) -> None:
        """*forbidden* tells what a Framework asks for and may not: jobs also come past everybody who would refuse."""
        self._store, self._foreign, self._clock, self._forbidden = store, foreign, clock, forbidden
        self._queue: WorkQueue[Key] = WorkQueue()
        self._jobs: dict[Key, Object] = {}
        self._known: dict[Key, _ObservedFramework] = {}
        self._wishes: dict[Key, _DesiredFramework] = {}
        self._pauses: dict[Key, ExponentialBackoff] = {}
        self._events = EventRecorder(store, clock, foreign.family.operator)
        ours = Selector.labelled({JOB_KIND: foreign.family.kind})
        self._frameworks = Informer(
            store,
            FRAMEWORKS,
            EventHandlerFuncs(self.framework_seen, self.framework_gone),
            ours,
            chance=chance,
            component=_COMPONENT,
        )
        self._told = Informer(
            store,
            foreign.kind,
            EventHandlerFuncs(self.job_seen, self.job_gone),
            chance=chance,
            component=_COMPONENT,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._frameworks.run())
            # First, so that no job is looked at without its Framework.
            await self._frameworks.synced.wait()
            group.create_task(self._told.run())
            for _ in range(_WORKERS):
                group.create_task(self._work())

    # What the informers tell.

    def job_seen(self, key: Key, job: Object) -> None:
        self._jobs[key] = job
        self._queue.add(key)

    def job_gone(self, key: Key) -> None:
        for shelf in (self._jobs, self._wishes, self._pauses):
            shelf.pop(key, None)
        self._queue.forget(key)
        object_errors.resolve(_RECONCILER, self._foreign.plural, key)

    def framework_seen(self, key: Key, obj: Object) -> None:
        meta = obj["metadata"]
        owner = controller_of(meta)
        self._known[key] = _ObservedFramework(
            meta["uid"],
            owner.get("uid", ""),
            (owner.get("kind", ""), owner.get("name", "")),
            (meta.get("annotations") or {}).get(GENERATION, ""),
            "deletionTimestamp" in meta,
            progress_of(obj),
        )
        self._queue.add(key)

    def framework_gone(self, key: Key) -> None:
        self._known.pop(key, None)
        self._queue.add(key)

    # Work.

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            try:
                await self._attend(key)
            finally:
                self._queue.done(key)

    async def _attend(self, key: Key) -> None:
        """Look at one job; whatever goes wrong stays with it."""
        try:
            await self._look(key)
        except LauncherError as error:
            log.info("job could not be worked on", extra={"job": key, "why": str(error)})
            self._later(key)
        except Exception as error:  # a bug shows on one job, and must not end the others
            object_errors.record(_RECONCILER, self._foreign.plural, key, error)
            self._later(key)
        else:
            self._pauses.pop(key, None)
            object_errors.resolve(_RECONCILER, self._foreign.plural, key)

    def _later(self, key: Key) -> None:
        pauses = self._pauses.setdefault(key, ExponentialBackoff(first=0.1, most=30.0))
        self._queue.add_after(key, pauses.next_delay())

    async def _look(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        wish, known = self._wish(key, job), self._known.get(key)
        if is_finished(_status(job)):
            await self._expire(job, wish)
        elif known is not None and known.owner != job["metadata"]["uid"]:
            if known.owned_by == (self._foreign.kind.kind, key[1]):
                return  # that of a deleted job of this name: the garbage collector removes it
            await self._block(job, "NameTaken", _taken(key))
        elif wish.is_held and (known is None or known.progress.end is None):
            await self._suspend(job, known)
        elif known is not None and known.is_going and known.progress.end is None:
            return  # it is heard of again when that is gone
        elif known is not None:
            await self._follow(job, known, wish)
        elif wish.problems:
            await self._block(job, "Invalid", "; ".join(map(str, wish.problems)))
        else:
            await self._begin(job, wish)

    def _wish(self, key: Key, job: Object) -> _DesiredFramework:
        of = (job["metadata"]["uid"], job["metadata"]["generation"])
        wish = self._wishes.get(key)
        if wish is None or wish.of != of:
            wish = self._wishes[key] = self._wish_of(job, of)
        return wish

    def _wish_of(self, job: Object, of: tuple[str, int]) -> _DesiredFramework:
        try:
            framework = validate_framework(convert_job(self._foreign, job).framework).object
            problems = tuple(self._forbidden(framework))
        except InvalidObject as error:
            framework, problems = {}, error.errors
        if problems:
            told = tuple(translated(self._foreign, job, problem) for problem in problems)
            return _DesiredFramework(of, {}, problems=told)
        # It goes with its job, and not before: how it ended has to be told first.
        ttl = framework["spec"].pop("ttlSecondsAfterFinished", None)
        return _DesiredFramework(of, _marked(framework, job, self._foreign), ttl)

    async def _begin(self, job: Object, wish: _DesiredFramework) -> None:
        """The job has its Framework, unless somebody else's has that name."""
        try:
            self._frameworks.upsert(await self._store.create(FRAMEWORKS, wish.framework))
        except AlreadyExists:
            key = key_of(job)
            live = await self._store.get(FRAMEWORKS, *key)
            owner = controller_of(live["metadata"])
            if owner.get("uid") != job["metadata"]["uid"]:
                if (owner.get("kind"), owner.get("name")) != (self._foreign.kind.kind, key[1]):
                    await self._block(job, "NameTaken", _taken(key))
                raise Conflict(_taken(key)) from None  # nobody tells when it has gone: it is tried again
            # Somebody took the label by which it is found.
            mark = MergePatch({"metadata": {"labels": {JOB_KIND: self._foreign.family.kind}}})
            self._frameworks.upsert(await self._store.patch(FRAMEWORKS, *key, mark))
            return
        await self._tell(job, running(self._story(job), _status(job), NOTHING_YET))

    async def _follow(self, job: Object, known: _ObservedFramework, wish: _DesiredFramework) -> None:
        """The Framework is as the job wants it, and the job knows how far that has come."""
        if known.generation != str(job["metadata"]["generation"]):
            if wish.problems:
                self._events.record(
                    job, [ObjectEvent("Invalid", "; ".join(map(str, wish.problems)), warning=True)]
                )
            else:
                await self._change(job, known, wish)
        await self._tell(job, running(self._story(job), _status(job), known.progress))

    async def _change(self, job: Object, known: _ObservedFramework, wish: _DesiredFramework) -> None:
        live = await self._store.get(FRAMEWORKS, *key_of(job))
        if live["metadata"]["uid"] != known.uid:
            return  # it is heard of
        annotations = {
            **(live["metadata"].get("annotations") or {}),
            GENERATION: str(job["metadata"]["generation"]),
        }
        # Who has stopped the Framework itself has ended the job with it.
        stopped = {"executionType": "Stop"} if live["spec"].get("executionType") == "Stop" else {}
        new = {
            **live,
            "metadata": {**live["metadata"], "annotations": annotations},
            "spec": {**wish.framework["spec"], **stopped},
        }
        self._frameworks.upsert(await self._store.update(FRAMEWORKS, new))

    async def _suspend(self, job: Object, known: _ObservedFramework | None) -> None:
        """The job has no Framework, and so no pods."""
        if known is not None and not known.is_going:
            how = DeleteOptions(uid=known.uid, propagation=Propagation.FOREGROUND)
            try:
                await self._store.delete(FRAMEWORKS, *key_of(job), how)
            except NotFound as error:
                log.info("framework is gone already", extra={"job": key_of(job), "why": str(error)})
        await self._tell(job, suspended(self._story(job), _status(job)))

    async def _block(self, job: Object, reason: str, why: str) -> None:
        await self._tell(job, blocked(self._story(job), _status(job), reason, why))

    async def _expire(self, job: Object, wish: _DesiredFramework) -> None:
        """A finished job goes when its time after the end is over, and takes its Framework along."""
        ended = _status(job).get("completionTime")
        if wish.ttl is None or ended is None:
            return
        left = parse_rfc3339(ended) + wish.ttl - self._clock()
        if left > 0:
            self._queue.add_after(key_of(job), min(left, _LONGEST_NAP))
            return
        meta = job["metadata"]
        # As it was when its time was over: who has edited it since may have given it more.
        how = DeleteOptions(
            uid=meta["uid"], version=int(meta["resourceVersion"]), propagation=Propagation.FOREGROUND
        )
        try:
            await self._store.delete(self._foreign.kind, *key_of(job), how)
        except NotFound as error:
            log.info("job is gone already", extra={"job": key_of(job), "why": str(error)})

    async def _tell(self, job: Object, status: Object) -> None:
        """Store the status, if it is another one."""
        if same(_status(job), status):
            return
        saved = await self._store.update_status(
            self._foreign.kind, {**job, "status": looked(status, int(self._clock()))}
        )
        self._told.upsert(saved)
        self._events.record(job, status_events(_status(job), status))

    def _story(self, job: Object) -> StatusContext:
        namespace, name = key_of(job)
        return StatusContext(self._foreign, namespace, name, int(self._clock()))


def _marked(framework: Object, job: Object, foreign: JobKind) -> Object:
    """The Framework, with whose it is."""
    meta, theirs = framework["metadata"], job["metadata"]
    owner = controller_reference(foreign.kind.api_version, foreign.kind.kind, theirs["name"], theirs["uid"])
    return {
        **framework,
        "metadata": {
            "name": theirs["name"],
            "namespace": theirs["namespace"],
            "labels": {**(meta.get("labels") or {}), JOB_KIND: foreign.family.kind},
            "annotations": {**(meta.get("annotations") or {}), GENERATION: str(theirs["generation"])},
            "ownerReferences": [owner],
        },
    }


def _taken(key: Key) -> str:
    return (
        f"there is a Framework called {key[1]} already, and it is not this job's; delete that Framework, or give the "
        "job another name"
    )


def _status(job: Object) -> Object:
    status: Object = job.get("status") or {}
    return status


class ClusterJobs:
    """One mirror for each kind that is ours, each time made anew: nothing that an earlier one knew is kept."""

    def __init__(self, own: JobKindOwnership, begin: Callable[[JobKind], JobController]) -> None:
        self._own, self._begin = own, begin

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for foreign in FOREIGN:
                group.create_task(self._keep(foreign))

    async def _keep(self, foreign: JobKind) -> None:
        while True:
            await self._own.turned(foreign, ours=True)
            working = asyncio.create_task(self._begin(foreign).run())
            leaving = asyncio.create_task(self._own.turned(foreign, ours=False))
            try:
                await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (working, leaving):
                    task.cancel()
                await asyncio.wait([working, leaving])
            if not working.cancelled():
                await working  # raises what it has failed with
