"""``pods/attach``: the streams of a running container, its output from now on."""

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from launcher.api.http.query import flag
from launcher.api.resources.pod_exec import ExecSessions, running_container, serve_session
from launcher.core.errors import BadRequest
from launcher.core.json_access import as_list, as_object
from launcher.core.pods.exec_session import PodAttachOptions
from launcher.store.interface import PODS, Object, Store


class PodAttachHandler:
    """Handles ``…/pods/{name}/attach``. *clock* returns seconds since 1970."""

    def __init__(self, store: Store, sessions: ExecSessions, clock: Callable[[], float]) -> None:
        self._store, self._sessions, self._clock = store, sessions, clock

    async def handle(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Passes on the streams until the container terminates, or the client's input or connection ends."""
        pod = await self._store.get(PODS, namespace, name)
        container = running_container(pod, request.query.get("container", ""))
        options = attach_options(request.query, _container_spec(pod, container))
        return await serve_session(
            request,
            options.outputs,
            lambda: self._sessions.attach(pod["metadata"]["uid"], container, options),
            {
                "subresource": "attach",
                "pod": f"{namespace}/{name}",
                "container": container,
                "stdin": options.stdin,
                "tty": options.tty,
            },
            self._clock,
        )


def attach_options(query: Mapping[str, str], spec: Mapping[str, Any]) -> PodAttachOptions:
    """
    Returns the streams of the container with that *spec* that the query requests. Raises BadRequest.

    As in a kubelet, ``tty`` of the query has no effect, and ``stdin`` none if the container has no input.
    """
    tty = bool(spec.get("tty"))
    options = PodAttachOptions(
        stdin=flag(query, "stdin") and bool(spec.get("stdin")),
        stdout=flag(query, "stdout"),
        # A terminal has one stream for both.
        stderr=flag(query, "stderr") and not tty,
        tty=tty,
        stdin_once=bool(spec.get("stdinOnce")),
    )
    if options.stdin or options.outputs:
        return options
    if flag(query, "stdin"):
        raise BadRequest(
            f'container "{spec.get("name")}" has no input: set stdin of the container to true, or request stdout'
        )
    raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")


def _container_spec(pod: Object, container: str) -> Mapping[str, Any]:
    spec = as_object(pod.get("spec"))
    for kind in ("containers", "initContainers"):
        for entry in as_list(spec.get(kind)):
            if as_object(entry).get("name") == container:
                return as_object(entry)
    return {}
