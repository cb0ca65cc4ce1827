"""Statuses as JSON: complete for small Frameworks; statuses of other controllers are rejected."""

import copy
import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.completion_codes import Attribute, Code, Completion, PodDetail, completion_for
from launcher.core.names import task_uid
from launcher.core.serialization.status_json import status_from_json, status_to_json
from launcher.core.spec import RoleName
from launcher.core.status import (
    Condition,
    FrameworkAttempt,
    FrameworkStatus,
    RetryStatus,
    RoleStatus,
    State,
    TaskAttempt,
    TaskStatus,
    Trigger,
    new_task,
)
from tests.core.builders import START, UID, a_role
from tests.core.manifests import paths_in, set_value
from tests.core.planning.harness import running_harness
from tests.core.statuses import F, W, a_status, half_failed_with_long_messages, parsed_status, stored_json
from tests.hypothesis_examples import examples

TASK_KEYS = {
    "index", "instanceUID", "startTime", "runTime", "completionTime", "state", "transitionTime", "deletionPending",
    "retryPolicyStatus", "attemptStatus",
}  # fmt: skip
TASK_ATTEMPT_KEYS = {
    "id", "startTime", "runTime", "completionTime", "instanceUID", "podName", "podUID", "podNodeName", "podIP",
    "podHostIP", "completionStatus",
}  # fmt: skip
RETRY_KEYS = {"totalRetriedCount", "accountableRetriedCount", "retryDelaySec"}


# Fields of the scale subresource.


@pytest.mark.parametrize("tasks", [0, 3, 400])
def test_a_framework_with_one_role_has_replicas_and_a_selector(tasks: int) -> None:
    status = stored_json(a_status([new_task(index, START) for index in range(tasks)]))

    assert status["replicas"] == tasks
    assert status["selector"] == "FC_FRAMEWORK_NAME=f,FC_TASKROLE_NAME=w"


def test_a_framework_with_several_roles_has_no_replicas() -> None:
    two = (RoleStatus(W, ()), RoleStatus(RoleName("ps"), ()))

    assert stored_json(a_status([], roles=two)).keys().isdisjoint({"replicas", "selector"})


# Small Frameworks.

texts = st.text(max_size=20)
times = st.integers(START, START + 10_000_000)
maybe_times = st.none() | times
completions = st.builds(
    Completion,
    code=st.integers(-1300, 300),
    phrase=texts,
    failed=st.booleans(),
    attributes=st.frozensets(st.sampled_from(Attribute)),
    diagnostics=texts,
    pod=st.none() | st.builds(PodDetail, reason=texts, message=texts),
)
retries = st.builds(
    RetryStatus, st.integers(0, 99), st.integers(0, 99), st.none() | st.integers(1, 900), st.integers(0, 99)
)
attempts = st.builds(
    TaskAttempt,
    start_time=times,
    run_time=maybe_times,
    completion_time=maybe_times,
    pod_uid=st.none() | texts,
    node=st.none() | texts,
    ip=st.none() | texts,
    host_ip=st.none() | texts,
    completion=st.none() | completions,
)
tasks = st.builds(
    TaskStatus,
    index=st.just(0),
    start_time=times,
    transition_time=times,
    attempt=attempts,
    state=st.sampled_from(State),
    run_time=maybe_times,
    completion_time=maybe_times,
    retry=retries,
    deletion_pending=st.booleans(),
    incarnation=st.integers(0, 3),
    message=texts,
)
roles = st.builds(
    RoleStatus,
    name=st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True).map(RoleName),
    tasks=st.lists(tasks, max_size=4).map(
        lambda each: tuple(replace(task, index=index) for index, task in enumerate(each))
    ),
    graceful_deletion_seconds=st.none() | st.integers(0, 900),
)
statuses = st.builds(
    FrameworkStatus,
    start_time=times,
    transition_time=times,
    attempt=st.builds(
        FrameworkAttempt,
        id=st.integers(0, 99),
        start_time=times,
        run_time=maybe_times,
        completion_time=maybe_times,
        completion=st.none() | completions,
        rescales=st.integers(0, 99),
    ),
    roles=st.lists(roles, max_size=3, unique_by=lambda role: role.name).map(tuple),
    state=st.sampled_from(State),
    run_time=maybe_times,
    completion_time=maybe_times,
    retry=retries,
    conditions=st.lists(st.builds(Condition, texts, st.booleans(), times, texts, texts), max_size=2).map(
        tuple
    ),
    observed_generation=st.integers(0, 99),
    message=texts,
)


