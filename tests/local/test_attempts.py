"""Completed attempts of Frameworks are objects of the API, until their Framework is deleted."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server

ATTEMPTS = FRAMEWORKS.replace("frameworks", "frameworkattempts")
OF_FLAKY = f"{ATTEMPTS}?labelSelector=FC_FRAMEWORK_NAME%3Dflaky"
AS_TABLE = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"


def a_failing_framework(name: str, *, retries: int, **spec: Any) -> Json:
    """Its task writes the number of the Framework's attempt and fails."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", "echo $FC_FRAMEWORK_ATTEMPT_ID; exit 3"],
    }
    return a_framework(
        a_role("worker", 1, pod=a_pod_template(containers=[container])),
        name=name,
        retryPolicy={"fancyRetryPolicy": False, "maxRetryCount": retries},
        **spec,
    )


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
    assert server.curl(f"/api/v1/namespaces/default/pods/flaky-worker-0/log?uid={uid}") == "0\n"


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
