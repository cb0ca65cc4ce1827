"""``arena logs``: what one instance of a job has written, and what it writes now."""

import argparse
import time

from launcher.cli.arena.jobs import ArenaJobSummary, Instance, check_type, job_named
from launcher.cli.arena.pod_status import is_initialising
from launcher.cli.client.api_client import PODS, ApiClient, run_with_client
from launcher.cli.errors import CommandError, UsageError
from launcher.cli.logs.follower import LogFollower
from launcher.cli.logs.log_sources import LogPrinter, LogQuery, TaskSelector
from launcher.cli.logs.reader import print_logs
from launcher.converters.arena.code_sync import CONTAINER as INIT
from launcher.converters.kubeflow.tfjob import CONTAINER as MAIN
from launcher.core.errors import NotFound
from launcher.core.timestamps import parse_rfc3339


def logs(given: argparse.Namespace) -> int:
    """Print the log of one instance."""
    check_type(given.type)
    view = LogQuery(tail=given.tail, since=_since(given), timestamps=given.timestamps)

    async def work(api: ApiClient) -> int:
        job = await job_named(api, given.name, time.time())
        instance = instance_of(job, given.instance)
        container = given.container or await _container(api, instance, follow=given.follow)
        choice, lines = TaskSelector(instance.role, instance.index, container), LogPrinter(alone=True)
        if given.follow:
            await LogFollower(api, given.name, choice, view, lines.write).run()
        else:
            await print_logs(api, job.framework, choice, view, lines.write)
        return 0

    return run_with_client(given, work)


def instance_of(job: ArenaJobSummary, name: str | None) -> Instance:
    """
    The instance of that name, or else the chief. Raises CommandError.

    Arena's first version named instances ``JOB-tfjob-worker-0``, and its guides still print that.
    """
    if name is None:
        if job.chief is not None:
            return job.chief
        raise CommandError(f"{job.name} has no chief; choose with -i one of {_names(job)}")
    first_version = f"{job.name}-tfjob-"
    current = f"{job.name}-{name.removeprefix(first_version)}" if name.startswith(first_version) else name
    for instance in job.instances:
        if instance.name == current:
            return instance
    raise CommandError(f"{job.name} has no instance {name}; it has {_names(job)}")


def _names(job: ArenaJobSummary) -> str:
    return ", ".join(each.name for each in job.instances)


async def _container(api: ApiClient, instance: Instance, *, follow: bool) -> str | None:
    """The container that writes now; None for one after the other, where both are waited for."""
    try:
        pod = await api.get(PODS, instance.name)
    except NotFound:
        return MAIN
    names = [each["name"] for each in pod["spec"].get("initContainers") or ()]
    if INIT not in names or not is_initialising(pod):
        return MAIN
    return None if follow else INIT


def _since(given: argparse.Namespace) -> float | None:
    if given.since is not None and given.since_time is not None:
        raise UsageError("--since and --since-time: only one of them")
    if given.since is not None:
        return time.time() - float(given.since)
    if given.since_time is None:
        return None
    try:
        return parse_rfc3339(given.since_time)
    except ValueError as error:
        raise UsageError(f"--since-time: {error}") from error
