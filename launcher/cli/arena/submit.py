"""``arena submit``: a job by its flags."""

import argparse
import asyncio
import getpass
import random
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import orjson

from launcher.cli.arena.config import config_of
from launcher.cli.arena.output import ArenaLogger
from launcher.cli.client.api_client import CONFIG_MAPS, FRAMEWORKS, PODS, SERVICES, ApiClient, run_with_client
from launcher.cli.client.watch import watch_objects
from launcher.cli.errors import CommandError, UsageError
from launcher.cli.output.serializers import as_yaml
from launcher.converters.arena.flag_parsers import sources
from launcher.converters.arena.flag_values import FlagValues
from launcher.converters.arena.flags import FLAGS
from launcher.converters.arena.framework import Submitted, submitted
from launcher.converters.arena.job_spec import JobEnvironment
from launcher.converters.arena.ports import used_ports
from launcher.converters.arena.tensorboard import ROLE as TENSORBOARD
from launcher.core.errors import AlreadyExists, Forbidden, InvalidObject, LauncherError
from launcher.core.manifest import validate_framework
from launcher.core.names import API_VERSION, KIND
from launcher.core.parsing.decoder import Media

Json = dict[str, Any]

#: Objects that are made at the same time.
_AT_ONCE = 16
#: The Service of TensorBoard is created by the launcher, most often within a tenth of a second.
_SERVICE_SECONDS = 5.0


def submit(given: argparse.Namespace) -> int:
    """Make the job that the flags ask for."""
    teller = ArenaLogger(given)
    files = dict(_files(given))
    # Before any server is asked for anything: what is wrong with the flags is told also where there is none.
    rehearsed = _understood(given, files, frozenset())
    if given.dry_run:
        _tell(rehearsed, teller)
        print(as_yaml(rehearsed.framework, *rehearsed.companions), end="")
        return 0

    async def work(api: ApiClient) -> int:
        found = _understood(given, files, await _used_ports(api, teller))
        _tell(found, teller)
        await _make(api, found, teller)
        name = found.framework["metadata"]["name"]
        teller.info(f"The Job {name} has been submitted successfully")
        where = "" if api.namespace == "default" else f" -n {api.namespace}"
        teller.info(f"You can run `arena get {name} --type tfjob{where}` to check the job status")
        return 0

    return run_with_client(given, work)


def _understood(given: argparse.Namespace, files: dict[str, bytes], used: frozenset[int]) -> Submitted:
    """What the flags ask for, checked. Raises UsageError."""
    flags = FlagValues({name: value for name, value in vars(given).items() if name in FLAGS})
    around = JobEnvironment(
        getpass.getuser(),
        config_of(),
        used,
        files,
        random.randrange(10**9),  # noqa: S311 - it keeps jobs apart, and guards nothing
    )
    try:
        found = submitted(flags, " ".join(given.words), around)
        validate_framework(found.framework)
    except InvalidObject as error:
        raise UsageError(*map(str, error.errors)) from error
    return found


def _files(given: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    """What is in the files of ``--config-file``, by their paths as written. Raises UsageError."""
    for source in sources(tuple(vars(given).get("config-file", ()))):
        try:
            yield source, Path(source).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(f"--config-file: {source}: {error.strerror}") from error


def _tell(found: Submitted, teller: ArenaLogger) -> None:
    for note in found.notes:
        teller.warn(note)


async def _used_ports(api: ApiClient, teller: ArenaLogger) -> frozenset[int]:
    """The ports that are taken on nodes, as far as the user may see."""
    try:
        pods, _ = await api.list(PODS, everywhere=True)
        services, _ = await api.list(SERVICES, everywhere=True)
    except Forbidden:
        teller.warn(f"only ports used in namespace {api.namespace} are avoided: others may not be looked at")
        pods, _ = await api.list(PODS)
        services, _ = await api.list(SERVICES)
    return used_ports(pods, services)


async def _make(api: ApiClient, found: Submitted, teller: ArenaLogger) -> None:
    """Make the Framework and what it owns: all of it, or nothing."""
    name = found.framework["metadata"]["name"]
    data = orjson.dumps(found.framework)
    try:
        framework, warnings = await api.create(data, Media.JSON, namespace=api.namespace)
    except AlreadyExists as error:
        raise CommandError(
            f"the job {name} is already there; delete it first (arena delete {name}), or choose another name"
        ) from error
    print(f"framework.launcher.microsoft.com/{name} created", flush=True)
    for warning in warnings:
        teller.warn(warning)
    try:
        await _make_companions(api, framework, found.companions)
    except* LauncherError as errors:
        await api.delete(FRAMEWORKS, name, {"propagationPolicy": "Foreground"})
        raise CommandError(f"{errors.exceptions[0]}; the job {name} has been taken back") from errors
    if _has_tensorboard(framework) and framework["spec"]["executionType"] == "Start":
        await _report_service(api, framework, f"{name}-{TENSORBOARD}")


def _has_tensorboard(framework: Json) -> bool:
    return any(role["name"] == TENSORBOARD for role in framework["spec"]["taskRoles"])


async def _report_service(api: ApiClient, framework: Json, name: str) -> None:
    """Print that the launcher has created the Service of TensorBoard; nothing if it does not within a moment."""
    with suppress(TimeoutError, LauncherError):
        selector = f"metadata.name={name}"
        async with (
            asyncio.timeout(_SERVICE_SECONDS),
            aclosing(watch_objects(api, SERVICES, fields=selector)) as seen,
        ):
            async for change in seen:
                owners = () if change is None else change.object["metadata"].get("ownerReferences") or ()
                if any(owner["uid"] == framework["metadata"]["uid"] for owner in owners):
                    print(f"service/{name} created", flush=True)
                    return


async def _make_companions(api: ApiClient, framework: Json, companions: tuple[Json, ...]) -> None:
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": framework["metadata"]["name"],
        "uid": framework["metadata"]["uid"],
    }
    room = asyncio.Semaphore(_AT_ONCE)

    async def make(obj: Json) -> None:
        owned = {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}
        async with room:
            await api.make(CONFIG_MAPS, owned)
        print(f"{obj['kind'].lower()}/{obj['metadata']['name']} created", flush=True)

    async with asyncio.TaskGroup() as group:
        for companion in companions:
            group.create_task(make(companion))
