"""Annotates the pods of a gang for the local scheduler: its id, and how many are scheduled together."""

from collections.abc import Mapping
from contextlib import suppress

from launcher.core.errors import Conflict, NotFound
from launcher.core.framework import Framework
from launcher.core.names import (
    GANG_ANNOTATION,
    GANG_MIN_ANNOTATION,
    PodIdentityKey,
    attempt_uid,
    instance_uid,
)
from launcher.core.planning.gang import GANG_PLACED, is_unplaced, min_members
from launcher.core.pods.observed_pod import node_name
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import PODS, MergePatch, Object, Store
from launcher.store.selectors import Selector

Annotations = Mapping[str, str | None]

_NO_GANG: Annotations = {GANG_ANNOTATION: None, GANG_MIN_ANNOTATION: None}


class LocalGangHook:
    """The AttemptHook of gangs in local mode."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """
        The annotations of the pods of each role. Raises LauncherError.

        None once the gang was placed: pods that are created later are scheduled individually.
        """
        status, gang = framework.status, framework.spec.gang
        if status is None or status.condition(GANG_PLACED) is None:
            return {}
        is_waiting = gang is not None and is_unplaced(status)
        annotations = _annotations(framework, attempt) if is_waiting else _NO_GANG
        # Pods that were created before a change of the spec have outdated annotations.
        if framework.generation > 1 and (is_waiting or gang is None):
            await self._update_pods(framework, attempt, annotations)
        if not is_waiting:
            return {}
        return {
            role.name: PodOverlay(annotations=annotations)
            for role in framework.spec.roles
            if not role.background
        }

    async def finish(self, framework: Framework) -> None:
        """Does nothing: the hook creates no objects."""

    async def _update_pods(self, framework: Framework, attempt: int, annotations: Annotations) -> None:
        background = {role.name for role in framework.spec.roles if role.background}
        labels = {
            PodIdentityKey.FRAMEWORK_NAME.value: framework.name,
            PodIdentityKey.FRAMEWORK_ATTEMPT_ID.value: str(attempt),
        }
        page = await self._store.list(PODS, framework.namespace, Selector.for_labels(labels))
        for pod in page.items:
            if (
                _is_outdated(pod, annotations)
                and pod["metadata"]["labels"][PodIdentityKey.TASKROLE_NAME] not in background
            ):
                meta = pod["metadata"]
                change = {"metadata": {"uid": meta["uid"], "annotations": dict(annotations)}}
                with suppress(
                    NotFound, Conflict
                ):  # it was deleted: its replacement gets the current annotations
                    await self._store.patch(PODS, meta["namespace"], meta["name"], MergePatch(change))


def _annotations(framework: Framework, attempt: int) -> dict[str, str | None]:
    instance = instance_uid(attempt, attempt_uid(framework.uid, attempt))
    return {GANG_ANNOTATION: instance, GANG_MIN_ANNOTATION: str(max(1, min_members(framework.spec)))}


def _is_outdated(pod: Object, annotations: Annotations) -> bool:
    """Whether an unscheduled pod has other annotations."""
    current = pod["metadata"].get("annotations") or {}
    return not node_name(pod) and any(current.get(name) != value for name, value in annotations.items())
