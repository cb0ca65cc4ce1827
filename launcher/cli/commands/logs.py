"""``logs``: the logs of a Framework's tasks, as they are now or as they are written."""

import argparse
import re
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
from launcher.cli.errors import UsageError
from launcher.cli.finding_reporter import reported_findings
from launcher.cli.logs.attempt_pods import AttemptPods
from launcher.cli.logs.follower import LogFollower
from launcher.cli.logs.log_sources import (
    LogPrinter,
    LogQuery,
    LogSource,
    TaskSelector,
    WriteLine,
    matching_lines,
)
from launcher.cli.logs.reader import print_logs
from launcher.cli.names import container_name
from launcher.cli.output.framework_attempts import attempt_number


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
        "--grep",
        type=_pattern,
        metavar="REGEX",
        help="of these lines, only those that match the regular expression",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-p",
        "--previous",
        action="store_true",
        help="the logs before the last restart of the container, or else of the previous attempt",
    )
    which.add_argument(
        "--attempt",
        type=attempt_number,
        metavar="ATTEMPT",
        help="the logs of this attempt, as launcher attempts lists it: 2, or 1.2 (attempt 2 of the task in attempt 1 "
        "of the Framework)",
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

    if args.follow and (args.previous or args.attempt):
        raise UsageError("-f follows the current attempt; use it without --previous and --attempt")

    async def work(api: AsyncApiClient) -> int:
        framework = await api.get(FRAMEWORKS, args.name)
        sources = selector.sources(framework)
        write: WriteLine = LogPrinter(is_single=len(sources) <= 1).write
        if args.grep is not None:
            write = matching_lines(write, args.grep, timestamps=query.timestamps)
        if args.follow:
            await _follow(api, args.name, selector, query, write)
            return 0
        if args.attempt is not None:
            sources = await AttemptPods(api, framework).sources(sources, args.attempt)
        await print_logs(api, framework, sources, query, write)
        return 0

    return run_with_client(args, work)


async def _follow(
    api: AsyncApiClient, name: str, selector: TaskSelector, query: LogQuery, write: WriteLine
) -> None:
    """Print the logs until the Framework completes and, while nothing is written, what it waits for."""

    def write_line(source: LogSource, line: bytes) -> None:
        reporter.observe_output()
        write(source, line)

    async with reported_findings(api, name) as reporter:
        await LogFollower(api, name, selector, query, write_line, reporter.observe_framework).run()


def _pattern(text: str) -> re.Pattern[bytes]:
    """A regular expression, for argparse."""
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error


COMMANDS = {
    "logs": Command(
        _logs,
        _add_arguments,
        example="launcher logs mnist worker/0 -f --tail 20",
        details="With several tasks, each line starts with the name of its task; with --timestamps, the logs are "
        "merged by time. Logs are kept until the Framework is deleted, including those of deleted pods. "
        "While nothing is written for some seconds, -f prints to stderr what the Framework waits for.",
    )
}
