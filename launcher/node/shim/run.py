"""One run as its keeper knows it: where its processes are, what it says, how it ended."""

from __future__ import annotations

import os
import signal
import time

from launcher.node.shim import run_records
from launcher.node.shim.log_writer import LogWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from launcher.node.shim.run_records import Json

    Answer = Callable[[dict[str, Any]], None]

#: What a pipe holds at most, unless somebody has changed it.
_CHUNK = 65536


class ShimRun:
    """A run from its start to its end, also of an earlier keeper. After the end only the few facts are kept."""

    __slots__ = (
        "adopted",
        "cgroups",
        "code",
        "directory",
        "ended",
        "group",
        "id",
        "isolation",
        "kill",
        "killed",
        "log",
        "oom_kills",
        "outputs",
        "pid",
        "socket",
        "started",
        "waiting",
    )

    def __init__(self, run: str, directory: str) -> None:
        self.id, self.directory = run, directory
        self.started = 0.0
        self.ended: Json | None = None
        #: How many of its processes were killed because it exceeded its memory limit.
        self.oom_kills = 0
        self.isolation = ""
        #: The process whose end is the end of the run.
        self.pid = 0
        #: Its signals go to this process group, and SIGKILL to this process (or, below zero, group).
        self.group = self.kill = 0
        #: Descriptors by the name of the stream.
        self.outputs: dict[int, bytes] = {}
        self.log: LogWriter | None = None
        self.cgroups: list[str] = []
        #: Who asked for the start and has not been answered; None once it runs.
        self.waiting: list[Answer] | None = None
        #: The socket to its init until the program runs.
        self.socket = -1
        #: The descriptor of a process that is not a child of ours.
        self.adopted = -1
        self.killed = False
        #: Its exit code, when that is known before its last process is gone.
        self.code: int | None = None

    def told(self) -> Json:
        return {"id": self.id, "started": self.started, "ended": self.ended, "oom_kills": self.oom_kills}

    def open_outputs(self) -> None:
        """Begin to read what the run says; from where an earlier keeper has left off."""
        for name in run_records.OUTPUTS:
            file = os.open(f"{self.directory}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self.outputs[file] = name.encode()

    def read(self, file: int) -> int | None:
        """How much of what the run said is now in its log; 0 when no more can come, None when it may come later."""
        try:
            data = os.read(file, _CHUNK)
        except BlockingIOError:
            return None
        if data and self.log is not None:
            self.log.write(self.outputs[file], data, time.time_ns())
        return len(data)

    def log_bytes(self) -> int:
        """Bytes of its log since it was opened; 0 without a log."""
        return self.log.written if self.log is not None else 0

    def unwritten(self) -> bytes:
        """What the run said and is not in its log, taken out of its pipes."""
        said = b""
        for file in self.outputs:
            try:
                said += os.read(file, _CHUNK)
            except BlockingIOError:
                continue
        return said

    def read_all(self) -> None:
        """What the run said until now is in its log."""
        for file in self.outputs:
            while self.read(file):
                pass

    def read_kept(self) -> None:
        """What its own init has kept of its output, while no keeper was there, is in its log."""
        kept = (run_records.word(self.directory, "output") or {}).get("output") or {}
        for name in run_records.OUTPUTS:
            if kept.get(name) and self.log is not None:
                self.log.write(name.encode(), kept[name].encode("latin-1"), time.time_ns())

    def signal(self, number: int) -> None:
        """Send it to every process of the run."""
        try:
            if number == signal.SIGKILL:
                self.killed = True
                os.kill(self.kill, number)
            else:
                os.killpg(self.group, number)
        except (ProcessLookupError, PermissionError):
            return  # it has ended, and that will be told; or it has become somebody else's by its own doing

    def record(self, order: Json) -> None:
        """Write down all that another keeper needs to know."""
        facts = {
            # How its files were made is history.
            "order": {name: value for name, value in order.items() if name not in ("steps", "arguments")},
            "way": self.isolation,
            "pid": self.pid,
            "born": run_records.born(self.pid),
            "boot": run_records.boot(),
            "group": self.group,
            "kill": self.kill,
            "cgroups": self.cgroups,
            "started": self.started,
        }
        run_records.write(self.directory, run_records.RECORD, facts)

    def close(self) -> None:
        """Nothing of it is open any more."""
        for file in self.outputs:
            os.close(file)
        self.outputs = {}
        for file in (self.socket, self.adopted):
            if file >= 0:
                os.close(file)
        self.socket = self.adopted = -1
