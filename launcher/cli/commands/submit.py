"""``submit``: Framework files to the server, as they are."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.arguments import FILE, SubParsers, add_command, add_output, add_server, add_strict
from launcher.cli.errors import CommandError, print_error

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient


def add(commands: SubParsers) -> None:
    """The parser of ``submit``."""
    submit = add_command(
        commands,
        "submit",
        _submit,
        help="give Frameworks and jobs to the server",
        more="The namespace is that of -n, or else of the file. Exit 2 when the server refuses a file, each mistake "
        "told with its line.",
        example="launcher submit --wait examples/hello.yaml",
    )
    submit.add_argument("files", nargs="+", type=Path, metavar="FILE", help=FILE)
    submit.add_argument(
        "--wait", action="store_true", help="until they have ended; exit 1 unless all succeeded"
    )
    submit.add_argument("--dry-run", action="store_true", help="have it checked, and store nothing")
    add_strict(submit)
    add_output(submit, "name", "json", "yaml")
    add_server(submit)


def _submit(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import run_with_client
    from launcher.cli.manifest_file import documents_in
    from launcher.cli.submission import Submission

    async def work(api: "ApiClient") -> int:
        submission = Submission(
            api, given.namespace, dry_run=given.dry_run, output=given.output, strict=given.strict
        )
        code, stored = 0, []
        for path in given.files:
            try:
                texts = documents_in(path)
            except CommandError as complaint:
                print_error(*complaint.lines)
                code, texts = max(code, complaint.code), []
            for text in texts:
                try:
                    stored.append(await submission.sent(text))
                except CommandError as complaint:
                    print_error(*complaint.lines)
                    code = max(code, complaint.code)
        if given.wait and not given.dry_run:
            for obj in stored:
                code = max(code, await submission.ended(obj))
        return code

    return run_with_client(given, work)
