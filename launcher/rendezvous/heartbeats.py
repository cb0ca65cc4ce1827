"""Heartbeats of tasks, recorded as an annotation of their pods, so that every replica of the launcher reads them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from launcher.core.errors import Conflict, Forbidden, NotFound
from launcher.core.names import (
    HEARTBEAT_ANNOTATION,
    PROGRESS_DEADLINE_ANNOTATION,
    pod_name,
    task_identity,
)
from launcher.core.owner_references import controller_uid
from launcher.core.spec import FrameworkName
from launcher.core.timestamps import format_rfc3339
from launcher.rendezvous.peer_tracker import TaskId
from launcher.store.interface import PODS, Key, MergePatch, Object, Store

#: A heartbeat is written at most so many times within the deadline of its task.
_WRITES_PER_DEADLINE = 4
#: Seconds between two reads of a pod whose role has no deadline.
_WITHOUT_DEADLINE_SECONDS = 60.0
#: Pods whose last heartbeat is remembered; beyond that, all are read again.
_MAX_PODS = 100_000


@dataclass(frozen=True, slots=True)
class _Sender:
    """The pod that sent a heartbeat, and the time before which its next ones cause no requests."""

    uid: str
    attempt: int
    quiet_until: float


class HeartbeatRecorder:
    """Records heartbeats. Most of them cause no request to the store. *clock* returns seconds since 1970."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._senders: dict[Key, _Sender] = {}

    async def record(self, framework: Key, uid: str, attempt: int, task: TaskId) -> None:
        """
        Records a heartbeat of *task* in that attempt of the Framework with that *uid*.

        Raises NotFound if it has no pod, Forbidden if its pod is of another attempt, and Unavailable.
        """
        namespace, name = framework
        key = (namespace, pod_name(FrameworkName(name), task.role, task.index))
        sender, now = self._senders.get(key), asyncio.get_running_loop().time()
        if sender is not None and (sender.uid, sender.attempt) == (uid, attempt) and now < sender.quiet_until:
            return
        pod = await self._store.get(PODS, *key)
        _check_owner(pod, uid, attempt)
        deadline = _deadline(pod)
        if deadline is not None:
            await self._write(key, pod)
        quiet = _WITHOUT_DEADLINE_SECONDS if deadline is None else deadline / _WRITES_PER_DEADLINE
        if len(self._senders) >= _MAX_PODS:
            self._senders.clear()
        self._senders[key] = _Sender(uid, attempt, now + quiet)

    async def _write(self, key: Key, pod: Object) -> None:
        annotations = {HEARTBEAT_ANNOTATION: format_rfc3339(int(self._clock()))}
        change: dict[str, Any] = {"metadata": {"uid": pod["metadata"]["uid"], "annotations": annotations}}
        try:
            await self._store.patch(PODS, *key, MergePatch(change))
        except Conflict as error:
            raise NotFound(f"pod {key[1]} was replaced") from error


def _check_owner(pod: Object, uid: str, attempt: int) -> None:
    identity = task_identity(pod)
    if controller_uid(pod) != uid or identity is None or identity.framework_attempt != attempt:
        raise Forbidden(f"pod {pod['metadata']['name']} is not of attempt {attempt} of this Framework")


def _deadline(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(PROGRESS_DEADLINE_ANNOTATION, "")
    return int(text) if text.isdecimal() else None
