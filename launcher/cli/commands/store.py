"""``store``: check, back up and restore the store of a launcher on this machine."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from launcher.cli.arguments import SubParsers, add_command

if TYPE_CHECKING:
    from launcher.store.embedded.maintenance import Replaced, Summary

T = TypeVar("T")


def add(commands: SubParsers) -> None:
    """The parser of ``store`` and of its actions."""
    store = commands.add_parser(
        "store",
        allow_abbrev=False,
        help="check, back up or restore the store of a launcher on this machine",
        description="Check, back up or restore the store of a launcher on this machine: all objects of its API. Logs "
        "and volumes are files of the data directory, and no part of it.",
        epilog="example: launcher store backup /backup/store-monday.db",
    )
    actions = store.add_subparsers(required=True, title="actions", metavar="ACTION")
    check = add_command(
        actions,
        "check",
        _check,
        help="verify that the store is whole and holds every acknowledged write",
        more="Nothing is changed; a launcher may be running. Exit 1 when the store is damaged.",
        example="launcher store check",
    )
    backup = add_command(
        actions,
        "backup",
        _backup,
        help="write a copy of the store to a new file",
        more="A launcher may be running, and is not held up. The copy is verified.",
        example="launcher store backup /backup/store-monday.db",
    )
    backup.add_argument("file", type=_path, metavar="FILE", help="the file to create")
    restore = add_command(
        actions,
        "restore",
        _restore,
        help="put a backup in the place of the store",
        more="Stop the launcher first. The files from before are kept in a directory beside the new ones.",
        example="launcher store restore /backup/store-monday.db --force",
    )
    restore.add_argument("file", type=_path, metavar="FILE", help="what launcher store backup has written")
    restore.add_argument("--force", action="store_true", help="replace the store that is there")
    accept = add_command(
        actions,
        "accept-loss",
        _accept_loss,
        help="go on with those objects of a damaged store that can still be read",
        more="Stop the launcher first. The damaged files are kept in a directory beside the new ones.",
        example="launcher store accept-loss",
    )
    for action in (check, backup, restore, accept):
        action.add_argument(
            "--data",
            type=_path,
            metavar="DIR",
            help="the data directory of the launcher ($LAUNCHER_DATA, or ~/.local/share/framework-launcher)",
        )


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a path")
    return Path(text)


def _check(given: argparse.Namespace) -> int:
    from launcher.store.embedded.maintenance import check

    path = _store(given)
    summary = _answered(lambda: check(path))
    print(f"{path} is whole: {_described(summary)}")
    return 0


def _backup(given: argparse.Namespace) -> int:
    from launcher.store.embedded.maintenance import back_up

    summary = _answered(lambda: back_up(_store(given), given.file))
    print(f"{given.file}: {_described(summary)}, {given.file.stat().st_size} bytes")
    return 0


def _restore(given: argparse.Namespace) -> int:
    from launcher.store.embedded.maintenance import restore

    path = _store(given)
    print(_replaced(path, _answered(lambda: restore(path, given.file, force=given.force))))
    return 0


def _accept_loss(given: argparse.Namespace) -> int:
    from launcher.store.embedded.maintenance import accept_loss

    path = _store(given)
    replaced = _answered(lambda: accept_loss(path))
    print(f"{path} is whole: nothing is lost" if replaced is None else _replaced(path, replaced))
    return 0


def _store(given: argparse.Namespace) -> Path:
    from launcher.settings import default_data

    data = given.data or Path(os.environ.get("LAUNCHER_DATA") or default_data(os.environ))
    return Path(data).expanduser().absolute() / "store.db"


def _answered(call: Callable[[], T]) -> T:
    """The result of the call; its errors as one line each."""
    from launcher.cli.errors import CommandError, UsageError
    from launcher.core.errors import LauncherError, RequestError

    try:
        return call()
    except RequestError as error:
        raise UsageError(f"launcher store: {error}") from error
    except LauncherError as error:
        raise CommandError(f"launcher store: {error}") from error


def _described(summary: "Summary") -> str:
    count = summary.objects
    return f"{count} object{'' if count == 1 else 's'}, version {summary.version}"


def _replaced(path: Path, replaced: "Replaced") -> str:
    kept = f"; the files from before are in {replaced.kept}" if replaced.kept else ""
    return f"{path}: {_described(replaced.summary)}{kept}"
