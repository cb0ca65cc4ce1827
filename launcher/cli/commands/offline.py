"""``validate``, ``render`` and ``story``: what can be said of a Framework file without a server."""

import argparse
from pathlib import Path

from launcher.cli.arguments import FILE, SubParsers, add_command, add_strict
from launcher.cli.errors import UsageError, print_error


def add(commands: SubParsers) -> None:
    """The parsers of the commands that need no server."""
    validate = add_command(
        commands,
        "validate",
        _validate,
        help="report everything that is wrong with files of Frameworks and jobs",
        more="Each mistake is printed with line, column, field, and what would be right. Exit 0 when there is none, "
        "2 otherwise.",
        example="launcher validate examples/*.yaml",
    )
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE", help=FILE)
    add_strict(validate)
    render = add_command(
        commands,
        "render",
        _render,
        help="print the pods that a Framework would have",
        more="These are the pods of its first attempt, one per task.",
        example="launcher render -o json examples/hello.yaml",
    )
    render.add_argument("file", type=Path, metavar="FILE", help=FILE)
    render.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="the format (default yaml)"
    )
    story = add_command(
        commands,
        "story",
        _story,
        help="rehearse a Framework in virtual time and print what happens to each task",
        more="The real engine plays it on a cluster that exists only in memory. The first pod of the first role's "
        "last task is killed, so that there is a retry to see if the Framework allows one.",
        example="launcher story examples/parameter-server.yaml",
    )
    story.add_argument("file", type=Path, metavar="FILE", help=FILE)


def _validate(given: argparse.Namespace) -> int:
    from launcher.cli.manifest_file import check, documents_in

    code = 0
    for path in given.files:
        valid = True
        try:
            texts = documents_in(path)
        except UsageError as error:
            code, valid, texts = error.code, False, []
            print_error(*error.lines)
        for text in texts:
            try:
                warnings = check(text, strict=given.strict).warnings
            except UsageError as error:
                code, valid = error.code, False
                print_error(*error.lines)
            else:
                print_error(*(f"{path}: warning: {warning}" for warning in warnings))
        if valid:
            print(f"{path}: valid")
    return code


def _render(given: argparse.Namespace) -> int:
    from launcher.cli.manifest_file import documents_in, framework_in
    from launcher.cli.output.serializers import as_json, as_yaml
    from launcher.cli.render import pods

    texts = documents_in(given.file)
    made = [pod for text in texts for pod in pods(framework_in(text).object)]
    if given.output == "json":
        print(as_json({"apiVersion": "v1", "kind": "List", "items": made}))
    else:
        print(as_yaml(*made), end="")
    return 0


def _story(given: argparse.Namespace) -> int:
    from launcher.cli import simulation as story
    from launcher.cli.manifest_file import documents_in, framework_in

    for text in documents_in(given.file):
        manifest = framework_in(text)
        print_error(*(f"{text.name}: warning: {warning}" for warning in manifest.warnings))
        for line in story.simulate(manifest.object):
            print(line)
    return 0
