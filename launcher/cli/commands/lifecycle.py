"""``stop``, ``start``, ``scale`` and ``delete``: what users want of a Framework once it is there."""

import argparse
import re
from typing import TYPE_CHECKING, Any

from launcher.cli.arguments import SubParsers, add_command, add_name, add_server
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.cli.names import Reference, reference

if TYPE_CHECKING:
    from launcher.cli.client.api_client import ApiClient, ApiPath

Json = dict[str, Any]


def add(commands: SubParsers) -> None:
    """The parsers of the commands that change something."""
    stop = add_command(
        commands,
        "stop",
        _stop,
        help="end a Framework for good; it and its logs stay",
        example="launcher stop mnist",
    )
    start = add_command(
        commands,
        "start",
        _start,
        help="start a Framework that was made with executionType Create",
        example="launcher start mnist",
    )
    scale = add_command(
        commands,
        "scale",
        _scale,
        help="change how many tasks roles have",
        example="launcher scale mnist worker=4",
    )
    add_name(stop)
    start.add_argument(
        "reference", type=reference, metavar="NAME", help="the Framework, or a suspended job, as tfjob/NAME"
    )
    add_name(scale)
    scale.add_argument(
        "roles", nargs="+", type=_role_and_number, metavar="ROLE=NUMBER", help="tasks of that role"
    )
    for parser in (stop, start, scale):
        add_server(parser)
    delete = add_command(
        commands,
        "delete",
        _delete,
        help="delete Frameworks with their pods and logs",
        more="A Framework goes when its pods have ended, each in its own grace period. For the Framework of a TFJob or "
        "of another job, the job is deleted, which would create it again.",
        example="launcher delete mnist --wait",
    )
    delete.add_argument(
        "names", nargs="*", type=reference, metavar="NAME", help="a Framework, or a job, as tfjob/NAME"
    )
    delete.add_argument("--all", action="store_true", help="every Framework of the namespace")
    delete.add_argument(
        "-l", "--selector", type=_selector, metavar="SELECTOR", help="every Framework with these labels"
    )
    delete.add_argument("--wait", action="store_true", help="until they are gone")
    add_server(delete)


