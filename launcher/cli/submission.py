"""Frameworks on their way from a file to the server, and until they have ended."""

from pathlib import Path
from typing import Any

from launcher.cli.client import Api
from launcher.cli.complaint import Complaint, Refused, tell
from launcher.cli.files import Text, load
from launcher.cli.output import as_json, as_yaml
from launcher.cli.wishes import come_true
from launcher.core.errors import AlreadyExists, BadRequest, InvalidObject, RequestError, TooLarge

Json = dict[str, Any]


class Submission:
    """Sends files as they are. *namespace* None is that of the file, *output* None one line for people."""

    def __init__(self, api: Api, namespace: str | None, *, dry_run: bool, output: str | None) -> None:
        self._api, self._namespace, self._dry_run, self._output = api, namespace, dry_run, output

    async def stored(self, path: Path) -> Json:
        """The Framework of that file as the server has it now, after it has been printed. Raises Complaint."""
        return await self.sent(load(path))

    async def sent(self, text: Text) -> Json:
        """The same for a text that has been read already."""
        namespace = self._namespace or text.namespace or self._api.namespace
        try:
            framework, warnings = await self._api.create(
                text.data, text.media, namespace=namespace, dry_run=self._dry_run
            )
        except InvalidObject as error:
            raise Refused(*text.located(error.problems)) from error
        except (BadRequest, TooLarge) as error:
            raise Refused(f"{text.name}: {error}") from error
        except AlreadyExists as error:
            raise Complaint(
                f"{text.name}: {error}; delete that one first (launcher delete NAME), or choose another name"
            ) from error
        except RequestError as error:
            raise Complaint(f"{text.name}: {error}") from error
        tell(*(f"{text.name}: warning: {warning}" for warning in warnings))
        self._print(framework)
        return framework

    async def ended(self, framework: Json) -> int:
        """The exit code of one that has ended, after one line that says how."""
        meta = framework["metadata"]
        try:
            await come_true(self._api.within(meta["namespace"]), meta["name"], "Succeeded")
        except Complaint as complaint:
            tell(*complaint.lines)
            return complaint.code
        tell(f"{meta['name']}: Succeeded")
        return 0

    def _print(self, framework: Json) -> None:
        match self._output:
            case "json":
                print(as_json(framework))
            case "yaml":
                print("---\n" + as_yaml(framework), end="")
            case "name":
                print(f"framework/{framework['metadata']['name']}")
            case _:
                done = "submitted (dry run)" if self._dry_run else "submitted"
                print(f"framework/{framework['metadata']['name']} {done}", flush=True)
