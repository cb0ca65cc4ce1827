"""The status that users read about is the one that the launcher writes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from launcher.core.completion_codes import Code, Completion, ContainerDetail, PodDetail, completion_for
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
from tests.core.manifests import a_framework
from tests.core.statuses import a_status, written
from tests.core.world import START


@pytest.mark.parametrize("many", [False, True], ids=["listed", "folded"])
def test_the_status_has_only_fields_that_are_described(many: bool) -> None:
    schema = framework_schema()["$defs"]["FrameworkStatus"]
    status = written(a_telling_status(tasks=400 if many else 3))

    undescribed = set(unknown_in(status, schema, ""))

    assert not undescribed
    assert many == ("foldedTasks" in status["attemptStatus"]["taskRoleStatuses"][0])
    assert list(Draft202012Validator(schema).iter_errors(status)) == []


def test_nobody_is_held_to_the_shape_of_a_status() -> None:
    obj = {**a_framework(), "status": {"state": 5, "more": [1]}}

    assert schema_errors(obj) == ()
    assert unknown_fields(obj) == ()
    assert without_unknown(obj) == obj


def a_telling_status(tasks: int) -> FrameworkStatus:
    """One in which every field has something to tell."""
    end = an_end()
    attempt = TaskAttempt(START, START, START, "uid", "node", "10.0.0.1", "10.0.0.2", end)
    retry = RetryStatus(2, 1, 5, 1)
    told = [
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
    status = a_status([*told, new_task(tasks - 1, START)], retry=retry, message="m")
    whole = replace(status.attempt, completion=end, trigger=Trigger("t", status.roles[0].name, 0), rescales=1)
    return replace(status, attempt=whole, conditions=(Condition("Started", True, START, "r", "m"),))


def an_end() -> Completion:
    container = ContainerDetail("main", 137, "Error", "log", 9)
    return completion_for(
        Code.CONTAINER_PERMANENT, "what happened", PodDetail("Reason", "message", (container,))
    )


def unknown_in(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    """Each field of the value that the schema does not name."""
    if isinstance(value, list):
        for item in value:
            yield from unknown_in(item, schema["items"], path)
    elif isinstance(value, dict) and "properties" in schema:
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from unknown_in(inner, schema["properties"][name], f"{path}.{name}")
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name}"
