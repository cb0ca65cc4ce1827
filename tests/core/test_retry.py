"""Whether an attempt that ended runs again, when and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.completion_codes import (
    PREDEFINED,
    Attribute,
    Code,
    Completion,
    ContainerDetail,
    PodDetail,
    completion_for,
)
from launcher.core.planning.retry import (
    NEVER_RETRIED,
    GiveUp,
    Retry,
    RetryBackoff,
    after_completion,
    executed,
    scheduled,
)
from launcher.core.spec import RetryPolicy
from launcher.core.status import RetryStatus

BACKOFF = RetryBackoff()
TRANSIENT, PERMANENT, CONFLICT = Attribute.TRANSIENT, Attribute.PERMANENT, Attribute.CONFLICT


def end(code: int, *attributes: Attribute) -> Completion:
    return Completion(code, "Some", code != 0, frozenset(attributes))


def decide(
    policy: tuple[bool, int],
    completion: Completion,
    status: RetryStatus = RetryStatus(),  # noqa: B008  frozen
    *,
    lasted: int = 0,
    conflict_delay: int = 60,
) -> Retry | GiveUp:
    return after_completion(
        RetryPolicy(*policy),
        completion,
        status,
        lasted=lasted,
        backoff=BACKOFF,
        conflict_delay=conflict_delay,
    )


@pytest.mark.parametrize(
    ("policy", "completion", "used", "expected"),
    [
        pytest.param((True, -2), completion_for(-210, ""), 0, "no", id="1 stopped"),
        pytest.param((True, -2), completion_for(-211, ""), 0, "no", id="1 over its deadline"),
        pytest.param((False, -2), completion_for(-220, ""), 0, "no", id="1 its attempt is over"),
        pytest.param((False, -1), completion_for(-230, ""), 0, "no", id="1 scaled away"),
        pytest.param((True, 0), end(201, TRANSIENT, CONFLICT), 0, "free after 60", id="2 conflict"),
        pytest.param((True, 0), end(200, TRANSIENT), 9, "free", id="3 transient"),
        pytest.param((True, -2), end(210, PERMANENT), 0, "no", id="4 permanent beats -2"),
        pytest.param((True, -1), end(210, PERMANENT), 0, "no", id="4 permanent beats -1"),
        pytest.param((False, -2), end(0), 9, "counted", id="5 always, though it succeeded"),
        pytest.param((True, -2), end(0), 9, "counted", id="5 fancy and succeeded falls through"),
        pytest.param((False, -2), end(210, PERMANENT), 9, "counted", id="5 always"),
        pytest.param((False, -1), end(210, PERMANENT), 9, "counted", id="6 any failure"),
        pytest.param((False, -1), end(0), 0, "no", id="6 but no success"),
        pytest.param((False, 3), end(1), 2, "counted", id="7 one is left"),
        pytest.param((True, 3), end(1), 2, "counted", id="7 an unknown failure, fancy"),
        pytest.param((False, 3), end(201, TRANSIENT, CONFLICT), 2, "counted", id="7 a conflict, not fancy"),
        pytest.param((False, 3), end(1), 3, "no", id="8 none is left"),
        pytest.param((False, 3), end(0), 0, "no", id="8 it succeeded"),
        pytest.param((True, 1), end(5, CONFLICT), 0, "counted", id="conflict alone means nothing"),
        pytest.param(
            (True, 3), end(5, TRANSIENT, PERMANENT), 0, "free", id="transient comes before permanent"
        ),
    ],
)
def test_the_first_row_that_fits_decides(
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
    assert decision.because


def by_the_table(policy: RetryPolicy, completion: Completion, used: int) -> tuple[bool, bool]:
    """(retried, counted), read off the table row by row."""
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
    return next((answer for holds, answer in rows if holds), (False, False))


completions = st.builds(
    Completion,
    st.sampled_from([*PREDEFINED, 1, 2, 137]),
    st.just("Some"),
    st.booleans(),
    st.frozensets(st.sampled_from(Attribute)),
)
policies = st.builds(RetryPolicy, st.booleans(), st.integers(-2, 4))


@given(policies, completions, st.integers(0, 5), st.integers(0, 5), st.integers(0, 2000), st.integers(0, 900))
def test_it_answers_as_the_table_does(
    policy: RetryPolicy, completion: Completion, used: int, quick: int, lasted: int, conflict_delay: int
) -> None:
    status = RetryStatus(used + 1, used, consecutive_quick_retries=quick)

    decision = after_completion(
        policy, completion, status, lasted=lasted, backoff=BACKOFF, conflict_delay=conflict_delay
    )

    answer = (True, decision.accountable) if isinstance(decision, Retry) else (False, False)
    assert answer == by_the_table(policy, completion, used)


@given(policies, completions, st.integers(0, 9), st.integers(1, 900))
def test_a_retry_once_scheduled_is_carried_out_with_its_delay(
    policy: RetryPolicy, completion: Completion, used: int, delay: int
) -> None:
    status = RetryStatus(used, used, delay)

    decision = after_completion(policy, completion, status, lasted=0, backoff=BACKOFF)

    assert isinstance(decision, Retry)
    assert decision.delay == delay


def test_retries_in_a_row_are_spaced_out_up_to_five_minutes() -> None:
    status, delays = RetryStatus(), []

    for _ in range(9):
        decision = decide((False, -1), end(1), status)
        assert isinstance(decision, Retry)
        delays.append(decision.delay)
        status = executed(scheduled(status, decision), decision)

    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    assert status == RetryStatus(9, 9, None, 9)


@pytest.mark.parametrize(("lasted", "delay"), [(599, 80), (600, 0)])
def test_an_attempt_that_lasted_ten_minutes_ends_the_row(lasted: int, delay: int) -> None:
    decision = decide((False, -1), end(1), RetryStatus(4, 4, consecutive_quick_retries=4), lasted=lasted)

    assert isinstance(decision, Retry)
    assert decision.delay == delay


def test_a_row_of_any_length_has_a_delay() -> None:
    assert BACKOFF.delay(1_000_000) == 300


def test_a_conflict_waits_for_the_longer_of_both_delays() -> None:
    delays = [
        decide(
            (True, 0),
            end(201, TRANSIENT, CONFLICT),
            RetryStatus(consecutive_quick_retries=quick),
            conflict_delay=60,
        )
        for quick in (0, 9)
    ]

    assert [decision.delay for decision in delays if isinstance(decision, Retry)] == [60, 300]


def test_a_retry_that_comes_at_once_is_not_scheduled() -> None:
    at_once, later = Retry(0, True, 1, ""), Retry(10, True, 1, "")

    assert scheduled(RetryStatus(), at_once).delay is None
    assert scheduled(RetryStatus(), later).delay == 10


def test_only_what_counts_is_counted() -> None:
    status = RetryStatus(1, 1, 10)

    assert executed(status, Retry(10, True, 2, "")) == RetryStatus(2, 2, None, 2)
    assert executed(status, Retry(10, False, 2, "")) == RetryStatus(2, 1, None, 2)


def test_ends_that_somebody_asked_for_are_never_retried() -> None:
    assert {Code(code).name for code in NEVER_RETRIED} == {
        "STOP_FRAMEWORK_REQUESTED",
        "ACTIVE_DEADLINE_EXCEEDED",
        "FRAMEWORK_ATTEMPT_COMPLETION",
        "DELETE_TASK_REQUESTED",
    }


@pytest.mark.parametrize(
    ("policy", "completion", "used", "because"),
    [
        ((True, 0), end(201, TRANSIENT, CONFLICT), 0, "a passing conflict over resources"),
        ((True, 0), end(200, TRANSIENT), 0, "the failure is transient"),
        ((True, 0), end(210, PERMANENT), 0, "the failure is permanent"),
        ((False, -2), end(0), 0, "maxRetryCount -2"),
        ((False, -1), end(1), 0, "maxRetryCount -1"),
        ((False, 3), end(1), 1, "retry 2 of 3"),
        ((False, 3), end(1), 3, "all 3 retries are used up"),
        ((False, 0), end(1), 0, "maxRetryCount is 0"),
        ((False, 3), end(0), 0, "it succeeded"),
        ((False, 3), completion_for(-210, ""), 0, "StopFrameworkRequested is never retried"),
    ],
)
def test_every_decision_says_why(
    policy: tuple[bool, int], completion: Completion, used: int, because: str
) -> None:
    assert because in decide(policy, completion, RetryStatus(used, used)).because


def test_a_retry_that_the_policy_of_now_would_not_allow_says_so() -> None:
    decision = decide((False, 0), end(1), RetryStatus(0, 0, 60))

    assert decision.because == "it was scheduled before the policy changed"


SIGNALS = frozenset(range(128, 256))


def exited(code: int, *containers: tuple[str, int]) -> Completion:
    """A failure of that code, of a pod whose containers ended with these."""
    detail = PodDetail(containers=tuple(ContainerDetail(name, exit_) for name, exit_ in containers))
    return Completion(code, "Some", True, frozenset(), "", detail)


@pytest.mark.parametrize(
    ("policy", "completion", "used", "expected"),
    [
        pytest.param(
            RetryPolicy(False, -1, SIGNALS), exited(137, ("a", 137)), 0, "counted", id="one of them"
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS),
            exited(1, ("a", 1)),
            0,
            "exit code 1 is none of retryableExitCodes",
            id="none of them",
        ),
        pytest.param(
            RetryPolicy(True, 0, SIGNALS),
            Completion(
                210, "Some", True, frozenset({PERMANENT}), "", PodDetail("", "", (ContainerDetail("a", 210),))
            ),
            0,
            "maxRetryCount is 0",
            id="the exit code decides, not what is known of it, and the retries are counted",
        ),
        pytest.param(
            RetryPolicy(True, 1, SIGNALS),
            Completion(
                137, "Some", True, frozenset({TRANSIENT}), "", PodDetail("", "", (ContainerDetail("a", 137),))
            ),
            0,
            "counted",
            id="also of a failure that is known to pass",
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS),
            exited(-1200, ("a", 0), ("b", 137)),
            0,
            "counted",
            id="what the launcher calls it does not matter",
        ),
        pytest.param(
            RetryPolicy(False, -1, SIGNALS),
            end(-1000, TRANSIENT),
            0,
            "an end without an exit code is none of retryableExitCodes",
            id="a pod without an exit code",
        ),
        pytest.param(
            RetryPolicy(True, 0, SIGNALS), end(-1000, TRANSIENT), 0, "free", id="which may be known to pass"
        ),
        pytest.param(RetryPolicy(False, -1, SIGNALS), end(139), 0, "counted", id="only the code is left"),
        pytest.param(RetryPolicy(False, -1, SIGNALS), end(0), 0, "it succeeded", id="a success"),
        pytest.param(
            RetryPolicy(False, 3, SIGNALS), end(139), 3, "all 3 retries are used up", id="too often"
        ),
    ],
)
def test_only_some_exit_codes_are_worth_another_try(
    policy: RetryPolicy, completion: Completion, used: int, expected: str
) -> None:
    found = after_completion(policy, completion, RetryStatus(used, used), lasted=0, backoff=BACKOFF)

    if isinstance(found, GiveUp):
        assert found.because == expected
    else:
        assert ("counted" if found.accountable else "free") == expected
