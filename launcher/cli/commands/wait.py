"""``wait``: until something has come true of a Framework, or cannot any more."""

import argparse
from typing import TYPE_CHECKING

from launcher.cli.arguments import SubParsers, add_command, add_name, add_server, seconds

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient

WISHES = ("Succeeded", "Completed", "Running", "deleted")


def add(commands: SubParsers) -> None:
    """The parser of ``wait``."""
    wait = add_command(
        commands,
        "wait",
        _wait,
        help="wait until a Framework has succeeded, or for something else",
        more="Running also holds for one that has run already. Exit 0 when it has come true, 1 when it cannot any "
        "more or the time is out. A server that is restarted meanwhile is waited for.",
        example="launcher wait mnist --for Completed --timeout 10m",
    )
    add_name(wait)
    wait.add_argument(
        "--for", dest="wish", choices=WISHES, default="Succeeded", help="what to wait for (default Succeeded)"
    )
    wait.add_argument(
        "--timeout", type=seconds, metavar="TIME", help="how long, such as 90s or 1h30m (default: no limit)"
    )
    add_server(wait)


def _wait(given: argparse.Namespace) -> int:
    import asyncio

    from launcher.cli.client.api_client import run_with_client
    from launcher.cli.conditions import wait_for_condition
    from launcher.cli.errors import CommandError
    from launcher.core.timestamps import age

    async def work(api: "ApiClient") -> int:
        try:
            async with asyncio.timeout(given.timeout):
                print(f"framework/{given.name} {await wait_for_condition(api, given.name, given.wish)}")
        except TimeoutError as error:
            raise CommandError(f"{given.name}: not {given.wish} within {age(given.timeout)}") from error
        return 0

    return run_with_client(given, work)
