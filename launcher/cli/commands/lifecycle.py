"""``stop``, ``start``, ``scale`` and ``delete``: changes of a Framework or of the job that owns it."""

import argparse
import re
from typing import Any

from launcher.cli.arguments import add_name_argument, add_server_arguments
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import FRAMEWORKS, ApiPath
from launcher.cli.command import Command, load_module
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.cli.names import ObjectReference, reference
from launcher.cli.output.framework_summary import is_completed, result_of
from launcher.cli.owning_job import job_named, owner_of
from launcher.core.errors import Conflict, Forbidden, NotFound
from launcher.core.names import KIND

Json = dict[str, Any]


def _add_stop_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    add_server_arguments(parser)


def _stop(args: argparse.Namespace) -> int:
    with api_client(args) as api:
        framework = api.get(FRAMEWORKS, args.name)
        _check_not_completed(framework, "stopped")
        # The job's controller keeps executionType Stop.
        if job := owner_of(framework):
            print_error(f"framework/{args.name} is owned by {job}, which completes with it")
        api.merge(FRAMEWORKS, args.name, {"spec": {"executionType": "Stop"}})
    print(f"framework/{args.name} stopping")
    return 0


def _add_start_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reference", type=reference, metavar="NAME", help="the Framework, or a suspended job, as tfjob/NAME"
    )
    add_server_arguments(parser)


def _start(args: argparse.Namespace) -> int:
    name = args.reference.name
    with api_client(args) as api:
        if args.reference.kind not in (None, KIND):
            job = job_named(args.reference.kind, name)
            job.resume(api)
            print(f"{job} started")
            return 0
        framework = api.get(FRAMEWORKS, name)
        execution = framework["spec"].get("executionType")
        if execution != "Stop":
            # The server itself rejects the start of a stopped Framework.
            _check_not_completed(framework, "started")
        api.merge(FRAMEWORKS, name, {"spec": {"executionType": "Start"}})
    print(f"framework/{name} {'already started' if execution == 'Start' else 'started'}")
    return 0


def _add_scale_arguments(parser: argparse.ArgumentParser) -> None:
    add_name_argument(parser)
    parser.add_argument(
        "roles",
        nargs="+",
        type=_role_and_number,
        metavar="ROLE=NUMBER",
        help="the new number of tasks of a role",
    )
    add_server_arguments(parser)


def _scale(args: argparse.Namespace) -> int:
    with api_client(args) as api:
        framework = api.get(FRAMEWORKS, args.name)
        _check_not_completed(framework, "scaled")
        operations = _scale_operations(framework, dict(args.roles))
        if job := owner_of(framework):
            print_error(f"framework/{args.name} is owned by {job}: scaling the job")
            job.scale(api, _role_names(framework), dict(args.roles))
            print(f"{job} scaled")
        else:
            api.json_patch(FRAMEWORKS, args.name, operations)
            print(f"framework/{args.name} scaled")
    return 0


def _check_not_completed(framework: Json, change: str) -> None:
    """Raise UsageError for a completed Framework, on which a change would have no effect."""
    if is_completed(framework):
        name, result = framework["metadata"]["name"], result_of(framework)
        raise UsageError(
            f"framework/{name} has completed ({result}) and cannot be {change}; delete it and submit it again to run "
            "it once more"
        )


def _role_names(framework: Json) -> list[str]:
    return [role["name"] for role in framework["spec"].get("taskRoles") or ()]


def _scale_operations(framework: Json, numbers: dict[str, int]) -> list[Json]:
    """A JSON patch that sets the task numbers, and fails when the order of the roles has changed."""
    names = _role_names(framework)
    operations: list[Json] = []
    for role, number in numbers.items():
        if role not in names:
            raise CommandError(
                f"{framework['metadata']['name']} has no role {role}; roles: {', '.join(names)}"
            )
        path = f"/spec/taskRoles/{names.index(role)}"
        operations += [
            {"op": "test", "path": f"{path}/name", "value": role},
            {"op": "add", "path": f"{path}/taskNumber", "value": number},
        ]
        if framework["spec"].get("replicas") is not None:
            # It overrides taskNumber, and without a webhook does not follow it.
            operations.append({"op": "add", "path": "/spec/replicas", "value": number})
    return operations


