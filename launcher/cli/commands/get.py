"""``list``, ``get`` and ``describe``: Frameworks, their tasks, and why they are where they are."""

import argparse
from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import SubParsers, add_command, add_name, add_output, add_server

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient

Json = dict[str, Any]


def add(commands: SubParsers) -> None:
    """The parsers of the commands that look."""
    listing = add_command(
        commands,
        "list",
        _list,
        help="list Frameworks",
        more="TASKS is how many tasks are over, of how many; RETRIES how often the whole was tried again.",
        example="launcher list -o wide",
    )
    listing.add_argument("-A", "--all-namespaces", action="store_true", help="look at every namespace")
    add_output(listing, "wide", "json", "yaml", "name")
    add_server(listing)
    get = add_command(
        commands,
        "get",
        _get,
        help="show a Framework and its tasks",
        more="Of more than 50 tasks, each role is summed up, and the tasks that are not as most others are shown.",
        example="launcher get mnist",
    )
    add_name(get)
    get.add_argument("--all", action="store_true", help="show every task, however many there are")
    add_output(get, "wide", "json", "yaml", "name")
    add_server(get)
    describe = add_command(
        commands,
        "describe",
        _describe,
        help="tell all about a Framework: its conditions, tasks and events",
        example="launcher describe mnist",
    )
    add_name(describe)
    add_server(describe)


def _list(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.cli.output.framework_description import framework_table

    async def work(api: "ApiClient") -> int:
        items, _ = await api.list(FRAMEWORKS, everywhere=given.all_namespaces)
        if _printed({"apiVersion": "v1", "kind": "List", "items": items}, items, given.output):
            return 0
        if not items:
            _nothing(api, given)
        for line in framework_table(items, wide=given.output == "wide", namespaces=given.all_namespaces):
            print(line)
        return 0

    return run_with_client(given, work)


def _get(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.cli.output.framework_description import framework_text

    async def work(api: "ApiClient") -> int:
        framework = await api.get(FRAMEWORKS, given.name)
        if not _printed(framework, [framework], given.output):
            for line in framework_text(framework, every=given.all, wide=given.output == "wide"):
                print(line)
        return 0

    return run_with_client(given, work)


def _describe(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.cli.output.event_table import events_of
    from launcher.cli.output.framework_description import description

    async def work(api: "ApiClient") -> int:
        framework = await api.get(FRAMEWORKS, given.name)
        for line in description(framework, await events_of(api, framework)):
            print(line)
        return 0

    return run_with_client(given, work)


def _printed(whole: Json, items: list[Json], form: str | None) -> bool:
    """Whether it has been printed in a form that needs no table."""
    from launcher.cli.output.serializers import as_json, as_yaml

    match form:
        case "json":
            print(as_json(whole))
        case "yaml":
            print(as_yaml(whole), end="")
        case "name":
            for item in items:
                print(f"framework/{item['metadata']['name']}")
        case _:
            return False
    return True


def _nothing(api: "ApiClient", given: argparse.Namespace) -> None:
    from launcher.cli.errors import print_error

    where = "" if given.all_namespaces else f" in namespace {api.namespace}"
    print_error(f"there are no Frameworks{where}; make one with: launcher submit FILE")
