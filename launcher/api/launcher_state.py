"""Reads the state of this launcher for the diagnosis of a Framework."""

from collections.abc import Callable, Collection

from launcher.api.system_endpoints import Health
from launcher.core.diagnosis.launcher_state import LauncherState, Leadership
from launcher.store import instrumentation
from launcher.store.interface import FRAMEWORKS, PODS, Key
from launcher.store.object_errors import object_errors

#: The readiness check that fails when the disk is almost full.
_DISK_CHECK = "disk"
#: The work queue of the controller that reconciles Frameworks.
_QUEUE = "framework"


class LauncherStateReader:
    """Reads what this process knows, without requests."""

    def __init__(
        self,
        health: Health,
        leadership: Callable[[], Leadership | None] = lambda: None,
        throttled_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """*leadership* and *throttled_seconds* are those of a replica in a cluster."""
        self._health, self._leadership, self._throttled_seconds = health, leadership, throttled_seconds

    async def read(self, framework: Key, pods: Collection[str]) -> LauncherState:
        """Returns the state, with the errors that concern the Framework or its *pods*."""
        backlog = instrumentation.queue_backlog(_QUEUE)
        return LauncherState(
            disk_full=await self._health.failure(_DISK_CHECK),
            leadership=self._leadership(),
            queued=backlog.depth,
            queued_seconds=backlog.oldest_seconds,
            throttled_seconds=self._throttled_seconds(),
            object_errors=_errors_of(framework, pods),
        )


def _errors_of(framework: Key, pods: Collection[str]) -> list[str]:
    namespace, _ = framework
    return [
        f"{error.description}: {error.reason}"
        for error in object_errors.current()
        if (error.kind, error.key) == (FRAMEWORKS.plural, framework)
        or (error.kind == PODS.plural and error.key[0] == namespace and error.key[1] in pods)
    ]
