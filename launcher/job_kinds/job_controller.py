"""
Runs jobs of other kinds, such as TFJobs, as Frameworks: one Framework per job, whose progress is the job's status.

The Framework is owned by its job and has the same name. It is created with the job, updated with the job's spec, and
deleted while the job is suspended. A Framework of that name with another owner, or none, is not changed. If it
belongs to a deleted job of the same name, the job waits until the garbage collector has removed it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.core.errors import AlreadyExists, Conflict, FieldError, InvalidObject, NotFound
from launcher.core.events import ObjectEvent
from launcher.core.manifest import validate_framework
from launcher.core.owner_references import controller_of, controller_reference
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.timestamps import parse_rfc3339
from launcher.job_kinds.job_kind import JOB_KIND_LABEL, JOB_KINDS, JobKind, convert_job, translate_error
from launcher.job_kinds.job_progress import NO_PROGRESS, Progress, progress_of
from launcher.job_kinds.job_status import (
    StatusContext,
    blocked_status,
    is_finished,
    is_same,
    running_status,
    status_events,
    suspended_status,
    with_reconcile_time,
)
from launcher.job_kinds.ownership import JobKindOwnership
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, SharedInformers
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
from launcher.store.work_queue import WorkQueue, retry_on_error, run_workers

log = logging.getLogger(__name__)

#: Annotation of a Framework: the generation of the job that it was last updated to.
GENERATION_ANNOTATION = "launcher.microsoft.com/job-generation"

_WORKERS = 4
_COMPONENT, _RECONCILER = "job-controller", "job-reconciler"
#: Maximum delay before a TTL is checked again, in case the clock is set.
_MAX_RECHECK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _ObservedFramework:
    """The fields of a Framework that its job depends on."""

    uid: str
    owner: str
    #: Kind and name of the owner.
    owned_by: tuple[str, str]
    generation: str
    is_deleting: bool
    progress: Progress


@dataclass(frozen=True, slots=True)
class _DesiredFramework:
    """The Framework that a job specifies, or the errors of the job."""

    #: Uid and generation of the job.
    job_version: tuple[str, int]
    framework: Object
    #: Seconds after its completion when the job is deleted; None: never.
    ttl_seconds: int | None = None
    errors: tuple[FieldError, ...] = ()

    @property
    def is_suspended(self) -> bool:
        return not self.errors and self.framework["spec"]["executionType"] == "Create"


class JobController:
    """Reconciles the jobs of one kind: a Framework for each, and their status."""

    def __init__(
        self,
        store: Store,
        job_kind: JobKind,
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        policy_errors: Callable[[Object], Sequence[FieldError]],
        informers: SharedInformers | None = None,
    ) -> None:
        """*policy_errors* checks Frameworks again, since jobs can be stored without admission."""
        self._store, self._job_kind, self._clock, self._policy_errors = store, job_kind, clock, policy_errors
        self._queue: WorkQueue[Key] = WorkQueue("job")
        self._jobs: dict[Key, Object] = {}
        self._observed: dict[Key, _ObservedFramework] = {}
        self._desired: dict[Key, _DesiredFramework] = {}
        self._events = EventRecorder(store, clock, job_kind.family.operator)
        job_frameworks = Selector.for_labels({JOB_KIND_LABEL: job_kind.family.kind})
        #: None if *informers* are run by the caller.
        self._own_informers = (
            SharedInformers(store, jitter=jitter, select_on_server=True) if informers is None else None
        )
        informers = informers or self._own_informers
        assert informers is not None
        # Frameworks first: no job is observed before its Framework.
        self._frameworks = informers.add_event_handler(
            FRAMEWORKS,
            EventHandlerFuncs(self.on_framework_upsert, self.on_framework_delete),
            component=_COMPONENT,
            selector=job_frameworks,
        )
        self._job_informer = informers.add_event_handler(
            job_kind.kind, EventHandlerFuncs(self.on_job_upsert, self.on_job_delete), component=_COMPONENT
        )

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            if self._own_informers is not None:
                group.create_task(self._own_informers.run())
            await self._frameworks.synced.wait()
            reconcile = retry_on_error(self._queue, self.reconcile, _RECONCILER, self._job_kind.plural)
            group.create_task(run_workers(self._queue, reconcile, _WORKERS))

    # Event handlers.

    def on_job_upsert(self, key: Key, job: Object) -> None:
        self._jobs[key] = job
        self._queue.add(key)

    def on_job_delete(self, key: Key) -> None:
        for cache in (self._jobs, self._desired):
            cache.pop(key, None)
        self._queue.forget(key)
        object_errors.resolve(_RECONCILER, self._job_kind.plural, key)

    def on_framework_upsert(self, key: Key, obj: Object) -> None:
        meta = obj["metadata"]
        owner = controller_of(meta)
        self._observed[key] = _ObservedFramework(
            meta["uid"],
            owner.get("uid", ""),
            (owner.get("kind", ""), owner.get("name", "")),
            (meta.get("annotations") or {}).get(GENERATION_ANNOTATION, ""),
            is_deleted(obj),
            progress_of(obj),
        )
        self._queue.add(key)

    def on_framework_delete(self, key: Key) -> None:
        self._observed.pop(key, None)
        self._queue.add(key)

    # Reconcile.

    async def reconcile(self, key: Key) -> None:
        """Creates, updates or deletes the Framework of one job, and updates its status. Raises LauncherError."""
        job = self._jobs.get(key)
        if job is None or is_deleted(job):
            return
        desired, observed = self._desired_framework(key, job), self._observed.get(key)
        if is_finished(_status(job)):
            await self._expire(job, desired)
        elif observed is not None and observed.owner != job["metadata"]["uid"]:
            if observed.owned_by == (self._job_kind.kind.kind, key[1]):
                return  # that of a deleted job of this name: the garbage collector removes it
            await self._block(job, "NameTaken", _name_conflict(key))
        elif desired.is_suspended and (observed is None or observed.progress.end is None):
            await self._suspend(job, observed)
        elif observed is not None and observed.is_deleting and observed.progress.end is None:
            return  # reconciled again after the deletion
        elif observed is not None:
            await self._update(job, observed, desired)
        elif desired.errors:
            await self._block(job, "Invalid", "; ".join(map(str, desired.errors)))
        else:
            await self._create(job, desired)

    def _desired_framework(self, key: Key, job: Object) -> _DesiredFramework:
        job_version = (job["metadata"]["uid"], job["metadata"]["generation"])
        desired = self._desired.get(key)
        if desired is None or desired.job_version != job_version:
            desired = self._desired[key] = self._convert(job, job_version)
        return desired

    def _convert(self, job: Object, job_version: tuple[str, int]) -> _DesiredFramework:
        try:
            framework = validate_framework(convert_job(self._job_kind, job).framework).object
            errors = tuple(self._policy_errors(framework))
        except InvalidObject as error:
            framework, errors = {}, error.errors
        if errors:
            job_errors = tuple(translate_error(self._job_kind, job, error) for error in errors)
            return _DesiredFramework(job_version, {}, errors=job_errors)
        # It is deleted with its job, after the job's status has been updated.
        ttl = framework["spec"].pop("ttlSecondsAfterFinished", None)
        return _DesiredFramework(job_version, _owned(framework, job, self._job_kind), ttl)

    async def _create(self, job: Object, desired: _DesiredFramework) -> None:
        """Creates the Framework, unless another one has that name."""
        try:
            self._frameworks.upsert(await self._store.create(FRAMEWORKS, desired.framework))
        except AlreadyExists:
            key = key_of(job)
            live = await self._store.get(FRAMEWORKS, *key)
            owner = controller_of(live["metadata"])
            if owner.get("uid") != job["metadata"]["uid"]:
                if (owner.get("kind"), owner.get("name")) != (self._job_kind.kind.kind, key[1]):
                    await self._block(job, "NameTaken", _name_conflict(key))
                raise Conflict(_name_conflict(key)) from None  # retried, because its deletion is not observed
            # The label that the informer selects was removed.
            patch = MergePatch({"metadata": {"labels": {JOB_KIND_LABEL: self._job_kind.family.kind}}})
            self._frameworks.upsert(await self._store.patch(FRAMEWORKS, *key, patch))
            return
        await self._update_status(job, running_status(self._status_context(job), _status(job), NO_PROGRESS))

    async def _update(self, job: Object, observed: _ObservedFramework, desired: _DesiredFramework) -> None:
        """Updates the Framework to the job's spec, and the job's status to the Framework's progress."""
        if observed.generation != str(job["metadata"]["generation"]):
            if desired.errors:
                self._events.record(
                    job, [ObjectEvent("Invalid", "; ".join(map(str, desired.errors)), warning=True)]
                )
            else:
                await self._update_spec(job, observed, desired)
        await self._update_status(
            job, running_status(self._status_context(job), _status(job), observed.progress)
        )

    async def _update_spec(
        self, job: Object, observed: _ObservedFramework, desired: _DesiredFramework
    ) -> None:
        live = await self._store.get(FRAMEWORKS, *key_of(job))
        if live["metadata"]["uid"] != observed.uid:
            return  # reconciled again when the informer observes it
        annotations = {
            **(live["metadata"].get("annotations") or {}),
            GENERATION_ANNOTATION: str(job["metadata"]["generation"]),
        }
        # A Framework that a user stopped stays stopped.
        stopped = {"executionType": "Stop"} if live["spec"].get("executionType") == "Stop" else {}
        new = {
            **live,
            "metadata": {**live["metadata"], "annotations": annotations},
            "spec": {**desired.framework["spec"], **stopped},
        }
        self._frameworks.upsert(await self._store.update(FRAMEWORKS, new))

    async def _suspend(self, job: Object, observed: _ObservedFramework | None) -> None:
        """Deletes the Framework and its pods."""
        if observed is not None and not observed.is_deleting:
            options = DeleteOptions(uid=observed.uid, propagation=Propagation.FOREGROUND)
            try:
                await self._store.delete(FRAMEWORKS, *key_of(job), options)
            except NotFound as error:
                log.info("framework already deleted", extra={"job": key_of(job), "error": str(error)})
        await self._update_status(job, suspended_status(self._status_context(job), _status(job)))

    async def _block(self, job: Object, reason: str, message: str) -> None:
        status = blocked_status(self._status_context(job), _status(job), reason, message)
        await self._update_status(job, status)

    async def _expire(self, job: Object, desired: _DesiredFramework) -> None:
        """Deletes a finished job and its Framework after its TTL."""
        completion_time = _status(job).get("completionTime")
        if desired.ttl_seconds is None or completion_time is None:
            return
        remaining = parse_rfc3339(completion_time) + desired.ttl_seconds - self._clock()
        if remaining > 0:
            self._queue.add_after(key_of(job), min(remaining, _MAX_RECHECK_SECONDS))
            return
        meta = job["metadata"]
        # Only this version: an update may have extended the TTL.
        options = DeleteOptions(
            uid=meta["uid"], version=int(meta["resourceVersion"]), propagation=Propagation.FOREGROUND
        )
        try:
            await self._store.delete(self._job_kind.kind, *key_of(job), options)
        except NotFound as error:
            log.info("job already deleted", extra={"job": key_of(job), "error": str(error)})

    async def _update_status(self, job: Object, status: Object) -> None:
        """Updates the status, if it has changed."""
        if is_same(_status(job), status):
            return
        saved = await self._store.update_status(
            self._job_kind.kind, {**job, "status": with_reconcile_time(status, int(self._clock()))}
        )
        self._job_informer.upsert(saved)
        self._events.record(job, status_events(_status(job), status))

    def _status_context(self, job: Object) -> StatusContext:
        namespace, name = key_of(job)
        return StatusContext(self._job_kind, namespace, name, int(self._clock()))


