"""The schema that users validate against is the one that the launcher goes by."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from launcher.core.serialization.spec_json import spec_from_json, spec_to_json
from launcher.core.validation.schema import (
    core_schema,
    detailed_schema_errors,
    framework_schema,
    schema_errors,
)
from tests.core import make_core_schema
from tests.core.make_schema import SCHEMA_FILE, schema_text
from tests.core.manifests import full_framework, json_values, places_in, put
from tests.core.pod_words import PRODUCTS, WORDS

#: What the validators are asked to enforce, and ``schema`` knows how to explain.
EXPLAINED = {
    "type", "enum", "required", "minimum", "maximum", "pattern", "properties", "items", "additionalProperties", "$ref",
}  # fmt: skip
#: What is there for readers and editors.
NOTES = {"description", "default", "examples", "title", "x-must", "x-kubernetes-preserve-unknown-fields"}


def test_the_schema_is_what_its_generator_writes() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "run: python -m tests.core.make_schema"


def test_the_schema_of_the_core_kinds_is_what_its_generator_writes() -> None:
    assert make_core_schema.SCHEMA_FILE.read_text() == make_core_schema.schema_text(), "run: make schema"


def test_the_schema_of_the_core_kinds_uses_no_rule_that_could_not_be_explained() -> None:
    Draft202012Validator.check_schema(core_schema())

    used = {
        keyword
        for definition in core_schema()["$defs"].values()
        for part in schema_parts(definition)
        for keyword in part
    }

    assert used - NOTES <= EXPLAINED


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(framework_schema())


def test_the_schema_uses_no_rule_that_could_not_be_explained() -> None:
    used = {keyword for part in schema_parts(framework_schema()) for keyword in part}

    assert used - NOTES - {"$schema", "$defs"} == EXPLAINED


def test_every_pattern_says_in_words_what_it_wants() -> None:
    silent = [part for part in schema_parts(framework_schema()) if "pattern" in part and "x-must" not in part]

    assert silent == []


def test_every_field_of_ours_is_described() -> None:
    spec = framework_schema()["properties"]["spec"]

    bare = [path for path, part in our_fields(spec) if "description" not in part]

    assert bare == []


def test_every_field_of_a_pod_is_described() -> None:
    definitions = framework_schema()["$defs"]

    bare = [
        f"{name}.{field}"
        for name, definition in definitions.items()
        if name not in PRODUCTS
        for field, part in definition.get("properties", {}).items()
        if "description" not in part
    ]
    assert bare == []
    assert set(WORDS) | PRODUCTS | {"FieldsV1", "FrameworkStatus"} == set(definitions)


def test_wire_reads_exactly_the_fields_of_the_schema() -> None:
    read: set[str] = set()

    spec_from_json(Recorder(full_framework()["spec"], "", read))

    assert read == {path for path, _ in our_fields(framework_schema()["properties"]["spec"])}


def test_wire_writes_exactly_the_fields_of_the_schema() -> None:
    written = spec_to_json(spec_from_json(full_framework()["spec"]))

    names = {".".join(step for step in path if isinstance(step, str)) for path in places_in(written)}
    ours = {name for name in names if not name.startswith(("taskRoles.task.pod.", "discovery.ports."))}
    # Once read, it is the number of tasks of the role that it is about.
    ours.add("replicas")
    assert ours == {path for path, _ in our_fields(framework_schema()["properties"]["spec"])}


@pytest.mark.parametrize(
    ("path", "value", "told"),
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
            id="more than the most",
        ),
        pytest.param(
            ("spec", "retryPolicy", "maxRetryCount"),
            -3,
            "spec.retryPolicy.maxRetryCount: Invalid value: -3: must be at least -2",
            id="less than the least",
        ),
        pytest.param(
            ("spec", "executionType"),
            "start",
            'spec.executionType: Unsupported value: "start": supported values: "Create", "Start", "Stop"; '
            'did you mean "Start"?',
            id="a misspelt choice",
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
def test_a_no_says_where_what_and_what_would_be_right(
    path: tuple[str | int, ...], value: Any, told: str
) -> None:
    obj = full_framework()
    put(obj, path, value)

    problems = schema_errors(obj)

    assert [str(problem) for problem in problems] == [told]


def test_all_that_is_wrong_is_told_at_once() -> None:
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


def test_null_is_absent_wherever_something_may_be_absent() -> None:
    obj = full_framework()
    for path in (("spec", "retryPolicy"), ("spec", "gang", "minTasks"), ("spec", "roleSequence")):
        put(obj, path, None)
    put(obj, ("spec", "taskRoles", 1, "task", "pod", "spec", "nodeSelector"), None)

    assert schema_errors(obj) == ()


@settings(max_examples=300)
@given(data=st.data())
def test_the_fast_and_the_explaining_validator_agree(data: st.DataObject) -> None:
    obj = deepcopy(full_framework())
    for _ in range(data.draw(st.integers(1, 3))):
        put(obj, data.draw(st.sampled_from(list(places_in(obj)))), data.draw(json_values))

    fast = jsonschema_rs.Draft202012Validator(framework_schema()).is_valid(obj)

    assert fast == (detailed_schema_errors(obj) == ())


class Recorder(dict[str, Any]):
    """A spec that notes which of its fields are asked for; a pod template is nobody's to look into."""

    def __init__(self, fields: dict[str, Any], path: str, read: set[str]) -> None:
        super().__init__(fields)
        self._path, self._read = path, read

    def get(self, name: str, default: Any = None) -> Any:
        path = f"{self._path}.{name}".removeprefix(".")
        self._read.add(path)
        value = super().get(name, default)
        if isinstance(value, list):
            return [Recorder(item, path, self._read) if isinstance(item, dict) else item for item in value]
        inside = isinstance(value, dict) and not path.endswith((".pod", ".ports"))
        return Recorder(value, path, self._read) if inside else value

    def __getitem__(self, name: str) -> Any:
        return self.get(name)


def our_fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The dotted name of each field in *schema*, with what the schema says of it; definitions are not ours."""
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}".removeprefix("."), part
        yield from our_fields(part.get("items", part), f"{path}.{name}".removeprefix("."))


def schema_parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema and every schema inside it."""
    yield schema
    for group in ("properties", "$defs"):
        for part in schema.get(group, {}).values():
            yield from schema_parts(part)
    for single in ("items", "additionalProperties"):
        if single in schema:
            yield from schema_parts(schema[single])
