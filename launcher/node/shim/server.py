"""Serves the shim's socket: requests are JSON objects, one per line, and each response has its request's number."""

from __future__ import annotations

import json
import os
import socket

from launcher.node.shim.event_loop import READABLE, WRITABLE, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.node.shim.run import ShimRun
    from launcher.node.shim.run_records import Json
    from launcher.node.shim.supervisor import Supervisor

#: The input, output and errors of a command.
_MAX_DESCRIPTORS = 3


class _Connection:
    __slots__ = ("descriptors", "file", "input", "is_blocked", "kills_runs", "output", "socket")

    def __init__(self, accepted: socket.socket) -> None:
        self.socket, self.file = accepted, accepted.fileno()
        self.input = b""
        #: Descriptors that the client has sent with its requests.
        self.descriptors: list[int] = []
        self.output: list[bytes] = []
        #: Whether the client has to read before more can be written.
        self.is_blocked = False
        #: Whether all containers are killed when this connection ends.
        self.kills_runs = False


class ShimServer:
    """The connections of launchers: usually one, briefly two while one launcher replaces another."""

    def __init__(self, listener: socket.socket, loop: Loop, supervisor: Supervisor, hello: Json) -> None:
        """*hello* is sent to every launcher that connects."""
        self._listener, self._loop, self._supervisor, self._hello = listener, loop, supervisor, hello
        self._connections: dict[int, _Connection] = {}
        #: Set when a launcher requests the shim's end.
        self.stopped = False
        listener.setblocking(False)
        supervisor.report_ended = self._report_ended
        supervisor.report_changed = self._report_changed
        loop.watch(listener.fileno(), lambda _: self._accept())

    def is_connected(self) -> bool:
        return bool(self._connections)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return  # the client has closed it, or no descriptor is left: then the client retries
        accepted.setblocking(False)
        connection = _Connection(accepted)
        self._connections[connection.file] = connection
        self._loop.watch(connection.file, lambda events: self._serve(connection, events))
        runs = [run.to_json() for run in self._supervisor.runs.values() if run.waiting is None]
        self._send(connection, {"hello": os.getpid(), "runs": runs, **self._hello})

    def _serve(self, connection: _Connection, events: int) -> None:
        if events & WRITABLE:
            connection.is_blocked = False
            self._loop.set_events(connection.file, READABLE)
        if not events & ~WRITABLE:
            return
        try:
            data, descriptors, _, _ = socket.recv_fds(connection.socket, 1 << 20, _MAX_DESCRIPTORS)
            connection.descriptors += descriptors
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
            return
        *lines, connection.input = (connection.input + data).split(b"\n")
        for line in lines:
            self._handle(connection, json.loads(line))

    def _close(self, connection: _Connection) -> None:
        self._loop.unwatch(connection.file)
        del self._connections[connection.file]
        connection.socket.close()
        for file in connection.descriptors:
            os.close(file)
        if connection.kills_runs:
            self._stop()

    def _handle(self, connection: _Connection, request: Json) -> None:
        number, operation = request["n"], request["op"]

        def respond(response: Json) -> None:
            self._send(connection, {"n": number, **response})

        if operation == "start":
            self._supervisor.start(request["order"], respond)
        elif operation == "configure":
            connection.kills_runs = request["options"].get("ends_with_launcher", False)
            self._supervisor.configure(request["options"])
            respond({})
        elif operation == "execute":
            self._supervisor.execute(request["run"], request["argv"], request["within"], respond)
        elif operation == "open":
            streams = [*connection.descriptors, connection.file]
            if (error := self._supervisor.open_session(request, streams)) is not None:
                respond({"error": error})
            else:
                # The session has its own copies.
                self._close(connection)
        else:
            respond(self._response(operation, request))

    def _response(self, operation: str, request: Json) -> Json:
        if operation == "signal":
            self._supervisor.signal(request["run"], request["number"])
        elif operation == "forget":
            return {"forgotten": self._supervisor.remove(request["run"])}
        elif operation == "stop":
            self._stop()
        return {}

    def _stop(self) -> None:
        self._supervisor.kill_all()
        self.stopped = True

    def _report_ended(self, run: ShimRun) -> None:
        for connection in self._connections.values():
            self._send(connection, {"ended": run.to_json()})

    def _report_changed(self, run: ShimRun) -> None:
        for connection in self._connections.values():
            self._send(connection, {"changed": run.to_json()})

    def _send(self, connection: _Connection, message: Json) -> None:
        connection.output.append(json.dumps(message).encode() + b"\n")

    def flush(self) -> None:
        """Writes the queued messages, as far as the clients' sockets accept them."""
        for connection in list(self._connections.values()):
            if connection.output and not connection.is_blocked:
                self._write(connection)

    def _write(self, connection: _Connection) -> None:
        text = b"".join(connection.output)
        try:
            sent = os.write(connection.file, text)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        connection.output = [text[sent:]] if sent < len(text) else []
        if connection.output:
            connection.is_blocked = True
            self._loop.set_events(connection.file, READABLE | WRITABLE)
