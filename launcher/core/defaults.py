"""Defaults of a Framework, which are written to the stored object."""

from collections.abc import Mapping
from typing import Any

from launcher.core.serialization.spec_json import DEFAULT_MOUNT_PATH, threshold
from launcher.core.spec import CleanPodPolicy, ExecutionType, StartCondition

Json = dict[str, Any]
_RETRY = {"fancyRetryPolicy": False, "maxRetryCount": 0}


def with_defaults(obj: Mapping[str, Any]) -> Json:
    """
    The object with its defaults and without nulls; *obj* is not modified.

    Pod templates are not changed or copied. The order of roles gets no default, which would prevent the removal of a
    role.
    """
    metadata = _labels_without_null(_present(obj["metadata"]))
    return {**_present(obj), "metadata": metadata, "spec": _spec(obj["spec"])}


def _spec(fields: Mapping[str, Any]) -> Json:
    spec = {
        "executionType": ExecutionType.START.value,
        "cleanPodPolicy": CleanPodPolicy.RUNNING.value,
        **_present(fields),
        "retryPolicy": _retry(fields),
        "taskRoles": [_role(role) for role in fields.get("taskRoles") or ()],
    }
    if "gang" in spec:
        spec["gang"] = _present(spec["gang"])
    if "discovery" in spec:
        spec["discovery"] = {
            "mountPath": DEFAULT_MOUNT_PATH,
            "waitForPorts": False,
            **_present(spec["discovery"]),
        }
    return spec


def _role(fields: Mapping[str, Any]) -> Json:
    role = {
        "taskNumber": 0,
        "background": False,
        **_present(fields),
        "frameworkAttemptCompletionPolicy": _completion(fields.get("frameworkAttemptCompletionPolicy") or {}),
        "task": _task(fields.get("task") or {}),
    }
    if "startAfter" in role:
        running = {"condition": StartCondition.RUNNING.value}
        role["startAfter"] = [{**running, **_present(after)} for after in role["startAfter"]]
    return role


def _task(fields: Mapping[str, Any]) -> Json:
    return {**_present(fields), "retryPolicy": _retry(fields)}


def _completion(fields: Mapping[str, Any]) -> Json:
    policy = {
        **_present(fields),
        "minFailedTaskCount": threshold(fields.get("minFailedTaskCount"), 1),
        "minSucceededTaskCount": threshold(fields.get("minSucceededTaskCount"), -1),
    }
    indexes = policy.get("succeededIndexes", "")
    if not isinstance(indexes, str):
        policy["succeededIndexes"] = str(int(indexes))
    return policy


def _retry(owner: Mapping[str, Any]) -> Json:
    return {**_RETRY, **_present(owner.get("retryPolicy") or {})}


def _labels_without_null(metadata: Json) -> Json:
    for name in ("labels", "annotations"):
        if name in metadata:
            metadata[name] = _present(metadata[name])
    return metadata


def _present(fields: Mapping[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