def _owned(framework: Object, job: Object, job_kind: JobKind) -> Object:
    """Returns the Framework with owner reference, label and annotation of its job."""
    meta, job_metadata = framework["metadata"], job["metadata"]
    owner = controller_reference(
        job_kind.kind.api_version, job_kind.kind.kind, job_metadata["name"], job_metadata["uid"]
    )
    return {
        **framework,
        "metadata": {
            "name": job_metadata["name"],
            "namespace": job_metadata["namespace"],
            "labels": {**(meta.get("labels") or {}), JOB_KIND_LABEL: job_kind.family.kind},
            "annotations": {
                **(meta.get("annotations") or {}),
                GENERATION_ANNOTATION: str(job_metadata["generation"]),
            },
            "ownerReferences": [owner],
        },
    }


def _name_conflict(key: Key) -> str:
    return f"Framework {key[1]} already exists and is not owned by this job. Delete it or rename the job."


def _status(job: Object) -> Object:
    status: Object = job.get("status") or {}
    return status


class ClusterJobs:
    """Runs a new JobController for each job kind while the launcher owns the kind."""

    def __init__(
        self, ownership: JobKindOwnership, new_controller: Callable[[JobKind], JobController]
    ) -> None:
        self._ownership, self._new_controller = ownership, new_controller

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for job_kind in JOB_KINDS:
                group.create_task(self._run_while_owned(job_kind))

    async def _run_while_owned(self, job_kind: JobKind) -> None:
        while True:
            await self._ownership.wait_until(job_kind, owned=True)
            controller_task = asyncio.create_task(self._new_controller(job_kind).run())
            release_task = asyncio.create_task(self._ownership.wait_until(job_kind, owned=False))
            try:
                await asyncio.wait([controller_task, release_task], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (controller_task, release_task):
                    task.cancel()
                await asyncio.wait([controller_task, release_task])
            if not controller_task.cancelled():
                await controller_task  # raises its error
