"""``attempts``: the attempts of a Framework's tasks, and how many retries are left."""

import argparse
import sys
import time

from launcher.cli.arguments import (
    add_name_argument,
    add_output_argument,
    add_server_arguments,
    add_task_argument,
)
from launcher.cli.client.api_client import api_client
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.command import Command
from launcher.cli.errors import CommandError
from launcher.cli.output.attempt_table import ATTEMPT_HEADER, TaskAttempts, task_attempts
from launcher.cli.output.formats import print_object
from launcher.cli.output.tables import table_with_reasons
from launcher.cli.output.terminal import width_of, wrapped


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    add_task_argument(parser)
    add_output_argument(parser, "wide", "json", "yaml")
    add_server_arguments(parser)


def _attempts(args: argparse.Namespace) -> int:
    role, index = args.task or (None, None)
    with api_client(args) as api:
        framework = api.get(FRAMEWORKS, args.name)
    tasks = list(task_attempts(framework, role, index, time.time()))
    if not tasks:
        selected = "tasks yet" if role is None else f"task {role}" + ("" if index is None else f"/{index}")
        raise CommandError(f"{args.name} has no {selected}")
    if args.output in ("json", "yaml"):
        print_object({"tasks": [task.as_json() for task in tasks]}, args.output)
        return 0
    _print_table(tasks, wide=args.output == "wide")
    return 0


def _print_table(tasks: list[TaskAttempts], *, wide: bool) -> None:
    rows = [row for task in tasks for row in task.rows()]
    for line in table_with_reasons(ATTEMPT_HEADER, rows, None if wide else width_of(sys.stdout)):
        print(line)
    retried = [task for task in tasks if task.history or task.dropped]
    if retried:
        print()
    for task in retried:
        for line in wrapped(f"{task.name}: {task.ledger()}.", "", "  "):
            print(line)


COMMANDS = {
    "attempts": Command(
        _attempts,
        _add_arguments,
        example="launcher attempts mnist worker/0",
        details="COUNTED is whether the retry after the attempt counts towards maxRetryCount.",
    )
}
