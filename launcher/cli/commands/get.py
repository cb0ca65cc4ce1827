"""``list`` and ``get``: the state of Frameworks and of their tasks."""

import argparse
import time
from typing import Any

from launcher.cli.arguments import add_name_argument, add_output_argument, add_server_arguments
from launcher.cli.client.api_client import api_client
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.command import Command
from launcher.cli.errors import print_error
from launcher.cli.last_output import last_output_ages
from launcher.cli.output.formats import print_list, print_object
from launcher.cli.output.framework_description import framework_text
from launcher.cli.output.framework_table import framework_table
from launcher.cli.top_finding import read_top_finding

Json = dict[str, Any]


def _add_list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="list all namespaces")
    parser.add_argument(
        "-l",
        "--selector",
        default="",
        metavar="LABELS",
        help="only those with these labels: team=vision,!test",
    )
    parser.add_argument(
        "--field-selector",
        default="",
        metavar="FIELDS",
        help="only those with these fields: status.state=Completed",
    )
    parser.add_argument("--name-contains", metavar="TEXT", help="only those whose name contains this text")
    parser.add_argument("--node", metavar="NODE", help="only those with a pod on this node")
    add_output_argument(parser, "wide", "json", "yaml", "name")
    add_server_arguments(parser)


def _list(args: argparse.Namespace) -> int:
    filters = {"nameContains": args.name_contains, "nodeName": args.node}
    with api_client(args) as api:
        items = api.list(
            FRAMEWORKS,
            labels=args.selector,
            fields=args.field_selector,
            all_namespaces=args.all_namespaces,
            filters={name: value for name, value in filters.items() if value},
        )
    is_filtered = any((args.selector, args.field_selector, *filters.values()))
    if args.output in ("json", "yaml"):
        print_list(items, args.output)
    elif args.output == "name":
        _print_names(items)
    elif items:
        wide = args.output == "wide"
        for line in framework_table(items, time.time(), wide=wide, namespaces=args.all_namespaces):
            print(line)
    else:
        scope = "" if args.all_namespaces else f" in namespace {api.namespace}"
        if is_filtered:
            print_error(f"No Frameworks match{scope}.")
        else:
            print_error(f"No Frameworks found{scope}. Submit one with: launcher submit FILE")
    return 0


def _add_get_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    parser.add_argument("--all", action="store_true", help="list every task")
    add_output_argument(parser, "wide", "json", "yaml", "name")
    add_server_arguments(parser)


def _get(args: argparse.Namespace) -> int:
    with api_client(args) as api:
        framework = api.get(FRAMEWORKS, args.name)
        output_ages = last_output_ages(api, framework, time.time()) if args.output == "wide" else None
        finding = "" if args.output in ("json", "yaml", "name") else read_top_finding(api, framework)
    if args.output in ("json", "yaml"):
        print_object(framework, args.output)
    elif args.output == "name":
        _print_names([framework])
    else:
        for line in framework_text(
            framework, time.time(), finding, show_all=args.all, output_ages=output_ages
        ):
            print(line)
    return 0


def _print_names(items: list[Json]) -> None:
    for item in items:
        print(f"framework/{item['metadata']['name']}")


COMMANDS = {
    "list": Command(
        _list,
        _add_list_arguments,
        example="launcher list -o wide",
        details="TASKS shows finished/total tasks, ATTEMPT the attempt of the whole Framework, REASON what it waits "
        "for or why it failed.",
    ),
    "get": Command(
        _get,
        _add_get_arguments,
        example="launcher get mnist",
        details="With more than 50 tasks, each role is summarised and only tasks in other states are listed (--all "
        "lists every task). -o wide does not fit the table to the terminal, and shows the age of the last output of up "
        "to 50 running tasks.",
    ),
}
