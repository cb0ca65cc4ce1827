"""``events``: the events of Frameworks and their pods."""

import argparse
import sys
import time
from contextlib import suppress
from typing import Any

from launcher.cli.arguments import add_output_argument, add_server_arguments
from launcher.cli.client.api_client import api_client
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.command import Command
from launcher.cli.errors import print_error
from launcher.cli.names import framework_name
from launcher.cli.output.event_table import EVENT_HEADER, event_cells, events_of
from launcher.cli.output.formats import print_list
from launcher.cli.output.tables import table_with_reasons
from launcher.cli.output.terminal import width_of
from launcher.core.errors import NotFound


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        type=framework_name,
        metavar="NAME",
        help="the Framework (default: all objects of the namespace)",
    )
    add_output_argument(parser, "json", "yaml")
    add_server_arguments(parser)


def _events(args: argparse.Namespace) -> int:
    framework: dict[str, Any] | str | None = args.name
    with api_client(args) as api:
        if args.name is not None:
            # Events remain after their Framework is deleted.
            with suppress(NotFound):
                framework = api.get(FRAMEWORKS, args.name)
        events = events_of(api, framework)
    if args.output is not None:
        print_list(events, args.output)
    elif not events:
        print_error("No events found. The server keeps events for one hour.")
    else:
        now = time.time()
        cells = [event_cells(event, now) for event in events]
        print("\n".join(table_with_reasons(EVENT_HEADER, cells, width_of(sys.stdout))))
    return 0


COMMANDS = {"events": Command(_events, _add_arguments, example="launcher events mnist")}
