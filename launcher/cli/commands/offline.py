"""``validate``, ``render`` and ``simulate``: commands for Framework files that need no server."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from launcher.cli.arguments import FILE_HELP, add_strict_argument
from launcher.cli.command import Command
from launcher.cli.errors import UsageError, print_error
from launcher.cli.manifest_file import check, documents_in, framework_in
from launcher.cli.output.formats import print_list
from launcher.cli.output.yaml_format import dump_yaml
from launcher.core.framework import Framework
from launcher.core.manifest import framework_of
from launcher.core.rendered_pods import rendered_pods
from launcher.core.simulation import simulate

#: Reasons are printed below their state, so that lines fit a terminal of 80 columns.
_INDENT = " " * 10


def _add_validate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=FILE_HELP)
    add_strict_argument(parser)


def _validate(args: argparse.Namespace) -> int:
    valid = [_is_valid(path, strict=args.strict) for path in args.files]
    return 0 if all(valid) else UsageError.code


def _is_valid(path: Path, *, strict: bool) -> bool:
    """Print the result for one file."""
    try:
        documents = documents_in(path)
    except UsageError as error:
        print_error(*error.lines)
        return False
    valid = True
    for document in documents:
        try:
            warnings = check(document, strict=strict).warnings
        except UsageError as error:
            valid = False
            print_error(*error.lines)
        else:
            print_error(*(f"{path}: warning: {warning}" for warning in warnings))
    if valid:
        print(f"{path}: valid")
    return valid


def _add_render_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=FILE_HELP)
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="the output format (default yaml)"
    )


def _render(args: argparse.Namespace) -> int:
    documents = documents_in(args.file)
    pods = [
        pod for document in documents for pod in rendered_pods(framework_of(framework_in(document).object))
    ]
    if args.output == "json":
        print_list(pods, "json")
    else:
        print(dump_yaml(*pods), end="")
    return 0


def _add_simulate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help=FILE_HELP)


def _simulate(args: argparse.Namespace) -> int:
    for document in documents_in(args.file):
        manifest = framework_in(document)
        print_error(*(f"{document.name}: warning: {warning}" for warning in manifest.warnings))
        for line in _simulation_lines(framework_of(manifest.object)):
            print(line)
    return 0


def _simulation_lines(framework: Framework) -> Iterator[str]:
    roles = ", ".join(f"{role.tasks} x {role.name}" for role in framework.spec.roles)
    yield f"{framework.name}: {roles or 'no roles'}, in simulated time"
    for step in simulate(framework):
        clock = f"{step.seconds // 60:>3}:{step.seconds % 60:02}"
        change = step.transition
        if step.is_stuck:
            yield f"{clock}  {framework.name} stays in state {change.after}"
            return
        subject = framework.name if change.role is None else f"  {change.role}-{change.index}"
        reason = fill(change.reason, 80, initial_indent=_INDENT, subsequent_indent=_INDENT)
        yield f"{clock}  {subject:<16} {change.after}\n{reason}".rstrip()


COMMANDS = {
    "validate": Command(
        _validate,
        _add_validate_arguments,
        example="launcher validate examples/*.yaml",
        details="Each error is printed with its line, column and field. Exits 0 when all files are valid, 2 otherwise.",
    ),
    "render": Command(
        _render,
        _add_render_arguments,
        example="launcher render -o json examples/hello.yaml",
        details="These are the pods of its first attempt, one per task.",
    ),
    "simulate": Command(
        _simulate,
        _add_simulate_arguments,
        example="launcher simulate examples/parameter-server.yaml",
        details="The planner of the launcher runs the Framework on pods that exist in memory only. The first pod of "
        "the first role's last task is killed, to show a retry if the Framework allows one.",
    ),
}
