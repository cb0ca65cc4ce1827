"""Sessions in the containers of pods: of commands, and with the streams of containers."""

from launcher.core.errors import Conflict
from launcher.core.pods.exec_session import ExecSession, PodAttachOptions, PodExecOptions
from launcher.node.container_runtime import RunId, RuntimeService


class ContainerExec:
    """Starts commands in running containers, and connects to their streams."""

    def __init__(self, runtime: RuntimeService) -> None:
        self._runtime = runtime

    async def open(self, uid: str, container: str, options: PodExecOptions) -> ExecSession:
        """
        Starts a command in a container of the pod with that uid, and returns its session, which the caller closes.

        Raises Conflict if the container is not running, Unavailable.
        """
        return await self._runtime.exec(self._running(uid, container), options)

    async def attach(self, uid: str, container: str, options: PodAttachOptions) -> ExecSession:
        """
        Connects to the streams of a container, and returns the session, which the caller closes.

        Raises Conflict if the container is not running, Unavailable.
        """
        return await self._runtime.attach(self._running(uid, container), options)

    def _running(self, uid: str, container: str) -> RunId:
        prefix = f"{uid}.{container}."
        for run in self._runtime.list_containers().values():
            if run.ended is None and run.id.startswith(prefix):
                return run.id
        raise Conflict(f'container "{container}" is not running')
