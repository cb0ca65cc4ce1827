"""Builders of statuses: of given tasks, and of ten thousand tasks of several kinds."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from launcher.core.completion_codes import Code, Completion, ContainerTermination, PodDetail, completion_for
from launcher.core.names import task_uid
from launcher.core.serialization.status_json import status_from_json, status_to_json
from launcher.core.spec import FrameworkName, RoleName
from launcher.core.status import (
    FrameworkAttempt,
    FrameworkStatus,
    RetryStatus,
    RoleStatus,
    State,
    TaskAttempt,
    TaskStatus,
    new_task,
)
from tests.core.builders import START, UID

F, W = FrameworkName("f"), RoleName("w")
MANY = 10_000


def a_status(tasks: list[TaskStatus], **members: Any) -> FrameworkStatus:
    """The status of a running Framework with one role of these tasks."""
    attempt = FrameworkAttempt(0, START, START)
    status = FrameworkStatus(START, START, attempt, (RoleStatus(W, tuple(tasks)),), State.RUNNING, START)
    return replace(status, **members)


def stored_json(status: FrameworkStatus) -> dict[str, Any]:
    """The status as JSON, as it is read from a store."""
    stored: dict[str, Any] = orjson.loads(orjson.dumps(status_to_json(status, F, UID)))
    return stored


def parsed_status(stored: dict[str, Any]) -> FrameworkStatus:
    status = status_from_json(stored)
    assert status is not None
    return status


def tasks_in(status: FrameworkStatus) -> tuple[TaskStatus, ...]:
    return status.roles[0].tasks


def all_running(_: random.Random, count: int = MANY) -> list[TaskStatus]:
    return [
        replace(
            new_task(index, START),
            state=State.RUNNING,
            run_time=START + 5,
            transition_time=START + 5,
            attempt=TaskAttempt(
                START,
                START + 5,
                pod_uid=task_uid(UID, 0, W, index, 0),
                node=f"node-{index % 500}.example",
                ip=f"10.{index // 250}.{index % 250}.7",
                host_ip=f"192.0.2.{index % 250}",
            ),
        )
        for index in range(count)
    ]


def all_succeeded(rng: random.Random) -> list[TaskStatus]:
    completion = completion_for(
        Code.SUCCEEDED, "Pod succeeded", PodDetail(containers=(ContainerTermination("c"),))
    )
    tasks = []
    for task in all_running(rng):
        run_time, completion_time = (
            START + rng.randrange(10**6, 2 * 10**6),
            START + rng.randrange(2 * 10**6, 9 * 10**6),
        )
        attempt = replace(
            task.attempt, run_time=run_time, completion_time=completion_time, completion=completion
        )
        tasks.append(
            replace(
                task,
                state=State.COMPLETED,
                run_time=run_time,
                completion_time=completion_time,
                transition_time=completion_time,
                attempt=attempt,
            )
        )
    return tasks


def a_failure(code: int, message: str) -> Completion:
    pod = PodDetail(containers=(ContainerTermination("c", code, "Error", message),))
    return Completion(code, "ContainerUnrecognizedFailed", True, frozenset(), f"Pod failed: {message}", pod)


def half_failed_with_long_messages(rng: random.Random, count: int = MANY) -> list[TaskStatus]:
    tasks = all_running(rng, count)
    for index in range(0, count, 2):
        message = f"{index} " + "x" * 2040
        attempt = replace(
            tasks[index].attempt,
            completion_time=START + 9 * index,
            completion=a_failure(index % 255 + 1, message),
        )
        tasks[index] = replace(
            tasks[index],
            state=State.COMPLETED,
            completion_time=START + 9 * index,
            retry=RetryStatus(index % 7, index % 5, None, index % 4),
            attempt=attempt,
            message=f"Container c exited with code {index % 255 + 1}. Not retried: no retries left ({index % 7} used).",
        )
    return tasks


def all_with_different_messages(rng: random.Random) -> list[TaskStatus]:
    messages = ["rejected by the admission webhook: " + "é" * 1000 + str(index) for index in range(MANY)]
    return [
        replace(
            task,
            state=State.COMPLETED,
            message=text,
            attempt=TaskAttempt(START, completion=completion_for(Code.POD_CREATION_UNKNOWN_ERROR, text)),
        )
        for task, text in zip(all_running(rng), messages, strict=True)
    ]


def random_tasks(rng: random.Random) -> list[TaskStatus]:
    """Tasks with random states."""
    tasks = []
    for index in range(MANY):
        times = [START + rng.randrange(9 * 10**6) for _ in range(7)]
        completion = rng.choice(
            [
                None,
                completion_for(rng.choice([0, -101, -112, -200, -220, -230]), "diagnostics"),
                a_failure(rng.randrange(1, 256), f"{index} " + "y" * rng.randrange(500)),
            ]
        )
        attempt = TaskAttempt(
            times[0],
            rng.choice([None, times[1]]),
            None if completion is None else times[2],
            pod_uid=rng.choice([None, task_uid(UID, 0, W, index, 0)]),
            completion=completion,
        )
        tasks.append(
            TaskStatus(
                index,
                times[3],
                times[4],
                attempt,
                rng.choice(list(State)),
                rng.choice([None, times[5]]),
                rng.choice([None, times[6]]),
                RetryStatus(
                    rng.randrange(9),
                    rng.randrange(9),
                    rng.choice([None, 10, 300]),
                    rng.randrange(9),
                ),
                rng.random() < 0.1,
                rng.choice([0, index]),
                f"Retrying after {rng.randrange(300)}s: attempt {rng.randrange(9)} of 9.",
            )
        )
    return tasks


MIXES: list[Callable[[random.Random], list[TaskStatus]]] = [
    all_running,
    all_succeeded,
    half_failed_with_long_messages,
    all_with_different_messages,
    random_tasks,
]
