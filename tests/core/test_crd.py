"""The definition of a Framework for a cluster: the same as the schema, in Kubernetes' words."""

from collections.abc import Iterator
from typing import Any

import pytest

from launcher.core.crd import framework_crd
from launcher.core.status import State
from launcher.core.validation.schema import Schema, framework_schema
from tests.core.make_crd import CRD_FILE, crd_text

VERSION = framework_crd()["spec"]["versions"][0]
FRAMEWORK: Schema = VERSION["schema"]["openAPIV3Schema"]


def parts(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """The schema of every field, by path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(part, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from parts(schema[inner], f"{path}[]")


OURS = dict(parts(framework_schema()["properties"]["spec"], "spec"))
SPEC = dict(parts(FRAMEWORK["properties"]["spec"], "spec"))
#: No bound, since there are no larger numbers.
INT64 = 2**63 - 1
POD = "spec.taskRoles[].task.pod"
STATUS = dict(parts(FRAMEWORK["properties"]["status"], "status"))


def test_the_file_is_what_the_schema_says() -> None:
    assert CRD_FILE.read_text() == crd_text(), "run: python -m tests.core.make_crd"


def test_every_field_of_the_schema_is_defined_and_explained() -> None:
    assert set(OURS) == {path for path in SPEC if not path.startswith(f"{POD}.")}
    assert [path for path, part in (SPEC | STATUS).items() if not _explained(path, part)] == []


def _explained(path: str, part: Schema) -> bool:
    # A value of a map is explained where the map is.
    return bool(part.get("description")) or path.endswith("[]")


@pytest.mark.parametrize("path", sorted(OURS))
def test_a_field_has_the_bounds_of_the_schema(path: str) -> None:
    ours, theirs = OURS[path], SPEC[path]

    for keyword in ("pattern", "required", "minimum", "maximum", "default"):
        expected = {} if keyword == "default" and theirs.get("default") == {} else ours.get(keyword)
        if expected != INT64:
            assert theirs.get(keyword) == expected, keyword
    assert theirs.get("enum") == ([word for word in ours["enum"] if word] if "enum" in ours else None)


def test_every_part_has_one_type() -> None:
    for path, part in (SPEC | STATUS).items():
        assert isinstance(part.get("type"), str) != part.get("x-kubernetes-int-or-string", False), path
        assert part.keys().isdisjoint({"$ref", "oneOf", "anyOf", "allOf", "not"}), path


def test_null_is_read_as_absent_since_nothing_that_is_asked_for_may_be_null() -> None:
    assert [path for path, part in SPEC.items() if part.get("nullable")] == []


def test_nothing_is_taken_from_a_pod_template_or_a_status() -> None:
    pod = [part for path, part in SPEC.items() if f"{path}.".startswith(f"{POD}.")]
    status = [part for part in STATUS.values() if "properties" in part]

    assert len(pod) == 3
    assert all(part["x-kubernetes-preserve-unknown-fields"] for part in pod + status)


def test_nothing_is_added_to_a_status() -> None:
    assert [path for path, part in STATUS.items() if "default" in part] == []


def test_columns_lead_to_fields_that_there_are() -> None:
    for column in VERSION["additionalPrinterColumns"]:
        root, *rest = column["jsonPath"].strip(".").split(".")
        if root == "metadata":
            continue
        assert _found(FRAMEWORK["properties"][root], rest), column["name"]


def _found(schema: Schema, names: list[str]) -> bool:
    for name in names:
        if "additionalProperties" in schema:
            return name in {state.value for state in State}
        if name not in schema["properties"]:
            return False
        schema = schema["properties"][name]
    return True


def test_its_names_are_those_that_users_know() -> None:
    names: dict[str, Any] = framework_crd()["spec"]["names"]

    assert (names["shortNames"], names["categories"]) == (["fw"], ["all"])
    assert VERSION["subresources"].keys() == {"status", "scale"}


def test_its_scale_leads_to_fields_that_there_are() -> None:
    for path in VERSION["subresources"]["scale"].values():
        root, *rest = path.strip(".").split(".")
        assert _found(FRAMEWORK["properties"][root], rest), path
