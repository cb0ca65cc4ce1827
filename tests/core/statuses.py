"""Statuses for tests: small ones by hand, and large ones of every kind that takes room."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson

from launcher.core.completion_codes import Code, Completion, ContainerDetail, PodDetail, completion_for
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
from tests.core.world import START, UID

F, W = FrameworkName("f"), RoleName("w")
MANY = 10_000


def a_status(tasks: list[TaskStatus], **members: Any) -> FrameworkStatus:
    """A Framework of one role that runs these tasks."""
    attempt = FrameworkAttempt(0, START, START)
    status = FrameworkStatus(START, START, attempt, (RoleStatus(W, tuple(tasks)),), State.RUNNING, START)
    return replace(status, **members)


def written(status: FrameworkStatus) -> dict[str, Any]:
    """The status as a store gives it back."""
    stored: dict[str, Any] = orjson.loads(orjson.dumps(status_to_json(status, F, UID)))
    return stored


def read(stored: dict[str, Any]) -> FrameworkStatus:
    status = status_from_json(stored)
    assert status is not None
    return status


def tasks_in(status: FrameworkStatus) -> tuple[TaskStatus, ...]:
    return status.roles[0].tasks


def all_running(_: random.Random) -> list[TaskStatus]:
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
        for index in range(MANY)
    ]


def all_succeeded(chance: random.Random) -> list[TaskStatus]:
    end = completion_for(Code.SUCCEEDED, "Pod succeeded", PodDetail(containers=(ContainerDetail("c"),)))
    made = []
    for task in all_running(chance):
        ran, ended = (
            START + chance.randrange(10**6, 2 * 10**6),
            START + chance.randrange(2 * 10**6, 9 * 10**6),
        )
        attempt = replace(task.attempt, run_time=ran, completion_time=ended, completion=end)
        made.append(
            replace(
                task,
                state=State.COMPLETED,
                run_time=ran,
                completion_time=ended,
                transition_time=ended,
                attempt=attempt,
            )
        )
    return made


def a_failure(code: int, words: str) -> Completion:
    pod = PodDetail(containers=(ContainerDetail("c", code, "Error", words),))
    return Completion(code, "ContainerUnrecognizedFailed", True, frozenset(), f"Pod failed: {words}", pod)


def half_failed_with_long_messages(chance: random.Random) -> list[TaskStatus]:
    made = all_running(chance)
    for index in range(0, MANY, 2):
        words = f"{index} " + "x" * 2040
        attempt = replace(
            made[index].attempt,
            completion_time=START + 9 * index,
            completion=a_failure(index % 255 + 1, words),
        )
        made[index] = replace(
            made[index],
            state=State.COMPLETED,
            completion_time=START + 9 * index,
            retry=RetryStatus(index % 7, index % 5, None, index % 4),
            attempt=attempt,
            message=f"ContainerUnrecognizedFailed ({index % 255 + 1}); not tried again: all {index % 7} used up",
        )
    return made


def a_different_text_each(chance: random.Random) -> list[TaskStatus]:
    words = ["turned down by the admission webhook: " + "é" * 1000 + str(index) for index in range(MANY)]
    return [
        replace(
            task,
            state=State.COMPLETED,
            message=text,
            attempt=TaskAttempt(START, completion=completion_for(Code.POD_CREATION_UNKNOWN_ERROR, text)),
        )
        for task, text in zip(all_running(chance), words, strict=True)
    ]


def anything(chance: random.Random) -> list[TaskStatus]:
    """Tasks of which nobody would expect anything in common."""
    made = []
    for index in range(MANY):
        moments = [START + chance.randrange(9 * 10**6) for _ in range(7)]
        end = chance.choice(
            [
                None,
                completion_for(chance.choice([0, -101, -112, -200, -220, -230]), "because"),
                a_failure(chance.randrange(1, 256), f"{index} " + "y" * chance.randrange(500)),
            ]
        )
        attempt = TaskAttempt(
            moments[0],
            chance.choice([None, moments[1]]),
            None if end is None else moments[2],
            pod_uid=chance.choice([None, task_uid(UID, 0, W, index, 0)]),
            completion=end,
        )
        made.append(
            TaskStatus(
                index,
                moments[3],
                moments[4],
                attempt,
                chance.choice(list(State)),
                chance.choice([None, moments[5]]),
                chance.choice([None, moments[6]]),
                RetryStatus(
                    chance.randrange(9),
                    chance.randrange(9),
                    chance.choice([None, 10, 300]),
                    chance.randrange(9),
                ),
                chance.random() < 0.1,
                chance.choice([0, index]),
                f"tried again in {chance.randrange(300)} s: retry {chance.randrange(9)} of 9",
            )
        )
    return made


MIXES: list[Callable[[random.Random], list[TaskStatus]]] = [
    all_running,
    all_succeeded,
    half_failed_with_long_messages,
    a_different_text_each,
    anything,
]
