"""``simpletfjob``: render a template for each machine of a cluster, as the tool of that name does."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from launcher.cli.arguments import add_output_argument, add_server_arguments
from launcher.cli.client.api_client import api_client
from launcher.cli.client.api_path import NODES
from launcher.cli.command import Command, load_module
from launcher.cli.commands.submit import Submission
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.cli.manifest_file import ManifestFile
from launcher.converters.conversion import Conversion
from launcher.converters.simpletfjob.per_task_objects import documents_in, frameworks_of
from launcher.converters.simpletfjob.template import (
    TemplateTask,
    choose_hosts,
    hosts_in,
    join_documents,
    output_path,
    render_tasks,
    tasks_on,
    unusable_reason,
)
from launcher.core.errors import BadRequest, InvalidObject
from launcher.core.manifest import validate_framework
from launcher.core.parsing.decoder import Media

Json = dict[str, Any]

#: The file that -E reads by default.
_EXCLUDED = "exc"
_TF_PORT = 2222


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("template", nargs="?", type=Path, metavar="FILE", help="the template")
    parser.add_argument(
        "-N",
        "--num",
        type=int,
        default=-1,
        metavar="NUMBER",
        help="the number of machines (default -1: all)",
    )
    parser.add_argument(
        "--psn",
        type=int,
        default=1,
        metavar="NUMBER",
        help="the number of parameter servers among them (default 1)",
    )
    parser.add_argument(
        "-E",
        "--exc",
        nargs="?",
        const=_EXCLUDED,
        metavar="FILE",
        help=f"exclude the machines in this file, one per line (default {_EXCLUDED})",
    )
    parser.add_argument("--psf", metavar="HOSTS", help="not supported; use --nodes and --psn")
    parser.add_argument(
        "--port",
        type=_port,
        default=_TF_PORT,
        metavar="PORT",
        help=f"the port in TF_CONFIG (default {_TF_PORT})",
    )
    _add_machine_arguments(parser)
    parser.add_argument(
        "--all-nodes",
        action="store_true",
        help="include nodes that are not ready, cordoned or reserved for the control plane",
    )
    parser.add_argument("--submit", action="store_true", help="submit the result as one Framework")
    parser.add_argument(
        "--wait", action="store_true", help="wait until it has completed; exit 1 unless it succeeded"
    )
    parser.add_argument("--dry-run", action="store_true", help="validate on the server, store nothing")
    add_output_argument(parser, "name", "json", "yaml")
    add_server_arguments(parser)


def _add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group("machines")
    cluster.add_argument(
        "--nodes",
        metavar="HOSTS",
        help="comma-separated host names, used in this order instead of the cluster's nodes",
    )
    cluster.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="use the nodes of its cluster ($KUBECONFIG, or ~/.kube/config if it exists)",
    )
    cluster.add_argument(
        "--context", metavar="CONTEXT", help="the context of the kubeconfig (default: its current one)"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} must be a port from 1 to 65535")
    return int(text)


def _simpletfjob(args: argparse.Namespace) -> int:
    _check_arguments(args)
    template = _read(args.template)
    tasks = _tasks(args)
    with _usage_errors(f"{args.template}: "):
        documents = render_tasks(template, tasks, args.port)
    output = Path(output_path(args.template))
    _write(output, join_documents(documents))
    if not args.submit:
        print(output)
        return 0
    print_error(f"{output}: written")
    return _submit(args, output, _conversions(output, documents, tasks))


def _check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for invalid combinations. Sets the template if argparse took it for the value of -E."""
    if args.template is None:
        # -E takes no file in the original, so the word after it may be the template.
        if args.exc in (None, _EXCLUDED):
            raise UsageError("FILE: required; for example: launcher simpletfjob mnist.yaml -N 3")
        args.template, args.exc = Path(args.exc), _EXCLUDED
    if args.psf is not None:
        raise UsageError(
            "--psf: not supported; list the machines with --nodes, parameter servers first; --psn is their number"
        )
    for option in ("wait", "dry_run", "output"):
        if getattr(args, option) and not args.submit:
            raise UsageError(f"--{option.replace('_', '-')}: only together with --submit")


