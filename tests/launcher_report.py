"""A plugin of pytest: the report of a failed test shows the Frameworks and the log of each of its launchers."""

import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from launcher.cli.output.framework_description import framework_text
from tests.launcher_process import LauncherProcess, forget_ended_launchers, launchers

#: At most this many lines of each launcher's Frameworks, and of its log.
MAX_LINES = 60
_MAX_LINE_LENGTH = 400
_FRAMEWORKS = "/apis/launcher.microsoft.com/v1/frameworks"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Launchers that ended in earlier tests do not concern this one."""
    forget_ended_launchers()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the sections to the report of a failure; fixtures have not ended the launchers yet."""
    report = yield
    if report.failed:
        for launcher in launchers():
            report.sections += [
                (f"Frameworks of the launcher at {launcher.url}", _frameworks(launcher)),
                (f"last lines of the log of the launcher at {launcher.url}", _end_of_log(launcher)),
            ]
    return report


def _frameworks(launcher: LauncherProcess) -> str:
    if launcher.ended:
        return "the launcher has ended"
    try:
        response = launcher.get(_FRAMEWORKS, "--max-time", "10")
        lines = [line for each in response["items"] for line in _framework_lines(each)]
    except Exception as error:  # whatever it is, the failure of the test must still be reported
        return f"not available: {error!r}"
    return "\n".join(map(_cut, lines[:MAX_LINES])) or "none"


def _framework_lines(framework: dict[str, Any]) -> Iterator[str]:
    return framework_text(framework, now=time.time(), show_all=False, output_ages={})


def _end_of_log(launcher: LauncherProcess) -> str:
    return "\n".join(map(_cut, launcher.log_text().splitlines()[-MAX_LINES:])) or "empty"


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[:_MAX_LINE_LENGTH]}…"
