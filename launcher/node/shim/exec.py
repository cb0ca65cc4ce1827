"""Runs commands inside containers that run already, each for a limited time."""

from __future__ import annotations

import os
import signal

from launcher.node.shim import container_init, linux
from launcher.node.shim.event_loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run import Answer
    from launcher.node.shim.run_records import Json

#: Exit codes, as shells and ``timeout`` have them.
TOO_LONG, CANNOT, NOT_FOUND = 124, 126, 127
#: How much of the output is kept.
_MOST = 10 * 1024
#: A user namespace is entered first: it gives the right to enter the others.
_SPACES = ("user", "mnt", "uts", "pid")


class _Command:
    __slots__ = ("answer", "output", "pipe")

    def __init__(self, answer: Answer, pipe: int) -> None:
        self.answer, self.pipe, self.output = answer, pipe, b""

    def read(self) -> int | None:
        """How much came; 0 when no more can come, None when it may come later."""
        try:
            data = os.read(self.pipe, 65536)
        except BlockingIOError:
            return None
        self.output += data[: _MOST - len(self.output)]
        return len(data)


class Commands:
    """The commands that run now, by the process that waits for each."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._running: dict[int, _Command] = {}

    def start(self, record: Json, first: int, argv: list[str], within: float, answer: Answer) -> None:
        """Start *argv* in the namespaces of the process *first*."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        try:
            pid = os.fork()
            if not pid:
                _supervise(record, abs(first), argv, within, [null, writing, writing])
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
            os.close(null)
        command = self._running[pid] = _Command(answer, reading)
        self._loop.watch(reading, lambda _: self._read(command))

    def _read(self, command: _Command) -> None:
        if command.read() == 0:
            self._loop.leave(command.pipe)

    def ended(self, pid: int, code: int) -> None:
        """A child has ended; if it was one of these, its asker is answered."""
        command = self._running.pop(pid, None)
        if command is None:
            return
        while command.read():
            pass
        self._loop.leave(command.pipe)
        os.close(command.pipe)
        command.answer({"code": code, "output": command.output.decode("latin-1")})


def _supervise(record: Json, first: int, argv: list[str], within: float, descriptors: list[int]) -> NoReturn:
    """Start the command where it belongs, wait for it, and end as it has ended."""
    code = CANNOT
    try:
        container_init.take(descriptors)
        os.umask(0o022)
        order = record["order"] | {"argv": argv}
        joined = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in order["cgroups"]]
        if record["way"] != "plain":
            _enter(first)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            _be_command(order, joined)
        code = _waited_for(pid, within)
    except Exception as error:
        os.write(2, str(error).encode())
    finally:
        os._exit(code)


def _enter(first: int) -> None:
    spaces = [
        os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        for name in _SPACES
        if os.readlink(f"/proc/{first}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
    ]
    for space in spaces:
        linux.enter(space)


def _be_command(order: Json, joined: list[int]) -> NoReturn:
    code = CANNOT
    try:
        os.setsid()
        container_init.become(order, joined)
    except container_init.StartRefused as error:
        code = NOT_FOUND if "not found" in str(error) or "no such file" in str(error) else CANNOT
        os.write(2, str(error).encode())
    except Exception as error:
        os.write(2, str(error).encode())
    finally:
        os._exit(code)


def _waited_for(pid: int, within: float) -> int:
    late = signal.sigtimedwait({signal.SIGCHLD}, within) is None
    if late:
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return TOO_LONG if late else code if code >= 0 else 128 - code
