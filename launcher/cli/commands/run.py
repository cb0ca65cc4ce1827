"""``run``: run the objects of one file with a launcher of its own."""

import argparse
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

from launcher.cli.arguments import FILE_HELP, add_strict_argument
from launcher.cli.command import Command
from launcher.cli.errors import UsageError, print_error
from launcher.cli.local_run import run_frameworks
from launcher.cli.manifest_file import ManifestFile, check, documents_in
from launcher.cli.output.log_formatter import LineFormatter
from launcher.core.manifest import Manifest
from launcher.settings.local import PROCESS, RUNTIMES, for_run
from launcher.settings.values import InvalidSetting
from launcher.wiring.data_directory import prepare


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=FILE_HELP)
    add_strict_argument(parser)
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NODE",
        help="a node of this machine: NAME[,ip=127.0.0.N][,label=value…][,cpu=…][,memory=…][,nvidia.com/gpu=…]; may be "
        "repeated (default: one, with this machine's name and size)",
    )
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=DIR[,entrypoint=COMMAND]",
        help="overlay the root directory of containers of that image with DIR, and run COMMAND in those without a "
        "command; may be repeated",
    )
    parser.add_argument(
        "--nfs",
        action="append",
        default=[],
        metavar="SERVER:/PATH=DIR",
        help="use this directory for that NFS export; may be repeated",
    )
    parser.add_argument(
        "--claim",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="use this directory for that PersistentVolumeClaim; may be repeated",
    )
    parser.add_argument(
        "--runtime",
        choices=RUNTIMES,
        default=PROCESS,
        help="how containers run: as processes with the files of this machine (default), or in their images by Docker "
        "or Podman, found by DOCKER_HOST or at the usual sockets",
    )
    parser.add_argument(
        "--workdir",
        metavar="DIR",
        help="the working directory of containers without workingDir (default: the current directory, and / "
        "with --image)",
    )
    parser.add_argument(
        "--pod-network",
        metavar="auto|isolated|shared",
        help="isolated: each pod without hostNetwork has a network namespace and an address; shared: pods use the "
        "network of this machine; auto: isolated if pods then reach what the machine reaches, else shared "
        "(default auto, or the variable LAUNCHER_POD_NETWORK)",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep the data and all logs in this directory, which must be empty or new",
    )


def _run(args: argparse.Namespace) -> int:
    documents = documents_in(args.file)
    _check_documents(documents, strict=args.strict)
    if args.keep is None:
        with tempfile.TemporaryDirectory(prefix="launcher-", ignore_cleanup_errors=True) as directory:
            return _run_in(args, documents, Path(directory))
    try:
        if args.keep.exists() and any(args.keep.iterdir()):
            raise UsageError(f"--keep: {args.keep} is not empty; choose a new directory")
        if warning := prepare(args.keep):
            print_error(f"launcher run: warning: {warning}")
    except OSError as error:
        raise UsageError(f"--keep: {args.keep}: {error.strerror}") from error
    return _run_in(args, documents, args.keep)


def _check_documents(documents: Sequence[ManifestFile], *, strict: bool) -> None:
    """Print the warnings of all documents. Raises UsageError with the errors of all."""
    manifests: list[Manifest] = []
    errors: list[str] = []
    for document in documents:
        try:
            manifests.append(check(document, strict=strict))
        except UsageError as error:
            errors += error.lines
    if errors:
        raise UsageError(*errors)
    file = documents[0].name
    _check_names(file, manifests)
    warnings = [warning for manifest in manifests for warning in manifest.warnings]
    print_error(*(f"{file}: warning: {warning}" for warning in warnings))


def _check_names(file: str, manifests: Sequence[Manifest]) -> None:
    """Raise UsageError where two objects have one name: the Framework of a job has the name of its job."""
    names = [manifest.object["metadata"].get("name") for manifest in manifests]
    for name in names:
        if name is not None and names.count(name) > 1:
            raise UsageError(f"{file}: {names.count(name)} objects are named {name}; names must be unique")


def _run_in(args: argparse.Namespace, documents: Sequence[ManifestFile], data: Path) -> int:
    """The exit code of a run with *data* as its data directory."""
    try:
        settings = for_run(
            data,
            args.node,
            args.image,
            args.nfs,
            args.claim,
            args.workdir,
            args.pod_network,
            args.runtime,
        )
    except InvalidSetting as error:
        raise UsageError(f"--{error}") from error
    # The terminal shows the output of the tasks; the launcher's own log is written to the data directory.
    (data / "launcher.log").touch(mode=0o600)
    handler = logging.FileHandler(data / "launcher.log")
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    try:
        return run_frameworks(settings, documents)
    finally:
        logging.basicConfig(force=True)
        if args.keep is not None:
            print_error(f"Logs and data are kept in {data}.")


COMMANDS = {
    "run": Command(
        _run,
        _add_arguments,
        example="launcher run examples/hello.yaml",
        details="Runs all objects of the file at the same time and streams the logs of all tasks. Ctrl-C stops them "
        "gracefully; a second Ctrl-C kills their pods. Exits 0 when all succeeded, with the exit code of the first one "
        "that failed, or 1; 130 after Ctrl-C, 2 for an invalid file.",
    )
}
