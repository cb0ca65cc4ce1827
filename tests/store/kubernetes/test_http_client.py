"""What is left out of an object before it is read, and what never is."""

from typing import Any

import orjson
import pytest

from launcher.store.kubernetes.http_client import strip_managed_fields

_MANAGERS = [
    {
        "manager": 'a "spec":{ in a name',
        "operation": "Update",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}}}}},
    }
]
#: As JSON would be if somebody put it into a string.
_ODD = ',"managedFields":[]},"spec":{'
_SPEC = {"containers": [{"name": "main", "env": [{"name": "odd", "value": _ODD}]}]}


def test_an_object_that_is_built_in_is_read_without_its_field_managers() -> None:
    metadata = {"name": "p", "annotations": {"odd": _ODD}}
    event = {"type": "ADDED", "object": {"metadata": {**metadata, "managedFields": _MANAGERS}, "spec": _SPEC}}

    found = strip_managed_fields(orjson.dumps(event))

    assert orjson.loads(found) == {"type": "ADDED", "object": {"metadata": metadata, "spec": _SPEC}}


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({"metadata": {"name": "p"}, "spec": _SPEC}, id="there are none"),
        pytest.param(
            {"metadata": {"name": "p", "managedFields": _MANAGERS}, "data": {}}, id="there is no spec"
        ),
        pytest.param(
            {
                "metadata": {"managedFields": _MANAGERS, "name": "f", "uid": "u"},
                "spec": {"pod": {"metadata": {"finalizers": ["a"]}, "spec": _SPEC}},
            },
            id="they stand elsewhere, as in a custom resource",
        ),
        pytest.param(
            {
                "metadata": {"name": "f", "finalizers": ["a"]},
                "spec": {"pod": {"metadata": {"name": "p", "managedFields": _MANAGERS}, "spec": _SPEC}},
            },
            id="they are a template's",
        ),
        pytest.param({"kind": "Status", "message": _ODD}, id="it is no object at all"),
    ],
)
def test_whatever_looks_otherwise_is_left_as_it_is(obj: dict[str, Any]) -> None:
    text = orjson.dumps(obj)

    assert strip_managed_fields(text) == text
