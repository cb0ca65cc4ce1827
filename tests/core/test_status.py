"""The states, and the legal steps between them."""

from itertools import product

import pytest

from launcher.core.planning.status_builder import StatusBuilder
from launcher.core.status import FRAMEWORK_STEPS, TASK_STEPS, State
from tests.core.world import START


@pytest.mark.parametrize("table", [TASK_STEPS, FRAMEWORK_STEPS], ids=["tasks", "Frameworks"])
def test_every_state_leads_to_the_end_and_the_end_leads_nowhere(
    table: dict[State, frozenset[State]],
) -> None:
    reached = {state: set(after) for state, after in table.items()}
    for _ in table:
        for after in reached.values():
            after |= {further for state in list(after) for further in reached[state]}

    assert reached.pop(State.COMPLETED) == set()
    assert all(State.COMPLETED in after for after in reached.values())


def test_tasks_know_all_nine_states_and_frameworks_seven() -> None:
    assert set(TASK_STEPS) == set(State)
    assert set(State) - set(FRAMEWORK_STEPS) == {State.CREATION_REQUESTED, State.DELETION_REQUESTED}


def test_a_retry_is_the_only_way_back_to_the_start() -> None:
    for table in (TASK_STEPS, FRAMEWORK_STEPS):
        assert [state for state, after in table.items() if State.CREATION_PENDING in after] == [
            State.ATTEMPT_COMPLETED
        ]


@pytest.mark.parametrize(("before", "after"), [*product(State, State)])
def test_a_framework_takes_only_legal_steps(before: State, after: State) -> None:
    record = StatusBuilder.begin(START)
    record.put(state=before)

    if after in FRAMEWORK_STEPS.get(before, ()):
        record.transition_to(after, "because")
        assert record.state is after
    elif before in FRAMEWORK_STEPS:
        with pytest.raises(ValueError, match=f"from {before} to {after}"):
            record.transition_to(after, "because")
