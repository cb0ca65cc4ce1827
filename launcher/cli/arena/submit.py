"""``arena submit``: a job by its flags."""

import argparse
import getpass
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from launcher.cli.arena.config import config_of
from launcher.cli.arena.output import ArenaLogger
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import CONFIG_MAPS, FRAMEWORKS, PODS, SERVICES
from launcher.cli.errors import CommandError, UsageError
from launcher.cli.output.yaml_format import dump_yaml
from launcher.converters.arena.flag_parsers import sources
from launcher.converters.arena.flag_values import FlagValues
from launcher.converters.arena.flags import FLAGS
from launcher.converters.arena.framework import ArenaConversion, convert
from launcher.converters.arena.job_spec import JobEnvironment
from launcher.converters.arena.ports import used_ports
from launcher.converters.arena.tensorboard import ROLE as TENSORBOARD
from launcher.core.errors import AlreadyExists, Forbidden, InvalidObject, LauncherError
from launcher.core.manifest import validate_framework
from launcher.core.names import API_VERSION, KIND
from launcher.core.parsing.decoder import Media

Json = dict[str, Any]

#: The launcher creates the Service of TensorBoard most often within a tenth of a second.
_SERVICE_TIMEOUT_SECONDS = 5.0
_SERVICE_POLL_SECONDS = 0.05


def submit(args: argparse.Namespace) -> int:
    """Create the job of the flags."""
    logger = ArenaLogger(args)
    files = dict(_files(args))
    # Before the first request, so that errors of the flags are reported without a server.
    preview = _job_of(args, files, frozenset())
    if args.dry_run:
        _log_notes(preview, logger)
        print(dump_yaml(preview.framework, *preview.config_maps), end="")
        return 0
    with api_client(args) as api:
        job = _job_of(args, files, _used_ports(api, logger))
        _log_notes(job, logger)
        _create(api, job, logger)
    name = job.framework["metadata"]["name"]
    logger.info(f"The Job {name} has been submitted successfully")
    namespace = "" if api.namespace == "default" else f" -n {api.namespace}"
    logger.info(f"You can run `arena get {name} --type tfjob{namespace}` to check the job status")
    return 0


def _job_of(args: argparse.Namespace, files: dict[str, bytes], used: frozenset[int]) -> ArenaConversion:
    """The job of the flags, validated. Raises UsageError."""
    flags = FlagValues({name: value for name, value in vars(args).items() if name in FLAGS})
    environment = JobEnvironment(
        getpass.getuser(),
        config_of(),
        used,
        files,
        random.randrange(10**9),  # noqa: S311 - it distinguishes jobs and protects nothing
    )
    try:
        found = convert(flags, " ".join(args.words), environment)
        validate_framework(found.framework)
    except InvalidObject as error:
        raise UsageError(*map(str, error.errors)) from error
    return found


def _files(args: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    """The contents of the files of ``--config-file``, by their paths as written. Raises UsageError."""
    for source in sources(tuple(vars(args).get("config-file", ()))):
        try:
            yield source, Path(source).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(f"--config-file: {source}: {error.strerror}") from error


def _log_notes(found: ArenaConversion, logger: ArenaLogger) -> None:
    for note in found.notes:
        logger.warn(note)


def _used_ports(api: ApiClient, logger: ArenaLogger) -> frozenset[int]:
    """The ports that are used on nodes, as far as the user may list them."""
    try:
        pods = api.list(PODS, all_namespaces=True)
        services = api.list(SERVICES, all_namespaces=True)
    except Forbidden:
        logger.warn(f"only ports used in namespace {api.namespace} are avoided: you may not list others")
        pods, services = api.list(PODS), api.list(SERVICES)
    return used_ports(pods, services)


def _create(api: ApiClient, found: ArenaConversion, logger: ArenaLogger) -> None:
    """Create the Framework and the objects that it owns, or nothing."""
    name = found.framework["metadata"]["name"]
    data = orjson.dumps(found.framework)
    try:
        framework, warnings = api.create(data, Media.JSON, namespace=api.namespace)
    except AlreadyExists as error:
        raise CommandError(
            f"the job {name} already exists; delete it first (arena delete {name}) or use another name"
        ) from error
    print(f"framework.launcher.microsoft.com/{name} created", flush=True)
    for warning in warnings:
        logger.warn(warning)
    try:
        _create_config_maps(api, framework, found.config_maps)
    except LauncherError as error:
        api.delete(FRAMEWORKS, name, {"propagationPolicy": "Foreground"})
        raise CommandError(f"{error}; the job {name} was deleted again") from error
    if _has_tensorboard(framework) and framework["spec"]["executionType"] == "Start":
        _report_service(api, framework, f"{name}-{TENSORBOARD}")


def _has_tensorboard(framework: Json) -> bool:
    return any(role["name"] == TENSORBOARD for role in framework["spec"]["taskRoles"])


def _report_service(api: ApiClient, framework: Json, name: str) -> None:
    """Print that the launcher has created the Service of TensorBoard; nothing if it does not within a few seconds."""
    deadline = time.monotonic() + _SERVICE_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with suppress(LauncherError):
            owners = api.get(SERVICES, name)["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == framework["metadata"]["uid"] for owner in owners):
                print(f"service/{name} created", flush=True)
                return
        time.sleep(_SERVICE_POLL_SECONDS)


def _create_config_maps(api: ApiClient, framework: Json, config_maps: tuple[Json, ...]) -> None:
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": framework["metadata"]["name"],
        "uid": framework["metadata"]["uid"],
    }
    for config_map in config_maps:
        owned = {**config_map, "metadata": {**config_map["metadata"], "ownerReferences": [owner]}}
        api.create_object(CONFIG_MAPS, owned)
        print(f"{config_map['kind'].lower()}/{config_map['metadata']['name']} created", flush=True)
