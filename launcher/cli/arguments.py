"""What the commands have in common on the command line. The metavar says what shells complete: FILE, DIR or NAME."""

import argparse
from collections.abc import Callable
from typing import TypeAlias

from launcher.cli.names import framework_name, namespace_name
from launcher.core.timestamps import seconds_in

#: What a command adds its parser to.
SubParsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no other name

FILE = "Frameworks and jobs (TFJob, PyTorchJob, …), as YAML or JSON; - reads standard input"
DEFAULT_SERVER = "http://127.0.0.1:8080"


def add_command(
    commands: SubParsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,  # noqa: A002 - argparse calls it so
    more: str = "",
    example: str,
) -> argparse.ArgumentParser:
    """The parser of a new command, with *help* in the list of commands and *more* in its own help."""
    parser = commands.add_parser(
        name,
        allow_abbrev=False,
        help=help,
        description=f"{help[0].upper()}{help[1:]}." + (f" {more}" if more else ""),
        epilog=f"example: {example}",
    )
    parser.set_defaults(run=run)
    return parser


def add_name(parser: argparse.ArgumentParser) -> None:
    """``NAME``: the Framework that the command is about."""
    parser.add_argument("name", type=framework_name, metavar="NAME", help="the Framework")


def add_server(parser: argparse.ArgumentParser) -> None:
    """The options that say which server to talk to, and which namespace to look at."""
    parser.add_argument(
        "-n",
        "--namespace",
        type=namespace_name,
        metavar="NAMESPACE",
        help="the namespace to look at (default: default)",
    )
    server = parser.add_argument_group("server")
    server.add_argument(
        "--server",
        metavar="URL",
        help=f"where the launcher is, or unix:PATH ($LAUNCHER_SERVER, or {DEFAULT_SERVER})",
    )
    server.add_argument("--token-file", metavar="FILE", help="a file with its token ($LAUNCHER_TOKEN_FILE)")
    server.add_argument("--ca", metavar="FILE", help="certificates to trust, for https ($LAUNCHER_CA_FILE)")


def add_strict(parser: argparse.ArgumentParser) -> None:
    """``--strict``: whether unknown and duplicate fields are errors, which is the default."""
    parser.add_argument(
        "--strict",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="unknown and duplicate fields are errors (default), or only warnings",
    )


def add_output(parser: argparse.ArgumentParser, *forms: str) -> None:
    """``-o``: how the answer is printed."""
    parser.add_argument("-o", "--output", choices=forms, help="print it in another form")


def seconds(text: str) -> float:
    """What a duration says, for argparse."""
    try:
        return seconds_in(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def whole_number(text: str) -> int:
    """A number of at least 0, for argparse."""
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 0")
    return int(text)
