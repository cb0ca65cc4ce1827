"""Large statuses on the wire: folded, never too large, and nothing lost that decides what happens next."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from launcher.core.completion_codes import completion_for
from launcher.core.framework import Framework
from launcher.core.names import TaskIdentity, pod_name, task_uid
from launcher.core.planning.planner import Planner
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.serialization.folded_tasks import unfold
from launcher.core.serialization.status_json import LISTED_IN_FULL
from launcher.core.spec import FrameworkSpec
from launcher.core.status import (
    NO_RETRIES,
    FrameworkAttempt,
    State,
    TaskAttempt,
    TaskStatus,
    Trigger,
    new_task,
)
from tests.core.statuses import (
    MANY,
    MIXES,
    F,
    W,
    a_failure,
    a_status,
    all_running,
    half_failed_with_long_messages,
    read,
    tasks_in,
    written,
)
from tests.core.world import NO_FAILURE_SPEC, START, UID, a_role

#: What fits into one object of etcd, with room for the spec.
LIMIT = 1_300_000


def what_decides(task: TaskStatus) -> tuple[Any, ...]:
    """All of a task that anything depends on later."""
    attempt, end = task.attempt, task.attempt.completion
    return (
        task.index,
        task.state,
        task.retry,
        task.deletion_pending,
        task.incarnation,
        task.start_time,
        task.run_time,
        task.completion_time,
        task.transition_time,
        attempt.start_time,
        attempt.run_time,
        attempt.completion_time,
        end and (end.code, end.phrase, end.failed, end.attributes),
    )


@pytest.mark.parametrize("mix", MIXES)
def test_ten_thousand_tasks_fit_and_keep_all_that_decides(
    mix: Callable[[random.Random], list[TaskStatus]],
) -> None:
    status = a_status(mix(random.Random(7)))

    stored = written(status)

    assert len(orjson.dumps(stored)) < LIMIT
    assert list(map(what_decides, tasks_in(read(stored)))) == list(map(what_decides, tasks_in(status)))


def test_three_hundred_tasks_with_long_logs_fit_too() -> None:
    words = "\u0001" * 2000  # six bytes each as JSON
    failed = [
        replace(task, state=State.COMPLETED, attempt=TaskAttempt(START, completion=a_failure(1, words)))
        for task in all_running(random.Random())[:LISTED_IN_FULL]
    ]
    status = a_status(failed)

    stored = written(status)

    assert len(orjson.dumps(stored)) < LIMIT
    assert list(map(what_decides, tasks_in(read(stored)))) == list(map(what_decides, failed))


def test_tasks_with_nothing_to_tell_share_one_entry() -> None:
    status = a_status(all_running(random.Random()))

    (role,) = written(status)["attemptStatus"]["taskRoleStatuses"]

    assert role["taskStatuses"] == []
    assert role["foldedTasks"] == [
        {
            "indexes": "0-9999",
            "state": "AttemptRunning",
            "secondsAfterAttemptStart": {
                "startTime": 0,
                "runTime": 5,
                "transitionTime": 5,
                "attemptStartTime": 0,
                "attemptRunTime": 5,
            },
        }
    ]


def test_tasks_of_different_ends_in_one_entry_point_to_their_own() -> None:
    tasks = [
        replace(
            new_task(index, START),
            state=State.COMPLETED,
            message=f"message {index % 50}",
            attempt=TaskAttempt(
                START, completion=completion_for(-200 if index % 50 else -101, f"text {index % 50}")
            ),
        )
        for index in range(400)
    ]

    stored = written(a_status(tasks))

    (role,) = stored["attemptStatus"]["taskRoleStatuses"]
    (entry,) = role["foldedTasks"]
    assert role["foldedMessages"][entry["message"][123]] == "message 23"
    assert role["foldedCompletionStatuses"][entry["completionStatus"][123]]["diagnostics"] == "text 23"
    assert tasks_in(read(stored)) == tuple(tasks)


def test_the_task_that_ended_the_attempt_is_always_listed_in_full() -> None:
    tasks = half_failed_with_long_messages(random.Random())
    attempt = FrameworkAttempt(
        0, START, completion=a_failure(1, "x"), trigger=Trigger("the last straw", W, MANY - 2)
    )

    stored = written(a_status(tasks, attempt=attempt))

    (role,) = stored["attemptStatus"]["taskRoleStatuses"]
    assert role["taskStatuses"][-1]["index"] == MANY - 2
    assert tasks_in(read(stored))[-2] == tasks[-2]


# Reading back and planning on.


def a_pod(task: TaskStatus, phase: str, version: int, code: int = 0) -> ObservedPod:
    uid = task_uid(UID, 0, W, task.index, task.incarnation)
    of = TaskIdentity(F, W, task.index, 0, task.retry.total, uid)
    end = {"phase": phase, "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]}
    name = pod_name(F, W, task.index)
    ended = phase in ("Succeeded", "Failed")
    return ObservedPod(
        name,
        task.attempt.pod_uid or f"{name}-uid",
        version,
        UID,
        of,
        phase,
        START,
        end=end if ended else None,
    )


def test_planning_goes_on_the_same_after_a_large_status_was_stored() -> None:
    chance = random.Random(3)
    role = a_role("w", 600, ends=(300, -1), retry=(True, 2))
    framework = Framework(F, "default", UID, 1, FrameworkSpec((role,)))
    kept, stored = Planner(framework, NO_FAILURE_SPEC), Planner(framework, NO_FAILURE_SPEC)
    now = START

    for version in range(1, 40):
        now += chance.choice([0, 7, 61])
        news: list[ObservedPod] = []
        if version > 1:
            for task in chance.sample(tasks_in(kept.status()), 60):
                if task.state is not State.COMPLETED:
                    code = chance.choice([0, 0, 1, 200, 210])
                    phase = chance.choice(["Pending", "Running", "Failed" if code else "Succeeded"])
                    news.append(a_pod(task, phase, version, code))
        for planner in (kept, stored):
            for pod in news:
                planner.attempt_state.observe_pod(pod)
            looked = planner.plan(now)
            for action in looked.actions:
                if getattr(action, "uid", None):
                    planner.attempt_state.pod_deleted(action.name)  # type: ignore[union-attr]  # only a DeletePod has a uid
            planner.plan(now)
        assert [what_decides(t) for t in tasks_in(kept.status())] == [
            what_decides(t) for t in tasks_in(stored.status())
        ]
        pods = list(stored.attempt_state.pods.values())
        again = replace(framework, status=read(written(stored.status())))
        stored = Planner(again, NO_FAILURE_SPEC)
        for pod in pods:
            stored.attempt_state.observe_pod(pod)

    states = {task.state for task in tasks_in(kept.status())}
    assert {State.COMPLETED, State.RUNNING} <= states
    assert any(task.retry != NO_RETRIES for task in tasks_in(kept.status()))


def test_a_stored_status_cannot_name_more_tasks_than_there_may_be() -> None:
    entry = {
        "indexes": "0-9999",
        "state": "AttemptRunning",
        "secondsAfterAttemptStart": {"startTime": 0, "transitionTime": 0, "attemptStartTime": 0},
    }

    assert len(list(unfold({"foldedTasks": [entry]}, START))) == 10_000
    with pytest.raises(ValueError, match="10000 tasks at most"):
        list(unfold({"foldedTasks": [entry] * 50_000}, START))
