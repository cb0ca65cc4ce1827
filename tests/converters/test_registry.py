"""Which objects can be moved in, and as what."""

from typing import Any

import pytest

from launcher.converters.registry import FAMILIES, convert_to_framework, objects_in_document
from launcher.core.errors import InvalidObject
from tests.builders import a_framework
from tests.converters.kubeflow.jobs import a_job

Json = dict[str, Any]
SECOND = "frameworkcontroller.microsoft.com/v1"


def test_a_framework_is_returned_without_metadata_of_the_server() -> None:
    read = a_framework(name="a")
    read["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1, "managedFields": []}
    read["status"] = {"state": "Completed"}

    mapped = convert_to_framework(read)

    assert mapped.framework == a_framework(name="a")
    assert mapped.notes == ()


def test_a_framework_of_frameworkcontroller_gets_the_launchers_group_and_clean_pod_policy_all() -> None:
    theirs = {**a_framework(name="a"), "apiVersion": SECOND}

    mapped = convert_to_framework(theirs)

    assert mapped.framework["apiVersion"] == "launcher.microsoft.com/v1"
    assert mapped.framework["spec"] == {**theirs["spec"], "cleanPodPolicy": "All"}
    assert [note.split(":")[0] for note in mapped.notes] == ["cleanPodPolicy"]


def test_a_clean_pod_policy_of_the_user_is_kept_without_a_note() -> None:
    theirs = {**a_framework(name="a", cleanPodPolicy="None"), "apiVersion": SECOND}

    mapped = convert_to_framework(theirs)

    assert (mapped.framework["spec"]["cleanPodPolicy"], mapped.notes) == ("None", ())


def test_every_version_of_every_kind_is_converted() -> None:
    for family, _ in FAMILIES:
        for version in family.versions:
            with pytest.raises(InvalidObject) as refused:
                convert_to_framework({"apiVersion": version, "kind": family.kind, "metadata": {}, "spec": {}})

            fields = {problem.field for problem in refused.value.errors}
            assert f"spec.{family.field}" in fields, (version, family.kind)


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, "kind"),
        ({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}, "apiVersion"),
        ({}, "kind"),
        ({"apiVersion": [], "kind": {}}, "kind"),
    ],
)
def test_an_unknown_kind_is_rejected(obj: Json, field: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        convert_to_framework(obj)

    assert [problem.field for problem in refused.value.errors] == [field]


def test_the_items_of_a_list_are_separate_objects() -> None:
    job = a_job("JAXJob", {"Worker": 1})
    inner = {"apiVersion": "v1", "kind": "List", "items": [job]}

    found = list(objects_in_document({"apiVersion": "v1", "kind": "List", "items": [job, inner]}))

    assert found == [("items[0].", job), ("items[1].items[0].", job)]


def test_a_value_that_is_not_an_object_is_rejected() -> None:
    with pytest.raises(InvalidObject, match="apiVersion, kind, metadata and spec"):
        list(objects_in_document({"kind": "List", "items": ["a"]}))
