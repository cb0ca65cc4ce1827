"""``launcher serve`` with no pauses between retries: ``python -m tests.local.impatient serve …``."""

import argparse
import asyncio
import os
import sys

from launcher.cli.commands import serve
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.retry import RetryBackoff
from launcher.settings import listening, settings_from, url_of
from launcher.wiring.local import local_launcher


async def main() -> None:
    """Until it is killed."""
    parser = argparse.ArgumentParser()
    serve.add(parser.add_subparsers())
    settings = settings_from(vars(parser.parse_args(sys.argv[1:])), os.environ)
    sock = listening(settings)
    print(f"listens on {url_of(settings, sock)}, at once", flush=True)
    async with local_launcher(settings, sock, rules=PlannerOptions(backoff=RetryBackoff(first=0, most=0))):
        await asyncio.Event().wait()


asyncio.run(main())