def _tasks(args: argparse.Namespace) -> tuple[TemplateTask, ...]:
    excluded = () if args.exc is None else hosts_in(_read(Path(args.exc), "-E: "))
    hosts = _hosts(args, excluded)
    with _usage_errors():
        return tasks_on(choose_hosts(hosts, excluded, args.num), args.psn)


def _hosts(args: argparse.Namespace, excluded: Sequence[str]) -> list[str]:
    """The machines to choose from, in order. Prints which ones are left out."""
    if args.nodes is not None:
        known = [host.strip() for host in args.nodes.split(",") if host.strip()]
        if len(set(known)) < len(known):
            raise UsageError("--nodes: each machine may be listed once")
        unfit: dict[str, str] = {}
    else:
        nodes = {str(node["metadata"]["name"]): node for node in nodes_of(args)}
        known = list(nodes)
        unfit = (
            {} if args.all_nodes else {name: why for name in known if (why := unusable_reason(nodes[name]))}
        )
    print_error(*(f"{args.exc}: unknown machine {host}" for host in excluded if host not in known))
    for host, why in unfit.items():
        if host not in excluded:
            print_error(f"{host} is excluded: {why} (--all-nodes includes it)")
    return [host for host in known if host not in unfit]


def nodes_of(args: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> list[Json]:
    """
    All nodes, by name. Raises CommandError.

    They are read from the server if one is named or receives the result; otherwise from the cluster of the kubeconfig,
    if there is one.
    """
    default = Path.home() / ".kube" / "config"
    paths = args.kubeconfig or environment.get("KUBECONFIG") or str(default)
    if args.kubeconfig or args.context:
        nodes = _cluster_nodes(paths, args.context)
    elif args.submit or args.server or environment.get("LAUNCHER_SERVER"):
        nodes = _server_nodes(args)
    elif environment.get("KUBECONFIG") or default.exists():
        nodes = _cluster_nodes(paths, None)
    else:
        nodes = _server_nodes(args)
    return sorted(nodes, key=lambda node: str(node["metadata"]["name"]))


def _server_nodes(args: argparse.Namespace) -> list[Json]:
    try:
        with api_client(args) as api:
            return api.list(NODES, all_namespaces=True)
    except CommandError as error:
        hint = "set the machines with --kubeconfig or --nodes"
        raise type(error)(*error.lines, hint) from error


def _cluster_nodes(paths: str, context: str | None) -> list[Json]:
    nodes: list[Json] = load_module("cluster_nodes").cluster_nodes(paths, context)
    return nodes


def _conversions(
    output: Path, documents: Sequence[str], tasks: Sequence[TemplateTask]
) -> tuple[Conversion, ...]:
    """The Frameworks to submit, validated. Prints their notes. Raises UsageError."""
    with _usage_errors(f"{output}: "):
        objects = [
            obj for text, task in zip(documents, tasks, strict=True) for obj in documents_in(text, task)
        ]
        conversions = frameworks_of(objects)
        for each in conversions:
            validate_framework(each.framework)
    print_error(*(f"{output}: note: {note}" for each in conversions for note in each.notes))
    return conversions


def _submit(args: argparse.Namespace, output: Path, conversions: Sequence[Conversion]) -> int:
    with api_client(args) as api:
        submission = Submission(api, args.namespace, dry_run=args.dry_run, output=args.output)
        for each in conversions:
            submission.add(ManifestFile(str(output), orjson.dumps(each.framework), Media.JSON))
    return submission.finish(wait=args.wait)


@contextmanager
def _usage_errors(prefix: str = "") -> Iterator[None]:
    """Inside, InvalidObject and BadRequest; outside, UsageError with one line for each problem."""
    try:
        yield
    except InvalidObject as error:
        raise UsageError(*(f"{prefix}{problem}" for problem in error.errors)) from error
    except BadRequest as error:
        raise UsageError(f"{prefix}{error}") from error


def _read(path: Path, prefix: str = "") -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{prefix}{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{prefix}{path}: not a text file in UTF-8") from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


COMMANDS = {
    "simpletfjob": Command(
        _simpletfjob,
        _add_arguments,
        example="launcher simpletfjob mnist.yaml -N 3 -E",
        details="The template may use {{.type}} (ps or worker), {{.index}}, {{.host}} and {{.TF_CONFIG}}. The result "
        "for all machines is written beside it, mnist_tfjob.yaml for mnist.yaml, and submitted with --submit.",
    )
}
