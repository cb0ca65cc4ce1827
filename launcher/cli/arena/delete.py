"""``arena delete`` and ``arena prune``."""

import argparse
import time

from launcher.cli.arena.jobs import Job, all_jobs, check_type, job_named
from launcher.cli.arena.output import Teller
from launcher.cli.client.api_client import FRAMEWORKS, Api, talk
from launcher.cli.errors import Complaint, Refused, tell
from launcher.core.errors import NotFound

_OVER = ("SUCCEEDED", "FAILED")


def delete(given: argparse.Namespace) -> int:
    """Delete jobs; exit 1 if there is none of a name, after the others have been deleted."""
    check_type(given.type)
    teller = Teller(given)

    async def work(api: Api) -> int:
        code = 0
        for name in given.names:
            try:
                await _delete(api, await job_named(api, name, time.time()), teller)
            except (NotFound, Complaint) as error:
                tell(str(error))
                code = max(code, error.code if isinstance(error, Complaint) else 1)
        return code

    return talk(given, work)


def prune(given: argparse.Namespace) -> int:
    """Delete jobs that have been there for long, and are over."""
    if given.since is None:
        raise Refused("--since: how old have jobs to be? write it as in: arena prune --since 24h")
    teller = Teller(given)

    async def work(api: Api) -> int:
        jobs = await all_jobs(api, time.time(), everywhere=given.all_namespaces)
        states = (*_OVER, "PENDING", "QUEUING") if given.pending else _OVER
        old = [job for job in jobs if job.status in states and job.now - job.started >= given.since]
        for job in old:
            await _delete(api.within(job.namespace), job, teller)
        if not old:
            teller.info("there are no jobs to delete")
        return 0

    return talk(given, work)


async def _delete(api: Api, job: Job, teller: Teller) -> None:
    await api.delete(FRAMEWORKS, job.name, {"propagationPolicy": "Foreground"})
    print(f'framework.launcher.microsoft.com "{job.name}" deleted', flush=True)
    teller.info(f"The Job {job.name} has been deleted successfully")
