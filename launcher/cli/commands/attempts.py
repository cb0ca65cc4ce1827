"""``attempts``: the attempts of a Framework and of its tasks, and how many retries are left."""

import argparse
import sys
import time
from typing import Any

from launcher.cli.arguments import (
    add_name_argument,
    add_output_argument,
    add_server_arguments,
    add_task_argument,
)
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import FRAMEWORK_ATTEMPTS, FRAMEWORKS
from launcher.cli.command import Command
from launcher.cli.errors import CommandError
from launcher.cli.output.attempt_table import (
    ATTEMPT_HEADER,
    FRAMEWORK_ATTEMPT_HEADER,
    TaskAttempts,
    framework_attempt_rows,
    task_attempts,
)
from launcher.cli.output.formats import print_object
from launcher.cli.output.framework_attempts import current_attempt, own_records
from launcher.cli.output.tables import table_with_reasons
from launcher.cli.output.terminal import width_of, wrapped
from launcher.core.names import PodIdentityKey

Json = dict[str, Any]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    add_task_argument(parser)
    add_output_argument(parser, "wide", "json", "yaml")
    add_server_arguments(parser)


def _attempts(args: argparse.Namespace) -> int:
    role, index = args.task or (None, None)
    now = time.time()
    with api_client(args) as api:
        framework = api.get(FRAMEWORKS, args.name)
        records = _records(api, framework)
    # Of all tasks only the current attempts of the Framework are listed, of selected ones all.
    tasks = list(task_attempts(framework, role, index, now, records if role is not None else ()))
    if not tasks:
        selected = "tasks yet" if role is None else f"task {role}" + ("" if index is None else f"/{index}")
        raise CommandError(f"{args.name} has no {selected}")
    if args.output in ("json", "yaml"):
        print_object({"frameworkAttempts": records, "tasks": [task.as_json() for task in tasks]}, args.output)
        return 0
    width = None if args.output == "wide" else width_of(sys.stdout)
    if current_attempt(framework) > 1 and role is None:
        rows = framework_attempt_rows(framework, records, now)
        print(*table_with_reasons(FRAMEWORK_ATTEMPT_HEADER, rows, width), "", sep="\n")
    _print_tasks(tasks, current_attempt(framework), width)
    return 0


def _records(api: ApiClient, framework: Json) -> list[Json]:
    """The FrameworkAttempts; none are requested for a Framework that was never retried."""
    if current_attempt(framework) == 1:
        return []
    label = f"{PodIdentityKey.FRAMEWORK_NAME}={framework['metadata']['name']}"
    return own_records(framework, api.list(FRAMEWORK_ATTEMPTS, labels=label))


def _print_tasks(tasks: list[TaskAttempts], current: int, width: int | None) -> None:
    """Prints all rows, and the retries of tasks in the current attempt of the Framework."""
    rows = [row for task in tasks for row in task.rows()]
    print(*table_with_reasons(ATTEMPT_HEADER, rows, width), sep="\n")
    retried = [
        task for task in tasks if (task.history or task.dropped) and task.framework_attempt in (None, current)
    ]
    if retried:
        print()
    for task in retried:
        for line in wrapped(f"{task.name}: {task.retry_text()}.", "", "  "):
            print(line)


COMMANDS = {
    "attempts": Command(
        _attempts,
        _add_arguments,
        example="launcher attempts mnist worker/0",
        details="COUNTED is whether the retry after the attempt counts towards maxRetryCount. If the Framework was "
        "retried, its own attempts are listed too, and ATTEMPT 2.1 is the first attempt of a task in the second one of "
        "the Framework.",
    )
}
