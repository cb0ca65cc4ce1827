"""``completion``: scripts by which shells complete our commands, printed from the parser itself."""

import argparse
from typing import TYPE_CHECKING

from launcher.cli.arguments import SubParsers, add_command, add_server

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient

#: Seconds that a shell may wait for names: longer would be felt as a hang.
_PATIENCE = 1.0


def add(commands: SubParsers) -> None:
    """The parser of ``completion``."""
    completion = add_command(
        commands,
        "completion",
        _completion,
        help="print a script that completes commands in a shell",
        more="It completes commands, options, files, and the names of Frameworks as the server has them. Instead of a "
        "script, names prints those names, one per line; nothing when no server answers within a second.",
        example='eval "$(launcher completion bash)" in ~/.bashrc',
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "names"), help="for which shell")
    add_server(completion)


def _completion(given: argparse.Namespace) -> int:
    if given.shell == "names":
        return _names(given)
    from launcher.cli.main import make_parser
    from launcher.cli.output import shell_completion

    scripts = {"bash": shell_completion.bash, "zsh": shell_completion.zsh, "fish": shell_completion.fish}
    print(scripts[given.shell](shell_completion.commands_of(make_parser())), end="")
    return 0


def _names(given: argparse.Namespace) -> int:
    import asyncio

    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.cli.errors import CommandError

    async def work(api: "ApiClient") -> int:
        async with asyncio.timeout(_PATIENCE):
            items, _ = await api.list(FRAMEWORKS)
        for item in items:
            print(item["metadata"]["name"])
        return 0

    try:
        return run_with_client(given, work)
    except (CommandError, TimeoutError):
        return 0  # somebody is typing: a complaint would stand in the middle of the line
