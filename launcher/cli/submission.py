"""Frameworks and jobs on their way from a file to the server, and until they have ended."""

from typing import Any

from launcher.cli.client.api_client import FRAMEWORKS, ApiClient, ApiPath
from launcher.cli.conditions import job_succeeded, wait_for_condition
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.cli.manifest_file import ManifestFile, check
from launcher.cli.output.serializers import as_json, as_yaml
from launcher.cli.owning_job import job_named
from launcher.core.errors import AlreadyExists, BadRequest, InvalidObject, NotServed, RequestError, TooLarge
from launcher.core.names import KIND

Json = dict[str, Any]


class Submission:
    """Sends files as they are. *namespace* None is that of the file, *output* None one line for people."""

    def __init__(
        self, api: ApiClient, namespace: str | None, *, dry_run: bool, output: str | None, strict: bool = True
    ) -> None:
        self._api, self._namespace, self._dry_run, self._output = api, namespace, dry_run, output
        self._strict = strict

    async def sent(self, text: ManifestFile) -> Json:
        """The object of that document as the server has it now, after it has been printed. Raises CommandError."""
        namespace = self._namespace or text.namespace or self._api.namespace
        kind = text.job_kind
        resource = FRAMEWORKS if kind is None else ApiPath(f"/apis/{kind.api_version}", kind.plural)
        try:
            stored, warnings = await self._api.create(
                text.data,
                text.media,
                namespace=namespace,
                resource=resource,
                dry_run=self._dry_run,
                strict=self._strict,
            )
        except InvalidObject as error:
            raise UsageError(*text.located(error.errors)) from error
        except (BadRequest, TooLarge) as error:
            if self._strict:
                # The server names unknown and duplicate fields, but not their lines.
                check(text, strict=True)
            raise UsageError(f"{text.name}: {error}") from error
        except AlreadyExists as error:
            raise CommandError(
                f"{text.name}: {error}; delete that one first (launcher delete NAME), or choose another name"
            ) from error
        except NotServed as error:
            shown = "Frameworks" if kind is None else f"{kind.kind}s ({kind.api_version})"
            raise CommandError(f"{text.name}: {shown} are not served at {self._api.url}") from error
        except RequestError as error:
            raise CommandError(f"{text.name}: {error}") from error
        print_error(*(f"{text.name}: warning: {warning}" for warning in warnings))
        self._print(stored)
        return stored

    async def ended(self, obj: Json) -> int:
        """The exit code of a Framework or job that has ended, after one line that says how."""
        meta = obj["metadata"]
        api = self._api.within(meta["namespace"])
        try:
            if obj["kind"] == KIND:
                await wait_for_condition(api, meta["name"], "Succeeded")
            else:
                await job_succeeded(api, job_named(obj["kind"], meta["name"]))
        except CommandError as complaint:
            print_error(*complaint.lines)
            return complaint.code
        print_error(f"{meta['name']}: Succeeded")
        return 0

    def _print(self, obj: Json) -> None:
        name = f"{obj['kind'].lower()}/{obj['metadata']['name']}"
        match self._output:
            case "json":
                print(as_json(obj))
            case "yaml":
                print("---\n" + as_yaml(obj), end="")
            case "name":
                print(name)
            case _:
                print(f"{name} {'submitted (dry run)' if self._dry_run else 'submitted'}", flush=True)
