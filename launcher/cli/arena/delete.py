"""``arena delete`` and ``arena prune``."""

import argparse
import time

from launcher.cli.arena.jobs import ArenaJobSummary, all_jobs, check_type, job_named
from launcher.cli.arena.output import ArenaLogger
from launcher.cli.client.api_client import FRAMEWORKS, ApiClient, run_with_client
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.core.errors import NotFound

_OVER = ("SUCCEEDED", "FAILED")


def delete(given: argparse.Namespace) -> int:
    """Delete jobs; exit 1 if there is none of a name, after the others have been deleted."""
    check_type(given.type)
    teller = ArenaLogger(given)

    async def work(api: ApiClient) -> int:
        code = 0
        for name in given.names:
            try:
                await _delete(api, await job_named(api, name, time.time()), teller)
            except (NotFound, CommandError) as error:
                print_error(str(error))
                code = max(code, error.code if isinstance(error, CommandError) else 1)
        return code

    return run_with_client(given, work)


def prune(given: argparse.Namespace) -> int:
    """Delete jobs that have been there for long, and are over."""
    if given.since is None:
        raise UsageError("--since: how old have jobs to be? write it as in: arena prune --since 24h")
    teller = ArenaLogger(given)

    async def work(api: ApiClient) -> int:
        jobs = await all_jobs(api, time.time(), everywhere=given.all_namespaces)
        states = (*_OVER, "PENDING", "QUEUING") if given.pending else _OVER
        old = [job for job in jobs if job.status in states and job.now - job.started >= given.since]
        for job in old:
            await _delete(api.within(job.namespace), job, teller)
        if not old:
            teller.info("there are no jobs to delete")
        return 0

    return run_with_client(given, work)


async def _delete(api: ApiClient, job: ArenaJobSummary, teller: ArenaLogger) -> None:
    await api.delete(FRAMEWORKS, job.name, {"propagationPolicy": "Foreground"})
    print(f'framework.launcher.microsoft.com "{job.name}" deleted', flush=True)
    teller.info(f"The Job {job.name} has been deleted successfully")
