"""
Relays the input and the terminal of a container that has ``stdin`` or ``tty``, in a process of its own.

The process has the other end of the container's input, a pipe or a terminal, so that neither the end of the launcher
nor that of the shim ends the input. Launchers connect to a socket in the run's directory and send packets: input, or
the size of the terminal. The output of a terminal is copied to the pipe of the run's stdout, which the shim reads as
that of any other run. At most one packet and one chunk of output are in memory: what cannot be written is not read.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import termios
from contextlib import suppress

from launcher.node.shim import container_init, linux, run_records
from launcher.node.shim.event_loop import READABLE, WRITABLE, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run_records import Json

#: The name of the socket in the directory of a run.
SOCKET = "attach"
#: The first byte of a packet: input, which may be empty, or the size of the terminal, a ``struct winsize``.
INPUT, SIZE = b"i", b"s"
#: The first packet to a client: it is attached, or there are too many.
ACCEPTED, REFUSED = b"a", b"r"
#: The longest packet, and the longest chunk of output.
MAX_PACKET_BYTES = 32 * 1024
#: Connections that are served at once. A client may have two.
_MAX_CLIENTS = 64
_BACKLOG = 128
#: Seconds between two checks whether a shim exists that reads the last output.
_CHECK_SECONDS = 0.05
#: The last output is at most that of the kernel's buffers, unless a process of another container has the terminal.
_MAX_LAST_CHUNKS = 64


def start(directory: str, config: Json, end: int, lock: int) -> tuple[int, int]:
    """
    Starts the relay of the run in *directory*. Returns its pid, and the input of the run, which the caller closes.

    A terminal is the output of the run too. *end* and *lock* are the run's end file and the shim's lock file. Raises
    OSError.
    """
    theirs, ours = _open_terminal() if config.get("tty") else os.pipe()
    listener, output = None, -1
    try:
        if config["user"] is not None:
            with suppress(OSError):  # only root may do it
                os.fchown(theirs, config["user"], -1)
        listener = _listen(directory)
        output = os.open(f"{directory}/stdout", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        pid = os.fork()
        if not pid:
            _run([listener.fileno(), ours, output, end, lock], config)
    except OSError:
        os.close(theirs)
        raise
    finally:
        os.close(ours)
        if listener is not None:
            listener.close()
        if output >= 0:
            os.close(output)
    return pid, theirs


def end_relay(record: Json) -> int | None:
    """Ends the relay of an ended run of an earlier shim. Returns a descriptor of its process; None if none runs."""
    if not record.get("relay") or record["boot"] != run_records.boot_id():
        return None
    try:
        pidfd = os.pidfd_open(record["relay"])
    except OSError:
        return None  # it has ended, or Linux is older than 5.3
    # Another process may have its pid by now.
    if run_records.start_ticks(record["relay"]) != record["relay_born"]:
        os.close(pidfd)
        return None
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    return pidfd


def _open_terminal() -> tuple[int, int]:
    ours, theirs = os.openpty()
    return theirs, ours


def _listen(directory: str) -> socket.socket:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        # Through /proc: the path of a socket is limited to 108 bytes.
        listener.bind(f"/proc/self/fd/{folder}/{SOCKET}")
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


def _run(descriptors: list[int], config: Json) -> NoReturn:
    """Runs as the relay's process; *descriptors* follow its standard streams."""
    try:
        null, errors = os.open("/dev/null", os.O_RDONLY), os.dup(2)
        # Numbers above those that they get.
        standard = [fcntl.fcntl(file, fcntl.F_DUPFD, 100) for file in (null, errors, errors)]
        moved = [fcntl.fcntl(file, fcntl.F_DUPFD, 100) for file in descriptors]
        container_init.use_descriptors([*standard, *moved])
        StreamRelay(config).run()
    except Exception as error:
        os.write(2, f"stream relay: {error}\n".encode())
    finally:
        os._exit(0)


class _Client:
    __slots__ = ("file", "has_input", "socket")

    def __init__(self, accepted: socket.socket) -> None:
        self.socket, self.file = accepted, accepted.fileno()
        #: Whether it has sent input, possibly an empty packet.
        self.has_input = False


