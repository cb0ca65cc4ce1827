"""``exec``: a command in a running task."""

import argparse
from collections.abc import Mapping
from typing import Any

from launcher.cli.arguments import add_name_argument, add_server_arguments, role_and_index
from launcher.cli.client.api_path import FRAMEWORKS, PODS
from launcher.cli.client.async_client import AsyncApiClient, run_with_client
from launcher.cli.command import Command
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.cli.exec_client import ExecRequest, execute, has_terminal
from launcher.cli.logs.log_sources import TaskSelector
from launcher.cli.names import container_name
from launcher.core.errors import NotFound

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    parser.add_argument(
        "task",
        type=role_and_index,
        metavar="ROLE/INDEX",
        help="the task; the index may be omitted if the role has one task",
    )
    parser.add_argument(
        "command", nargs="+", metavar="COMMAND", help="the command and its arguments, after --"
    )
    parser.add_argument(
        "-c",
        "--container",
        type=container_name,
        metavar="CONTAINER",
        help=f"the container (default: that of the annotation {_DEFAULT_CONTAINER}, or the first)",
    )
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input to the command")
    parser.add_argument(
        "-t", "--tty", action="store_true", help="run the command with a terminal; with -i for a shell"
    )
    add_server_arguments(parser)


def _exec(args: argparse.Namespace) -> int:
    tty = args.tty
    if tty and not has_terminal():
        print_error("-t is ignored: standard input and output are not a terminal")
        tty = False

    async def work(api: AsyncApiClient) -> int:
        pod = await _running_pod(api, args.name, *args.task)
        container = args.container or _default_container(pod)
        name = pod["metadata"]["name"]
        return await execute(api, ExecRequest(name, container, args.command, stdin=args.stdin, tty=tty))

    return run_with_client(args, work)


async def _running_pod(api: AsyncApiClient, name: str, role: str, index: int | None) -> Mapping[str, Any]:
    """The pod of the task. Raises CommandError if it has none, or has completed."""
    sources = TaskSelector(role, index).sources(await api.get(FRAMEWORKS, name))
    pods = list(dict.fromkeys(source.pod for source in sources))
    if len(pods) > 1:
        raise UsageError(f"{name} has {len(pods)} tasks {role}; name one of them, such as {role}/0")
    if not pods:
        raise CommandError(f"{name} has no task {role}")
    try:
        pod = await api.get(PODS, pods[0])
    except NotFound as error:
        raise CommandError(f"{pods[0]} has no pod now; see: launcher get {name}") from error
    if (phase := pod.get("status", {}).get("phase")) in ("Succeeded", "Failed"):
        raise CommandError(f"{pods[0]} is not running: {phase}; see: launcher logs {name} {role}")
    return pod


def _default_container(pod: Mapping[str, Any]) -> str:
    """The container that kubectl would choose."""
    names = [str(container["name"]) for container in pod["spec"]["containers"]]
    annotated = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    if annotated in names:
        return str(annotated)
    if len(names) > 1:
        print_error(f"container {names[0]} of: {', '.join(names)}; -c chooses another one")
    return names[0]


COMMANDS = {
    "exec": Command(
        _exec,
        _add_arguments,
        example="launcher exec mnist worker/0 -it -- bash",
        details="The command has the environment, the files, the user and the limits of the task. Its exit code is the "
        "exit code of this program.",
    )
}
