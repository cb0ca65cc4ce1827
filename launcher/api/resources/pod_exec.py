"""``pods/exec``: a command in a running container, with its streams in one WebSocket."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from aiohttp import web
from multidict import MultiMapping

from launcher.api.http.query import flag
from launcher.api.resources.exec_channels import PROTOCOLS, ExecChannels
from launcher.api.resources.pod_logs import container_of, container_status
from launcher.api.resources.pod_session import check_upgrade, logged_session
from launcher.core.errors import BadRequest, Conflict
from launcher.core.json_access import as_object
from launcher.core.pods.exec_session import ExecSession, OutputStream, PodAttachOptions, PodExecOptions
from launcher.store.interface import PODS, Object, Store

_NO_SPDY = (
    "SPDY is not supported in local mode: use a client with WebSockets, such as kubectl 1.31 or newer (1.29 and 1.30 "
    "with KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true), or launcher exec"
)


class ExecSessions(Protocol):
    """Starts commands in the containers of this machine, and connects to the streams of containers."""

    async def open(self, uid: str, container: str, options: PodExecOptions) -> ExecSession:
        """
        Starts a command in a container of the pod with that uid, and returns its session, which the caller closes.

        Raises Conflict if the container is not running, Unavailable.
        """
        ...

    async def attach(self, uid: str, container: str, options: PodAttachOptions) -> ExecSession:
        """
        Connects to the streams of a container, and returns the session, which the caller closes.

        Raises Conflict if the container is not running, Unavailable.
        """
        ...


class PodExecHandler:
    """Handles ``…/pods/{name}/exec``. *clock* returns seconds since 1970."""

    def __init__(self, store: Store, sessions: ExecSessions, clock: Callable[[], float]) -> None:
        self._store, self._sessions, self._clock = store, sessions, clock

    async def handle(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Runs the command of the query until it exits or the client disconnects."""
        pod = await self._store.get(PODS, namespace, name)
        options = parse_exec_query(request.query)
        container = running_container(pod, request.query.get("container", ""))
        return await serve_session(
            request,
            options.outputs,
            lambda: self._sessions.open(pod["metadata"]["uid"], container, options),
            {
                "subresource": "exec",
                "pod": f"{namespace}/{name}",
                "container": container,
                "command": shlex.join(options.command),
                "tty": options.tty,
            },
            self._clock,
        )


async def serve_session(
    request: web.Request,
    outputs: Sequence[OutputStream],
    open_session: Callable[[], Awaitable[ExecSession]],
    logged: Mapping[str, object],
    clock: Callable[[], float],
) -> web.StreamResponse:
    """Serves a session until its end. Logs the start and the end with *logged*. Raises BadRequest."""
    check_upgrade(request, PROTOCOLS, _NO_SPDY)
    channels = ExecChannels(outputs)
    with logged_session(request, logged, clock, lambda: channels.result):
        return await channels.run(request, open_session)


def parse_exec_query(query: MultiMapping[str]) -> PodExecOptions:
    """Returns the parsed query. Raises BadRequest."""
    command = query.getall("command", [])
    if not any(command):
        raise BadRequest("you must specify at least 1 command for the container")
    tty = flag(query, "tty")
    options = PodExecOptions(
        command,
        stdin=flag(query, "stdin"),
        stdout=flag(query, "stdout"),
        # A terminal has one stream for both.
        stderr=flag(query, "stderr") and not tty,
        tty=tty,
    )
    if not (options.stdin or options.outputs):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    return options


def running_container(pod: Object, requested: str) -> str:
    """Returns the requested container, or the only one. Raises BadRequest, and Conflict if it is not running."""
    container = container_of(pod, requested)
    state = as_object(container_status(pod, container).get("state"))
    if "running" not in state:
        waiting = as_object(state.get("waiting")) or as_object(state.get("terminated"))
        reason = waiting.get("reason") or "ContainerCreating"
        raise Conflict(f'container "{container}" in pod "{pod["metadata"]["name"]}" is not running: {reason}')
    return container
