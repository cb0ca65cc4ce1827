"""Earlier attempts as JSON."""

import pytest

from launcher.core.serialization.attempt_json import attempt_from_json, attempt_to_json
from launcher.core.status import CompletedAttempt

START = 1_767_225_600
FULL = CompletedAttempt(
    id=3,
    start_time=START,
    completion_time=START + 9,
    code=137,
    phrase="ContainerSigKillReceived",
    reason="container main was killed by SIGKILL (exit code 137)",
    counted=False,
    retry_reason="attempt 5 (transient failure, not counted: fancyRetryPolicy)",
    retries_left=0,
    run_time=START + 1,
    pod_uid="uid",
    node="n1",
    exit_code=137,
    signal=9,
    rule="task.podFailureSpec[0]",
    uncounted_reason="transient failure",
)
LEAST = CompletedAttempt(
    0, START, START, -200, "PodCreationPermanentError", "invalid", True, "attempt 2 of 2"
)


@pytest.mark.parametrize("attempt", [FULL, LEAST], ids=["all members", "required members"])
def test_an_attempt_is_the_same_after_it_was_stored(attempt: CompletedAttempt) -> None:
    assert attempt_from_json(attempt_to_json(attempt)) == attempt


def test_members_without_a_value_are_omitted_but_zero_retries_left_are_not() -> None:
    stored = attempt_to_json(LEAST)

    assert not {
        "runTime",
        "podUID",
        "podNodeName",
        "exitCode",
        "signal",
        "failureRule",
        "uncountedReason",
        "retriesLeft",
    } & set(stored)
    assert attempt_to_json(FULL)["retriesLeft"] == 0


@pytest.mark.parametrize("member", ["id", "startTime", "completionTime", "code", "counted"])
def test_an_entry_without_a_required_member_is_invalid(member: str) -> None:
    stored = attempt_to_json(FULL)
    del stored[member]

    with pytest.raises(KeyError):
        attempt_from_json(stored)
