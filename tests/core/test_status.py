"""States and the legal transitions between them."""

from itertools import product

import pytest

from launcher.core.planning.status_builder import StatusBuilder
from launcher.core.status import FRAMEWORK_STEPS, TASK_STEPS, State
from tests.core.builders import START


@pytest.mark.parametrize("table", [TASK_STEPS, FRAMEWORK_STEPS], ids=["tasks", "Frameworks"])
def test_completed_is_reachable_from_every_state_and_final(
    table: dict[State, frozenset[State]],
) -> None:
    reached = {state: set(after) for state, after in table.items()}
    for _ in table:
        for after in reached.values():
            after |= {next_state for state in list(after) for next_state in reached[state]}

    assert reached.pop(State.COMPLETED) == set()
    assert all(State.COMPLETED in after for after in reached.values())


def test_tasks_have_nine_states_and_frameworks_seven() -> None:
    assert set(TASK_STEPS) == set(State)
    assert set(State) - set(FRAMEWORK_STEPS) == {State.CREATION_REQUESTED, State.DELETION_REQUESTED}


def test_only_a_retry_returns_to_creation_pending() -> None:
    for table in (TASK_STEPS, FRAMEWORK_STEPS):
        assert [state for state, after in table.items() if State.CREATION_PENDING in after] == [
            State.ATTEMPT_COMPLETED
        ]


@pytest.mark.parametrize(("before", "after"), [*product(State, State)])
def test_an_illegal_transition_of_a_framework_is_an_error(before: State, after: State) -> None:
    builder = StatusBuilder.new(START)
    builder.put(state=before)

    if after in FRAMEWORK_STEPS.get(before, ()):
        builder.transition_to(after, "reason")
        assert builder.state is after
    elif before in FRAMEWORK_STEPS:
        with pytest.raises(ValueError, match=f"from {before} to {after}"):
            builder.transition_to(after, "reason")
