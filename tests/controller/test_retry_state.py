"""The retries of one Framework in the controller."""

from launcher.controller.retry_state import RetryState
from launcher.core.spec import PodName, RoleName

POD = PodName("f-w-0")


def test_without_failures_a_reconcile_is_allowed_at_once() -> None:
    retry = RetryState()

    assert not retry.is_pending
    assert retry.seconds_to_wait(100.0) == 0.0
    assert retry.take_due_pods(100.0) == set()


def test_failed_pods_are_retried_after_a_growing_delay() -> None:
    retry = RetryState()
    now, delays = 100.0, []

    for _ in range(3):
        retry.retry_pod(POD)
        delays.append(round(retry.next_delay(now), 3))
        assert retry.take_due_pods(now) == set(), "not during the back-off"
        now += delays[-1]
        assert retry.take_due_pods(now) == {POD}

    assert delays == [0.05, 0.1, 0.2]


def test_a_reset_makes_the_next_delay_short_again() -> None:
    retry = RetryState()
    retry.next_delay(0.0)
    retry.next_delay(100.0)

    retry.reset_backoff()

    assert round(retry.next_delay(200.0), 3) == 0.05


def test_a_failed_reconcile_delays_the_next_one_and_failed_pods_do_not() -> None:
    retry = RetryState()
    retry.delay_until(130.0)

    retry.retry_pod(POD)
    with_failed_pods = retry.seconds_to_wait(100.0)
    retry.retry_reconcile()

    assert with_failed_pods == 0.0
    assert retry.seconds_to_wait(100.0) == 30.0
    retry.take_due_pods(130.0)
    assert not retry.reconcile_failed


def test_retry_after_delays_pods() -> None:
    retry = RetryState()
    retry.retry_pod(POD)
    retry.delay_until(130.0)
    retry.delay_until(110.0)

    assert retry.next_delay(100.0) == 30.0
    assert retry.take_due_pods(129.0) == set()
    assert retry.take_due_pods(130.0) == {POD}


def test_a_role_is_blocked_until_the_next_pass() -> None:
    retry = RetryState()

    retry.block_role(RoleName("w"))

    assert retry.is_blocked(RoleName("w"))
    assert not retry.is_blocked(RoleName("p"))
    retry.unblock_roles()
    assert not retry.is_blocked(RoleName("w"))


def test_creations_with_an_unknown_outcome_are_listed_until_it_is_known() -> None:
    retry = RetryState()
    for name in ("f-w-1", "f-w-0"):
        retry.creation_unconfirmed(PodName(name))

    assert retry.unconfirmed_creations == ["f-w-0", "f-w-1"]
    retry.creation_confirmed(POD)
    assert retry.unconfirmed_creations == ["f-w-1"]
