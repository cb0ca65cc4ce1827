"""The earlier attempts of a task."""

from dataclasses import replace

import pytest

from launcher.core.completion_codes import Attribute, Completion, ContainerTermination, PodDetail
from launcher.core.planning.attempt_history import MAX_ATTEMPTS, history_with_current
from launcher.core.planning.retry import (
    GiveUp,
    Retry,
    RetryBackoff,
    after_completion,
    retries_left,
    with_executed_retry,
)
from launcher.core.spec import RetryPolicy
from launcher.core.status import RetryStatus, State, TaskAttempt, TaskStatus

START = 1_767_225_600
NODE_LOST = Completion(-1001, "PodNodeLost", True, rule="built-in rules[1]")
EXIT_7 = Completion(
    7, "ContainerUnrecognizedFailed", True, pod=PodDetail(containers=(ContainerTermination("main", 7),))
)
KILLED = Completion(
    137,
    "ContainerSigKillReceived",
    True,
    pod=PodDetail(containers=(ContainerTermination("main", 137, signal=9),)),
)


def a_task(completion: Completion, retries: int = 0) -> TaskStatus:
    attempt = TaskAttempt(START, START + 1, START + 9, pod_uid="uid-0", node="n1", completion=completion)
    return TaskStatus(
        0, START, START, attempt, state=State.ATTEMPT_COMPLETED, retry=RetryStatus(retries, retries)
    )


def test_the_entry_of_an_attempt_has_its_pod_its_times_its_exit_and_the_decision() -> None:
    (entry,) = history_with_current(a_task(KILLED), Retry(0, True, 1, "attempt 2 of 4", 2), None)

    assert (entry.id, entry.pod_uid, entry.node) == (0, "uid-0", "n1")
    assert (entry.start_time, entry.run_time, entry.completion_time) == (START, START + 1, START + 9)
    assert (entry.code, entry.exit_code, entry.signal) == (137, 137, 9)
    assert "SIGKILL" in entry.reason
    assert (entry.counted, entry.retry_reason, entry.retries_left) == (True, "attempt 2 of 4", 2)


def test_an_attempt_whose_pod_has_no_failed_container_has_no_exit_code_but_its_failure_rule() -> None:
    decision = Retry(0, False, 1, "attempt 2", 3, "transient failure")

    (entry,) = history_with_current(a_task(NODE_LOST), decision, None)

    assert (entry.exit_code, entry.signal, entry.rule) == (None, 0, "built-in rules[1]")
    assert (entry.counted, entry.uncounted_reason) == (False, "transient failure")


def test_only_the_latest_attempts_are_listed() -> None:
    task = a_task(EXIT_7)
    for number in range(MAX_ATTEMPTS + 3):
        history = history_with_current(task, Retry(0, True, 1, ""), None)
        task = replace(a_task(EXIT_7, number + 1), history=history)

    assert [entry.id for entry in task.history] == list(range(3, MAX_ATTEMPTS + 3))
    assert task.retry.total - len(task.history) == 3, (
        "the number of dropped attempts follows from the counter"
    )


def test_a_long_reason_is_cut() -> None:
    long = Completion(-200, "PodCreationPermanentError", True, diagnostics="x" * 5000)

    (entry,) = history_with_current(a_task(long), Retry(0, True, 1, ""), None)

    assert len(entry.reason) == 300


@pytest.mark.parametrize(
    ("policy", "completion", "left"),
    [
        pytest.param(RetryPolicy(False, 2), EXIT_7, [1, 0], id="each retry counts"),
        pytest.param(RetryPolicy(False, -1), EXIT_7, [None, None], id="unlimited"),
    ],
)
def test_a_retry_has_the_number_of_remaining_counted_retries(
    policy: RetryPolicy, completion: Completion, left: list[int | None]
) -> None:
    status, found = RetryStatus(), []

    for _ in left:
        decision = after_completion(policy, completion, status, duration=0, backoff=RetryBackoff())
        assert not isinstance(decision, GiveUp)
        found.append(decision.left)
        status = with_executed_retry(status, decision)

    assert found == left


def test_a_policy_that_was_lowered_has_no_retries_left() -> None:
    assert retries_left(RetryPolicy(False, 1), used=3) == 0


@pytest.mark.parametrize(
    ("fancy", "attributes", "reason"),
    [
        pytest.param(True, {Attribute.TRANSIENT}, "transient failure", id="transient"),
        pytest.param(
            True, {Attribute.TRANSIENT, Attribute.CONFLICT}, "transient resource conflict", id="conflict"
        ),
        pytest.param(True, set(), "", id="unknown failure"),
        pytest.param(False, {Attribute.TRANSIENT}, "", id="not fancy"),
    ],
)
def test_a_retry_that_is_not_counted_has_a_reason(
    fancy: bool, attributes: set[Attribute], reason: str
) -> None:
    completion = replace(EXIT_7, attributes=frozenset(attributes))
    policy = RetryPolicy(fancy, 1)

    decision = after_completion(policy, completion, RetryStatus(), duration=0, backoff=RetryBackoff())

    assert not isinstance(decision, GiveUp)
    assert (decision.accountable, decision.uncounted_reason) == (not reason, reason)
