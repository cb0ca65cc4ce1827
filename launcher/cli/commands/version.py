"""``version``: of this program, and of the server if there is one."""

import argparse
from typing import TYPE_CHECKING

from launcher.cli.arguments import SubParsers, add_command, add_server

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient


def add(commands: SubParsers) -> None:
    """The parser of ``version``."""
    version = add_command(
        commands,
        "version",
        _version,
        help="print the version of this program, and of the server if there is one",
        example="launcher version --server http://127.0.0.1:8080",
    )
    add_server(version)


def _version(given: argparse.Namespace) -> int:
    from importlib.metadata import version

    from launcher.cli.client.api_client import run_with_client
    from launcher.cli.errors import print_error
    from launcher.core.errors import LauncherError

    async def work(api: "ApiClient") -> int:
        try:
            print(f"server   {await api.version()}")
        except LauncherError as error:
            print_error(f"server   {error}")
        return 0

    print(f"launcher {version('framework-launcher')}", flush=True)
    return run_with_client(given, work)
