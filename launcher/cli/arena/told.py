"""What Arena tells its users beside the answer, in the form that they know."""

import time
from argparse import Namespace
from collections.abc import Callable

from launcher.cli.complaint import tell

_LEVELS = ("debug", "info", "warn", "error")


class Teller:
    """Tells what is of the wanted level, with the seconds since the command began."""

    def __init__(self, given: Namespace, clock: Callable[[], float] = time.monotonic) -> None:
        self._least, self._clock, self._start = _LEVELS.index(given.loglevel), clock, clock()

    def info(self, text: str) -> None:
        self._tell("info", text)

    def warn(self, text: str) -> None:
        self._tell("warn", text)

    def _tell(self, level: str, text: str) -> None:
        if _LEVELS.index(level) >= self._least:
            tell(f"{level.upper()[:4]}[{int(self._clock() - self._start):04d}] {text}")
