"""A Framework with nothing left open that its user may want to see, as it is stored."""

from collections.abc import Mapping
from typing import Any

from launcher.core.serialization.spec_json import DEFAULT_MOUNT_PATH, threshold
from launcher.core.spec import CleanPodPolicy, ExecutionType, StartCondition

Json = dict[str, Any]
_RETRY = {"fancyRetryPolicy": False, "maxRetryCount": 0}


def defaulted(obj: Mapping[str, Any]) -> Json:
    """
    The object with its defaults written out, and without the nulls that mean absent; *obj* is not changed.

    A pod template is the user's own and stays the very object that it was. The order of roles stays open: written
    out, it would keep a role from being removed.
    """
    metadata = _labels_without_null(_present(obj["metadata"]))
    return {**_present(obj), "metadata": metadata, "spec": _spec(obj["spec"])}


def _spec(given: Mapping[str, Any]) -> Json:
    spec = {
        "executionType": ExecutionType.START.value,
        "cleanPodPolicy": CleanPodPolicy.RUNNING.value,
        **_present(given),
        "retryPolicy": _retry(given),
        "taskRoles": [_role(role) for role in given.get("taskRoles") or ()],
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


def _role(given: Mapping[str, Any]) -> Json:
    role = {
        "taskNumber": 0,
        "background": False,
        **_present(given),
        "frameworkAttemptCompletionPolicy": _completion(given.get("frameworkAttemptCompletionPolicy") or {}),
        "task": _task(given.get("task") or {}),
    }
    if "startAfter" in role:
        running = {"condition": StartCondition.RUNNING.value}
        role["startAfter"] = [{**running, **_present(after)} for after in role["startAfter"]]
    return role


def _task(given: Mapping[str, Any]) -> Json:
    return {**_present(given), "retryPolicy": _retry(given)}


def _completion(given: Mapping[str, Any]) -> Json:
    policy = {
        **_present(given),
        "minFailedTaskCount": threshold(given.get("minFailedTaskCount"), 1),
        "minSucceededTaskCount": threshold(given.get("minSucceededTaskCount"), -1),
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