def _add_delete_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", type=reference, metavar="NAME", help="a Framework, or a job, as tfjob/NAME"
    )
    parser.add_argument("--all", action="store_true", help="all Frameworks of the namespace")
    parser.add_argument(
        "-l", "--selector", type=_selector, metavar="SELECTOR", help="all Frameworks with these labels"
    )
    parser.add_argument("--wait", action="store_true", help="wait until they no longer exist")
    add_server_arguments(parser)


def _delete(args: argparse.Namespace) -> int:
    if [bool(args.names), args.all, args.selector is not None].count(True) != 1:
        raise UsageError("set one of NAME, --all and -l SELECTOR")
    with api_client(args) as api:
        deletion = _Deletion(api)
        for reference in args.names:
            deletion.delete(reference)
        if not args.names:
            for framework in api.list(FRAMEWORKS, labels=args.selector or ""):
                deletion.delete(ObjectReference(framework["metadata"]["name"]), framework)
    if args.wait and not deletion.code:
        return int(load_module("commands.wait").wait_until_deleted(api.config, deletion.deleted))
    return deletion.code


class _Deletion:
    """Deletes Frameworks, and in place of the Framework of a job the job, which would create it again."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        #: Path, name and printed text of each.
        self.deleted: list[tuple[ApiPath, str, str]] = []
        self.code = 0

    def delete(self, reference: ObjectReference, framework: Json | None = None) -> None:
        """Delete one object. An error is printed and sets the exit code: the others are still deleted."""
        try:
            self._delete(reference, framework)
        except (NotFound, Forbidden, CommandError) as error:
            print_error(str(error))
            self.code = 1

    def _delete(self, reference: ObjectReference, framework: Json | None) -> None:
        name = reference.name
        if reference.kind not in (None, KIND):
            job = job_named(reference.kind, name)
            job.delete(self._api)
            return self._print(job.resource, name, str(job))
        if framework is None:
            framework = self._api.get(FRAMEWORKS, name)
        if owner := owner_of(framework):
            print_error(f"framework/{name} is owned by {owner}: deleting the job")
            try:
                owner.delete(self._api)
            except (NotFound, Conflict):
                pass  # the owner no longer exists, so the Framework itself is deleted
            else:
                return self._print(owner.resource, owner.name, str(owner))
        self._api.delete(FRAMEWORKS, name, {"propagationPolicy": "Foreground"})
        return self._print(FRAMEWORKS, name, f"framework/{name}")

    def _print(self, resource: ApiPath, name: str, text: str) -> None:
        self.deleted.append((resource, name, text))
        print(f"{text} deleting", flush=True)


def _selector(text: str) -> str:
    """A label selector that is not empty, for argparse: an empty one selects every object. Raises UsageError."""
    if not text.strip(" ,"):
        raise UsageError("--selector: must not be empty; use --all to delete every Framework")
    return text


def _role_and_number(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"([a-z0-9]+)=([0-9]{1,9})", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROLE=NUMBER; for example worker=4")
    return found[1], int(found[2])


COMMANDS = {
    "stop": Command(_stop, _add_stop_arguments, example="launcher stop mnist"),
    "start": Command(_start, _add_start_arguments, example="launcher start mnist"),
    "scale": Command(_scale, _add_scale_arguments, example="launcher scale mnist worker=4"),
    "delete": Command(
        _delete,
        _add_delete_arguments,
        example="launcher delete mnist --wait",
        details="A Framework is removed when its pods have terminated, each within its grace period. If a job "
        "such as a TFJob owns the Framework, the job is deleted instead, because it would recreate the Framework.",
    ),
}
