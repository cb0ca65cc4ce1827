"""``arena delete`` and ``arena prune``."""

import argparse
import time

from launcher.cli.arena.jobs import ArenaJobSummary, all_jobs, check_type, job_named
from launcher.cli.arena.output import ArenaLogger
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.core.errors import NotFound

_COMPLETED = ("SUCCEEDED", "FAILED")


def delete(args: argparse.Namespace) -> int:
    """Delete jobs. Returns 1 if one does not exist, after the others have been deleted."""
    check_type(args.type)
    logger = ArenaLogger(args)

    code = 0
    with api_client(args) as api:
        for name in args.names:
            try:
                _delete(api, job_named(api, name, time.time()), logger)
            except (NotFound, CommandError) as error:
                print_error(str(error))
                code = max(code, error.code if isinstance(error, CommandError) else 1)
    return code


def prune(args: argparse.Namespace) -> int:
    """Delete jobs that are older than --since and have completed."""
    if args.since is None:
        raise UsageError("--since: is required; for example: arena prune --since 24h")
    logger = ArenaLogger(args)

    states = (*_COMPLETED, "PENDING", "QUEUING") if args.pending else _COMPLETED
    with api_client(args) as api:
        jobs = all_jobs(api, time.time(), all_namespaces=args.all_namespaces)
        old = [job for job in jobs if job.status in states and job.now - job.started >= args.since]
        for job in old:
            _delete(api.in_namespace(job.namespace), job, logger)
    if not old:
        logger.info("There are no jobs to delete")
    return 0


def _delete(api: ApiClient, job: ArenaJobSummary, logger: ArenaLogger) -> None:
    api.delete(FRAMEWORKS, job.name, {"propagationPolicy": "Foreground"})
    print(f'framework.launcher.microsoft.com "{job.name}" deleted', flush=True)
    logger.info(f"The Job {job.name} has been deleted successfully")
