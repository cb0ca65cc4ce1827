"""Sessions of commands in containers: the options of a request for one, and the interface of a running one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

#: The streams of a command's output. A terminal has only stdout.
OutputStream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class PodExecOptions:
    """The command of a session, and its streams that the client uses."""

    #: Not empty.
    command: Sequence[str]
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    #: The streams are a terminal; *stderr* is False.
    tty: bool = False

    @property
    def outputs(self) -> Sequence[OutputStream]:
        """The output streams that the client reads."""
        both: tuple[tuple[OutputStream, bool], ...] = (("stdout", self.stdout), ("stderr", self.stderr))
        return [stream for stream, used in both if used]


class ExecSession(Protocol):
    """A running command. It waits while its output is not read."""

    async def read(self, stream: OutputStream) -> bytes:
        """Returns the next output; empty at the end of the stream, and if the command has exited."""
        ...

    async def write(self, data: bytes) -> None:
        """Passes *data* to the command's input. Returns when it is accepted, or can no longer be read."""
        ...

    async def close_stdin(self) -> None:
        """Ends the command's input."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """Sets the size of the terminal; does nothing without one."""
        ...

    async def wait(self) -> int:
        """Returns the exit code. Raises Unavailable if the command was not started, or its end was not observed."""
        ...

    async def close(self) -> None:
        """Ends the session; a running command receives SIGHUP, and SIGKILL some seconds later."""
        ...
