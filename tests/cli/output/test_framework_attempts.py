"""Attempts of Frameworks and tasks, and their pods."""

import argparse
from typing import Any

import pytest

from launcher.cli.output.framework_attempts import (
    AttemptNumber,
    TaskPod,
    attempt_number,
    current_attempt,
    own_records,
    task_pods,
)

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("text", "current", "framework_attempt", "task_attempt"),
    [
        pytest.param("2", 1, 1, 2, id="of a task if the Framework was never retried"),
        pytest.param("2", 3, 2, None, id="of the Framework if it was retried"),
        pytest.param("2.1", 3, 2, 1, id="of a task in an attempt of the Framework"),
        pytest.param("1.2", 1, 1, 2, id="of a task in the only attempt of the Framework"),
    ],
)
def test_a_number_selects_the_attempt(
    text: str, current: int, framework_attempt: int, task_attempt: int | None
) -> None:
    number = attempt_number(text)

    assert (number.framework_attempt(current), number.task_attempt(current)) == (
        framework_attempt,
        task_attempt,
    )


@pytest.mark.parametrize("text", ["", "0", "1.0", "-1", "1.", ".1", "1.2.3", "two", "٢"])
def test_what_is_no_attempt_is_an_error_that_names_the_command_to_list_them(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="launcher attempts"):
        attempt_number(text)


def test_the_pods_of_a_task_are_those_of_its_history_and_the_current_one() -> None:
    status = an_attempt_status(
        [
            {
                "index": 0,
                "retryPolicyStatus": {"totalRetriedCount": 3},
                "attemptHistory": [{"id": 1, "podUID": "b"}, {"id": 2}],
                "attemptStatus": {"podUID": "d"},
            }
        ]
    )

    assert task_pods(status) == {"worker-0": [TaskPod(2, "b"), TaskPod(3, ""), TaskPod(4, "d")]}


def test_folded_tasks_of_a_record_have_the_uids_of_their_pods() -> None:
    status = an_attempt_status([])
    folded = {"indexes": "0-1", "state": "Completed", "podUID": ["a", "b"]}
    status["taskRoleStatuses"][0]["foldedTasks"] = [folded]

    assert task_pods(status) == {"worker-0": [TaskPod(1, "a")], "worker-1": [TaskPod(1, "b")]}


def test_records_of_another_framework_of_the_same_name_are_left_out() -> None:
    framework: Json = {"metadata": {"name": "mnist", "uid": "new"}, "status": {"attemptStatus": {"id": 2}}}

    records = own_records(framework, [a_record(2, "new"), a_record(1, "new"), a_record(3, "old")])

    assert [record["attempt"] for record in records] == [1, 2]
    assert current_attempt(framework) == 3


def test_a_number_is_printed_as_it_was_written() -> None:
    assert (str(AttemptNumber(2)), str(AttemptNumber(1, 2))) == ("2", "1.2")


def an_attempt_status(tasks: list[Json]) -> Json:
    return {
        "startTime": "2026-01-01T00:00:00Z",
        "taskRoleStatuses": [{"name": "worker", "taskStatuses": tasks}],
    }


def a_record(number: int, uid: str) -> Json:
    return {"metadata": {"ownerReferences": [{"uid": uid}]}, "attempt": number}
