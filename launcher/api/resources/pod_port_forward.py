"""``pods/portforward``: connections to ports of a pod, in one WebSocket."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

from launcher.api.http.spdy import SpdyError
from launcher.api.resources.pod_session import (
    check_upgrade,
    detect_lost_client,
    logged_session,
    until_disconnected,
)
from launcher.api.resources.port_forward_streams import PodConnection, PortForwardStreams
from launcher.core.errors import Conflict, Expired
from launcher.core.json_access import as_object
from launcher.store.interface import PODS, ChangeType, Object, Store
from launcher.store.selectors import Selector

#: SPDY inside of a WebSocket, as kubectl uses it.
_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_NO_SPDY = (
    "SPDY without a WebSocket is not supported in local mode: use kubectl 1.31 or newer (1.30 with "
    "KUBECTL_PORT_FORWARD_WEBSOCKETS=true), or connect to the port at the IP in the pod's status"
)
#: Time for the client to confirm the end of the connection.
_CLOSE_SECONDS = 5.0
_PROTOCOL_ERROR = 1002


#: Connects to a port of a pod of this machine. Raises Unavailable.
ConnectToPod = Callable[[Object, int], Awaitable[PodConnection]]


class PodPortForwardHandler:
    """Handles ``…/pods/{name}/portforward``. *clock* returns seconds since 1970."""

    def __init__(self, store: Store, connect: ConnectToPod, clock: Callable[[], float]) -> None:
        self._store, self._connect, self._clock = store, connect, clock

    async def handle(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Forwards connections until the client disconnects or the pod ends."""
        pod = await self._store.get(PODS, namespace, name)
        if (phase := _phase(pod)) != "Running":
            raise Conflict(f'pod "{name}" is not running: {phase or "Pending"}')
        check_upgrade(request, [_PROTOCOL], _NO_SPDY)
        socket = web.WebSocketResponse(protocols=[_PROTOCOL], timeout=_CLOSE_SECONDS)
        streams = PortForwardStreams(socket, lambda port: self._connect(pod, port))
        logged = {"subresource": "portforward", "pod": f"{namespace}/{name}"}
        with logged_session(request, logged, self._clock, lambda: _summary(streams.ports)):
            await socket.prepare(request)
            detect_lost_client(request)
            await self._forward(request, streams, socket, pod)
        return socket

    async def _forward(
        self, request: web.Request, streams: PortForwardStreams, socket: web.WebSocketResponse, pod: Object
    ) -> None:
        forwarding = asyncio.create_task(streams.run())
        ends = [
            asyncio.create_task(until_disconnected(request)),
            asyncio.create_task(self._until_ended(pod)),
        ]
        try:
            await asyncio.wait([forwarding, *ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (forwarding, *ends):
                task.cancel()
            results = await asyncio.gather(forwarding, *ends, return_exceptions=True)
        error = next((each for each in results if isinstance(each, SpdyError)), None)
        with suppress(ConnectionError):
            await socket.close(
                code=1000 if error is None else _PROTOCOL_ERROR, message=str(error or "").encode()
            )

    async def _until_ended(self, pod: Object) -> None:
        """Returns when the pod has completed or was deleted."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        selector = Selector.for_name(pod["metadata"]["name"])
        while True:
            page = await self._store.list(PODS, namespace, selector)
            if not any(each["metadata"]["uid"] == uid and _phase(each) == "Running" for each in page.items):
                return
            with suppress(Expired):
                async for change in self._store.watch(PODS, namespace, selector, since=page.version):
                    if change.type is ChangeType.DELETED or _phase(change.object) != "Running":
                        return


def _phase(pod: Object) -> str:
    return str(as_object(pod.get("status")).get("phase", ""))


def _summary(ports: list[int]) -> str:
    """For the log: the number of connections by port."""
    counts = {port: ports.count(port) for port in sorted(set(ports))}
    return "connections by port: " + (", ".join(f"{port}: {counts[port]}" for port in counts) or "none")
