"""``launcher attempts``."""

from typing import Any

import orjson
import pytest

from launcher.cli.main import main
from launcher.cli.output.attempt_table import TaskAttempts
from tests.builders import a_framework, a_role
from tests.cli.in_memory_launcher import InMemoryLauncher

Capture = pytest.CaptureFixture[str]


def retry_once(server: InMemoryLauncher) -> None:
    """The first attempt of mnist's only task exits with code 7, the second one runs."""
    role = a_role(tasks=1, task={"retryPolicy": {"maxRetryCount": 2}, "pod": a_role()["task"]["pod"]})
    server.create(a_framework(role))
    server.run("mnist-worker-0")
    uid = server.uid("mnist-worker-0")
    server.end("mnist-worker-0", 7)
    server.until_replaced("mnist-worker-0", uid)
    server.run("mnist-worker-0")


def test_each_attempt_of_a_task_is_a_row_and_the_retries_left_are_printed(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    retry_once(server)

    assert main(["attempts", "mnist", "worker-0"]) == 0

    header, first, second, empty, retry_text = capsys.readouterr().out.splitlines()
    assert header.split() == ["TASK", "ATTEMPT", "STATE", "NODE", "DURATION", "EXIT", "COUNTED", "REASON"]
    assert first.split()[:3] == ["worker-0", "1", "Failed"]
    assert "exited with code 7" in first
    assert second.split()[:2] == ["worker-0", "2"]
    assert empty == ""
    assert retry_text == "worker-0: attempt 2 of 3; 1 retry left."


def test_the_attempts_are_printed_as_json(server: InMemoryLauncher, capsys: Capture) -> None:
    retry_once(server)

    assert main(["attempts", "mnist", "-o", "json"]) == 0

    (task,) = orjson.loads(capsys.readouterr().out)["tasks"]
    assert (task["task"], task["droppedAttempts"]) == ("worker-0", 0)
    assert [attempt["id"] for attempt in task["attempts"]] == [0, 1]
    assert task["attempts"][0]["exitCode"] == 7
    assert task["attempts"][0]["podUID"] != task["attempts"][1]["podUID"]


@pytest.mark.parametrize("task", ["ps", "worker/7"])
def test_a_task_that_does_not_exist_is_an_error_that_names_it(
    server: InMemoryLauncher, capsys: Capture, task: str
) -> None:
    server.create(a_framework(a_role(tasks=1)))
    server.run("mnist-worker-0")

    assert main(["attempts", "mnist", task]) == 1

    assert f"mnist has no task {task}" in capsys.readouterr().err


def test_retries_that_do_not_count_are_explained_and_dropped_attempts_are_counted() -> None:
    lost: dict[str, Any] = {
        "id": 4,
        "code": -1001,
        "reason": "the node was lost",
        "counted": False,
        "uncountedReason": "transient failure",
        "retryReason": "attempt 6 (transient failure, not counted: fancyRetryPolicy)",
    }
    entry = {
        "index": 0,
        "state": "AttemptRunning",
        "retryPolicyStatus": {"totalRetriedCount": 5, "accountableRetriedCount": 2},
        "attemptStatus": {},
        "attemptHistory": [lost],
    }

    retry_text = TaskAttempts("worker", entry, {"maxRetryCount": 3}, now=0).retry_text()

    assert retry_text == (
        "attempt 6 of 7; 1 retry left; attempt 5 (the node was lost) was not counted: transient failure; "
        "4 older attempts are not listed"
    )
