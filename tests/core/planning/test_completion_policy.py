"""Which task completes an attempt, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.completion_codes import Completion, completion_for
from launcher.core.planning.completion_policy import (
    CompletionCounts,
    completion_trigger,
    first_trigger,
    last_completed_task,
)
from launcher.core.spec import RoleName, TaskRole
from launcher.core.status import State, TaskAttempt, TaskStatus, Trigger
from tests.core.builders import START, a_role
from tests.core.planning.harness import running_harness
from tests.hypothesis_examples import examples


def a_task(index: int, code: int | None, time: int = 0, *, removed: bool = False) -> TaskStatus:
    """A task that completed with *code* at *time*, or that is running if *code* is None."""
    if code is None:
        return TaskStatus(index, START, START, TaskAttempt(START), State.RUNNING, deletion_pending=removed)
    completion = completion_for(0, "") if code == 0 else Completion(code, "Some", True)
    attempt = TaskAttempt(START, completion=completion, completion_time=time)
    return TaskStatus(
        index, START, time, attempt, State.COMPLETED, completion_time=time, deletion_pending=removed
    )


def triggers(role: TaskRole, *codes: int) -> list[Trigger | None]:
    """The trigger after each of these tasks, which complete one after another with these codes."""
    counts, triggers_so_far = CompletionCounts(), []
    for index, code in enumerate(codes):
        task = a_task(index, code)
        counts.add(task, role.completion)
        triggers_so_far.append(completion_trigger(role, task, counts))
    return triggers_so_far


@pytest.mark.parametrize(
    ("min_counts", "codes", "expected_index"),
    [
        pytest.param((1, -1), [0, 0, 1], 2, id="the first failure"),
        pytest.param((2, -1), [1, 0, 2], 2, id="the second failure"),
        pytest.param((-1, 1), [1, 0, 0], 1, id="the first success"),
        pytest.param((-1, -1), [1, 0, 2], None, id="never"),
        pytest.param((0, 0), [1, 0, 2], None, id="zero is never"),
        pytest.param((9, 9), [1, 0, 2], None, id="more than the number of tasks"),
    ],
)
def test_the_task_that_reaches_a_threshold_completes_the_attempt(
    min_counts: tuple[int, int], codes: list[int], expected_index: int | None
) -> None:
    results = triggers(a_role("w", 3, min_counts=min_counts), *codes)

    assert next((index for index, trigger in enumerate(results) if trigger), None) == expected_index


def test_the_trigger_names_the_policy_and_the_counts() -> None:
    failed = triggers(a_role("w", 3, min_counts=(2, -1)), 1, 2)[-1]
    succeeded = triggers(a_role("w", 3, min_counts=(-1, 1)), 0)[-1]

    assert failed == Trigger("Role w: 2 failed tasks reached minFailedTaskCount 2.", RoleName("w"), 1)
    assert succeeded == Trigger("Role w: 1 succeeded task reached minSucceededTaskCount 1.", RoleName("w"), 0)


def test_all_tasks_of_succeeded_indexes_must_succeed() -> None:
    role = a_role("w", 3, min_counts=(-1, -1), succeeded_indexes=frozenset({0, 2}))

    all_succeed = triggers(role, 0, 0, 0)
    without_one = triggers(role, 1, 0, 0)

    assert [trigger is not None for trigger in all_succeed] == [False, False, True]
    assert without_one == [None, None, None]
    assert all_succeed[-1] == Trigger("Role w: all tasks in succeededIndexes succeeded.", RoleName("w"), 2)


def test_a_background_role_never_completes_the_attempt() -> None:
    assert triggers(a_role("w", 2, min_counts=(1, 1), background=True), 1, 0) == [None, None]


def test_of_several_triggers_the_earliest_counts() -> None:
    a, b = a_role("a", 2), a_role("b", 2, min_counts=(-1, 1))

    found = first_trigger([(a, [a_task(0, 0, 1), a_task(1, 7, 9)]), (b, [a_task(0, 0, 8), a_task(1, 0, 5)])])

    assert found is not None
    assert (found.trigger.role, found.trigger.index, found.time) == ("b", 1, 5)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param({0: 5, 1: 5}, {0: 5}, ("a", 0), id="the earlier role, the lower index"),
        pytest.param({1: 5}, {0: 5}, ("a", 1), id="the earlier role"),
        pytest.param({}, {1: 5, 0: 6}, ("b", 1), id="the earlier time"),
    ],
)
def test_of_simultaneous_triggers_the_first_role_and_the_lowest_index_count(
    first: dict[int, int], second: dict[int, int], expected: tuple[str, int]
) -> None:
    roles = [
        (
            a_role(name, 2),
            [a_task(index, 1 if index in times else None, times.get(index, 0)) for index in (0, 1)],
        )
        for name, times in (("a", first), ("b", second))
    ]

    found = first_trigger(roles)

    assert found is not None
    assert (found.trigger.role, found.trigger.index) == expected


def test_a_failure_precedes_a_success_of_the_same_second() -> None:
    found = first_trigger([(a_role("w", 2, min_counts=(1, 1)), [a_task(0, 0, 5), a_task(1, 3, 5)])])

    assert found is not None
    assert found.trigger.index == 1


def test_removed_and_running_tasks_do_not_count() -> None:
    tasks = [a_task(0, 1, 5, removed=True), a_task(1, None)]

    assert first_trigger([(a_role("w", 2), tasks)]) is None
    assert last_completed_task([(a_role("w", 2), tasks)]) is None


def test_of_tasks_that_complete_last_together_the_first_role_and_the_highest_index_count() -> None:
    a, b, c = a_role("a", 3), a_role("b"), a_role("c", background=True)

    found = last_completed_task(
        [
            (a, [a_task(0, 0, 9), a_task(1, 0, 9), a_task(2, 0, 1)]),
            (b, [a_task(0, 0, 9)]),
            (c, [a_task(0, 0, 99)]),
        ]
    )

    assert found is not None
    assert (found[0], found[1].index) == ("a", 1)


# All policies together, compared with a simple implementation.

exit_codes = st.one_of(st.none(), st.just(0), st.integers(1, 3))
shapes = st.lists(
    st.tuples(
        st.tuples(st.sampled_from([-1, 0, 1, 2]), st.sampled_from([-1, 0, 1, 2])),
        st.sampled_from([frozenset[int](), frozenset({0}), frozenset({0, 1})]),
        st.booleans(),
        st.lists(exit_codes, min_size=0, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


def expected_completion(roles: list[TaskRole], codes: list[list[int | None]]) -> tuple[int, str] | None:
    """Returns (code, trigger): each policy is evaluated after each task, in the order of the status."""
    total = sum(role.tasks for role in roles if not role.background)
    completed_tasks = 0
    for role, role_codes in zip(roles, codes, strict=True):
        completed: list[tuple[int, int]] = []
        for index, code in enumerate(role_codes):
            if code is None or role.background:
                continue
            completed.append((index, code))
            completed_tasks += 1
            failed = [i for i, c in completed if c]
            succeeded = [i for i, c in completed if not c]
            succeeded_indexes = role.completion.succeeded_indexes
            conditions = (
                code and 1 <= role.completion.min_failed <= len(failed),
                not code and 1 <= role.completion.min_succeeded <= len(succeeded),
                not code and index in succeeded_indexes and succeeded_indexes <= set(succeeded),
            )
            if any(conditions):
                return code, f"{role.name}{index}"
            if completed_tasks == total:
                return 0, f"{role.name}{index}"
    return None


@examples(200)
@given(shapes)
def test_an_attempt_completes_according_to_its_policies(
    shape: list[tuple[tuple[int, int], frozenset[int], bool, list[int | None]]],
) -> None:
    roles = [
        a_role(
            name,
            len(codes),
            min_counts=min_counts,
            succeeded_indexes=succeeded_indexes,
            background=background,
        )
        for name, (min_counts, succeeded_indexes, background, codes) in zip("abc", shape, strict=False)
    ]
    codes = [each[3] for each in shape]
    harness = running_harness(*roles)

    harness.exit_pods(
        {
            f"{role.name}{index}": code
            for role, each in zip(roles, codes, strict=True)
            for index, code in enumerate(each)
            if code is not None
        }
    )

    outcome = None if harness.final_code is None else (harness.final_code, harness.trigger)
    assert outcome == expected_completion(roles, codes)


@examples(100)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a0", "a1", "a2", "b0", "b1"]), st.integers(0, 2)),
        unique_by=lambda e: e[0],
    ),
    st.tuples(st.sampled_from([-1, 1, 2]), st.sampled_from([-1, 1, 2])),
)
def test_a_changed_threshold_has_the_same_result_as_if_it_had_applied_from_the_start(
    events: list[tuple[str, int]], min_counts: tuple[int, int]
) -> None:
    """The tasks complete one per second, with thresholds that are never reached; then those of role a change."""
    late = running_harness(a_role("a", 3, min_counts=(-1, -1)), a_role("b", 3, min_counts=(-1, -1)))
    early = running_harness(a_role("a", 3, min_counts=min_counts), a_role("b", 3, min_counts=(-1, -1)))

    for task, code in events:
        for harness in (late, early):
            harness.now += 1
            if harness.state is State.RUNNING:
                harness.exit_pods({task: code})
    late.edit_role("a", min_counts=min_counts)
    late.sync()

    assert (late.final_code, late.trigger) == (early.final_code, early.trigger)


def test_tasks_that_are_added_later_count_toward_the_thresholds() -> None:
    harness = running_harness(a_role("w", 1, min_counts=(2, -1)), a_role("x"))
    harness.fail("w0", 3)

    harness.edit_role("w", tasks=2)
    harness.sync()
    harness.run_pods("w1")
    harness.fail("w1", 4)

    assert (harness.final_code, harness.trigger) == (4, "w1")


def test_a_task_removed_by_a_rescale_no_longer_counts() -> None:
    harness = running_harness(a_role("w", 3, min_counts=(2, -1)))
    harness.fail("w2", 1)

    harness.edit_role("w", tasks=2)
    harness.sync()
    harness.fail("w1", 1)

    assert harness.state is State.RUNNING
    assert (sorted(harness.tasks()), harness.task("w1").state) == (["w0", "w1"], State.COMPLETED)
