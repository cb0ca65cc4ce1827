"""Every command. Answers go to stdout, all else to stderr; exit 2 when the user must change something, 1 when not."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# The engine is imported by the commands that need it: the parser answers --help without.


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that *arguments* name."""
    given = _parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our answer has had enough of it
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="launcher",
        description="Run Frameworks: groups of task roles that start, retry and finish together.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    validate = commands.add_parser(
        "validate",
        help="tell everything that is wrong with Framework files",
        description="Tell everything that is wrong with Framework files: each mistake with line, column, field, "
        "and what would be right. Exit 0 when there is none, 2 otherwise.",
        epilog="example: launcher validate examples/*.yaml",
    )
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE", help=_FILE)
    validate.add_argument(
        "--strict", action="store_true", help="unknown and duplicate fields are mistakes too"
    )
    validate.set_defaults(run=_validate)
    render = commands.add_parser(
        "render",
        help="print the pods that a Framework would have",
        description="Print the pods that a Framework's first attempt would have, one per task.",
        epilog="example: launcher render -o json examples/hello.yaml",
    )
    render.add_argument("file", type=Path, metavar="FILE", help=_FILE)
    render.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="the format (default yaml)"
    )
    render.set_defaults(run=_render)
    story = commands.add_parser(
        "story",
        help="rehearse a Framework in virtual time and print what happens to each task",
        description="Rehearse a Framework in virtual time: the real engine on a cluster that exists only in memory. "
        "The first pod of the first role's last task is killed, so that there is a retry to see if the Framework "
        "allows one.",
        epilog="example: launcher story examples/parameter-server.yaml",
    )
    story.add_argument("file", type=Path, metavar="FILE", help=_FILE)
    story.set_defaults(run=_story)
    return parser


_FILE = "a Framework, as YAML or JSON; - reads standard input"


def _validate(given: argparse.Namespace) -> int:
    from launcher.cli.files import Refused, read

    refused = False
    for path in given.files:
        try:
            warnings = read(path, strict=given.strict).warnings
        except Refused as error:
            refused = True
            _complain(*error.lines)
        else:
            _complain(*(f"{path}: warning: {warning}" for warning in warnings))
            print(f"{path}: valid")
    return 2 if refused else 0


def _render(given: argparse.Namespace) -> int:
    from launcher.cli.files import Refused, read
    from launcher.cli.render import pods

    try:
        made = list(pods(read(given.file).object))
    except Refused as error:
        return _complain(*error.lines)
    if given.output == "json":
        import orjson

        listed = {"apiVersion": "v1", "kind": "List", "items": made}
        print(orjson.dumps(listed, option=orjson.OPT_INDENT_2).decode())
    else:
        import yaml

        print(yaml.dump_all(made, Dumper=yaml.CSafeDumper, sort_keys=False), end="")
    return 0


def _story(given: argparse.Namespace) -> int:
    from launcher.cli.files import Refused, read
    from launcher.cli.story import tell

    try:
        manifest = read(given.file)
    except Refused as error:
        return _complain(*error.lines)
    _complain(*(f"{given.file}: warning: {warning}" for warning in manifest.warnings))
    for line in tell(manifest.object):
        print(line)
    return 0


def _complain(*lines: str) -> int:
    """Exit code 2, after telling why."""
    for line in lines:
        print(line, file=sys.stderr)
    return 2
