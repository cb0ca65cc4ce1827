"""``stop``, ``start``, ``scale`` and ``delete``: what users want of a Framework once it is there."""

import argparse
import re
from typing import TYPE_CHECKING, Any

from launcher.cli.complaint import Complaint, Refused, tell
from launcher.cli.options import SubParsers, add_command, add_server

if TYPE_CHECKING:
    from launcher.cli.client import Api

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
    for parser in (stop, start, scale):
        parser.add_argument("name", metavar="NAME", help="the Framework")
        if parser is scale:
            parser.add_argument(
                "roles", nargs="+", type=_role_and_number, metavar="ROLE=NUMBER", help="tasks of that role"
            )
        add_server(parser)
    delete = add_command(
        commands,
        "delete",
        _delete,
        help="delete Frameworks with their pods and logs",
        more="A Framework goes when its pods have ended, each in its own grace period.",
        example="launcher delete mnist --wait",
    )
    delete.add_argument("names", nargs="*", metavar="NAME", help="a Framework")
    delete.add_argument("--all", action="store_true", help="every Framework of the namespace")
    delete.add_argument("--wait", action="store_true", help="until they are gone")
    add_server(delete)


def _stop(given: argparse.Namespace) -> int:
    return _execute(given, "Stop", "stopping")


def _start(given: argparse.Namespace) -> int:
    return _execute(given, "Start", "started")


def _execute(given: argparse.Namespace, wish: str, word: str) -> int:
    from launcher.cli.client import FRAMEWORKS, talk

    async def work(api: "Api") -> int:
        await api.merge(FRAMEWORKS, given.name, {"spec": {"executionType": wish}})
        print(f"framework/{given.name} {word}")
        return 0

    return talk(given, work)


def _scale(given: argparse.Namespace) -> int:
    from launcher.cli.client import FRAMEWORKS, talk

    async def work(api: "Api") -> int:
        framework = await api.get(FRAMEWORKS, given.name)
        await api.edit(FRAMEWORKS, given.name, _operations(framework, dict(given.roles)))
        print(f"framework/{given.name} scaled")
        return 0

    return talk(given, work)


def _operations(framework: Json, wanted: dict[str, int]) -> list[Json]:
    """A JSON patch that gives roles their numbers, and fails when they no longer stand where they stood."""
    names = [role["name"] for role in framework["spec"].get("taskRoles") or ()]
    operations: list[Json] = []
    for role, number in wanted.items():
        if role not in names:
            raise Complaint(f"{framework['metadata']['name']} has no role {role}; it has {', '.join(names)}")
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
    from launcher.cli.client import FRAMEWORKS, talk

    if bool(given.names) == given.all:
        raise Refused("name the Frameworks to delete, or say --all")

    async def work(api: "Api") -> int:
        names = given.names
        if given.all:
            names = [item["metadata"]["name"] for item in (await api.list(FRAMEWORKS))[0]]
        code = 0
        for name in names:
            code = max(code, await _deleting(api, name))
        if given.wait and not code:
            await _gone(api, names)
        return code

    return talk(given, work)


async def _deleting(api: "Api", name: str) -> int:
    from launcher.cli.client import FRAMEWORKS
    from launcher.core.errors import NotFound

    try:
        await api.delete(FRAMEWORKS, name, {"propagationPolicy": "Foreground"})
    except NotFound as error:
        tell(str(error))
        return 1
    print(f"framework/{name} deleting", flush=True)
    return 0


async def _gone(api: "Api", names: list[str]) -> None:
    from launcher.cli.wishes import come_true

    for name in names:
        await come_true(api, name, "deleted")
        print(f"framework/{name} deleted", flush=True)


def _role_and_number(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"([a-z0-9]+)=([0-9]+)", text, re.ASCII)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROLE=NUMBER; for instance worker=4")
    return found[1], int(found[2])
