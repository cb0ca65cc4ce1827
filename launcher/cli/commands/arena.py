"""``arena``: the commands of Arena, for jobs that the launcher runs."""

import argparse

from launcher.cli.arena.command import run_arena
from launcher.cli.command import Command


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND", help="see launcher arena --help"
    )


COMMANDS = {
    "arena": Command(
        lambda args: run_arena(args.words),
        _add_arguments,
        example="launcher arena list",
        parser_options={
            "usage": "launcher arena COMMAND …",
            "add_help": False,
            # No word is an option here: Arena's own parser reads all of them.
            "prefix_chars": "\0",
        },
    )
}
