"""``store``: check, back up and restore the store of a launcher on this machine."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from launcher.cli.command import Command
from launcher.cli.errors import CommandError, UsageError
from launcher.core.errors import LauncherError, RequestError
from launcher.settings.local import default_data
from launcher.store.embedded.maintenance import ReplacedStore, Summary, accept_loss, back_up, check, restore

T = TypeVar("T")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, title="actions", metavar="ACTION")
    for name, (summary, command) in _ACTIONS.items():
        action = actions.add_parser(name, help=summary, allow_abbrev=False)
        command.configure(action, summary)
        action.add_argument(
            "--data",
            type=_path,
            metavar="DIR",
            help="the data directory of the launcher ($LAUNCHER_DATA, or ~/.local/share/framework-launcher)",
        )


def _add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=_path, metavar="FILE", help="the file to create")


def _add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=_path, metavar="FILE", help="the output of launcher store backup")
    parser.add_argument("--force", action="store_true", help="replace the existing store")


def _add_no_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return Path(text)


def _check(args: argparse.Namespace) -> int:
    path = _store_path(args)
    summary = _call(lambda: check(path))
    print(f"{path} is intact: {_summary_text(summary)}")
    return 0


def _backup(args: argparse.Namespace) -> int:
    summary = _call(lambda: back_up(_store_path(args), args.file))
    print(f"{args.file}: {_summary_text(summary)}, {args.file.stat().st_size} bytes")
    return 0


def _restore(args: argparse.Namespace) -> int:
    path = _store_path(args)
    print(_replacement_text(path, _call(lambda: restore(path, args.file, force=args.force))))
    return 0


def _accept_loss(args: argparse.Namespace) -> int:
    path = _store_path(args)
    replaced = _call(lambda: accept_loss(path))
    print(f"{path} is intact; nothing was changed" if replaced is None else _replacement_text(path, replaced))
    return 0


def _store_path(args: argparse.Namespace) -> Path:
    data = args.data or Path(os.environ.get("LAUNCHER_DATA") or default_data(os.environ))
    return Path(data).expanduser().absolute() / "store.db"


def _call(call: Callable[[], T]) -> T:
    """The result of the call; its errors as CommandError."""
    try:
        return call()
    except RequestError as error:
        raise UsageError(f"launcher store: {error}") from error
    except LauncherError as error:
        raise CommandError(f"launcher store: {error}") from error


def _summary_text(summary: Summary) -> str:
    count = summary.objects
    return f"{count} object{'' if count == 1 else 's'}, version {summary.version}"


def _replacement_text(path: Path, replaced: ReplacedStore) -> str:
    kept = f"; the previous files are in {replaced.previous_files}" if replaced.previous_files else ""
    return f"{path}: {_summary_text(replaced.summary)}{kept}"


#: Help and command of each action.
_ACTIONS = {
    "check": (
        "verify that the store is intact and contains every acknowledged write",
        Command(
            _check,
            _add_no_arguments,
            example="launcher store check",
            details="Changes nothing; a launcher may be running. Exits 1 when the store is damaged.",
        ),
    ),
    "backup": (
        "write a copy of the store to a new file",
        Command(
            _backup,
            _add_backup_arguments,
            example="launcher store backup /backup/store-monday.db",
            details="A launcher may be running and is not blocked. The copy is verified.",
        ),
    ),
    "restore": (
        "replace the store with a backup",
        Command(
            _restore,
            _add_restore_arguments,
            example="launcher store restore /backup/store-monday.db --force",
            details="Stop the launcher first. The previous files are kept in a directory beside the new ones.",
        ),
    ),
    "accept-loss": (
        "keep only the readable objects of a damaged store",
        Command(
            _accept_loss,
            _add_no_arguments,
            example="launcher store accept-loss",
            details="Stop the launcher first. The damaged files are kept in a directory beside the new ones.",
        ),
    ),
}

COMMANDS = {
    "store": Command(
        None,
        _add_arguments,
        example="launcher store backup /backup/store-monday.db",
        details="The store contains all objects of the API. Logs and volumes are files of the data directory and not "
        "part of the store.",
    )
}
