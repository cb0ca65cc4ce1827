"""Statuses with an entry for each task, as FrameworkController's users know them."""

import random

import pytest

from launcher.core.serialization.status_json import listed_in_full, status_from_json
from launcher.core.status import new_task
from tests.core.statuses import F, a_status, half_failed_with_long_messages, read, written
from tests.core.world import START, UID


def test_a_small_status_is_in_full_already() -> None:
    status = written(a_status([new_task(index, START) for index in range(3)]))

    assert listed_in_full(status, F, UID) is status


def test_folded_tasks_get_their_entries_back() -> None:
    folded = written(a_status([new_task(index, START) for index in range(400)]))

    full = listed_in_full(folded, F, UID)

    (role,) = full["attemptStatus"]["taskRoleStatuses"]
    assert [task["index"] for task in role["taskStatuses"]] == list(range(400))
    assert role["taskStatuses"][399]["attemptStatus"]["podName"] == "f-w-399"
    assert "foldedTasks" not in role
    assert status_from_json(full) == read(folded)


def test_whatever_room_that_takes() -> None:
    tasks = half_failed_with_long_messages(random.Random(7))
    folded = written(a_status(tasks))

    (role,) = listed_in_full(folded, F, UID)["attemptStatus"]["taskRoleStatuses"]

    assert len(role["taskStatuses"]) == len(tasks) > 1000


def test_what_is_no_status_of_ours_is_refused() -> None:
    with pytest.raises(ValueError, match="not written by a launcher"):
        listed_in_full({"attemptStatus": {"taskRoleStatuses": [{"foldedTasks": []}]}}, F, UID)
