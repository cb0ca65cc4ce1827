"""When the tasks of an attempt decide that it is over, and which task decided it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.core.completion_codes import Completion, completion_for
from launcher.core.planning.completion_policy import (
    CompletionCounts,
    all_ended,
    completion_trigger,
    first_trigger,
    last_completed_task,
)
from launcher.core.spec import RoleName, TaskRole
from launcher.core.status import State, TaskAttempt, TaskStatus, Trigger
from tests.core.world import START, a_role, running


def a_task(index: int, code: int | None, time: int = 0, *, removed: bool = False) -> TaskStatus:
    """A task that ended with *code* at *time*; None: it has not."""
    if code is None:
        return TaskStatus(index, START, START, TaskAttempt(START), State.RUNNING, deletion_pending=removed)
    end = completion_for(0, "") if code == 0 else Completion(code, "Some", True)
    attempt = TaskAttempt(START, completion=end, completion_time=time)
    return TaskStatus(
        index, START, time, attempt, State.COMPLETED, completion_time=time, deletion_pending=removed
    )


def triggers(role: TaskRole, *codes: int) -> list[Trigger | None]:
    """What the role makes of tasks that end one after another with these codes."""
    count, made = CompletionCounts(), []
    for index, code in enumerate(codes):
        task = a_task(index, code)
        count.add(task, role.completion)
        made.append(completion_trigger(role, task, count))
    return made


@pytest.mark.parametrize(
    ("ends", "codes", "by"),
    [
        pytest.param((1, -1), [0, 0, 1], 2, id="the first failure"),
        pytest.param((2, -1), [1, 0, 2], 2, id="the second failure"),
        pytest.param((-1, 1), [1, 0, 0], 1, id="the first success"),
        pytest.param((-1, -1), [1, 0, 2], None, id="never"),
        pytest.param((0, 0), [1, 0, 2], None, id="zero is never"),
        pytest.param((9, 9), [1, 0, 2], None, id="more than there are"),
    ],
)
def test_the_task_that_meets_the_threshold_ends_the_attempt(
    ends: tuple[int, int], codes: list[int], by: int | None
) -> None:
    made = triggers(a_role("w", 3, ends=ends), *codes)

    assert next((index for index, trigger in enumerate(made) if trigger), None) == by


def test_the_trigger_tells_kind_count_and_threshold() -> None:
    failed = triggers(a_role("w", 3, ends=(2, -1)), 1, 2)[-1]
    succeeded = triggers(a_role("w", 3, ends=(-1, 1)), 0)[-1]

    assert failed == Trigger("role w: 2 tasks failed, and minFailedTaskCount is 2", RoleName("w"), 1)
    assert succeeded == Trigger("role w: 1 task succeeded, and minSucceededTaskCount is 1", RoleName("w"), 0)


def test_every_task_named_must_succeed() -> None:
    role = a_role("w", 3, ends=(-1, -1), succeeded_indexes=frozenset({0, 2}))

    made = triggers(role, 0, 0, 0)
    without_one = triggers(role, 1, 0, 0)

    assert [trigger is not None for trigger in made] == [False, False, True]
    assert without_one == [None, None, None]
    assert made[-1] == Trigger("role w: every task named in succeededIndexes has succeeded", RoleName("w"), 2)


def test_a_background_role_never_decides() -> None:
    assert triggers(a_role("w", 2, ends=(1, 1), background=True), 1, 0) == [None, None]


def test_that_all_have_ended_is_told_with_their_number() -> None:
    assert all_ended(3, RoleName("w"), 2) == Trigger(
        "every task has ended (3), and no rule of any role was met before", RoleName("w"), 2
    )


def test_of_several_candidates_the_earliest_in_time_wins() -> None:
    a, b = a_role("a", 2), a_role("b", 2, ends=(-1, 1))

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
def test_ties_go_to_the_earlier_role_then_to_the_lower_index(
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


def test_a_failure_comes_before_a_success_of_the_same_second() -> None:
    found = first_trigger([(a_role("w", 2, ends=(1, 1)), [a_task(0, 0, 5), a_task(1, 3, 5)])])

    assert found is not None
    assert found.trigger.index == 1


def test_removed_tasks_and_those_that_run_do_not_count() -> None:
    tasks = [a_task(0, 1, 5, removed=True), a_task(1, None)]

    assert first_trigger([(a_role("w", 2), tasks)]) is None
    assert last_completed_task([(a_role("w", 2), tasks)]) is None


def test_the_last_to_end_is_of_equals_the_earlier_roles_and_in_a_role_the_highest_index() -> None:
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


# The whole, against the rules read naively.

ended = st.one_of(st.none(), st.just(0), st.integers(1, 3))
shapes = st.lists(
    st.tuples(
        st.tuples(st.sampled_from([-1, 0, 1, 2]), st.sampled_from([-1, 0, 1, 2])),
        st.sampled_from([frozenset[int](), frozenset({0}), frozenset({0, 1})]),
        st.booleans(),
        st.lists(ended, min_size=0, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


def expected_end(roles: list[TaskRole], codes: list[list[int | None]]) -> tuple[int, str] | None:
    """(code, trigger) by the rules: each task in status order, each rule after each task."""
    total = sum(role.tasks for role in roles if not role.background)
    ended_so_far = 0
    for role, ends in zip(roles, codes, strict=True):
        done: list[tuple[int, int]] = []
        for index, code in enumerate(ends):
            if code is None or role.background:
                continue
            done.append((index, code))
            ended_so_far += 1
            failed = [i for i, c in done if c]
            good = [i for i, c in done if not c]
            named = role.completion.succeeded_indexes
            rules = (
                code and 1 <= role.completion.min_failed <= len(failed),
                not code and 1 <= role.completion.min_succeeded <= len(good),
                not code and index in named and named <= set(good),
            )
            if any(rules):
                return code, f"{role.name}{index}"
            if ended_so_far == total:
                return 0, f"{role.name}{index}"
    return None


@settings(max_examples=200)
@given(shapes)
def test_an_attempt_ends_as_the_rules_say(
    shape: list[tuple[tuple[int, int], frozenset[int], bool, list[int | None]]],
) -> None:
    roles = [
        a_role(name, len(codes), ends=ends, succeeded_indexes=named, background=background)
        for name, (ends, named, background, codes) in zip("abc", shape, strict=False)
    ]
    codes = [each[3] for each in shape]
    world = running(*roles)

    world.end(
        {
            f"{role.name}{index}": code
            for role, each in zip(roles, codes, strict=True)
            for index, code in enumerate(each)
            if code is not None
        }
    )

    outcome = None if world.done is None else (world.done, world.trigger)
    assert outcome == expected_end(roles, codes)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a0", "a1", "a2", "b0", "b1"]), st.integers(0, 2)),
        unique_by=lambda e: e[0],
    ),
    st.tuples(st.sampled_from([-1, 1, 2]), st.sampled_from([-1, 1, 2])),
)
def test_a_changed_rule_makes_of_the_past_what_it_would_have_made_of_it_then(
    events: list[tuple[str, int]], ends: tuple[int, int]
) -> None:
    """Every task ends in its own second, under rules that never fire; then the rules of role a change."""
    late = running(a_role("a", 3, ends=(-1, -1)), a_role("b", 3, ends=(-1, -1)))
    early = running(a_role("a", 3, ends=ends), a_role("b", 3, ends=(-1, -1)))

    for task, code in events:
        for world in (late, early):
            world.now += 1
            if world.state is State.RUNNING:
                world.end({task: code})
    late.edit_role("a", ends=ends)
    late.sync()

    assert (late.done, late.trigger) == (early.done, early.trigger)


def test_a_role_whose_thresholds_are_met_by_tasks_added_later_ends_the_attempt() -> None:
    world = running(a_role("w", 1, ends=(2, -1)), a_role("x"))
    world.fail("w0", 3)

    world.edit_role("w", tasks=2)
    world.sync()
    world.run("w1")
    world.fail("w1", 4)

    assert (world.done, world.trigger) == (4, "w1")


def test_a_task_removed_by_a_rescale_no_longer_counts() -> None:
    world = running(a_role("w", 3, ends=(2, -1)))
    world.fail("w2", 1)

    world.edit_role("w", tasks=2)
    world.sync()
    world.fail("w1", 1)

    assert world.state is State.RUNNING
    assert (sorted(world.tasks()), world.task("w1").state) == (["w0", "w1"], State.COMPLETED)
