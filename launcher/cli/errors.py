"""Errors of commands, with their exit codes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.core.errors import BadRequest, InvalidObject, LauncherError, TooLarge


class CommandError(Exception):
    """The command failed. Each line is printed: what is wrong, and what the user can do."""

    code = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class UsageError(CommandError):
    """The user has to change the arguments or a file."""

    code = 2


def print_error(*lines: str) -> None:
    """Print to stderr."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def command_errors() -> Iterator[None]:
    """Inside, our errors, also in groups; outside, CommandError."""
    try:
        yield
    except (LauncherError, BaseExceptionGroup) as raised:
        error = _first_error(raised)
        if isinstance(error, LauncherError):
            is_usage = isinstance(error, BadRequest | InvalidObject | TooLarge)
            raise (UsageError if is_usage else CommandError)(*str(error).splitlines()) from raised
        raise error from raised


def _first_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