class StreamRelay:
    """The state of the relay's process."""

    #: Descriptors of the process after the standard streams.
    _LISTENER, _CONTAINER, _OUTPUT, _END, _LOCK = range(3, 8)

    def __init__(self, config: Json) -> None:
        self._tty: bool = config.get("tty", False)
        self._accepts_input: bool = config.get("stdin", False)
        self._ends_with_client: bool = config.get("stdin_once", False) and not self._tty
        self._loop = Loop()
        self._listener = socket.socket(fileno=self._LISTENER)
        self._clients: dict[int, _Client] = {}
        #: Input that the container has not accepted. Clients with input are not read while there is some.
        self._input = b""
        #: Output that the shim has not read. The terminal is not watched while there is some.
        self._output = b""
        self._ended = False

    def run(self) -> None:
        """Relays until the container ends, or the input of a container without a terminal."""
        os.set_blocking(self._CONTAINER, False)
        self._loop.watch(linux.signalfd({signal.SIGTERM}), lambda _: self._end())
        self._loop.watch(self._LISTENER, lambda _: self._accept())
        self._watch_container()
        while not self._ended:
            self._loop.run_once(-1)
        if self._tty:
            self._finish_output()

    def _watch_container(self) -> None:
        self._loop.watch(self._CONTAINER, self._serve_container, self._container_events())

    def _container_events(self) -> int:
        """The events to watch. Without any, the end of the container is reported too."""
        return (READABLE if self._tty else 0) | (WRITABLE if self._input else 0)

    def _end(self) -> None:
        self._ended = True

    # Clients

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        accepted.setblocking(False)
        is_full = len(self._clients) >= _MAX_CLIENTS
        try:
            accepted.send(REFUSED if is_full else ACCEPTED)
        except OSError:
            is_full = True  # it has disconnected
        if is_full:
            accepted.close()
            return
        client = self._clients[accepted.fileno()] = _Client(accepted)
        self._watch_client(client)

    def _watch_client(self, client: _Client) -> None:
        self._loop.watch(client.file, lambda _: self._receive(client))

    def _receive(self, client: _Client) -> None:
        try:
            packet = client.socket.recv(MAX_PACKET_BYTES + 1)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._close_client(client)
        elif packet[:1] == SIZE:
            self._resize(packet[1:])
        elif self._accepts_input:
            self._add_input(client, packet[1:])

    def _close_client(self, client: _Client) -> None:
        self._loop.unwatch(client.file)
        client.socket.close()
        del self._clients[client.file]
        # All of its input was accepted: it is not read while there is some left.
        if client.has_input and self._ends_with_client:
            self._end()

    def _resize(self, size: bytes) -> None:
        if self._tty:
            with suppress(OSError, ValueError):
                fcntl.ioctl(self._CONTAINER, termios.TIOCSWINSZ, size)

    def _add_input(self, client: _Client, data: bytes) -> None:
        client.has_input = True
        if self._input:
            # The first input of a new client: others are not read now.
            self._input += data
            self._loop.unwatch(client.file)
            return
        self._input = data
        self._write_input()
        if self._input:
            for each in self._clients.values():
                if each.has_input:
                    self._loop.unwatch(each.file)
            if not self._output:
                self._loop.set_events(self._CONTAINER, self._container_events())

    # The container

    def _serve_container(self, events: int) -> None:
        if events & WRITABLE and self._input:
            self._write_input()
            if not self._input:
                self._loop.set_events(self._CONTAINER, self._container_events())
                for client in self._clients.values():
                    if client.has_input:
                        self._watch_client(client)
        if events & ~WRITABLE:
            if self._tty:
                self._read_output()
            else:
                self._end()  # no process has the other end of the pipe

    def _write_input(self) -> None:
        if self._input:
            try:
                self._input = self._input[os.write(self._CONTAINER, self._input) :]
            except BlockingIOError:
                return
            except OSError:
                self._input = b""  # the end of the container is reported as an event

    def _read_output(self) -> None:
        """Copies a chunk of the terminal's output."""
        data = self._read_terminal()
        if data is None:
            return
        if not data:
            self._end()
            return
        self._output = data
        self._write_output()
        if self._output:
            self._loop.unwatch(self._CONTAINER)
            self._loop.watch(self._OUTPUT, lambda _: self._resume_output(), WRITABLE)

    def _read_terminal(self) -> bytes | None:
        """The next output; empty at its end, None if there may be more later."""
        try:
            return os.read(self._CONTAINER, MAX_PACKET_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # no process has the terminal

    def _write_output(self) -> None:
        with suppress(BlockingIOError):
            self._output = self._output[os.write(self._OUTPUT, self._output) :]

    def _resume_output(self) -> None:
        self._write_output()
        if not self._output:
            self._loop.unwatch(self._OUTPUT)
            self._watch_container()

    def _finish_output(self) -> None:
        """Copies the rest of the output, or records it if no shim can read it."""
        for _ in range(_MAX_LAST_CHUNKS):
            while self._output and not container_init.lock_end_file(self._LOCK):
                self._write_output()
                if self._output:
                    select.select([], [self._OUTPUT], [], _CHECK_SECONDS)
            data = self._read_terminal()
            if not data:
                break
            self._output += data
        container_init.record_output({"stdout": self._OUTPUT}, self._END, self._LOCK, self._output)
