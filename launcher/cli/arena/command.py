"""``arena``: the commands of Arena, for jobs that the launcher runs."""

import argparse
from collections.abc import Sequence

from launcher.cli.arguments import SubParsers
from launcher.cli.errors import UsageError, print_error


def add(commands: SubParsers) -> None:
    """The parser of ``arena``, which leaves everything behind that word to Arena's own way of reading it."""
    about = "submit and look after TensorFlow jobs, as Arena does"
    command = commands.add_parser(
        "arena",
        help=about,
        usage="launcher arena COMMAND …",
        add_help=False,
        # Nothing is an option: Arena reads them otherwise.
        prefix_chars="\0",
    )
    command.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND", help="see launcher arena --help"
    )
    command.set_defaults(run=_arena)


def _arena(given: argparse.Namespace) -> int:
    from launcher.cli.arena.config import settle_namespace

    read = _read(given.words)
    _refuse(read)
    settle_namespace(read)
    return int(read.run(read))


def _read(words: Sequence[str]) -> argparse.Namespace:
    """What the words mean. Raises UsageError."""
    from launcher.cli.arena import attach, delete, get, logs, submit, top
    from launcher.cli.arena.arguments import make_parser, old_spellings
    from launcher.cli.arena.argv import as_argparse

    parser = make_parser(
        {
            "submit": submit.submit,
            "list": get.list_jobs,
            "get": get.get,
            "logs": logs.logs,
            "attach": attach.attach,
            "delete": delete.delete,
            "prune": delete.prune,
            "top node": top.top_node,
            "top job": top.top_job,
            "whoami": _whoami,
            "version": _version,
        }
    )
    return parser.parse_args(as_argparse(words or ["--help"], parser, old_spellings(), _deprecated))


def _deprecated(old: str, new: str) -> None:
    print_error(f"Flag {old} has been deprecated, use {new} instead")


def _refuse(given: argparse.Namespace) -> None:
    """Raise UsageError for flags that ask for what there is not, after a word on those that change nothing."""
    from launcher.cli.arena import unsupported

    named = vars(given)
    refused = [f"--{name}: {why}" for name, why in unsupported.FLAGS.items() if name in named]
    if refused:
        raise UsageError(*refused)
    print_error(*(f"--{name}: {why}" for name, why in unsupported.IGNORED.items() if name in named))


def _whoami(_: argparse.Namespace) -> int:
    import getpass

    print(getpass.getuser())
    return 0


def _version(_: argparse.Namespace) -> int:
    from importlib.metadata import version

    print(f"arena: launcher {version('framework-launcher')}")
    return 0
