"""``logs``: what the tasks of a Framework have written, and what they write now."""

import argparse
import re
from typing import TYPE_CHECKING

from launcher.cli.arguments import SubParsers, add_command, add_name, add_server, seconds, whole_number
from launcher.cli.names import container_name

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient


def add(commands: SubParsers) -> None:
    """The parser of ``logs``."""
    logs = add_command(
        commands,
        "logs",
        _logs,
        help="print what the tasks of a Framework have written",
        more="Of several tasks, each line begins with the task that wrote it. Logs are there until the Framework is "
        "deleted, also those of pods that are gone.",
        example="launcher logs mnist worker/0 -f --tail 20",
    )
    add_name(logs)
    logs.add_argument(
        "task",
        nargs="?",
        type=_role_and_index,
        metavar="ROLE[/INDEX]",
        help="only these tasks (default: all)",
    )
    logs.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on with what is written, by tasks and attempts to come too, until the Framework is over",
    )
    logs.add_argument("--tail", type=whole_number, metavar="LINES", help="only the last lines of each task")
    logs.add_argument(
        "--since", type=seconds, metavar="TIME", help="only what was written since then, such as 5m"
    )
    logs.add_argument("--timestamps", action="store_true", help="begin lines with their time (UTC)")
    logs.add_argument(
        "-p", "--previous", action="store_true", help="of the run or attempt before the current one"
    )
    logs.add_argument(
        "-c",
        "--container",
        type=container_name,
        metavar="CONTAINER",
        help="only this container (default: all, init containers too)",
    )
    add_server(logs)


def _logs(given: argparse.Namespace) -> int:
    import time

    from launcher.cli.client.api_client import run_with_client
    from launcher.cli.logs.log_sources import LogPrinter, LogQuery, TaskSelector

    role, index = given.task or (None, None)
    choice = TaskSelector(role, index, given.container)
    view = LogQuery(
        tail=given.tail,
        since=None if given.since is None else time.time() - given.since,
        timestamps=given.timestamps,
        previous=given.previous,
    )

    async def work(api: "ApiClient") -> int:
        from launcher.cli.client.api_client import FRAMEWORKS
        from launcher.cli.logs.follower import LogFollower
        from launcher.cli.logs.reader import print_logs

        framework = await api.get(FRAMEWORKS, given.name)
        lines = LogPrinter(alone=choice.is_one_of(framework))
        if given.follow:
            await LogFollower(api, given.name, choice, view, lines.write).run()
        else:
            await print_logs(api, framework, choice, view, lines.write)
        return 0

    return run_with_client(given, work)


def _role_and_index(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"([a-z0-9]+)(?:/([0-9]+))?", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROLE or ROLE/INDEX; for instance worker/0")
    return found[1], None if found[2] is None else int(found[2])