def _stop(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.cli.owning_job import owner_of

    async def work(api: "ApiClient") -> int:
        framework = await api.get(FRAMEWORKS, given.name)
        _check_unfinished(framework, "stopped")
        # The job's controller keeps executionType Stop.
        if job := owner_of(framework):
            print_error(f"framework/{given.name} belongs to {job}, which ends with it")
        await api.merge(FRAMEWORKS, given.name, {"spec": {"executionType": "Stop"}})
        print(f"framework/{given.name} stopping")
        return 0

    return run_with_client(given, work)


def _start(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.cli.owning_job import job_named
    from launcher.core.names import KIND

    async def work(api: "ApiClient") -> int:
        if given.reference.kind not in (None, KIND):
            job = job_named(given.reference.kind, given.reference.name)
            await job.resume(api)
            print(f"{job} started")
            return 0
        name = given.reference.name
        framework = await api.get(FRAMEWORKS, name)
        execution = framework["spec"].get("executionType")
        if execution != "Stop":
            # The server itself refuses to start one that was stopped.
            _check_unfinished(framework, "started")
        await api.merge(FRAMEWORKS, name, {"spec": {"executionType": "Start"}})
        print(f"framework/{name} {'was started already' if execution == 'Start' else 'started'}")
        return 0

    return run_with_client(given, work)


def _scale(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client
    from launcher.cli.owning_job import owner_of

    async def work(api: "ApiClient") -> int:
        framework = await api.get(FRAMEWORKS, given.name)
        _check_unfinished(framework, "scaled")
        operations = _operations(framework, dict(given.roles))
        if job := owner_of(framework):
            print_error(f"framework/{given.name} belongs to {job}, so the job is scaled")
            await job.scale(api, _role_names(framework), dict(given.roles))
            print(f"{job} scaled")
        else:
            await api.edit(FRAMEWORKS, given.name, operations)
            print(f"framework/{given.name} scaled")
        return 0

    return run_with_client(given, work)


def _check_unfinished(framework: Json, change: str) -> None:
    """Raise UsageError for a Framework that has ended, on which a change would have no effect."""
    from launcher.cli.output.framework_summary import is_over, state_of

    if is_over(framework):
        name = framework["metadata"]["name"]
        raise UsageError(
            f"framework/{name} has ended ({state_of(framework)}), so it cannot be {change}; delete it and submit it "
            "again to run it once more"
        )


def _role_names(framework: Json) -> list[str]:
    return [role["name"] for role in framework["spec"].get("taskRoles") or ()]


def _operations(framework: Json, wanted: dict[str, int]) -> list[Json]:
    """A JSON patch that gives roles their numbers, and fails when they no longer stand where they stood."""
    names = _role_names(framework)
    operations: list[Json] = []
    for role, number in wanted.items():
        if role not in names:
            raise CommandError(
                f"{framework['metadata']['name']} has no role {role}; it has {', '.join(names)}"
            )
        at = f"/spec/taskRoles/{names.index(role)}"
        operations += [
            {"op": "test", "path": f"{at}/name", "value": role},
            {"op": "add", "path": f"{at}/taskNumber", "value": number},
        ]
        if framework["spec"].get("replicas") is not None:
            # It stands over taskNumber, and where nobody sees to it does not follow by itself.
            operations.append({"op": "add", "path": "/spec/replicas", "value": number})
    return operations


def _delete(given: argparse.Namespace) -> int:
    from launcher.cli.client.api_client import FRAMEWORKS, run_with_client

    if [bool(given.names), given.all, given.selector is not None].count(True) != 1:
        raise UsageError("name the Frameworks to delete, or choose them with --all or with -l SELECTOR")

    async def work(api: "ApiClient") -> int:
        deletion = _Deletion(api)
        if given.names:
            for reference in given.names:
                await deletion.of(reference)
        else:
            for framework in (await api.list(FRAMEWORKS, labels=given.selector or ""))[0]:
                await deletion.of(Reference(framework["metadata"]["name"]), framework)
        if given.wait and not deletion.code:
            await deletion.finished()
        return deletion.code

    return run_with_client(given, work)


class _Deletion:
    """Deletes Frameworks, and for the Framework of a job the job, which would create it again."""

    def __init__(self, api: "ApiClient") -> None:
        self._api = api
        self._deleted: list[tuple[ApiPath, str, str]] = []
        self.code = 0

    async def of(self, reference: Reference, framework: Json | None = None) -> None:
        """Delete one object. An error is printed and sets the exit code: the others are deleted all the same."""
        from launcher.core.errors import Forbidden, NotFound

        try:
            await self._delete(reference, framework)
        except (NotFound, Forbidden, CommandError) as error:
            print_error(str(error))
            self.code = 1

    async def finished(self) -> None:
        """Return when everything is gone."""
        from launcher.cli.conditions import gone

        for resource, name, shown in self._deleted:
            await gone(self._api, resource, name)
            print(f"{shown} deleted", flush=True)

    async def _delete(self, reference: Reference, framework: Json | None) -> None:
        from launcher.cli.client.api_client import FRAMEWORKS
        from launcher.cli.owning_job import job_named, owner_of
        from launcher.core.errors import Conflict, NotFound
        from launcher.core.names import KIND

        name = reference.name
        if reference.kind not in (None, KIND):
            job = job_named(reference.kind, name)
            await job.delete(self._api)
            return self._print(job.resource, name, str(job))
        if framework is None:
            framework = await self._api.get(FRAMEWORKS, name)
        if owner := owner_of(framework):
            print_error(f"framework/{name} belongs to {owner}, so the job is deleted")
            try:
                await owner.delete(self._api)
            except (NotFound, Conflict):
                pass  # The owner no longer exists: the Framework stands alone.
            else:
                return self._print(owner.resource, owner.name, str(owner))
        await self._api.delete(FRAMEWORKS, name, {"propagationPolicy": "Foreground"})
        return self._print(FRAMEWORKS, name, f"framework/{name}")

    def _print(self, resource: "ApiPath", name: str, shown: str) -> None:
        self._deleted.append((resource, name, shown))
        print(f"{shown} deleting", flush=True)


def _selector(text: str) -> str:
    """A label selector that is not empty, for argparse: an empty one selects every object. Raises UsageError."""
    if not text.strip(" ,"):
        raise UsageError("--selector: is empty, which would select every Framework; write one, or --all")
    return text


def _role_and_number(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"([a-z0-9]+)=([0-9]{1,9})", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROLE=NUMBER; for instance worker=4")
    return found[1], int(found[2])
