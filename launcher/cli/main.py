"""Every command. Answers go to stdout, all else to stderr; exit 2 when the user must change something, 1 when not."""

import argparse
import os
import sys
from collections.abc import Generator, Sequence

from launcher.cli.arena import command

# The engine and the client are imported by the commands that need them: the parser answers --help without.
from launcher.cli.commands import (
    completion,
    convert,
    events,
    get,
    lifecycle,
    logs,
    offline,
    run,
    serve,
    simpletfjob,
    store,
    submit,
    version,
    wait,
)
from launcher.cli.errors import CommandError, print_error

#: In the order in which --help lists their commands.
_FAMILIES = (
    run,
    serve,
    submit,
    get,
    logs,
    events,
    wait,
    lifecycle,
    offline,
    convert,
    command,
    simpletfjob,
    store,
    completion,
    version,
)

#: Tools that the launcher stands in for, under whose names it may be called: by a link of that name to it.
_STAND_INS = ("arena", "simpletfjob")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that *arguments* name."""
    try:
        given = make_parser().parse_args(_as_called(sys.argv) if arguments is None else arguments)
        code = int(given.run(given))
        sys.stdout.flush()
    except CommandError as complaint:
        print_error(*complaint.lines)
        return complaint.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our answer has had enough of it; nor is there anybody to complain to when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _as_called(words: Sequence[str]) -> list[str]:
    """The arguments behind the program's name; that name before them if it is the name of a command, too."""
    program, *arguments = words
    name = os.path.basename(program)
    return [name, *arguments] if name in _STAND_INS else arguments


def make_parser() -> argparse.ArgumentParser:
    """The parser of every command; ``given.run`` is the function to call."""
    parser = argparse.ArgumentParser(
        prog="launcher",
        allow_abbrev=False,
        description="Run Frameworks: groups of task roles that start, retry and finish together.",
        epilog="example: launcher run examples/hello.yaml (COMMAND --help tells more of each)",
        formatter_class=_Help,
    )
    commands = parser.add_subparsers(required=True, title="commands", metavar="COMMAND")
    for family in _FAMILIES:
        family.add(commands)
    return parser


class _Help(argparse.HelpFormatter):
    """Commands stand where their title does: indented, the longest would not fit its column."""

    def _iter_indented_subactions(self, action: argparse.Action) -> Generator[argparse.Action]:
        yield from getattr(action, "_get_subactions", list)()
