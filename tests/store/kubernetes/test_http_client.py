"""Removal of managed fields from the text of objects."""

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
#: JSON inside a string.
_ODD = ',"managedFields":[]},"spec":{'
_SPEC = {"containers": [{"name": "main", "env": [{"name": "odd", "value": _ODD}]}]}


def test_managed_fields_of_built_in_objects_are_stripped() -> None:
    metadata = {"name": "p", "annotations": {"odd": _ODD}}
    event = {"type": "ADDED", "object": {"metadata": {**metadata, "managedFields": _MANAGERS}, "spec": _SPEC}}

    found = strip_managed_fields(orjson.dumps(event))

    assert orjson.loads(found) == {"type": "ADDED", "object": {"metadata": metadata, "spec": _SPEC}}


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({"metadata": {"name": "p"}, "spec": _SPEC}, id="no managed fields"),
        pytest.param({"metadata": {"name": "p", "managedFields": _MANAGERS}, "data": {}}, id="no spec"),
        pytest.param(
            {
                "metadata": {"managedFields": _MANAGERS, "name": "f", "uid": "u"},
                "spec": {"pod": {"metadata": {"finalizers": ["a"]}, "spec": _SPEC}},
            },
            id="in another position, as in a custom resource",
        ),
        pytest.param(
            {
                "metadata": {"name": "f", "finalizers": ["a"]},
                "spec": {"pod": {"metadata": {"name": "p", "managedFields": _MANAGERS}, "spec": _SPEC}},
            },
            id="of a template",
        ),
        pytest.param({"kind": "Status", "message": _ODD}, id="not an object"),
    ],
)
def test_other_texts_are_not_changed(obj: dict[str, Any]) -> None:
    text = orjson.dumps(obj)

    assert strip_managed_fields(text) == text
