"""The schema of the status describes all fields that the launcher writes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.core.completion_codes import Code, Completion, ContainerTermination, PodDetail, completion_for
from launcher.core.status import (
    Condition,
    FrameworkStatus,
    RetryStatus,
    State,
    TaskAttempt,
    Trigger,
    new_task,
)
from launcher.core.validation.schema import framework_schema, schema_errors
from launcher.core.validation.unknown_fields import unknown_fields, without_unknown
from tests.builders import a_framework
from tests.core.builders import START
from tests.core.statuses import a_status, stored_json


@pytest.mark.parametrize("many", [False, True], ids=["listed", "folded"])
def test_the_status_has_only_fields_that_are_described(many: bool) -> None:
    schema = framework_schema()["$defs"]["FrameworkStatus"]
    status = stored_json(a_full_status(tasks=400 if many else 3))

    undescribed = set(undescribed_fields(status, schema, ""))

    assert not undescribed
    assert many == ("foldedTasks" in status["attemptStatus"]["taskRoleStatuses"][0])
    assert list(Draft202012Validator(schema).iter_errors(status)) == []


def test_the_status_in_a_request_is_not_validated() -> None:
    obj = {**a_framework(), "status": {"state": 5, "more": [1]}}

    assert schema_errors(obj) == ()
    assert unknown_fields(obj) == ()
    assert without_unknown(obj) == obj


def a_full_status(tasks: int) -> FrameworkStatus:
    """A status in which every field has a value."""
    completion = a_completion()
    attempt = TaskAttempt(START, START, START, "uid", "node", "10.0.0.1", "10.0.0.2", completion)
    retry = RetryStatus(2, 1, 5, 1)
    completed_tasks = [
        replace(
            new_task(index, START),
            attempt=attempt,
            state=State.COMPLETED,
            retry=retry,
            incarnation=1,
            message="m",
        )
        for index in range(tasks - 1)
    ]
    status = a_status([*completed_tasks, new_task(tasks - 1, START)], retry=retry, message="m")
    full_attempt = replace(
        status.attempt, completion=completion, trigger=Trigger("t", status.roles[0].name, 0), rescales=1
    )
    return replace(status, attempt=full_attempt, conditions=(Condition("Started", True, START, "r", "m"),))


def a_completion() -> Completion:
    container = ContainerTermination("main", 137, "Error", "log", 9)
    return completion_for(
        Code.CONTAINER_PERMANENT, "what happened", PodDetail("Reason", "message", (container,))
    )


def undescribed_fields(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    """The fields of *value* that the schema does not describe."""
    if isinstance(value, list):
        for item in value:
            yield from undescribed_fields(item, schema["items"], path)
    elif isinstance(value, dict) and "properties" in schema:
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from undescribed_fields(inner, schema["properties"][name], f"{path}.{name}")
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name}"
