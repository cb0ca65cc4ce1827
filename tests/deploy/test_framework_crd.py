"""The CRD of Frameworks is equivalent to the launcher's schema."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.generate.framework_crd import CRD_FILE, crd_text, framework_crd
from launcher.core.status import State
from launcher.core.validation.schema import Schema, framework_schema

VERSION = framework_crd()["spec"]["versions"][0]
FRAMEWORK: Schema = VERSION["schema"]["openAPIV3Schema"]


def fields(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """The schema of every field, by path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from fields(part, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from fields(schema[inner], f"{path}[]")


SCHEMA = dict(fields(framework_schema()["properties"]["spec"], "spec"))
SPEC = dict(fields(FRAMEWORK["properties"]["spec"], "spec"))
#: The largest integer, which is not a bound.
INT64 = 2**63 - 1
POD = "spec.taskRoles[].task.pod"
STATUS = dict(fields(FRAMEWORK["properties"]["status"], "status"))


def test_the_crd_file_equals_the_generated_one() -> None:
    assert CRD_FILE.read_text() == crd_text(), "run: make schema"


def test_every_field_of_the_schema_is_in_the_crd_with_a_description() -> None:
    assert set(SCHEMA) == {path for path in SPEC if not path.startswith(f"{POD}.")}
    assert [path for path, part in (SPEC | STATUS).items() if not _is_described(path, part)] == []


def _is_described(path: str, part: Schema) -> bool:
    # The description of a map includes that of its values.
    return bool(part.get("description")) or path.endswith("[]")


@pytest.mark.parametrize("path", sorted(SCHEMA))
def test_a_field_has_the_bounds_of_the_schema(path: str) -> None:
    in_schema, in_crd = SCHEMA[path], SPEC[path]

    for keyword in ("pattern", "required", "minimum", "maximum", "default"):
        expected = {} if keyword == "default" and in_crd.get("default") == {} else in_schema.get(keyword)
        if expected != INT64:
            assert in_crd.get(keyword) == expected, keyword
    assert in_crd.get("enum") == (
        [value for value in in_schema["enum"] if value] if "enum" in in_schema else None
    )


def test_every_field_has_one_type() -> None:
    for path, part in (SPEC | STATUS).items():
        assert isinstance(part.get("type"), str) != part.get("x-kubernetes-int-or-string", False), path
        assert part.keys().isdisjoint({"$ref", "oneOf", "anyOf", "allOf", "not"}), path


def test_no_field_of_the_spec_is_nullable_so_null_is_absent() -> None:
    assert [path for path, part in SPEC.items() if part.get("nullable")] == []


def test_unknown_fields_of_pod_templates_and_status_are_preserved() -> None:
    pod = [part for path, part in SPEC.items() if f"{path}.".startswith(f"{POD}.")]
    status = [part for part in STATUS.values() if "properties" in part]

    assert len(pod) == 3
    assert all(part["x-kubernetes-preserve-unknown-fields"] for part in pod + status)


def test_the_status_has_no_defaults() -> None:
    assert [path for path, part in STATUS.items() if "default" in part] == []


def test_printer_columns_refer_to_existing_fields() -> None:
    for column in VERSION["additionalPrinterColumns"]:
        root, *rest = column["jsonPath"].strip(".").split(".")
        if root == "metadata":
            continue
        assert _has_field(FRAMEWORK["properties"][root], rest), column["name"]


def _has_field(schema: Schema, names: list[str]) -> bool:
    for name in names:
        if "additionalProperties" in schema:
            return name in {state.value for state in State}
        if name not in schema["properties"]:
            return False
        schema = schema["properties"][name]
    return True


def test_the_crd_has_short_name_category_and_subresources() -> None:
    names: dict[str, Any] = framework_crd()["spec"]["names"]

    assert (names["shortNames"], names["categories"]) == (["fw"], ["all"])
    assert VERSION["subresources"].keys() == {"status", "scale"}


def test_the_scale_subresource_refers_to_existing_fields() -> None:
    for path in VERSION["subresources"]["scale"].values():
        root, *rest = path.strip(".").split(".")
        assert _has_field(FRAMEWORK["properties"][root], rest), path
