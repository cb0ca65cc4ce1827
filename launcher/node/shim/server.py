"""Hears requests over the socket, one JSON object to a line, and answers each by its number."""

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


class _Connection:
    __slots__ = ("coming", "ends_runs", "file", "full", "going")

    def __init__(self, file: int) -> None:
        self.file = file
        self.coming = b""
        self.going: list[bytes] = []
        #: Whether the other side has not read what it was sent.
        self.full = False
        #: Whether the containers are killed when this connection ends.
        self.ends_runs = False


class ShimServer:
    """The launchers that are connected: one, and for a moment perhaps another."""

    def __init__(self, listening: socket.socket, loop: Loop, keeper: Supervisor, abilities: Json) -> None:
        self._listening, self._loop, self._keeper, self._abilities = listening, loop, keeper, abilities
        self._connections: dict[int, _Connection] = {}
        #: Set when a launcher asks the keeper to end.
        self.stopped = False
        listening.setblocking(False)
        keeper.tell = self._tell
        keeper.report_changed = self._report_changed
        loop.watch(listening.fileno(), lambda _: self._accept())

    def busy(self) -> bool:
        return bool(self._connections)

    def _accept(self) -> None:
        try:
            connected, _ = self._listening.accept()
        except OSError:
            return  # gone again, or no descriptor is left for it: whoever it is tries again
        connected.setblocking(False)
        connection = _Connection(connected.detach())
        self._connections[connection.file] = connection
        self._loop.watch(connection.file, lambda events: self._serve(connection, events))
        runs = [run.told() for run in self._keeper.runs.values() if run.waiting is None]
        self._send(connection, {"hello": os.getpid(), "runs": runs, **self._abilities})

    def _serve(self, connection: _Connection, events: int) -> None:
        if events & WRITABLE:
            connection.full = False
            self._loop.change(connection.file, READABLE)
        if not events & ~WRITABLE:
            return
        try:
            data = os.read(connection.file, 1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
            return
        *lines, connection.coming = (connection.coming + data).split(b"\n")
        for line in lines:
            self._request(connection, json.loads(line))

    def _close(self, connection: _Connection) -> None:
        self._loop.leave(connection.file)
        os.close(connection.file)
        del self._connections[connection.file]
        if connection.ends_runs:
            self._stop()

    def _request(self, connection: _Connection, asked: Json) -> None:
        number, what = asked["n"], asked["op"]

        def answer(words: Json) -> None:
            self._send(connection, {"n": number, **words})

        if what == "start":
            self._keeper.start(asked["order"], answer)
        elif what == "configure":
            connection.ends_runs = asked["options"].get("ends_with_launcher", False)
            self._keeper.configure(asked["options"])
            answer({})
        elif what == "execute":
            self._keeper.execute(asked["run"], asked["argv"], asked["within"], answer)
        else:
            answer(self._quick(what, asked))

    def _quick(self, what: str, asked: Json) -> Json:
        if what == "signal":
            self._keeper.signal(asked["run"], asked["number"])
        elif what == "forget":
            return {"forgotten": self._keeper.forget(asked["run"])}
        elif what == "stop":
            self._stop()
        return {}

    def _stop(self) -> None:
        self._keeper.kill_all()
        self.stopped = True

    def _tell(self, run: ShimRun) -> None:
        for connection in self._connections.values():
            self._send(connection, {"ended": run.told()})

    def _report_changed(self, run: ShimRun) -> None:
        for connection in self._connections.values():
            self._send(connection, {"changed": run.told()})

    def _send(self, connection: _Connection, words: Json) -> None:
        connection.going.append(json.dumps(words).encode() + b"\n")

    def flush(self) -> None:
        """Send what has gathered, as far as the other side takes it."""
        for connection in list(self._connections.values()):
            if connection.going and not connection.full:
                self._push(connection)

    def _push(self, connection: _Connection) -> None:
        text = b"".join(connection.going)
        try:
            sent = os.write(connection.file, text)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        connection.going = [text[sent:]] if sent < len(text) else []
        if connection.going:
            connection.full = True
            self._loop.change(connection.file, READABLE | WRITABLE)
