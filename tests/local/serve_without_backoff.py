"""``launcher serve`` without delays between retries: ``python -m tests.local.serve_without_backoff serve …``."""

import asyncio
import os
import sys

from launcher.cli.main import parse_arguments
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.retry import RetryBackoff
from launcher.settings.local import settings_from
from launcher.wiring.listener import open_listener, url_of
from launcher.wiring.local import local_launcher


async def main() -> None:
    """Serves until it is killed."""
    settings = settings_from(vars(parse_arguments(sys.argv[1:])), os.environ)
    sock = open_listener(settings)
    print(f"listens on {url_of(settings, sock)}, at once", flush=True)
    async with local_launcher(
        settings, sock, rules=PlannerOptions(backoff=RetryBackoff(first_seconds=0, max_seconds=0))
    ):
        await asyncio.Event().wait()


asyncio.run(main())
