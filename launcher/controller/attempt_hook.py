"""Hooks that create objects for an attempt in addition to its pods, and extend its pods."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from launcher.core.framework import Framework
from launcher.core.pods.overlay import PodOverlay, merge_overlays
from launcher.core.spec import RoleName


class AttemptHook(Protocol):
    """Manages one kind of such objects: Services, pod groups, rendezvous sessions."""

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """
        Creates the objects that the pods need. Returns the overlay for the pods of each role.

        Called before the first pod of an attempt is created, after each change of the spec, including a scale-down,
        and after a restart. So it must accept objects that it created before, and delete those that are no longer
        needed. *framework* has a status, without tasks unless it is a gang. Raises LauncherError; no pods are created
        until it succeeds.
        """

    async def finish(self, framework: Framework) -> None:
        """Deletes the objects of a completed Framework. Raises LauncherError."""


async def pod_overlays(
    hooks: Sequence[AttemptHook], framework: Framework, attempt: int
) -> dict[RoleName, PodOverlay]:
    """Returns the merged overlays of all hooks by role. Raises LauncherError if a hook fails."""
    prepared = [await hook.prepare(framework, attempt) for hook in hooks]
    return {
        role.name: merge_overlays(overlays[role.name] for overlays in prepared if role.name in overlays)
        for role in framework.spec.roles
    }
