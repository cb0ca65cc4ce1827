"""The report of a failed test that started a launcher."""

import pytest

_SETTINGS = """
[pytest]
asyncio_default_fixture_loop_scope = function
"""
_FIXTURES = """
from tests.launcher_report import *
from tests.local.conftest import serve
"""
_TESTS = """
from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.local.server import FRAMEWORKS

def test_that_succeeds(serve):
    serve().stop()

def test_that_fails(serve):
    server = serve()
    pod = a_pod_template(a_container("sh", "-c", "exit 3"))
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod)))
    server.completed("mnist")
    with open(server.data.parent / "errors", "a") as log:
        log.write("".join(f"line {number}.\\n" for number in range(100)))
    raise AssertionError

def test_that_fails_without_a_launcher():
    raise AssertionError
"""


def test_a_failed_test_reports_the_frameworks_and_the_logs_of_its_launchers(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini(_SETTINGS)
    pytester.makeconftest(_FIXTURES)
    pytester.makepyfile(_TESTS)

    result = pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*_ test_that_fails _*",
            "*- Frameworks of the launcher at http://127.0.0.1:* -*",
            "mnist: Failed *",
            "worker-0 *Failed* 3 *",
            "*- last lines of the log of the launcher at http://127.0.0.1:* -*",
            "line 40.",
            "line 99.",
            "*_ test_that_fails_without_a_launcher _*",
        ]
    )
    result.stdout.no_fnmatch_line("line 39.")
    assert result.stdout.str().count("Frameworks of the launcher") == 1
