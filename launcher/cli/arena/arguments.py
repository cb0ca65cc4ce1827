"""The arguments of ``arena``."""

import argparse
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from launcher.cli.arena import unsupported
from launcher.cli.arguments import add_output_argument, add_server_arguments, whole_number
from launcher.cli.errors import UsageError
from launcher.converters.arena.flags import FLAGS, Flag, FlagType
from launcher.core.timestamps import parse_go_duration as seconds_in

Run = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """A parser whose errors are UsageErrors, without a page of flags."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **{**options, "allow_abbrev": False})  # type: ignore[arg-type]  # argparse's own

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; see {self.prog} --help")


_Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 - it has no public name


def make_parser(runs: dict[str, Run]) -> Parser:
    """The parser of all commands; ``args.run`` is one of *runs*."""
    parser = Parser(
        prog="arena",
        description="Arena's commands, for jobs that the launcher runs.",
        epilog="example: launcher arena submit tf --name=mnist --workers=2 --ps=1 --image=tf:1 'python main.py'",
    )
    _add_global(parser)
    commands = parser.add_subparsers(required=True, title="commands", metavar="COMMAND")
    _add_submit(commands, runs["submit"])
    _add_read_commands(commands, runs)
    _add_delete_commands(commands, runs)
    _add_top(commands, runs)
    _leaf(commands, "whoami", runs["whoami"], "print the name of the user of new jobs")
    _leaf(commands, "version", runs["version"], "print the version of the launcher")
    for name, why in unsupported.COMMANDS.items():
        _add_unsupported(commands, name, why)
    return parser


def deprecated_flags() -> dict[str, str]:
    """The current names of flags of earlier versions, with their dashes."""
    return {f"--{old}": f"--{flag.name}" for flag in FLAGS.values() for old in flag.old}


def _add_global(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loglevel",
        choices=("debug", "info", "warn", "error"),
        default="info",
        help="the lowest level that is printed",
    )
    for name in ("arena-namespace", "config"):
        parser.add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    for name in ("helm-binary", "pprof", "trace"):
        parser.add_argument(
            f"--{name}", dest=name, action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    add_server_arguments(parser)


def _leaf(commands: _Commands, name: str, run: Run, help_: str, *others: str) -> Parser:
    parser = commands.add_parser(
        name, aliases=others, help=help_, description=f"{help_[0].upper()}{help_[1:]}."
    )
    parser.set_defaults(run=run)
    _add_global(parser)
    return parser


def _add_unsupported(commands: _Commands, name: str, why: str) -> None:
    def refuse(_: argparse.Namespace) -> NoReturn:
        raise UsageError(f"arena {name}: {why}")

    parser = commands.add_parser(name, add_help=False, prefix_chars="\0")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.set_defaults(run=refuse)


def _add_submit(commands: _Commands, run: Run) -> None:
    submit = commands.add_parser("submit", help="submit a job", description="Submit a job.")
    _add_global(submit)
    kinds = submit.add_subparsers(required=True, title="kinds of jobs", metavar="KIND")
    tfjob = _leaf(kinds, "tfjob", run, "submit a TensorFlow job", "tf")
    for flag in FLAGS.values():
        _add_flag(tfjob, flag)
    tfjob.add_argument(
        "--dry-run", dest="dry_run", action="store_true", help="print the objects, create nothing"
    )
    tfjob.add_argument("words", nargs="*", metavar="COMMAND", help="the command of every container")
    for name, why in unsupported.KINDS.items():
        _add_unsupported(kinds, name, why)


def _add_flag(parser: argparse.ArgumentParser, flag: Flag) -> None:
    names = [f"-{flag.short}"] if flag.short else []
    default = f" (default {flag.default})" if flag.default else ""
    about = argparse.SUPPRESS if flag.refused else flag.help + default
    names.append(f"--{flag.name}")
    if flag.kind is FlagType.SWITCH:
        parser.add_argument(
            *names, dest=flag.name, action="store_true", default=argparse.SUPPRESS, help=about
        )
        return
    parser.add_argument(
        *names,
        dest=flag.name,
        action="append" if flag.kind is FlagType.REPEATED else "store",
        type=int if flag.kind is FlagType.NUMBER else str,
        default=argparse.SUPPRESS,
        metavar=flag.metavar or ("NUMBER" if flag.kind is FlagType.NUMBER else "TEXT"),
        help=about,
    )


def _add_read_commands(commands: _Commands, runs: dict[str, Run]) -> None:
    list_parser = _leaf(commands, "list", runs["list"], "list jobs", "ls")
    _add_type(list_parser)
    _add_all_namespaces(list_parser)
    add_output_argument(list_parser, "wide", "json", "yaml")
    get = _leaf(commands, "get", runs["get"], "show a job and its instances")
    get.add_argument("name", metavar="JOB", help="the job")
    get.add_argument("-e", "--events", action="store_true", help="also print its events")
    get.add_argument("-g", "--gpus", action="store_true", help="also print its GPUs")
    _add_type(get)
    add_output_argument(get, "wide", "json", "yaml", "name")
    logs = _leaf(commands, "logs", runs["logs"], "print the log of an instance", "log")
    logs.add_argument("name", metavar="JOB", help="the job")
    logs.add_argument("-f", "--follow", action="store_true", help="follow the log")
    logs.add_argument(
        "--since",
        type=_seconds,
        metavar="DURATION",
        help="only lines newer than this duration, such as 1h2m3s",
    )
    logs.add_argument("--since-time", metavar="TIME", help="only lines since this time (RFC 3339)")
    logs.add_argument("-t", "--tail", type=_lines, metavar="LINES", help="only the last lines")
    logs.add_argument("--timestamps", action="store_true", help="print the time of each line")
    _add_instance(logs)
    attach = _leaf(commands, "attach", runs["attach"], "run a command in a container of a job")
    attach.add_argument("name", metavar="JOB", help="the job")
    attach.add_argument("words", nargs="*", metavar="COMMAND", help="the command (default: sh)")
    _add_instance(attach)


def _add_delete_commands(commands: _Commands, runs: dict[str, Run]) -> None:
    delete = _leaf(commands, "delete", runs["delete"], "delete jobs", "del")
    delete.add_argument("names", nargs="+", metavar="JOB", help="a job")
    _add_type(delete)
    prune = _leaf(commands, "prune", runs["prune"], "delete old jobs that have completed")
    prune.add_argument(
        "-s", "--since", type=_seconds, metavar="DURATION", help="the minimum age, such as 24h (required)"
    )
    prune.add_argument("--pending", action="store_true", help="also delete jobs that have not started")
    _add_all_namespaces(prune)


def _add_top(commands: _Commands, runs: dict[str, Run]) -> None:
    top = commands.add_parser("top", help="show the use of GPUs", description="Show the use of GPUs.")
    _add_global(top)
    kinds = top.add_subparsers(required=True, title="kinds", metavar="KIND")
    node = _leaf(kinds, "node", runs["top node"], "show the GPUs of nodes")
    node.add_argument("names", nargs="*", metavar="NODE", help="only this node")
    add_output_argument(node, "wide", "json", "yaml")
    for short, name in (("-d", "details"), ("-r", "refresh")):
        node.add_argument(
            short, f"--{name}", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    for words in (("-m", "--mode"), ("--metric",)):
        node.add_argument(*words, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    job = _leaf(kinds, "job", runs["top job"], "show the GPUs of jobs")
    job.add_argument("name", nargs="?", metavar="JOB", help="print the instances of this job")
    job.add_argument("-i", "--instance", metavar="INSTANCE", help="only this instance")
    add_output_argument(job, "wide", "json", "yaml")
    job.add_argument(
        "-r", "--refresh", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    _add_type(job)
    _add_all_namespaces(job)


def _add_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-T", "--type", metavar="TYPE", help="the type of the job: tfjob or tf")


def _add_all_namespaces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")


def _add_instance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--instance", metavar="INSTANCE", help="the instance (default: the chief)")
    parser.add_argument("-c", "--container", metavar="CONTAINER", help="the container")
    _add_type(parser)


def _seconds(text: str) -> float:
    try:
        return seconds_in(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _lines(text: str) -> int | None:
    """The number of lines; None (-1) is all of them."""
    return None if text == "-1" else whole_number(text)
