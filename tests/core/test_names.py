"""Names of pods, derived uids, and the identity of pods."""

import copy
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.names import (
    LABELS,
    PLACEHOLDERS,
    PodIdentityKey,
    TaskIdentity,
    attempt_uid,
    config_map_name,
    instance_uid,
    pod_name,
    role_uid,
    task_identity,
    task_name,
    task_uid,
)
from launcher.core.spec import FrameworkName, RoleName

MNIST, WORKER = FrameworkName("mnist"), RoleName("worker")
UID = "0b8e7a6a-5e2e-4b6e-9a53-3a1f3c0f7d11"

roles = st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True).map(RoleName)
numbers = st.integers(0, 12)
#: Arguments of task_uid, from few values so that collisions would occur.
tasks = st.tuples(st.sampled_from([UID, "a", "a/1", "1/a"]), numbers, roles, numbers, numbers)


def a_task_pod(**changes: Any) -> dict[str, Any]:
    """A pod of task 3 of the role worker; *changes* replace its labels, None removes one."""
    labels = {
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "3",
        "FC_FRAMEWORK_ATTEMPT_ID": "1",
        "FC_TASK_ATTEMPT_ID": "20",
        **changes,
    }
    kept = {key: value for key, value in labels.items() if value is not None}
    return {"metadata": {"name": "mnist-worker-3", "labels": kept, "annotations": {"FC_TASK_UID": UID}}}


def _of(framework: str, role: str) -> dict[str, str]:
    labels: dict[str, str] = a_task_pod(FC_FRAMEWORK_NAME=framework, FC_TASKROLE_NAME=role)["metadata"][
        "labels"
    ]
    return labels


def test_a_pod_is_named_after_its_task() -> None:
    assert task_name(MNIST, WORKER, 3) == "mnist-worker-3"
    assert pod_name(MNIST, WORKER, 3) == "mnist-worker-3"
    assert config_map_name(MNIST) == "mnist-attempt"
    assert instance_uid(2, UID) == f"2_{UID}"


def test_labels_and_annotations_keep_their_names() -> None:
    assert [key.value for key in PodIdentityKey] == [
        "FC_FRAMEWORK_NAMESPACE",
        "FC_FRAMEWORK_NAME",
        "FC_TASKROLE_NAME",
        "FC_TASK_INDEX",
        "FC_CONFIGMAP_NAME",
        "FC_POD_NAME",
        "FC_FRAMEWORK_UID",
        "FC_FRAMEWORK_ATTEMPT_ID",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
        "FC_CONFIGMAP_UID",
        "FC_TASKROLE_UID",
        "FC_TASK_UID",
        "FC_TASK_ATTEMPT_ID",
    ]
    assert PLACEHOLDERS[-1] is PodIdentityKey.POD_NAME
    assert PodIdentityKey.TASK_UID not in LABELS


def test_derived_uids_are_the_same_in_every_release() -> None:
    assert attempt_uid(UID, 0) == "0276dc69-702a-549a-9535-98f53b43581e"
    assert role_uid(UID, 0, WORKER) == "963ac338-144a-5b6a-9f51-b6dbc13a056f"
    assert task_uid(UID, 0, WORKER, 3, 0) == "944d4d51-b046-537d-99f9-b29885cd3a02"


def test_derived_uids_have_the_form_of_uids() -> None:
    for uid in (attempt_uid(UID, 7), role_uid("any text", 7, WORKER), task_uid("", 7, WORKER, 3, 1)):
        assert str(UUID(uid)) == uid


@given(st.text(), numbers)
def test_derived_uids_are_version_5_uuids(framework_uid: str, attempt: int) -> None:
    namespace = UUID("5a0c1bb8-7c33-5a8b-9a55-6d1f2f0f8a3e")

    assert attempt_uid(framework_uid, attempt) == str(uuid5(namespace, f"attempt/{attempt}/{framework_uid}"))


@given(tasks, tasks)
def test_two_tasks_never_share_a_uid(
    one: tuple[str, int, RoleName, int, int], other: tuple[str, int, RoleName, int, int]
) -> None:
    assert (task_uid(*one) == task_uid(*other)) is (one == other)
    assert (role_uid(*one[:3]) == role_uid(*other[:3])) is (one[:3] == other[:3])
    assert (attempt_uid(*one[:2]) == attempt_uid(*other[:2])) is (one[:2] == other[:2])


@given(tasks)
def test_a_task_its_role_and_its_attempt_have_different_uids(
    task: tuple[str, int, RoleName, int, int],
) -> None:
    assert len({task_uid(*task), role_uid(*task[:3]), attempt_uid(*task[:2])}) == 3


def test_a_pod_has_the_identity_of_its_task() -> None:
    assert task_identity(a_task_pod()) == TaskIdentity(MNIST, WORKER, 3, 1, 20, UID)


@pytest.mark.parametrize("label", [label.value for label in LABELS])
@pytest.mark.parametrize("value", [None, "", 3, "x y"])
def test_a_pod_with_a_missing_or_malformed_label_has_no_identity(label: str, value: object) -> None:
    assert task_identity(a_task_pod(**{label: value})) is None


@pytest.mark.parametrize("number", ["-1", "+3", "03", "3 ", "3.0", "٣", "1٣", "0x3", "9" * 11, "9" * 5000])
def test_a_number_in_a_label_has_one_form(number: str) -> None:
    assert task_identity(a_task_pod(FC_TASK_ATTEMPT_ID=number)) is None


@pytest.mark.parametrize("uid", [None, "", "0", UID.upper(), UID + "\n", f"{{{UID}}}", 7])
def test_a_pod_without_a_valid_task_uid_has_no_identity(uid: object) -> None:
    pod = a_task_pod()
    pod["metadata"]["annotations"]["FC_TASK_UID"] = uid

    assert task_identity(pod) is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"name": "mnist-worker-4"}, id="another name"),
        pytest.param({"name": None}, id="no name"),
        pytest.param({"labels": None}, id="no labels"),
        pytest.param({"annotations": None}, id="no annotations"),
    ],
)
def test_a_pod_with_inconsistent_metadata_has_no_identity(changes: dict[str, Any]) -> None:
    pod = copy.deepcopy(a_task_pod())
    pod["metadata"].update(changes)

    assert task_identity(pod) is None


def test_a_pod_name_belongs_to_one_task() -> None:
    pod = a_task_pod(FC_FRAMEWORK_NAME="mnist", FC_TASKROLE_NAME="big-worker")
    pod["metadata"]["name"] = "mnist-big-worker-3"

    assert task_identity(pod) is None
    assert (
        task_identity(pod | {"metadata": pod["metadata"] | {"labels": _of("mnist-big", "worker")}})
        is not None
    )


def test_an_object_without_metadata_has_no_identity() -> None:
    assert task_identity({}) is None
    assert task_identity({"metadata": None}) is None
