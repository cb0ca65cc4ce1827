"""Statuses with an entry for each task, as FrameworkController writes them."""

import random

import pytest

from launcher.core.serialization.status_json import listed_in_full, status_from_json
from launcher.core.status import new_task
from tests.core.builders import START, UID
from tests.core.statuses import F, a_status, half_failed_with_long_messages, parsed_status, stored_json


def test_a_small_status_is_returned_unchanged() -> None:
    status = stored_json(a_status([new_task(index, START) for index in range(3)]))

    assert listed_in_full(status, F, UID) is status


def test_folded_tasks_are_listed() -> None:
    folded = stored_json(a_status([new_task(index, START) for index in range(400)]))

    full = listed_in_full(folded, F, UID)

    (role,) = full["attemptStatus"]["taskRoleStatuses"]
    assert [task["index"] for task in role["taskStatuses"]] == list(range(400))
    assert role["taskStatuses"][399]["attemptStatus"]["podName"] == "f-w-399"
    assert "foldedTasks" not in role
    assert status_from_json(full) == parsed_status(folded)


def test_a_large_status_is_listed_without_a_size_limit() -> None:
    tasks = half_failed_with_long_messages(random.Random(7))
    folded = stored_json(a_status(tasks))

    (role,) = listed_in_full(folded, F, UID)["attemptStatus"]["taskRoleStatuses"]

    assert len(role["taskStatuses"]) == len(tasks) > 1000


def test_an_invalid_status_is_rejected() -> None:
    with pytest.raises(ValueError, match="not written by a launcher"):
        listed_in_full({"attemptStatus": {"taskRoleStatuses": [{"foldedTasks": []}]}}, F, UID)
