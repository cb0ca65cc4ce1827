"""A command: its parser and the function that runs it. ``main`` holds the table of all of them."""

import argparse
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Command(NamedTuple):
    """What a command's module defines: a module has one of these for each of its commands, in ``COMMANDS``."""

    #: None where each of the command's own subcommands has one.
    run: Callable[[argparse.Namespace], int] | None
    add_arguments: Callable[[argparse.ArgumentParser], None]
    example: str
    #: Follows the one line of help in the command's own help.
    details: str = ""
    #: Further arguments of ArgumentParser.
    parser_options: Mapping[str, Any] = {}

    def configure(self, parser: argparse.ArgumentParser, summary: str) -> None:
        """Add the arguments and the help; ``args.run`` is the function to call."""
        if parser.description is None:
            parser.description = f"{summary[0].upper()}{summary[1:]}." + (
                f" {self.details}" if self.details else ""
            )
        if parser.epilog is None:
            parser.epilog = f"example: {self.example}"
        self.add_arguments(parser)
        if self.run is not None:
            parser.set_defaults(run=self.run)


def load_module(name: str) -> Any:
    """
    The module *name* of ``launcher.cli``, imported now.

    For modules that only some uses of a command need: importing aiohttp takes longer than most commands run.
    """
    return import_module(f"launcher.cli.{name}")


def load_command(module: str, name: str) -> Command:
    """The command *name* that *module* of ``launcher.cli.commands`` defines."""
    command: Command = load_module(f"commands.{module}").COMMANDS[name]
    return command