@examples(200)
@given(statuses)
def test_a_small_status_is_read_back_exactly(status: FrameworkStatus) -> None:
    assert parsed_status(stored_json(status)) == status


def test_the_trigger_is_read_back() -> None:
    completion = completion_for(Code.SUCCEEDED, "well done")
    attempt = FrameworkAttempt(0, START, completion=completion, trigger=Trigger("two succeeded", W, 1))
    status = a_status([], attempt=attempt)

    stored = stored_json(status)

    assert stored["attemptStatus"]["completionStatus"]["trigger"] == {
        "message": "two succeeded",
        "taskRoleName": "w",
        "taskIndex": 1,
    }
    assert parsed_status(stored) == status


def test_no_status_is_none() -> None:
    assert status_from_json({}) is None


def test_a_new_status_has_every_key_of_the_reference() -> None:
    status = stored_json(a_status([new_task(0, START)]))

    attempt = status["attemptStatus"]
    (role,) = attempt["taskRoleStatuses"]
    (task,) = role["taskStatuses"]
    assert {
        "startTime",
        "runTime",
        "completionTime",
        "state",
        "transitionTime",
        "retryPolicyStatus",
    } <= status.keys()
    assert {"id", "startTime", "runTime", "completionTime", "instanceUID", "configMapName", "configMapUID",
            "completionStatus", "taskRoleStatuses"} <= attempt.keys()  # fmt: skip
    assert {"name", "instanceUID", "podGracefulDeletionTimeoutSec", "taskStatuses"} <= role.keys()
    assert task.keys() >= TASK_KEYS
    assert task["attemptStatus"].keys() >= TASK_ATTEMPT_KEYS
    assert status["retryPolicyStatus"].keys() >= RETRY_KEYS
    assert task["retryPolicyStatus"].keys() >= RETRY_KEYS


def test_a_running_task_has_its_node_and_address() -> None:
    harness = running_harness()

    (role,) = status_to_json(harness.status, F, UID)["attemptStatus"]["taskRoleStatuses"]
    (task,) = role["taskStatuses"]

    assert task["instanceUID"] == task_uid(UID, 0, W, 0, 0)
    attempt = task["attemptStatus"]
    assert (attempt["podName"], attempt["podUID"], attempt["instanceUID"]) == ("f-w-0", "pod-0", "0_pod-0")
    assert (attempt["podNodeName"], attempt["podIP"], attempt["podHostIP"]) == ("n1", "10.0.0.0", "192.0.2.1")


def test_task_counts_of_the_framework_and_of_each_role() -> None:
    harness = running_harness(a_role("a", 2, min_counts=(-1, -1)), a_role("b", 3))
    harness.succeed("a0")

    status = status_to_json(harness.status, F, UID)

    assert status["taskCounts"] == {"AttemptRunning": 4, "Completed": 1}
    roles = status["attemptStatus"]["taskRoleStatuses"]
    assert [role["taskCounts"] for role in roles] == [
        {"AttemptRunning": 1, "Completed": 1},
        {"AttemptRunning": 3},
    ]


# Statuses of other controllers.


@pytest.mark.parametrize(
    "status",
    [
        {"state": "Running"},
        {"state": 5, "attemptStatus": {}},
        {"attemptStatus": None},
        {"attemptStatus": []},
        {"attemptStatus": "x"},
    ],
)
def test_a_status_of_another_controller_is_a_value_error(status: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="status"):
        status_from_json(status)


any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 20_000) | st.sampled_from(["", "x", "0-99999999999", "5-1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


def a_large_stored_status() -> dict[str, Any]:
    tasks = half_failed_with_long_messages(random.Random(1), 301)
    return stored_json(a_status(tasks, conditions=(Condition("Running", True, START, "r"),)))


LARGE = a_large_stored_status()
PATHS = [path for path in paths_in(LARGE) if not any(isinstance(key, int) and key > 1 for key in path)]


@examples(300)
@given(st.sampled_from(PATHS), any_json)
def test_a_status_with_one_changed_value_is_parsed_or_is_a_value_error(
    path: tuple[Any, ...], value: Any
) -> None:
    stored = copy.deepcopy(LARGE)
    set_value(stored, path, value)

    with suppress(ValueError):
        status_from_json(stored)


def test_a_task_that_occurs_twice_is_rejected() -> None:
    stored = stored_json(a_status([new_task(0, START), new_task(1, START)]))
    (role,) = stored["attemptStatus"]["taskRoleStatuses"]
    role["taskStatuses"][1]["index"] = 0

    with pytest.raises(ValueError, match="every task once"):
        status_from_json(stored)
