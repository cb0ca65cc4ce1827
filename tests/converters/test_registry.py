"""Which objects can be moved in, and as what."""

from typing import Any

import pytest

from launcher.converters.registry import FAMILIES, framework_for, objects_in
from launcher.core.errors import InvalidObject
from tests.converters.kubeflow import a_job
from tests.core.manifests import a_framework

Json = dict[str, Any]
SECOND = "frameworkcontroller.microsoft.com/v1"


def test_a_framework_is_itself_without_what_a_server_has_added() -> None:
    read = a_framework(name="a")
    read["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1, "managedFields": []}
    read["status"] = {"state": "Completed"}

    mapped = framework_for(read)

    assert mapped.framework == a_framework(name="a")
    assert mapped.notes == ()


def test_frameworkcontrollers_gets_our_name_and_keeps_no_pods() -> None:
    theirs = {**a_framework(name="a"), "apiVersion": SECOND}

    mapped = framework_for(theirs)

    assert mapped.framework["apiVersion"] == "launcher.microsoft.com/v1"
    assert mapped.framework["spec"] == {**theirs["spec"], "cleanPodPolicy": "All"}
    assert [note.split(":")[0] for note in mapped.notes] == ["cleanPodPolicy"]


def test_unless_it_says_so_itself() -> None:
    theirs = {**a_framework(name="a", cleanPodPolicy="None"), "apiVersion": SECOND}

    mapped = framework_for(theirs)

    assert (mapped.framework["spec"]["cleanPodPolicy"], mapped.notes) == ("None", ())


def test_every_version_of_every_kind_finds_its_way() -> None:
    for family, _ in FAMILIES:
        for version in family.versions:
            with pytest.raises(InvalidObject) as refused:
                framework_for({"apiVersion": version, "kind": family.kind, "metadata": {}, "spec": {}})

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
def test_what_nobody_knows_is_refused(obj: Json, field: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        framework_for(obj)

    assert [problem.field for problem in refused.value.errors] == [field]


def test_a_list_is_taken_apart() -> None:
    job = a_job("JAXJob", {"Worker": 1})
    inner = {"apiVersion": "v1", "kind": "List", "items": [job]}

    found = list(objects_in({"apiVersion": "v1", "kind": "List", "items": [job, inner]}))

    assert found == [("items[0].", job), ("items[1].items[0].", job)]


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidObject, match="apiVersion, kind, metadata and spec"):
        list(objects_in({"kind": "List", "items": ["a"]}))
