"""Whether a completed attempt is retried, with which delay and for which reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.completion_codes import (
    PREDEFINED,
    Attribute,
    Code,
    Completion,
    ContainerTermination,
    PodDetail,
    completion_for,
)
from launcher.core.planning.retry import (
    NEVER_RETRIED,
    GiveUp,
    Retry,
    RetryBackoff,
    after_completion,
    with_executed_retry,
    with_scheduled_retry,
)
from launcher.core.spec import RetryPolicy
from launcher.core.status import RetryStatus

BACKOFF = RetryBackoff()
TRANSIENT, PERMANENT, CONFLICT = Attribute.TRANSIENT, Attribute.PERMANENT, Attribute.CONFLICT


def a_completion(code: int, *attributes: Attribute) -> Completion:
    return Completion(code, "Some", code != 0, frozenset(attributes))


def decide(
    policy: tuple[bool, int],
    completion: Completion,
    status: RetryStatus = RetryStatus(),  # noqa: B008  frozen
    *,
    duration: int = 0,
    conflict_delay: int = 60,
) -> Retry | GiveUp:
    return after_completion(
        RetryPolicy(*policy),
        completion,
        status,
        duration=duration,
        backoff=BACKOFF,
        conflict_delay=conflict_delay,
    )


@pytest.mark.parametrize(
    ("policy", "completion", "used", "expected"),
    [
        pytest.param((True, -2), completion_for(-210, ""), 0, "no", id="1 stopped"),
        pytest.param((True, -2), completion_for(-211, ""), 0, "no", id="1 deadline exceeded"),
        pytest.param((False, -2), completion_for(-220, ""), 0, "no", id="1 attempt completed"),
        pytest.param((False, -1), completion_for(-230, ""), 0, "no", id="1 removed by a scale-down"),
        pytest.param((True, 0), a_completion(201, TRANSIENT, CONFLICT), 0, "free after 60", id="2 conflict"),
        pytest.param((True, 0), a_completion(200, TRANSIENT), 9, "free", id="3 transient"),
        pytest.param((True, -2), a_completion(210, PERMANENT), 0, "no", id="4 permanent beats -2"),
        pytest.param((True, -1), a_completion(210, PERMANENT), 0, "no", id="4 permanent beats -1"),
        pytest.param((False, -2), a_completion(0), 9, "counted", id="5 always, though it succeeded"),
        pytest.param((True, -2), a_completion(0), 9, "counted", id="5 fancy and succeeded falls through"),
        pytest.param((False, -2), a_completion(210, PERMANENT), 9, "counted", id="5 always"),
        pytest.param((False, -1), a_completion(210, PERMANENT), 9, "counted", id="6 any failure"),
        pytest.param((False, -1), a_completion(0), 0, "no", id="6 but no success"),
        pytest.param((False, 3), a_completion(1), 2, "counted", id="7 one is left"),
        pytest.param((True, 3), a_completion(1), 2, "counted", id="7 an unknown failure, fancy"),
        pytest.param(
            (False, 3), a_completion(201, TRANSIENT, CONFLICT), 2, "counted", id="7 a conflict, not fancy"
        ),
        pytest.param((False, 3), a_completion(1), 3, "no", id="8 none is left"),
        pytest.param((False, 3), a_completion(0), 0, "no", id="8 it succeeded"),
        pytest.param((True, 1), a_completion(5, CONFLICT), 0, "counted", id="conflict alone means nothing"),
        pytest.param(
            (True, 3), a_completion(5, TRANSIENT, PERMANENT), 0, "free", id="transient comes before permanent"
        ),
    ],
)
def test_the_first_row_that_matches_decides(
    policy: tuple[bool, int], completion: Completion, used: int, expected: str
) -> None:
    decision = decide(policy, completion, RetryStatus(used, used))

    match decision:
        case GiveUp():
            assert expected == "no"
        case Retry(delay, accountable):
            assert (
                f"{'counted' if accountable else 'free'}" + (f" after {delay}" if delay else "")
            ) == expected
    assert decision.reason


def expected_by_table(policy: RetryPolicy, completion: Completion, used: int) -> tuple[bool, bool]:
    """Returns (retried, counted) by the first row of the table that matches."""
    code, failed, attributes = completion.code, completion.failed, completion.attributes
    rows = [
        (code in (-210, -211, -220, -230), (False, False)),
        (policy.fancy and failed and {TRANSIENT, CONFLICT} <= attributes, (True, False)),
        (policy.fancy and failed and TRANSIENT in attributes, (True, False)),
        (policy.fancy and failed and PERMANENT in attributes, (False, False)),
        (policy.max_retries == -2, (True, True)),
        (failed and policy.max_retries == -1, (True, True)),
        (failed and used < policy.max_retries, (True, True)),
    ]
    return next((result for matches, result in rows if matches), (False, False))


completions = st.builds(
    Completion,
    st.sampled_from([*PREDEFINED, 1, 2, 137]),
    st.just("Some"),
    st.booleans(),
    st.frozensets(st.sampled_from(Attribute)),
)
policies = st.builds(RetryPolicy, st.booleans(), st.integers(-2, 4))


@given(policies, completions, st.integers(0, 5), st.integers(0, 5), st.integers(0, 2000), st.integers(0, 900))
def test_the_decision_is_that_of_the_table(
    policy: RetryPolicy,
    completion: Completion,
    used: int,
    quick_retries: int,
    duration: int,
    conflict_delay: int,
) -> None:
    status = RetryStatus(used + 1, used, consecutive_quick_retries=quick_retries)

    decision = after_completion(
        policy, completion, status, duration=duration, backoff=BACKOFF, conflict_delay=conflict_delay
    )

    result = (True, decision.accountable) if isinstance(decision, Retry) else (False, False)
    assert result == expected_by_table(policy, completion, used)


@given(policies, completions, st.integers(0, 9), st.integers(1, 900))
def test_a_scheduled_retry_is_executed_with_its_delay(
    policy: RetryPolicy, completion: Completion, used: int, delay: int
) -> None:
    status = RetryStatus(used, used, delay)

    decision = after_completion(policy, completion, status, duration=0, backoff=BACKOFF)

    assert isinstance(decision, Retry)
    assert decision.delay == delay


def test_consecutive_retries_are_delayed_by_up_to_five_minutes() -> None:
    status, delays = RetryStatus(), []

    for _ in range(9):
        decision = decide((False, -1), a_completion(1), status)
        assert isinstance(decision, Retry)
        delays.append(decision.delay)
        status = with_executed_retry(with_scheduled_retry(status, decision), decision)

    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    assert status == RetryStatus(9, 9, None, 9)


@pytest.mark.parametrize(("duration", "delay"), [(599, 80), (600, 0)])
def test_an_attempt_of_ten_minutes_resets_the_back_off(duration: int, delay: int) -> None:
    decision = decide(
        (False, -1), a_completion(1), RetryStatus(4, 4, consecutive_quick_retries=4), duration=duration
    )

    assert isinstance(decision, Retry)
    assert decision.delay == delay


def test_the_back_off_is_limited_for_any_number_of_retries() -> None:
    assert BACKOFF.delay(1_000_000) == 300


def test_a_conflict_is_retried_after_the_longer_of_both_delays() -> None:
    decisions = [
        decide(
            (True, 0),
            a_completion(201, TRANSIENT, CONFLICT),
            RetryStatus(consecutive_quick_retries=quick_retries),
            conflict_delay=60,
        )
        for quick_retries in (0, 9)
    ]

    assert [decision.delay for decision in decisions if isinstance(decision, Retry)] == [60, 300]


def test_a_retry_without_a_delay_is_not_scheduled() -> None:
    immediate, delayed = Retry(0, True, 1, ""), Retry(10, True, 1, "")

    assert with_scheduled_retry(RetryStatus(), immediate).delay is None
    assert with_scheduled_retry(RetryStatus(), delayed).delay == 10


def test_only_accountable_retries_increase_the_accountable_count() -> None:
    status = RetryStatus(1, 1, 10)

    assert with_executed_retry(status, Retry(10, True, 2, "")) == RetryStatus(2, 2, None, 2)
    assert with_executed_retry(status, Retry(10, False, 2, "")) == RetryStatus(2, 1, None, 2)


def test_requested_completions_are_never_retried() -> None:
    assert {Code(code).name for code in NEVER_RETRIED} == {
        "STOP_FRAMEWORK_REQUESTED",
        "ACTIVE_DEADLINE_EXCEEDED",
        "FRAMEWORK_ATTEMPT_COMPLETION",
        "DELETE_TASK_REQUESTED",
    }


@pytest.mark.parametrize(
    ("policy", "completion", "used", "reason"),
    [
        ((True, 0), a_completion(201, TRANSIENT, CONFLICT), 0, "transient resource conflict, not counted"),
        ((True, 0), a_completion(200, TRANSIENT), 0, "attempt 2 (transient failure, not counted"),
        ((True, 0), a_completion(210, PERMANENT), 0, "permanent failure"),
        ((False, -2), a_completion(0), 0, "maxRetryCount -2"),
        ((False, -1), a_completion(1), 0, "maxRetryCount -1"),
        ((False, 3), a_completion(1), 1, "attempt 3 of 4"),
        ((False, 3), a_completion(1), 3, "no retries left (3 of 3 used)"),
        ((False, 0), a_completion(1), 0, "maxRetryCount is 0"),
        ((False, 3), a_completion(0), 0, "the attempt succeeded"),
        ((False, 3), completion_for(-210, ""), 0, "StopFrameworkRequested is never retried"),
    ],
)
def test_every_decision_has_a_reason(
    policy: tuple[bool, int], completion: Completion, used: int, reason: str
) -> None:
    assert reason in decide(policy, completion, RetryStatus(used, used)).reason


def test_the_reason_of_a_retry_that_was_scheduled_before_a_policy_change() -> None:
    decision = decide((False, 0), a_completion(1), RetryStatus(0, 0, 60))

    assert decision.reason == "attempt 2 (scheduled before the policy changed)"


SIGNALS = frozenset(range(128, 256))


def a_pod_failure(code: int, *containers: tuple[str, int]) -> Completion:
    """A failure with that code of a pod whose containers exited with these codes."""
    detail = PodDetail(
        containers=tuple(ContainerTermination(name, exit_code) for name, exit_code in containers)
    )
    return Completion(code, "Some", True, frozenset(), "", detail)


@pytest.mark.parametrize(
    ("policy", "completion", "used", "expected"),
    [
        pytest.param(
            RetryPolicy(False, -1, SIGNALS), a_pod_failure(137, ("a", 137)), 0, "counted", id="listed"
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS),
            a_pod_failure(1, ("a", 1)),
            0,
            "exit code 1 is not in retryableExitCodes",
            id="not listed",
        ),
        pytest.param(
            RetryPolicy(True, 0, SIGNALS),
            Completion(
                210,
                "Some",
                True,
                frozenset({PERMANENT}),
                "",
                PodDetail("", "", (ContainerTermination("a", 210),)),
            ),
            0,
            "maxRetryCount is 0",
            id="the exit code decides instead of the attributes, and retries are counted",
        ),
        pytest.param(
            RetryPolicy(True, 1, SIGNALS),
            Completion(
                137,
                "Some",
                True,
                frozenset({TRANSIENT}),
                "",
                PodDetail("", "", (ContainerTermination("a", 137),)),
            ),
            0,
            "counted",
            id="retries of a transient failure are counted too",
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS),
            a_pod_failure(-1200, ("a", 0), ("b", 137)),
            0,
            "counted",
            id="the container's exit code decides, not the completion code",
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS),
            a_completion(-1000, TRANSIENT),
            0,
            "the pod has no exit code to compare with retryableExitCodes",
            id="a pod without an exit code",
        ),
        pytest.param(
            RetryPolicy(True, 0, SIGNALS),
            a_completion(-1000, TRANSIENT),
            0,
            "free",
            id="a transient failure without an exit code",
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS),
            a_completion(139),
            0,
            "counted",
            id="only the completion code is known",
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS), a_completion(0), 0, "the attempt succeeded", id="a success"
        ),
        pytest.param(
            RetryPolicy(False, 3, SIGNALS),
            a_completion(139),
            3,
            "no retries left (3 of 3 used)",
            id="no retries left",
        ),
    ],
)
def test_only_retryable_exit_codes_are_retried(
    policy: RetryPolicy, completion: Completion, used: int, expected: str
) -> None:
    decision = after_completion(policy, completion, RetryStatus(used, used), duration=0, backoff=BACKOFF)

    if isinstance(decision, GiveUp):
        assert decision.reason == expected
    else:
        assert ("counted" if decision.accountable else "free") == expected
