"""``logs``: the logs of a Framework's tasks, as they are now or as they are written."""

import argparse
import time

from launcher.cli.arguments import (
    add_name_argument,
    add_server_arguments,
    add_task_argument,
    seconds,
    whole_number,
)
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.client.async_client import AsyncApiClient, run_with_client
from launcher.cli.command import Command
from launcher.cli.logs.follower import LogFollower
from launcher.cli.logs.log_sources import LogPrinter, LogQuery, TaskSelector
from launcher.cli.logs.reader import print_logs
from launcher.cli.names import container_name


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    add_task_argument(parser)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="follow the logs, also those of later tasks and attempts, until the Framework completes",
    )
    parser.add_argument("--tail", type=whole_number, metavar="LINES", help="only the last lines of each task")
    parser.add_argument(
        "--since", type=seconds, metavar="TIME", help="only lines newer than this duration, such as 5m"
    )
    parser.add_argument("--timestamps", action="store_true", help="print the time (UTC) of each line")
    parser.add_argument(
        "-p", "--previous", action="store_true", help="the logs of the previous run or attempt"
    )
    parser.add_argument(
        "-c",
        "--container",
        type=container_name,
        metavar="CONTAINER",
        help="only this container (default: all, including init containers)",
    )
    add_server_arguments(parser)


def _logs(args: argparse.Namespace) -> int:
    role, index = args.task or (None, None)
    selector = TaskSelector(role, index, args.container)
    query = LogQuery(
        tail=args.tail,
        since=None if args.since is None else time.time() - args.since,
        timestamps=args.timestamps,
        previous=args.previous,
    )

    async def work(api: AsyncApiClient) -> int:
        framework = await api.get(FRAMEWORKS, args.name)
        printer = LogPrinter(is_single=selector.is_single_source(framework))
        if args.follow:
            await LogFollower(api, args.name, selector, query, printer.write).run()
        else:
            await print_logs(api, framework, selector, query, printer.write)
        return 0

    return run_with_client(args, work)


COMMANDS = {
    "logs": Command(
        _logs,
        _add_arguments,
        example="launcher logs mnist worker/0 -f --tail 20",
        details="With several tasks, each line starts with the name of its task. Logs are kept until the Framework is "
        "deleted, including those of deleted pods.",
    )
}
