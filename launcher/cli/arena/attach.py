"""``arena attach``: a command in a container of a job, with this terminal."""

import argparse
import time

from launcher.cli.arena.jobs import check_type, job_named
from launcher.cli.arena.logs import instance_of
from launcher.cli.client.api_client import api_client
from launcher.cli.client.async_client import run_with_client
from launcher.cli.exec_client import ExecRequest, execute, has_terminal
from launcher.converters.kubeflow.tfjob import CONTAINER


def attach(args: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    check_type(args.type)
    with api_client(args) as api:
        pod = instance_of(job_named(api, args.name, time.time()), args.instance).name
    request = ExecRequest(
        pod, args.container or CONTAINER, args.words or ["sh"], stdin=True, tty=has_terminal()
    )
    return run_with_client(args, lambda api: execute(api, request))
