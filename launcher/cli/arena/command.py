"""The table of Arena's commands, and how a command line of Arena is run."""

import argparse
import getpass
from collections.abc import Sequence
from importlib.metadata import version

from launcher.cli.arena import unsupported
from launcher.cli.arena.arguments import Run, deprecated_flags, make_parser
from launcher.cli.arena.argv import rewrite_argv
from launcher.cli.arena.config import apply_default_namespace
from launcher.cli.command import load_module
from launcher.cli.errors import UsageError, print_error

#: Module of ``launcher.cli.arena`` and function of each command; the module is imported when the command is used.
_COMMANDS = {
    "submit": ("submit", "submit"),
    "list": ("get", "list_jobs"),
    "get": ("get", "get"),
    "logs": ("logs", "logs"),
    "attach": ("attach", "attach"),
    "delete": ("delete", "delete"),
    "prune": ("delete", "prune"),
    "top node": ("top", "top_node"),
    "top job": ("top", "top_job"),
    "whoami": ("command", "whoami"),
    "version": ("command", "print_version"),
}


def run_arena(words: Sequence[str]) -> int:
    """The exit code of the command in *words*. Raises CommandError."""
    parser = make_parser({name: _imported(*function) for name, function in _COMMANDS.items()})
    args = parser.parse_args(rewrite_argv(words or ["--help"], parser, deprecated_flags(), _deprecated))
    _check_flags(args)
    apply_default_namespace(args)
    return int(args.run(args))


def _imported(module: str, function: str) -> Run:
    def run(args: argparse.Namespace) -> int:
        return int(getattr(load_module(f"arena.{module}"), function)(args))

    return run


def _deprecated(old: str, new: str) -> None:
    print_error(f"Flag {old} has been deprecated, use {new} instead")


def _check_flags(args: argparse.Namespace) -> None:
    """Raise UsageError for unsupported flags, and print which flags have no effect."""
    named = vars(args)
    errors = [f"--{name}: {why}" for name, why in unsupported.FLAGS.items() if name in named]
    if errors:
        raise UsageError(*errors)
    print_error(*(f"--{name}: {why}" for name, why in unsupported.IGNORED.items() if name in named))


def whoami(_: argparse.Namespace) -> int:
    """Print the name of the user."""
    print(getpass.getuser())
    return 0


def print_version(_: argparse.Namespace) -> int:
    """Print the version of the launcher."""
    print(f"arena: launcher {version('framework-launcher')}")
    return 0
