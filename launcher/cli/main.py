"""Every command. Answers go to stdout, all else to stderr; exit 2 when the user must change something, 1 when not."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that *arguments* name."""
    parser = _parser()
    given = parser.parse_args(arguments)
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
    story = commands.add_parser(
        "story",
        help="rehearse a Framework in virtual time and print what happens to each task",
        description="Rehearse a Framework in virtual time: the real engine on a cluster that exists only in memory. "
        "The first pod of the first role's last task is killed, so that there is a retry to see if the Framework "
        "allows one.",
        epilog="example: launcher story examples/parameter-server.yaml",
    )
    story.add_argument("file", type=Path, metavar="FILE", help="a Framework, as YAML or JSON")
    story.set_defaults(run=_story)
    return parser


def _story(given: argparse.Namespace) -> int:
    # Imported here: the parser answers --help without the engine.
    from launcher.cli.story import tell
    from launcher.core.errors import RequestError
    from launcher.core.manifest import read_framework
    from launcher.core.reading.decode import Media

    try:
        data = given.file.read_bytes()
    except OSError as error:
        return _refuse(f"{given.file}: {error.strerror}")
    try:
        manifest = read_framework(data, media=Media.JSON if given.file.suffix == ".json" else Media.YAML)
    except RequestError as error:
        problems = getattr(error, "problems", (error,))
        return _refuse(*(f"{given.file}: {problem}" for problem in problems))
    for warning in manifest.warnings:
        print(f"launcher: {given.file}: {warning}", file=sys.stderr)
    for line in tell(manifest.object):
        print(line)
    return 0


def _refuse(*lines: str) -> int:
    for line in lines:
        print(f"launcher: {line}", file=sys.stderr)
    return 2
