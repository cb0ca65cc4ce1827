"""``wait``: until a condition of a Framework is met, or can no longer be met."""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from launcher.cli.arguments import add_name_argument, add_server_arguments, seconds
from launcher.cli.client.api_path import ApiPath
from launcher.cli.client.async_client import AsyncApiClient, run_on_server, run_with_client
from launcher.cli.client.server_config import ServerConfig
from launcher.cli.client.watch import watch_framework
from launcher.cli.command import Command
from launcher.cli.errors import CommandError, print_error
from launcher.cli.finding_reporter import reported_findings, request_top_finding
from launcher.cli.output.framework_summary import has_run, is_completed, message_of, result_of, succeeded
from launcher.cli.output.terminal import one_line
from launcher.cli.owning_job import OwningJob, job_named
from launcher.core.names import KIND
from launcher.core.timestamps import age

Json = dict[str, Any]

CONDITIONS = ("Succeeded", "Completed", "Running", "deleted")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    parser.add_argument(
        "--for",
        dest="condition",
        choices=CONDITIONS,
        default="Succeeded",
        help="the condition (default Succeeded)",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="TIME", help="a duration such as 90s or 1h30m (default: no limit)"
    )
    add_server_arguments(parser)


def _wait(args: argparse.Namespace) -> int:
    async def work(api: AsyncApiClient) -> int:
        try:
            async with asyncio.timeout(args.timeout):
                await wait_for_condition(api, args.name, args.condition)
        except TimeoutError as error:
            lines = [f"{args.name}: not {args.condition} within {age(args.timeout)}"]
            if finding := await request_top_finding(api, args.name):
                lines.append(f"{finding} (launcher why {args.name})")
            raise CommandError(*lines) from error
        print(f"framework/{args.name} {args.condition}")
        return 0

    return run_with_client(args, work)


def wait_until_completed(config: ServerConfig, objects: Sequence[Json]) -> int:
    """The exit code after all Frameworks and jobs have completed: 0 if all succeeded. Prints the result of each."""

    async def work(api: AsyncApiClient) -> int:
        return max([await _wait_until_succeeded(api, obj) for obj in objects], default=0)

    return run_on_server(config, work)


def wait_until_deleted(config: ServerConfig, objects: Sequence[tuple[ApiPath, str, str]]) -> int:
    """Return when the objects, each with its path, name and text to print, no longer exist."""

    async def work(api: AsyncApiClient) -> int:
        for resource, name, text in objects:
            async with aclosing(watch_framework(api, name, resource)) as states:
                async for _ in states:
                    pass
            print(f"{text} deleted", flush=True)
        return 0

    return run_on_server(config, work)


async def _wait_until_succeeded(api: AsyncApiClient, obj: Json) -> int:
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    try:
        if obj["kind"] == KIND:
            await wait_for_condition(api.in_namespace(namespace), name, "Succeeded")
        else:
            await wait_for_job(api.in_namespace(namespace), job_named(obj["kind"], name))
    except CommandError as error:
        print_error(*error.lines)
        return error.code
    print_error(f"{name}: Succeeded")
    return 0


async def wait_for_condition(api: AsyncApiClient, name: str, condition: str) -> None:
    """
    Return when the condition is met. Raises CommandError when it can no longer be met.

    While the Framework waits, the most important finding is printed to stderr.
    """
    exists = False
    async with (
        reported_findings(api, name) as reporter,
        aclosing(watch_framework(api, name)) as states,
    ):
        async for framework in states:
            if framework is None:
                break
            exists = True
            reporter.observe_framework(framework)
            met = _is_met(framework, condition)
            if met is True:
                return
            if met is False:
                result = result_of(framework)
                reason = message_of(framework).removeprefix(f"{result}: ")
                raise CommandError(f"{name} {result.lower()}: {reason}")
    if condition == "deleted":
        return
    if not exists:
        raise CommandError(f'no Framework "{name}" in namespace {api.namespace}; see: launcher list')
    raise CommandError(f"{name} was deleted")


async def wait_for_job(api: AsyncApiClient, job: OwningJob) -> None:
    """Return when the job has succeeded. Raises CommandError when it has failed or was deleted."""
    async with (
        reported_findings(api, job.name),
        aclosing(watch_framework(api, job.name, job.resource)) as states,
    ):
        async for state in states:
            conditions = ((state or {}).get("status") or {}).get("conditions") or ()
            for each in conditions:
                if each["status"] != "True":
                    continue
                if each["type"] == "Succeeded":
                    return
                if each["type"] == "Failed":
                    raise CommandError(f"{job} failed: {one_line(each.get('message') or '')}")
    raise CommandError(f"{job} was deleted")


def _is_met(framework: Json, condition: str) -> bool | None:
    """Whether the condition is met, or can no longer be met; None while it is undecided."""
    completed = is_completed(framework)
    match condition:
        case "Completed":
            return True if completed else None
        case "Succeeded":
            return succeeded(framework) if completed else None
        case "Running":
            return True if has_run(framework) else False if completed else None
        case _:
            return None


COMMANDS = {
    "wait": Command(
        _wait,
        _add_arguments,
        example="launcher wait mnist --for Completed --timeout 10m",
        details="Running is also met by a Framework that has run before. Exits 0 when the condition is met, 1 when it "
        "can no longer be met or on timeout. Prints to stderr what the Framework waits for. Reconnects if the server "
        "restarts.",
    )
}
