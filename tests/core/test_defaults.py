"""Defaults of stored Frameworks."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.defaults import with_defaults
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.validation.framework import validation_errors
from tests.builders import a_framework, a_pod_template, a_role
from tests.core.manifests import full_framework, paths_in, set_value


def test_all_defaults_are_set() -> None:
    stored = with_defaults(a_framework(a_role("worker", 2)))

    assert stored == {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "mnist"},
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
            "cleanPodPolicy": "Running",
            "taskRoles": [
                {
                    "name": "worker",
                    "taskNumber": 2,
                    "background": False,
                    "frameworkAttemptCompletionPolicy": {
                        "minFailedTaskCount": 1,
                        "minSucceededTaskCount": -1,
                    },
                    "task": {
                        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
                        "pod": a_pod_template(),
                    },
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        pytest.param({"gang": {"minTasks": None}}, {"gang": {}}, id="gang"),
        pytest.param(
            {"discovery": {}},
            {"discovery": {"mountPath": "/configdir", "waitForPorts": False}},
            id="discovery",
        ),
        pytest.param({"description": None}, {}, id="null"),
        pytest.param({"description": ""}, {"description": ""}, id="empty is not null"),
    ],
)
def test_defaults_of_optional_objects_are_set_only_where_the_object_exists(
    sent: dict[str, Any], stored: dict[str, Any]
) -> None:
    spec = with_defaults(a_framework(**sent))["spec"]

    assert {name: spec.get(name) for name in sent} == {name: stored.get(name) for name in sent}


def test_the_default_start_condition_is_running() -> None:
    role = a_role(startAfter=[{"role": "ps", "atLeast": None}, {"role": "ps", "condition": "Ready"}])

    stored = with_defaults(a_framework(role))

    assert stored["spec"]["taskRoles"][0]["startAfter"] == [
        {"condition": "Running", "role": "ps"},
        {"condition": "Ready", "role": "ps"},
    ]


@pytest.mark.parametrize("index", [1, 1.0, "1"])
def test_thresholds_and_indexes_are_stored_in_their_normal_form(index: object) -> None:
    policy = {"minFailedTaskCount": 0, "minSucceededTaskCount": 2.0, "succeededIndexes": index}

    stored = with_defaults(a_framework(a_role(frameworkAttemptCompletionPolicy=policy)))

    assert stored["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] == {
        "minFailedTaskCount": -1,
        "minSucceededTaskCount": 2,
        "succeededIndexes": "1",
    }


def test_nulls_are_dropped_from_metadata_and_its_labels() -> None:
    obj = a_framework()
    obj["metadata"] |= {"generateName": None, "labels": {"a": "1", "b": None}, "annotations": {"c": None}}

    assert with_defaults(obj)["metadata"] == {"name": "mnist", "labels": {"a": "1"}, "annotations": {}}


def test_a_pod_template_is_not_defaulted() -> None:
    pod = a_pod_template(nodeSelector=None, volumes=[{"name": "v", "emptyDir": None}])

    stored = with_defaults(a_framework(a_role(pod=pod)))

    assert stored["spec"]["taskRoles"][0]["task"]["pod"] is pod


def test_the_role_sequence_has_no_default() -> None:
    assert "roleSequence" not in with_defaults(a_framework())["spec"]


@given(data=st.data())
def test_defaulting_is_idempotent_and_changes_neither_the_object_nor_its_meaning(
    data: st.DataObject,
) -> None:
    obj = full_framework()
    for path in data.draw(st.lists(st.sampled_from(list(paths_in(obj["spec"]))), max_size=3)):
        changed = deepcopy(obj)
        put_null(changed["spec"], path)
        obj = obj if validation_errors(changed) else changed
    before = deepcopy(obj)

    once = with_defaults(obj)

    assert with_defaults(once) == once
    assert obj == before
    assert spec_from_json(once["spec"]) == spec_from_json(obj["spec"])


def put_null(spec: Any, path: tuple[str | int, ...]) -> None:
    """Sets null at *path*, unless a value above it is already null."""
    try:
        set_value(spec, path, None)
    except TypeError:
        return
