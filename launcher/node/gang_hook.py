"""Sees to it that the pods of a gang say so, each with how many of them have to be placed together."""

from collections.abc import Mapping
from contextlib import suppress

from launcher.core.errors import Conflict, NotFound
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey, attempt_uid, instance_uid
from launcher.core.planning.gang import GANG_PLACED, is_unplaced, min_members
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.scheduling.pod_info import GANG, GANG_MIN
from launcher.store.interface import PODS, MergePatch, Object, Store
from launcher.store.selectors import Selector

Marks = Mapping[str, str | None]

_NONE: Marks = {GANG: None, GANG_MIN: None}


class LocalGangHook:
    """The attendant of gangs where our own scheduler gives pods their nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """
        What the pods of each role carry. Raises LauncherError.

        Nothing once the gang has been placed: whoever comes to it later waits for nobody else.
        """
        status, gang = framework.status, framework.spec.gang
        if status is None or status.condition(GANG_PLACED) is None:
            return {}
        waits = gang is not None and is_unplaced(status)
        marks = _marks(framework, attempt) if waits else _NONE
        # Pods that were created before a change of the spec carry what was true then.
        if framework.generation > 1 and (waits or gang is None):
            await self._mark_again(framework, attempt, marks)
        if not waits:
            return {}
        return {
            role.name: PodOverlay(annotations=marks) for role in framework.spec.roles if not role.background
        }

    async def finish(self, framework: Framework) -> None:
        """There is nothing but the pods' own marks."""

    async def _mark_again(self, framework: Framework, attempt: int, marks: Marks) -> None:
        background = {role.name for role in framework.spec.roles if role.background}
        own = {
            PodIdentityKey.FRAMEWORK_NAME.value: framework.name,
            PodIdentityKey.FRAMEWORK_ATTEMPT_ID.value: str(attempt),
        }
        page = await self._store.list(PODS, framework.namespace, Selector.labelled(own))
        for pod in page.items:
            if (
                _is_late(pod, marks)
                and pod["metadata"]["labels"][PodIdentityKey.TASKROLE_NAME] not in background
            ):
                meta = pod["metadata"]
                change = {"metadata": {"uid": meta["uid"], "annotations": dict(marks)}}
                with suppress(NotFound, Conflict):  # it is gone: whoever takes its place has the right ones
                    await self._store.patch(PODS, meta["namespace"], meta["name"], MergePatch(change))


def _marks(framework: Framework, attempt: int) -> dict[str, str | None]:
    instance = instance_uid(attempt, attempt_uid(framework.uid, attempt))
    return {GANG: instance, GANG_MIN: str(max(1, min_members(framework.spec)))}


def _is_late(pod: Object, marks: Marks) -> bool:
    """Whether a pod that has no node says something else."""
    annotations = pod["metadata"].get("annotations") or {}
    return not pod["spec"].get("nodeName") and any(annotations.get(name) != marks[name] for name in marks)
