"""``completion``: scripts that complete commands in shells, and the names of Frameworks that they complete."""

import argparse
from threading import Thread

from launcher.cli.arguments import add_server_arguments
from launcher.cli.client.api_client import api_client
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.command import Command, load_module
from launcher.cli.errors import CommandError

#: A shell that waits longer for names seems to hang.
_NAMES_TIMEOUT_SECONDS = 1.0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "names"), help="the shell, or names")
    add_server_arguments(parser)


def _completion(args: argparse.Namespace) -> int:
    if args.shell == "names":
        for name in _framework_names(args):
            print(name)
    else:
        print(load_module("output.shell_completion").script(args.shell), end="")
    return 0


def _framework_names(args: argparse.Namespace) -> list[str]:
    """The names of all Frameworks; none without a server that responds in time."""
    names: list[str] = []

    def read_names() -> None:
        try:
            with api_client(args) as api:
                names.extend(framework["metadata"]["name"] for framework in api.list(FRAMEWORKS))
        except CommandError:
            pass  # a message would be printed into the line that the user is typing

    # In a thread, because the resolution of a host name has no timeout.
    thread = Thread(target=read_names, daemon=True)
    thread.start()
    thread.join(_NAMES_TIMEOUT_SECONDS)
    return list(names)


COMMANDS = {
    "completion": Command(
        _completion,
        _add_arguments,
        example='eval "$(launcher completion bash)" in ~/.bashrc',
        details="Completes commands, options, files and the names of Frameworks on the server. With names instead of a "
        "shell, prints those names, one per line, or nothing when no server responds within a second.",
    )
}
