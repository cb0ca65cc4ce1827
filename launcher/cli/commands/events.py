"""``events``: what happened to Frameworks and their pods."""

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import SubParsers, add_command, add_output, add_server
from launcher.cli.names import framework_name

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient


def add(commands: SubParsers) -> None:
    """The parser of ``events``."""
    events = add_command(
        commands,
        "events",
        _events,
        help="list what happened to a Framework and its pods, or to all of the namespace",
        example="launcher events mnist",
    )
    events.add_argument(
        "name", nargs="?", type=framework_name, metavar="NAME", help="the Framework (default: everything)"
    )
    add_output(events, "json", "yaml")
    add_server(events)


def _events(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.core.errors import NotFound

    async def work(api: "ApiClient") -> int:
        import sys
        import time

        from launcher.cli.errors import print_error
        from launcher.cli.output.event_table import EVENT_HEADER, event_cells, events_of
        from launcher.cli.output.serializers import as_json, as_yaml
        from launcher.cli.output.tables import table_with_reasons
        from launcher.cli.output.terminal import width_of

        framework: dict[str, Any] | str | None = given.name
        if given.name is not None:
            # Events outlive the Framework that they are about.
            with suppress(NotFound):
                framework = await api.get(FRAMEWORKS, given.name)
        events = await events_of(api, framework)
        whole = {"apiVersion": "v1", "kind": "List", "items": events}
        if given.output == "json":
            print(as_json(whole))
        elif given.output == "yaml":
            print(as_yaml(whole), end="")
        elif not events:
            print_error("there are no events; the server keeps them for an hour")
        else:
            now = time.time()
            cells = [event_cells(event, now) for event in events]
            print("\n".join(table_with_reasons(EVENT_HEADER, cells, width_of(sys.stdout))))
        return 0

    return run_with_client(given, work)
