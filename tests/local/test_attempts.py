"""Completed attempts of Frameworks and tasks, their objects and their logs, until their Framework is deleted."""

from collections.abc import Iterator
from typing import Any

import pytest

from launcher.cli.main import main
from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server

ATTEMPTS = FRAMEWORKS.replace("frameworks", "frameworkattempts")
OF_FLAKY = f"{ATTEMPTS}?labelSelector=FC_FRAMEWORK_NAME%3Dflaky"
AS_TABLE = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"


def a_failing_framework(name: str, *, retries: int, **spec: Any) -> Json:
    """Its task writes the numbers of both attempts and fails; it is retried once in each attempt."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "echo $FC_FRAMEWORK_ATTEMPT_ID $FC_TASK_ATTEMPT_ID; exit 3"],
    }
    role = a_role("worker", 1, pod=a_pod_template(containers=[container]))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    policy = {"fancyRetryPolicy": False, "maxRetryCount": retries}
    return a_framework(role, name=name, retryPolicy=policy, **spec)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher that retries without delays, and has retried the Framework ``flaky`` twice."""
    server = Server(tmp_path_factory.mktemp("server"), module="tests.local.serve_without_backoff")
    server.post(FRAMEWORKS, a_failing_framework("flaky", retries=2))
    server.completed("flaky")
    yield server
    server.end()


def test_each_attempt_before_the_last_is_an_object_with_its_tasks_and_the_decision_to_retry(
    server: Server,
) -> None:
    first, second = server.get(OF_FLAKY)["items"]

    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("flaky-1", "flaky-2")
    assert (first["counted"], first["retriesLeft"], first["retryReason"]) == (True, 1, "attempt 2 of 3")
    (task,) = first["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    assert task["attemptStatus"]["completionStatus"]["code"] == 3
    uid = task["attemptStatus"]["podUID"]
    assert server.curl(f"/api/v1/namespaces/default/pods/flaky-worker-0/log?uid={uid}") == "0 1\n"


def test_attempts_are_printed_as_a_table(server: Server) -> None:
    table = server.get(OF_FLAKY, "-H", AS_TABLE)

    names = [column["name"] for column in table["columnDefinitions"]]
    rows = [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]
    assert [(row["Name"], row["Framework"], row["Attempt"], row["Result"]) for row in rows] == [
        ("flaky-1", "flaky", 1, "Failed"),
        ("flaky-2", "flaky", 2, "Failed"),
    ]


def test_attempts_are_deleted_with_their_framework(server: Server) -> None:
    server.post(FRAMEWORKS, a_failing_framework("deleted", retries=1))
    server.completed("deleted")
    assert server.get(f"{ATTEMPTS}/deleted-1")["kind"] == "FrameworkAttempt"

    server.delete(f"{FRAMEWORKS}/deleted")

    until(lambda: server.get(f"{ATTEMPTS}/deleted-1")["kind"] == "Status", "the attempt is deleted")


def test_users_cannot_create_attempts(server: Server) -> None:
    attempt = server.get(f"{ATTEMPTS}/flaky-1")
    attempt["metadata"] = {"name": "made-up"}

    response = server.post(ATTEMPTS, attempt)

    assert (response["kind"], response["code"]) == ("Status", 405)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param([], "2 1", id="the last attempt"),
        pytest.param(["-p"], "2 0", id="the previous attempt of the task"),
        pytest.param(["--attempt", "2.1"], "1 0", id="the first attempt of the task in the second one"),
        pytest.param(["--attempt", "1"], "0 1", id="the last attempt of the task in the first one"),
        pytest.param(["--attempt", "3.2"], "2 1", id="the current attempt by its number"),
    ],
)
def test_the_log_of_every_attempt_is_printed(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    expected: str,
) -> None:
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)

    assert main(["logs", "flaky", "worker/0", *options]) == 0

    assert capsys.readouterr().out == f"{expected}\n"


@pytest.mark.parametrize(
    ("number", "error"),
    [
        pytest.param("4", "flaky has no attempt 4; it is in attempt 3", id="of the Framework"),
        pytest.param("3.9", "no selected task of flaky has attempt 3.9", id="of the task"),
    ],
)
def test_an_attempt_that_does_not_exist_is_an_error(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: str,
    error: str,
) -> None:
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)

    assert main(["logs", "flaky", "--attempt", number]) == 1

    assert error in capsys.readouterr().err


def test_the_previous_attempt_of_a_task_that_was_not_retried_is_in_the_previous_one_of_the_framework(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)
    framework = a_failing_framework("second", retries=1)
    container = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
    container["command"][2] = (
        "echo $FC_FRAMEWORK_ATTEMPT_ID $FC_TASK_ATTEMPT_ID; exit $((1 - FC_FRAMEWORK_ATTEMPT_ID))"
    )
    server.post(FRAMEWORKS, framework)
    server.completed("second")

    assert main(["logs", "second"]) == 0
    assert main(["logs", "second", "-p"]) == 0

    assert capsys.readouterr().out == "1 0\n0 1\n"


def test_the_attempts_of_the_framework_and_of_a_task_are_listed(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)

    assert main(["attempts", "flaky", "-o", "wide"]) == 0
    everything = capsys.readouterr().out
    assert main(["attempts", "flaky", "worker/0", "-o", "wide"]) == 0
    of_task = capsys.readouterr().out

    frameworks, tasks, _ = everything.split("\n\n")
    assert [line.split()[:2] for line in frameworks.splitlines()] == [
        ["ATTEMPT", "STATE"],
        *(["1", "Failed"], ["2", "Failed"], ["3", "Failed"]),
    ]
    assert [line.split()[:2] for line in tasks.splitlines()[1:]] == [["worker-0", "3.1"], ["worker-0", "3.2"]]
    table, ledger = of_task.split("\n\n")
    assert ledger == "worker-0: attempt 2 of 2; no retries left.\n"
    assert [row.split()[1] for row in table.splitlines()[1:]] == ["1.1", "1.2", "2.1", "2.2", "3.1", "3.2"]
