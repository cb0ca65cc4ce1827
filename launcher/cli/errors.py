"""What the user is told instead of an answer, and the exit code that goes with it."""

import sys


class CommandError(Exception):
    """The command cannot do what was asked; the lines say why, and the way out."""

    code = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class UsageError(CommandError):
    """The user has to mend something."""

    code = 2


def print_error(*lines: str) -> None:
    """Say something that is not the answer."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)
