"""Large statuses as JSON: folded, limited in size, and complete in all fields that planning uses."""

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
from tests.core.builders import START, UID, a_role
from tests.core.planning.harness import NO_FAILURE_SPEC
from tests.core.statuses import (
    MANY,
    MIXES,
    F,
    W,
    a_failure,
    a_status,
    all_running,
    half_failed_with_long_messages,
    parsed_status,
    stored_json,
    tasks_in,
)

#: The size of one object in etcd, minus space for the spec.
MAX_BYTES = 1_300_000


def planning_fields(task: TaskStatus) -> tuple[Any, ...]:
    """The fields of a task that planning uses."""
    attempt, completion = task.attempt, task.attempt.completion
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
        completion and (completion.code, completion.phrase, completion.failed, completion.attributes),
    )


@pytest.mark.parametrize("mix", MIXES)
def test_ten_thousand_tasks_fit_and_keep_the_fields_that_planning_uses(
    mix: Callable[[random.Random], list[TaskStatus]],
) -> None:
    status = a_status(mix(random.Random(7)))

    stored = stored_json(status)

    assert len(orjson.dumps(stored)) < MAX_BYTES
    assert list(map(planning_fields, tasks_in(parsed_status(stored)))) == list(
        map(planning_fields, tasks_in(status))
    )


def test_three_hundred_tasks_with_long_messages_fit() -> None:
    message = "\u0001" * 2000  # six bytes each as JSON
    failed = [
        replace(task, state=State.COMPLETED, attempt=TaskAttempt(START, completion=a_failure(1, message)))
        for task in all_running(random.Random(), LISTED_IN_FULL)
    ]
    status = a_status(failed)

    stored = stored_json(status)

    assert len(orjson.dumps(stored)) < MAX_BYTES
    assert list(map(planning_fields, tasks_in(parsed_status(stored)))) == list(map(planning_fields, failed))


def test_tasks_without_messages_share_one_entry() -> None:
    status = a_status(all_running(random.Random()))

    (role,) = stored_json(status)["attemptStatus"]["taskRoleStatuses"]

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


def test_an_entry_of_tasks_with_different_completions_refers_to_the_completion_of_each() -> None:
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

    stored = stored_json(a_status(tasks))

    (role,) = stored["attemptStatus"]["taskRoleStatuses"]
    (entry,) = role["foldedTasks"]
    assert role["foldedMessages"][entry["message"][123]] == "message 23"
    assert role["foldedCompletionStatuses"][entry["completionStatus"][123]]["diagnostics"] == "text 23"
    assert tasks_in(parsed_status(stored)) == tuple(tasks)


def test_the_task_that_completed_the_attempt_is_always_listed_in_full() -> None:
    tasks = half_failed_with_long_messages(random.Random())
    attempt = FrameworkAttempt(
        0, START, completion=a_failure(1, "x"), trigger=Trigger("message", W, MANY - 2)
    )

    stored = stored_json(a_status(tasks, attempt=attempt))

    (role,) = stored["attemptStatus"]["taskRoleStatuses"]
    assert role["taskStatuses"][-1]["index"] == MANY - 2
    assert tasks_in(parsed_status(stored))[-2] == tasks[-2]


# Planning with a status that was read back.


def an_observed_pod(task: TaskStatus, phase: str, version: int, code: int = 0) -> ObservedPod:
    uid = task_uid(UID, 0, W, task.index, task.incarnation)
    identity = TaskIdentity(F, W, task.index, 0, task.retry.total, uid)
    terminal_status = {
        "phase": phase,
        "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}],
    }
    name = pod_name(F, W, task.index)
    is_terminal = phase in ("Succeeded", "Failed")
    return ObservedPod(
        name,
        task.attempt.pod_uid or f"{name}-uid",
        version,
        UID,
        identity,
        phase,
        START,
        terminal_status=terminal_status if is_terminal else None,
    )


def test_planning_continues_unchanged_after_a_large_status_was_stored() -> None:
    rng = random.Random(3)
    role = a_role("w", 600, min_counts=(300, -1), retry=(True, 2))
    framework = Framework(F, "default", UID, 1, FrameworkSpec((role,)))
    kept, stored = Planner(framework, NO_FAILURE_SPEC), Planner(framework, NO_FAILURE_SPEC)
    now = START

    for version in range(1, 40):
        now += rng.choice([0, 7, 61])
        changed_pods: list[ObservedPod] = []
        if version > 1:
            for task in rng.sample(tasks_in(kept.status()), 60):
                if task.state is not State.COMPLETED:
                    code = rng.choice([0, 0, 1, 200, 210])
                    phase = rng.choice(["Pending", "Running", "Failed" if code else "Succeeded"])
                    changed_pods.append(an_observed_pod(task, phase, version, code))
        for planner in (kept, stored):
            for pod in changed_pods:
                planner.observe_pod(pod)
            result = planner.plan(now)
            for action in result.actions:
                if getattr(action, "uid", None):
                    planner.pod_deleted(action.name)  # type: ignore[union-attr]  # only a DeletePod has a uid
            planner.plan(now)
        assert [planning_fields(t) for t in tasks_in(kept.status())] == [
            planning_fields(t) for t in tasks_in(stored.status())
        ]
        pods = list(stored.pods.values())
        restored = replace(framework, status=parsed_status(stored_json(stored.status())))
        stored = Planner(restored, NO_FAILURE_SPEC)
        for pod in pods:
            stored.observe_pod(pod)

    states = {task.state for task in tasks_in(kept.status())}
    assert {State.COMPLETED, State.RUNNING} <= states
    assert any(task.retry != NO_RETRIES for task in tasks_in(kept.status()))


def test_a_folded_status_has_at_most_the_maximum_number_of_tasks() -> None:
    entry = {
        "indexes": "0-9999",
        "state": "AttemptRunning",
        "secondsAfterAttemptStart": {"startTime": 0, "transitionTime": 0, "attemptStartTime": 0},
    }

    assert len(list(unfold({"foldedTasks": [entry]}, START))) == 10_000
    with pytest.raises(ValueError, match="more than 10000 tasks"):
        list(unfold({"foldedTasks": [entry] * 50_000}, START))
