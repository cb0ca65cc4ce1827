"""``launcher explain-retry``."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.cli.main import main
from tests.builders import a_framework, a_role

Capture = pytest.CaptureFixture[str]


def a_file(folder: Path, *roles: Any, **spec: Any) -> str:
    path = folder / "framework.yaml"
    path.write_text(yaml.safe_dump(a_framework(*roles, **spec)))
    return str(path)


def a_role_with(retry: dict[str, Any], **task: Any) -> Any:
    return a_role(task={"retryPolicy": retry, "pod": a_role()["task"]["pod"], **task})


def explained(capsys: Capture, *arguments: str) -> str:
    assert main(["explain-retry", *arguments]) == 0
    return capsys.readouterr().out


def test_each_retry_is_listed_until_none_is_left(tmp_path: Path, capsys: Capture) -> None:
    file = a_file(tmp_path, a_role_with({"maxRetryCount": 2}))

    output = explained(capsys, file, "--exit-code", "7")

    assert "container main exited with code 7" in output
    assert "Rule: none matches" in output
    assert "Retried at once: attempt 2 of 3." in output
    assert "Retried after 10s: attempt 3 of 3." in output
    assert "no retries left (2 of 2 used)" in output
    assert "minFailedTaskCount 1" in output


def test_a_rule_of_the_role_is_named(tmp_path: Path, capsys: Capture) -> None:
    rule = {
        "code": 300,
        "phrase": "Preempted",
        "type": {"attributes": ["Transient"]},
        "podPatterns": [{"containers": [{"codeRange": {"min": 42, "max": 42}}]}],
    }
    file = a_file(
        tmp_path, a_role_with({"fancyRetryPolicy": True, "maxRetryCount": 0}, podFailureSpec=[rule])
    )

    output = explained(capsys, file, "--role", "worker", "--exit-code", "42")

    assert "Rule: task.podFailureSpec[0]" in output
    assert "Preempted (300), type of failure: Transient" in output
    assert "without a limit" in output
    assert "minFailedTaskCount" not in output, "the task never fails for good"


@pytest.mark.parametrize(
    ("reason", "cause", "decision"),
    [
        ("OOMKilled", "out of memory", "Not retried: permanent failure"),
        ("Evicted", "the node evicted the pod", "transient failure, not counted"),
    ],
)
def test_a_reason_of_a_container_or_of_a_pod_is_classified(
    tmp_path: Path, capsys: Capture, reason: str, cause: str, decision: str
) -> None:
    file = a_file(tmp_path, a_role_with({"fancyRetryPolicy": True, "maxRetryCount": 3}))

    output = explained(capsys, file, "--reason", reason)

    assert cause in output
    assert decision in output


def test_the_retries_of_the_framework_follow_when_the_task_fails(tmp_path: Path, capsys: Capture) -> None:
    file = a_file(tmp_path, a_role_with({}), retryPolicy={"maxRetryCount": 1})

    output = explained(capsys, file, "--exit-code", "1")

    assert "Retries of the Framework (maxRetryCount 1):\n  Retried at once: attempt 2 of 2." in output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param([], "--exit-code or --reason", id="no failure"),
        pytest.param(["--exit-code", "0"], "1 to 255", id="success"),
        pytest.param(["--exit-code", "256"], "1 to 255", id="no exit code"),
        pytest.param(["--reason", ""], "is not a reason", id="empty reason"),
        pytest.param(["--exit-code", "1", "--role", ""], "no role ''", id="empty role"),
        pytest.param(["--exit-code", "1", "--role", "boss"], "roles: worker, ps", id="unknown role"),
        pytest.param(["--exit-code", "1"], "one of worker, ps", id="several roles"),
    ],
)
def test_wrong_arguments_are_reported_with_the_fix(
    tmp_path: Path, capsys: Capture, arguments: list[str], error: str
) -> None:
    file = a_file(tmp_path, a_role("worker"), a_role("ps"))

    try:
        code = main(["explain-retry", file, *arguments])
    except SystemExit as exit_:
        code = exit_.code  # type: ignore[assignment]  # argparse exits with a number

    assert code == 2
    assert error in capsys.readouterr().err
