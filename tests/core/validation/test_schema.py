"""The published schema is generated, complete, and consistent with parsing and serialization."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from launcher.core.failures.spec_parser import role_rules
from launcher.core.serialization.spec_json import spec_from_json, spec_to_json
from launcher.core.validation.schema import (
    core_schema,
    detailed_schema_errors,
    framework_schema,
    schema_errors,
)
from schemas.generate import core_schema as generated_core
from schemas.generate import framework_schema as generated
from schemas.generate.pod_descriptions import DESCRIPTIONS, UNDESCRIBED
from tests.core.manifests import full_framework, json_values, paths_in, set_value
from tests.hypothesis_examples import examples

#: Keywords that the validators enforce and ``schema`` can explain.
EXPLAINED = {
    "type", "enum", "required", "minimum", "maximum", "pattern", "properties", "items", "additionalProperties", "$ref",
}  # fmt: skip
#: Keywords for readers and editors.
NOTES = {"description", "default", "examples", "title", "x-must", "x-kubernetes-preserve-unknown-fields"}


def test_the_schema_is_what_its_generator_writes() -> None:
    assert generated.SCHEMA_FILE.read_text() == generated.schema_text(), "run: make schema"


def test_the_schema_of_the_core_kinds_is_what_its_generator_writes() -> None:
    assert generated_core.SCHEMA_FILE.read_text() == generated_core.schema_text(), "run: make schema"


def test_every_keyword_of_the_schema_of_core_kinds_can_be_explained() -> None:
    Draft202012Validator.check_schema(core_schema())

    used = {
        keyword
        for definition in core_schema()["$defs"].values()
        for part in schema_parts(definition)
        for keyword in part
    }

    assert used - NOTES <= EXPLAINED


def test_the_schema_is_a_valid_json_schema() -> None:
    Draft202012Validator.check_schema(framework_schema())


def test_every_keyword_of_the_schema_can_be_explained() -> None:
    used = {keyword for part in schema_parts(framework_schema()) for keyword in part}

    assert used - NOTES - {"$schema", "$defs"} == EXPLAINED


def test_every_pattern_has_a_message() -> None:
    without_message = [
        part for part in schema_parts(framework_schema()) if "pattern" in part and "x-must" not in part
    ]

    assert without_message == []


def test_every_field_of_a_framework_is_described() -> None:
    spec = framework_schema()["properties"]["spec"]

    undescribed = [path for path, part in fields_of_schema(spec) if "description" not in part]

    assert undescribed == []


def test_every_field_of_a_pod_is_described() -> None:
    definitions = framework_schema()["$defs"]

    undescribed = [
        f"{name}.{field}"
        for name, definition in definitions.items()
        if name not in UNDESCRIBED
        for field, part in definition.get("properties", {}).items()
        if "description" not in part
    ]
    assert undescribed == []
    assert set(DESCRIPTIONS) | UNDESCRIBED | {"FieldsV1", "FrameworkAttempt", "FrameworkStatus"} == set(
        definitions
    )


def test_parsing_reads_exactly_the_fields_of_the_schema() -> None:
    read: set[str] = set()

    spec = spec_from_json(RecordingSpec(full_framework()["spec"], "", read))
    for role in spec.roles:
        role_rules(role.pod_failure_spec)

    assert read == {path for path, _ in fields_of_schema(framework_schema()["properties"]["spec"])}


def test_serialization_writes_exactly_the_fields_of_the_schema() -> None:
    written = spec_to_json(spec_from_json(full_framework()["spec"]))

    names = {".".join(step for step in path if isinstance(step, str)) for path in paths_in(written)}
    ours = {name for name in names if not name.startswith(("taskRoles.task.pod.", "discovery.ports."))}
    # When parsed, it is the number of tasks of the only role.
    ours.add("replicas")
    assert ours == {path for path, _ in fields_of_schema(framework_schema()["properties"]["spec"])}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param(
            ("spec", "taskRoles", 1, "task", "pod", "spec", "containers", 0, "ports"),
            [{"containerPort": "80"}],
            "spec.taskRoles[1].task.pod.spec.containers[0].ports[0].containerPort: "
            'Invalid value: "string": must be of type integer',
            id="a wrong type deep inside a pod",
        ),
        pytest.param(
            ("spec", "taskRoles", 0, "taskNumber"),
            10001,
            "spec.taskRoles[0].taskNumber: Invalid value: 10001: must be at most 10000",
            id="above the maximum",
        ),
        pytest.param(
            ("spec", "retryPolicy", "maxRetryCount"),
            -3,
            "spec.retryPolicy.maxRetryCount: Invalid value: -3: must be at least -2",
            id="below the minimum",
        ),
        pytest.param(
            ("spec", "executionType"),
            "start",
            'spec.executionType: Unsupported value: "start": supported values: "Create", "Start", "Stop"; '
            'did you mean "Start"?',
            id="a misspelled value of an enumeration",
        ),
        pytest.param(
            ("metadata", "name"),
            "mnist\n",
            'metadata.name: Invalid value: "mnist\\n": must be 1 to 63 lower-case letters, digits and hyphens, '
            "with no hyphen at either end",
            id="a name with a line break at its end",
        ),
        pytest.param(
            ("spec", "taskRoles", 0, "task", "pod", "spec", "hostNetwork"),
            "yes",
            'spec.taskRoles[0].task.pod.spec.hostNetwork: Invalid value: "string": '
            "must be of type boolean: write true",
            id="a boolean of YAML 1.1",
        ),
        pytest.param(
            ("spec", "taskRoles", 0, "task", "pod", "spec", "containers", 0, "env"),
            [{"name": "N", "value": 3}],
            'spec.taskRoles[0].task.pod.spec.containers[0].env[0].value: Invalid value: "integer": '
            "must be of type string: put it in quotes",
            id="a number that should be text",
        ),
        pytest.param(
            ("spec", "discovery", "ports", "ps"),
            "any",
            'spec.discovery.ports.ps: Invalid value: "any": must be a port number or "auto"',
            id="neither a port nor auto",
        ),
        pytest.param(
            ("spec", "taskRoles", 0, "name"),
            None,
            "spec.taskRoles[0].name: Required value",
            id="null is absent",
        ),
        pytest.param(("metadata",), None, "metadata: Required value", id="no metadata"),
    ],
)
def test_an_error_has_field_value_and_rule(path: tuple[str | int, ...], value: Any, message: str) -> None:
    obj = full_framework()
    set_value(obj, path, value)

    problems = schema_errors(obj)

    assert [str(problem) for problem in problems] == [message]


def test_all_errors_are_reported_at_once() -> None:
    obj = full_framework()
    del obj["spec"]["taskRoles"][0]["name"]
    obj["spec"]["cleanPodPolicy"] = 1
    obj["spec"]["taskRoles"][1]["task"]["pod"]["spec"]["volumes"][1]["nfs"] = {}

    fields = {problem.field for problem in schema_errors(obj)}

    assert fields == {
        "spec.taskRoles[0].name",
        "spec.cleanPodPolicy",
        "spec.taskRoles[1].task.pod.spec.volumes[1].nfs.server",
        "spec.taskRoles[1].task.pod.spec.volumes[1].nfs.path",
    }


def test_null_means_absent_for_every_optional_field() -> None:
    obj = full_framework()
    for path in (("spec", "retryPolicy"), ("spec", "gang", "minTasks"), ("spec", "roleSequence")):
        set_value(obj, path, None)
    set_value(obj, ("spec", "taskRoles", 1, "task", "pod", "spec", "nodeSelector"), None)

    assert schema_errors(obj) == ()


@examples(300)
@given(data=st.data())
def test_both_validators_agree(data: st.DataObject) -> None:
    obj = deepcopy(full_framework())
    for _ in range(data.draw(st.integers(1, 3))):
        set_value(obj, data.draw(st.sampled_from(list(paths_in(obj)))), data.draw(json_values))

    fast = jsonschema_rs.Draft202012Validator(framework_schema()).is_valid(obj)

    assert fast == (detailed_schema_errors(obj) == ())


class RecordingSpec(dict[str, Any]):
    """A spec that records which of its fields are read, except those of pod templates."""

    def __init__(self, fields: dict[str, Any], path: str, read: set[str]) -> None:
        super().__init__(fields)
        self._path, self._read = path, read

    def get(self, name: str, default: Any = None) -> Any:
        path = f"{self._path}.{name}".removeprefix(".")
        self._read.add(path)
        value = super().get(name, default)
        if isinstance(value, list):
            return [
                RecordingSpec(item, path, self._read) if isinstance(item, dict) else item for item in value
            ]
        inside = isinstance(value, dict) and not path.endswith((".pod", ".ports"))
        return RecordingSpec(value, path, self._read) if inside else value

    def __getitem__(self, name: str) -> Any:
        return self.get(name)


def fields_of_schema(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The path of each field in *schema* with its schema, without shared definitions."""
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}".removeprefix("."), part
        yield from fields_of_schema(part.get("items", part), f"{path}.{name}".removeprefix("."))


def schema_parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema and every schema inside it."""
    yield schema
    for group in ("properties", "$defs"):
        for part in schema.get(group, {}).values():
            yield from schema_parts(part)
    for single in ("items", "additionalProperties"):
        if single in schema:
            yield from schema_parts(schema[single])
