"""``run``: a launcher of its own for the objects of one file."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.arguments import FILE, SubParsers, add_command, add_strict
from launcher.cli.errors import UsageError, print_error

if TYPE_CHECKING:
    from launcher.cli.manifest_file import ManifestFile
    from launcher.core.manifest import Manifest


def add(commands: SubParsers) -> None:
    """The parser of ``run``."""
    run = add_command(
        commands,
        "run",
        _run,
        help="run Frameworks and jobs of one file on this machine, without a server",
        more="All objects of the file run at the same time, and what their tasks write is shown as it comes. Ctrl-C "
        "stops them, and pods end in their grace period; a second Ctrl-C kills them. Exit 0 when all succeeded, with "
        "the exit code of the first that did not, or 1; 130 after Ctrl-C, 2 for a file that is refused.",
        example="launcher run examples/hello.yaml",
    )
    run.add_argument("file", type=Path, metavar="FILE", help=FILE)
    add_strict(run)
    run.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NODE",
        help="a node of this machine: NAME[,ip=127.0.0.N][,label=value…][,cpu=…][,memory=…][,nvidia.com/gpu=…]; may be "
        "repeated (default: one, with this machine's name and size)",
    )
    run.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="lay DIR over the root for containers of that image; may be repeated",
    )
    run.add_argument(
        "--nfs",
        action="append",
        default=[],
        metavar="SERVER:/PATH=DIR",
        help="a directory that stands for that NFS export; may be repeated",
    )
    run.add_argument(
        "--claim",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="a directory that stands for that persistent volume claim; may be repeated",
    )
    run.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep the data there, with all logs; it has to be empty or new",
    )


def _run(given: argparse.Namespace) -> int:
    import tempfile

    from launcher.cli.manifest_file import check, documents_in
    from launcher.wiring.data_directory import prepare

    texts, manifests = documents_in(given.file), []
    refused: list[str] = []
    for text in texts:
        try:
            manifests.append(check(text, strict=given.strict))
        except UsageError as error:
            refused += error.lines
    if refused:
        raise UsageError(*refused)
    _check_names(texts[0].name, manifests)
    warnings = [warning for manifest in manifests for warning in manifest.warnings]
    print_error(*(f"{texts[0].name}: warning: {warning}" for warning in warnings))
    if given.keep is None:
        with tempfile.TemporaryDirectory(prefix="launcher-", ignore_cleanup_errors=True) as made:
            return _play(given, texts, Path(made))
    try:
        if given.keep.exists() and any(given.keep.iterdir()):
            raise UsageError(f"--keep: {given.keep} is not empty; name a new directory")
        if warning := prepare(given.keep):
            print_error(f"launcher run: warning: {warning}")
    except OSError as error:
        raise UsageError(f"--keep: {given.keep}: {error.strerror}") from error
    return _play(given, texts, given.keep)


def _check_names(file: str, manifests: "Sequence[Manifest]") -> None:
    """Raise UsageError where two objects have one name: the Framework of a job has the name of its job."""
    names = [manifest.object["metadata"].get("name") for manifest in manifests]
    for name in names:
        if name is not None and names.count(name) > 1:
            raise UsageError(f"{file}: {names.count(name)} objects are called {name}; give each its own name")


def _play(given: argparse.Namespace, texts: "Sequence[ManifestFile]", data: Path) -> int:
    import logging

    from launcher.cli.local_run import run_framework
    from launcher.cli.output.log_formatter import LineFormatter
    from launcher.settings import InvalidSetting, for_run

    try:
        settings = for_run(data, given.node, given.image, given.nfs, given.claim)
    except InvalidSetting as error:
        raise UsageError(f"--{error}") from error
    # A terminal is for what the tasks write; what the launcher itself has to tell is kept with the data.
    (data / "launcher.log").touch(mode=0o600)
    handler = logging.FileHandler(data / "launcher.log")
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    try:
        return run_framework(settings, texts)
    finally:
        logging.basicConfig(force=True)
        if given.keep is not None:
            print_error(f"logs and data are kept in {data}")
