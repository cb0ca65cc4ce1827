"""``top``: what Frameworks or the tasks of one use."""

import argparse
import sys

from launcher.cli.arguments import add_server_arguments
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import FRAMEWORKS, POD_METRICS, PODS
from launcher.cli.command import Command
from launcher.cli.errors import print_error
from launcher.cli.names import framework_name
from launcher.cli.output.tables import table
from launcher.cli.output.terminal import width_of
from launcher.cli.output.usage_table import (
    FRAMEWORK_USE_HEADER,
    TASK_USE_HEADER,
    TaskUse,
    framework_use_rows,
    task_use_rows,
    task_uses,
)
from launcher.core.errors import Forbidden, NotFound, NotServed
from launcher.core.names import PodIdentityKey

_NO_METRICS = (
    "CPU and memory are unknown: this cluster has no metrics.k8s.io; its admin can install metrics-server"
)
#: metrics-server brings the permission to read it for all who may view pods.
_FORBIDDEN = (
    "CPU and memory are unknown: you may not list pods.metrics.k8s.io, or the cluster has no metrics-server"
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", type=framework_name, metavar="NAME", help="a Framework, to list its tasks"
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="list all namespaces")
    parser.add_argument(
        "--sort-by",
        choices=("cpu", "memory", "gpus"),
        default="cpu",
        help="the column to sort by, largest first (default: cpu)",
    )
    add_server_arguments(parser)


def _top(args: argparse.Namespace) -> int:
    with api_client(args) as api:
        if args.name is not None:
            api.get(FRAMEWORKS, args.name)
        uses = _task_uses(api, args.name, all_namespaces=args.all_namespaces and args.name is None)
    if not uses:
        print_error(f"No task of {args.name} is running." if args.name else "No task is running.")
        return 0
    width = width_of(sys.stdout)
    if args.name is not None:
        lines = table(TASK_USE_HEADER, task_use_rows(uses, args.sort_by), width)
    else:
        header = (*(("NAMESPACE",) if args.all_namespaces else ()), *FRAMEWORK_USE_HEADER)
        rows = framework_use_rows(uses, args.sort_by, namespaces=args.all_namespaces)
        lines = table(header, rows, width)
    print(*lines, sep="\n")
    return 0


def _task_uses(api: ApiClient, name: str | None, *, all_namespaces: bool) -> list[TaskUse]:
    labels = PodIdentityKey.FRAMEWORK_NAME if name is None else f"{PodIdentityKey.FRAMEWORK_NAME}={name}"
    pods = api.list(PODS, labels=labels, all_namespaces=all_namespaces)
    try:
        metrics = api.list(POD_METRICS, labels=labels, all_namespaces=all_namespaces)
    except (NotFound, NotServed):
        print_error(_NO_METRICS)
        metrics = []
    except Forbidden:
        print_error(_FORBIDDEN)
        metrics = []
    return task_uses(pods, metrics)


COMMANDS = {
    "top": Command(
        _top,
        _add_arguments,
        example="launcher top mnist --sort-by memory",
        details="Lists the Frameworks with running tasks, or the running tasks of one, the largest use first. CPU is "
        "in thousandths of a core, on average over the last seconds. GPUS are those allocated to the tasks, whether "
        "they use them or not. On Kubernetes, CPU and memory need metrics-server.",
    )
}
