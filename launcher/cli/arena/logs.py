"""``arena logs``: the log of one instance of a job."""

import argparse
import time

from launcher.cli.arena.jobs import ArenaJobSummary, Instance, check_type, job_named
from launcher.cli.arena.pod_status import is_initialising
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import PODS
from launcher.cli.client.async_client import AsyncApiClient, run_with_client
from launcher.cli.errors import CommandError, UsageError
from launcher.cli.logs.follower import LogFollower
from launcher.cli.logs.log_sources import LogPrinter, LogQuery, TaskSelector
from launcher.cli.logs.reader import print_logs
from launcher.converters.arena.code_sync import CONTAINER as INIT
from launcher.converters.kubeflow.tfjob import CONTAINER as MAIN
from launcher.core.errors import NotFound
from launcher.core.timestamps import parse_rfc3339


def logs(args: argparse.Namespace) -> int:
    """Print the log of one instance."""
    check_type(args.type)
    query = LogQuery(tail=args.tail, since=_since(args), timestamps=args.timestamps)
    with api_client(args) as api:
        job = job_named(api, args.name, time.time())
        instance = instance_of(job, args.instance)
        container = args.container or _container(api, instance, follow=args.follow)
    selector, printer = TaskSelector(instance.role, instance.index, container), LogPrinter(is_single=True)

    async def work(api: AsyncApiClient) -> int:
        if args.follow:
            await LogFollower(api, args.name, selector, query, printer.write).run()
        else:
            await print_logs(api, job.framework, selector.sources(job.framework), query, printer.write)
        return 0

    return run_with_client(args, work)


def instance_of(job: ArenaJobSummary, name: str | None) -> Instance:
    """
    The instance of that name, or else the chief. Raises CommandError.

    Arena's first version named instances ``JOB-tfjob-worker-0``, and its guides still print that.
    """
    if name is None:
        if job.chief is not None:
            return job.chief
        raise CommandError(f"{job.name} has no chief; select with -i one of {_names(job)}")
    first_version = f"{job.name}-tfjob-"
    current = f"{job.name}-{name.removeprefix(first_version)}" if name.startswith(first_version) else name
    for instance in job.instances:
        if instance.name == current:
            return instance
    raise CommandError(f"{job.name} has no instance {name}; instances: {_names(job)}")


def _names(job: ArenaJobSummary) -> str:
    return ", ".join(each.name for each in job.instances)


def _container(api: ApiClient, instance: Instance, *, follow: bool) -> str | None:
    """The container that runs now; None for all containers, where both are followed one after the other."""
    try:
        pod = api.get(PODS, instance.name)
    except NotFound:
        return MAIN
    names = [each["name"] for each in pod["spec"].get("initContainers") or ()]
    if INIT not in names or not is_initialising(pod):
        return MAIN
    return None if follow else INIT


def _since(args: argparse.Namespace) -> float | None:
    if args.since is not None and args.since_time is not None:
        raise UsageError("--since and --since-time: only one of them")
    if args.since is not None:
        return time.time() - float(args.since)
    if args.since_time is None:
        return None
    try:
        return parse_rfc3339(args.since_time)
    except ValueError as error:
        raise UsageError(f"--since-time: {error}") from error
