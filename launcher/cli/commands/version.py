"""``version``: of this program and of the server."""

import argparse
from importlib.metadata import version

from launcher.cli.arguments import add_server_arguments
from launcher.cli.client.api_client import api_client
from launcher.cli.command import Command
from launcher.cli.errors import print_error
from launcher.core.errors import LauncherError


def _version(args: argparse.Namespace) -> int:
    print(f"launcher {version('framework-launcher')}", flush=True)
    with api_client(args) as api:
        try:
            print(f"server   {api.version()}")
        except LauncherError as error:
            print_error(f"server   {error}")
    return 0


COMMANDS = {
    "version": Command(
        _version, add_server_arguments, example="launcher version --server http://127.0.0.1:8080"
    )
}
