"""Arguments that several commands have. Shells complete by the metavar: FILE, DIR or NAME."""

import argparse
import re

from launcher.cli.names import framework_name, namespace_name
from launcher.core.timestamps import seconds_in

FILE_HELP = "Frameworks and jobs (TFJob, PyTorchJob, …), as YAML or JSON; - reads standard input"
DEFAULT_SERVER = "http://127.0.0.1:8080"


def add_name_argument(parser: argparse.ArgumentParser) -> None:
    """``NAME``: the Framework."""
    parser.add_argument("name", type=framework_name, metavar="NAME", help="the Framework")


def add_task_argument(parser: argparse.ArgumentParser) -> None:
    """``ROLE[/INDEX]``: the tasks of a role, or one task; its parsed value is a pair, or None."""
    parser.add_argument(
        "task",
        nargs="?",
        type=role_and_index,
        metavar="ROLE[/INDEX]",
        help="only these tasks (default: all)",
    )


def role_and_index(text: str) -> tuple[str, int | None]:
    """The role and the index in ``worker``, ``worker/0`` or ``worker-0``, for argparse."""
    found = re.fullmatch(r"([a-z0-9]+)(?:[/-]([0-9]+))?", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROLE or ROLE/INDEX; for example worker/0")
    return found[1], None if found[2] is None else int(found[2])


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """The server, and the namespace of requests."""
    parser.add_argument(
        "-n",
        "--namespace",
        type=namespace_name,
        metavar="NAMESPACE",
        help="the namespace (default: default)",
    )
    server = parser.add_argument_group("server")
    server.add_argument(
        "--server",
        metavar="URL",
        help=f"the URL of the server, or unix:PATH ($LAUNCHER_SERVER, or {DEFAULT_SERVER})",
    )
    server.add_argument(
        "--token-file", metavar="FILE", help="a file with the token of the server ($LAUNCHER_TOKEN_FILE)"
    )
    server.add_argument(
        "--ca", metavar="FILE", help="a file with the CA certificates to trust ($LAUNCHER_CA_FILE)"
    )


def add_strict_argument(parser: argparse.ArgumentParser) -> None:
    """``--strict``: whether unknown and duplicate fields are errors."""
    parser.add_argument(
        "--strict",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="treat unknown and duplicate fields as errors (default) or as warnings",
    )


def add_output_argument(parser: argparse.ArgumentParser, *formats: str) -> None:
    """``-o``: the output format."""
    parser.add_argument("-o", "--output", choices=formats, help="the output format")


def seconds(text: str) -> float:
    """The seconds of a duration such as ``1h30m``, for argparse."""
    try:
        return seconds_in(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def whole_number(text: str) -> int:
    """A number of at least 0, for argparse."""
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer of at least 0")
    return int(text)
