"""``version``: of this program, and of the server if there is one."""

import argparse
from typing import TYPE_CHECKING

from launcher.cli.arguments import SubParsers, add_command, add_server

if TYPE_CHECKING:
    from launcher.cli.client.api_client import Api


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

    from launcher.cli.client.api_client import talk
    from launcher.cli.errors import tell
    from launcher.core.errors import LauncherError

    async def work(api: "Api") -> int:
        try:
            print(f"server   {await api.version()}")
        except LauncherError as error:
            tell(f"server   {error}")
        return 0

    print(f"launcher {version('framework-launcher')}", flush=True)
    return talk(given, work)
