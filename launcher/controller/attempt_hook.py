"""Those who see to what an attempt needs beside its pods, and give the pods what they need for it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from launcher.core.framework import Framework
from launcher.core.pods.overlay import PodOverlay, merge_overlays
from launcher.core.spec import RoleName


class AttemptHook(Protocol):
    """Sees to one such thing: a Service, a pod group, a way to find each other."""

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """
        What the pods of each role get; whatever they need beside themselves is there by then.

        Called before the first pod of an attempt is created, again after each change of the spec, also one that takes
        tasks away, and after a restart: what is there already is found again, and what is no longer needed goes.
        The Framework comes with its status, but for its tasks. Raises LauncherError while it cannot be done; the pods
        wait.
        """

    async def finish(self, framework: Framework) -> None:
        """The Framework has completed: what only its pods needed goes. Raises LauncherError."""


async def pod_overlays(
    attendants: Sequence[AttemptHook], framework: Framework, attempt: int
) -> dict[RoleName, PodOverlay]:
    """What the pods of each role get from all of them. Raises LauncherError when one cannot do its part now."""
    found = [await attendant.prepare(framework, attempt) for attendant in attendants]
    return {
        role.name: merge_overlays(extras[role.name] for extras in found if role.name in extras)
        for role in framework.spec.roles
    }
