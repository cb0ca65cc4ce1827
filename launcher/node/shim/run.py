"""One run in the shim: its processes, its output and its end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from launcher.node.shim import linux, run_records
from launcher.node.shim.log_writer import LogWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from launcher.node.shim.run_records import Json

    Respond = Callable[[dict[str, Any]], None]

#: The default capacity of a pipe.
_CHUNK_BYTES = 65536
#: Parts of the container config that are needed only to prepare its files.
_NOT_RECORDED = ("steps", "arguments")


class ShimRun:
    """A run from its start to its end, possibly recovered from an earlier shim."""

    __slots__ = (
        "cgroups",
        "config",
        "directory",
        "ended",
        "exit_code",
        "group",
        "id",
        "kill",
        "killed",
        "log",
        "mode",
        "oom_kills",
        "outputs",
        "pid",
        "pidfd",
        "relay",
        "socket",
        "started",
        "waiting",
    )

    def __init__(self, run: str, directory: str, mode: str) -> None:
        """*mode* is the name of its isolation mode."""
        self.id, self.directory, self.mode = run, directory, mode
        self.started = 0.0
        self.ended: Json | None = None
        #: The number of its processes that were killed because the run exceeded its memory limit.
        self.oom_kills = 0
        #: The container config; empty once the program runs.
        self.config: Json = {}
        #: The process whose end is the end of the run.
        self.pid = 0
        #: The process group that receives signals, and the process (or, if negative, group) that receives SIGKILL.
        self.group = self.kill = 0
        #: The name of the stream by descriptor.
        self.outputs: dict[int, bytes] = {}
        self.log: LogWriter | None = None
        self.cgroups: list[str] = []
        #: The start requests without a response; None once the program runs.
        self.waiting: list[Respond] | None = None
        #: The socket to its init, until the program runs.
        self.socket = -1
        #: The descriptor of the process of a recovered run, which is not a child of this shim.
        self.pidfd = -1
        self.killed = False
        #: The process that relays its input or terminal; 0 without one, and once it has ended.
        self.relay = 0
        #: The exit code, if it is known before the last process has ended.
        self.exit_code: int | None = None

    def to_json(self) -> Json:
        return {"id": self.id, "started": self.started, "ended": self.ended, "oom_kills": self.oom_kills}

    def is_unwatched(self) -> bool:
        """Whether the end of a recovered run has to be polled."""
        return self.pidfd < 0 and self.exit_code is None

    def create_outputs(self, user: int | None) -> None:
        """Creates the run's output pipes. Raises OSError."""
        for name in run_records.OUTPUTS:
            path = f"{self.directory}/{name}"
            os.mkfifo(path, 0o600)
            if user is not None and os.geteuid() == 0:
                # A program may open its output again, as /dev/stdout.
                with suppress(OSError):
                    os.chown(path, user, -1)

    def open_outputs(self) -> None:
        """Opens the run's output pipes for reading."""
        for name in run_records.OUTPUTS:
            file = os.open(f"{self.directory}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self.outputs[file] = name.encode()

    def read(self, file: int) -> int | None:
        """Copies output to the log. Returns its size; 0 at the end of the stream, None if there may be more later."""
        try:
            data = os.read(file, _CHUNK_BYTES)
        except BlockingIOError:
            return None
        if data and self.log is not None:
            self.log.write(self.outputs[file], data, time.time_ns())
        return len(data)

    def log_bytes(self) -> int:
        """The bytes written to its log since it was opened."""
        return self.log.written if self.log is not None else 0

    def unread_output(self) -> bytes:
        """Removes the output that is not in the log from the pipes, and returns it."""
        output = b""
        for file in self.outputs:
            try:
                output += os.read(file, _CHUNK_BYTES)
            except BlockingIOError:
                continue
        return output

    def read_all(self) -> None:
        """Copies all output in the pipes to the log."""
        for file in self.outputs:
            while self.read(file):
                pass

    def read_recorded_output(self) -> None:
        """Copies the output that its init recorded while no shim ran to the log."""
        outputs = (run_records.read_end(self.directory, "output") or {}).get("output") or {}
        for name in run_records.OUTPUTS:
            if outputs.get(name) and self.log is not None:
                self.log.write(name.encode(), outputs[name].encode("latin-1"), time.time_ns())

    def direct_signals_to_main(self) -> None:
        """Directs signals to the main process, which has its own session if it has a terminal."""
        if self.kill > 0 and (children := linux.children(self.kill)):
            self.group = children[0]  # the oldest

    def signal(self, number: int) -> None:
        """Sends the signal to every process of the run."""
        try:
            if number == signal.SIGKILL:
                self.killed = True
                os.kill(self.kill, number)
            else:
                os.killpg(self.group, number)
        except (ProcessLookupError, PermissionError):
            return  # it has ended, which is reported separately; or its program became another user

    def record(self) -> None:
        """Writes the record from which another shim recovers this run."""
        record = {
            "order": {name: value for name, value in self.config.items() if name not in _NOT_RECORDED},
            "way": self.mode,
            "pid": self.pid,
            "born": run_records.start_ticks(self.pid),
            "boot": run_records.boot_id(),
            "group": self.group,
            "kill": self.kill,
            "cgroups": self.cgroups,
            "started": self.started,
        }
        if self.relay:
            record |= {"relay": self.relay, "relay_born": run_records.start_ticks(self.relay)}
        run_records.write(self.directory, run_records.RECORD, record)

    def close(self) -> None:
        """Closes all its descriptors."""
        for file in self.outputs:
            os.close(file)
        self.outputs = {}
        for file in (self.socket, self.pidfd):
            if file >= 0:
                os.close(file)
        self.socket = self.pidfd = -1
