"""``describe``: all details of a Framework."""

import argparse
import time

from launcher.cli.arguments import add_name_argument, add_server_arguments
from launcher.cli.client.api_client import api_client
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.command import Command
from launcher.cli.output.event_table import events_of
from launcher.cli.output.framework_description import description
from launcher.cli.top_finding import read_top_finding


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    add_server_arguments(parser)


def _describe(args: argparse.Namespace) -> int:
    with api_client(args) as api:
        framework = api.get(FRAMEWORKS, args.name)
        events = events_of(api, framework)
        finding = read_top_finding(api, framework)
    for line in description(framework, events, finding, time.time()):
        print(line)
    return 0


COMMANDS = {"describe": Command(_describe, _add_arguments, example="launcher describe mnist")}
