"""``submit``: create the Frameworks and jobs of files on the server."""

import argparse
from pathlib import Path
from typing import Any

from launcher.cli.arguments import FILE_HELP, add_output_argument, add_server_arguments, add_strict_argument
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import FRAMEWORKS, ApiPath
from launcher.cli.command import Command, load_module
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.cli.manifest_file import ManifestFile, check, documents_in
from launcher.cli.output.formats import print_object
from launcher.core.errors import AlreadyExists, BadRequest, InvalidObject, NotServed, RequestError, TooLarge

Json = dict[str, Any]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=FILE_HELP)
    parser.add_argument(
        "--wait", action="store_true", help="wait until all have completed; exit 1 unless all succeeded"
    )
    parser.add_argument("--dry-run", action="store_true", help="validate on the server, store nothing")
    add_strict_argument(parser)
    add_output_argument(parser, "name", "json", "yaml")
    add_server_arguments(parser)


def _submit(args: argparse.Namespace) -> int:
    with api_client(args) as api:
        submission = Submission(
            api, args.namespace, dry_run=args.dry_run, output=args.output, strict=args.strict
        )
        for path in args.files:
            submission.add_file(path)
    return submission.finish(wait=args.wait)


class Submission:
    """
    Creates objects and prints them, then waits for them if requested.

    Without a *namespace*, objects are created in that of their file; without an *output*, one line is printed for each.
    """

    def __init__(
        self, api: ApiClient, namespace: str | None, *, dry_run: bool, output: str | None, strict: bool = True
    ) -> None:
        self._api, self._namespace, self._dry_run, self._output = api, namespace, dry_run, output
        self._strict = strict
        self._created: list[Json] = []
        self._code = 0

    def add_file(self, path: Path) -> None:
        """Create the objects of the file. Errors are printed and set the exit code: other files are still submitted."""
        try:
            documents = documents_in(path)
        except CommandError as error:
            self._fail(error)
            return
        for document in documents:
            try:
                self.add(document)
            except CommandError as error:
                self._fail(error)

    def finish(self, *, wait: bool) -> int:
        """The exit code; with *wait*, after all created objects have completed."""
        if wait and not self._dry_run:
            completed = load_module("commands.wait").wait_until_completed(self._api.config, self._created)
            self._code = max(self._code, int(completed))
        return self._code

    def add(self, document: ManifestFile) -> None:
        """Create and print the object of the document. Raises CommandError."""
        namespace = self._namespace or document.namespace or self._api.namespace
        kind = document.job_kind
        resource = FRAMEWORKS if kind is None else ApiPath(f"/apis/{kind.api_version}", kind.plural)
        try:
            created, warnings = self._api.create(
                document.data,
                document.media,
                namespace=namespace,
                resource=resource,
                dry_run=self._dry_run,
                strict=self._strict,
            )
        except InvalidObject as error:
            raise UsageError(*document.located(error.errors)) from error
        except (BadRequest, TooLarge) as error:
            if self._strict:
                # The server names unknown and duplicate fields, but not their lines.
                check(document, strict=True)
            raise UsageError(f"{document.name}: {error}") from error
        except AlreadyExists as error:
            raise CommandError(
                f"{document.name}: {error}; delete it first (launcher delete NAME) or use another name"
            ) from error
        except NotServed as error:
            kinds = "Frameworks" if kind is None else f"{kind.kind}s ({kind.api_version})"
            raise CommandError(f"{document.name}: {kinds} are not served at {self._api.url}") from error
        except RequestError as error:
            raise CommandError(f"{document.name}: {error}") from error
        print_error(*(f"{document.name}: warning: {warning}" for warning in warnings))
        self._print(created)
        self._created.append(created)

    def _fail(self, error: CommandError) -> None:
        print_error(*error.lines)
        self._code = max(self._code, error.code)

    def _print(self, obj: Json) -> None:
        name = f"{obj['kind'].lower()}/{obj['metadata']['name']}"
        match self._output:
            case "json":
                print_object(obj, "json")
            case "yaml":
                print("---")
                print_object(obj, "yaml")
            case "name":
                print(name)
            case _:
                print(f"{name} {'submitted (dry run)' if self._dry_run else 'submitted'}", flush=True)


COMMANDS = {
    "submit": Command(
        _submit,
        _add_arguments,
        example="launcher submit --wait examples/hello.yaml",
        details="Without -n, the namespace of the file is used. Exits 2 when the server rejects a file; each "
        "error is printed with its line.",
    )
}
