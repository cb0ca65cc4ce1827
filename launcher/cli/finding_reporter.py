"""The most important finding for a Framework, reported by commands that stay connected while it waits."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from launcher.cli.client.async_client import AsyncApiClient
from launcher.cli.errors import print_error
from launcher.cli.output.diagnosis_text import top_finding
from launcher.cli.output.framework_summary import is_waiting
from launcher.core.errors import LauncherError
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout

Json = dict[str, Any]

#: The timeout of a request for findings, on which no command depends.
_TIMEOUT_SECONDS = 10.0
#: The time without any output after which findings are requested, and the longest time between two requests.
_QUIET_SECONDS, _MAX_QUIET_SECONDS = 5.0, 60.0
_NUMBER = re.compile(r"\d+")


async def request_top_finding(api: AsyncApiClient, name: str) -> str:
    """The most important finding for the Framework of that name; empty if there is none or no response."""
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return top_finding(await api.diagnosis(name))
    except (LauncherError, TimeoutError):
        return ""


class FindingReporter:
    """
    Reports the most important finding for a Framework while nothing else is shown, and again when it changes.

    A finding that differs in numbers only, such as the time that remains, is the same one.
    """

    def __init__(self, api: AsyncApiClient, name: str, report: Callable[[str], None]) -> None:
        self._api, self._name, self._report = api, name, report
        self._framework: Json | None = None
        self._shown = ""
        self._output = asyncio.Event()

    def observe_framework(self, framework: Json) -> None:
        """Findings are requested only while the Framework waits for something."""
        self._framework = framework

    def observe_output(self) -> None:
        """Something else was shown, so that no finding is needed for some seconds."""
        self._output.set()

    async def run(self) -> None:
        """Reports until cancelled."""
        backoff = ExponentialBackoff(_QUIET_SECONDS, _MAX_QUIET_SECONDS)
        while True:
            self._output.clear()
            await wait_or_timeout(self._output, backoff.next_delay())
            if self._output.is_set():
                backoff.reset()
            elif self._framework is None or is_waiting(self._framework):
                await self._request()

    async def _request(self) -> None:
        finding = await request_top_finding(self._api, self._name)
        plain = _NUMBER.sub("", finding)
        if finding and plain != self._shown:
            self._shown = plain
            self._report(finding)


@asynccontextmanager
async def reported_findings(
    api: AsyncApiClient, name: str, report: Callable[[str], None] | None = None
) -> AsyncIterator[FindingReporter]:
    """Reports findings inside the block; without *report*, each is printed to stderr after the name."""
    reporter = FindingReporter(api, name, report or (lambda finding: print_error(f"{name}: {finding}")))
    task = asyncio.create_task(reporter.run())
    try:
        yield reporter
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
