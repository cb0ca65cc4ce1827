"""Sessions in containers, of a command or of the container's own streams: their options, and their interface."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

#: The streams of a command's output. A terminal has only stdout.
OutputStream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The streams that the client uses."""

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


@dataclass(frozen=True, slots=True)
class PodExecOptions(StreamOptions):
    """The command of a session, and its streams that the client uses."""

    #: Not empty.
    command: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAttachOptions(StreamOptions):
    """The streams of a container that the client uses; *stdin* and *tty* only if the container has them."""

    #: The input of the container ends with that of its first client.
    stdin_once: bool = False

    @property
    def ends_input(self) -> bool:
        """Whether the end of the client's input ends that of the container, and not the session."""
        return self.stdin_once and not self.tty


class ExecSession(Protocol):
    """A running command, which waits while its output is not read; or the streams of a container."""

    async def read(self, stream: OutputStream) -> bytes:
        """Returns the next output; empty at the end of the stream, and if the command has exited."""
        ...

    async def write(self, data: bytes) -> None:
        """Passes *data* to the command's input. Returns when it is accepted, or can no longer be read."""
        ...

    async def close_stdin(self) -> None:
        """Ends the command's input, or the client's part in that of a container."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """Sets the size of the terminal; does nothing without one."""
        ...

    async def wait(self) -> int:
        """
        Returns the exit code; 0 at the end of a session with the streams of a container.

        Raises Unavailable if the command was not started, or its end was not observed.
        """
        ...

    async def close(self) -> None:
        """Ends the session. A running command receives SIGHUP, and SIGKILL seconds later; a container continues."""
        ...
