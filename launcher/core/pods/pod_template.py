"""
Pods out of a role's template: compiled once for an attempt and role, then a few string joins per pod.

Everything that is the same for all tasks of the role is written out as JSON at once, with gaps where tasks
differ. A gap begins and ends with a byte that no UTF-8 text holds, so nothing that a user writes can look like one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from launcher.core.framework import Framework
from launcher.core.names import (
    API_VERSION,
    KIND,
    LABELS,
    PLACEHOLDERS,
    POD_UID_VARIABLE,
    TASK_ATTEMPT_INSTANCE_UID_VARIABLE,
    PodIdentityKey,
    attempt_uid,
    config_map_name,
    instance_uid,
    role_uid,
    task_name,
    task_uid,
)
from launcher.core.owner_references import controller_reference
from launcher.core.pods.overlay import EMPTY_OVERLAY, PodOverlay
from launcher.core.spec import FrameworkName, RoleName, TaskRole

Json = dict[str, Any]
#: The marks' values, already written as JSON.
Values = Mapping[str, orjson.Fragment]

_EDGE = b"\xff"
#: The gaps: what differs from pod to pod.
_INDEX = _EDGE + b"index" + _EDGE
_TASK_UID = _EDGE + b"uid" + _EDGE
_TASK_ATTEMPT = _EDGE + b"attempt" + _EDGE
#: Begins the gap for the index and a number.
_COUNTED = b"index+"

#: The node fills in the pod's uid; the second refers to the first, so it has to come after it.
_INSTANCE_VARIABLES = (
    {"name": POD_UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    {
        "name": TASK_ATTEMPT_INSTANCE_UID_VARIABLE,
        "value": orjson.Fragment(b'"' + _TASK_ATTEMPT + f'_$({POD_UID_VARIABLE})"'.encode()),
    },
)

#: As plain strings, which is what JSON has for keys.
_NAMES = tuple(mark.value for mark in PodIdentityKey)
_LABELS = tuple(label.value for label in LABELS)
_PLACEHOLDER = re.compile(rb"\{\{(" + b"|".join(mark.encode() for mark in PLACEHOLDERS) + rb")\}\}")
#: The index and a number more: ``{{FC_TASK_INDEX+1}}``, as a rank needs it that begins behind another role's.
_COUNTED_PLACEHOLDER = re.compile(rb"\{\{" + PodIdentityKey.TASK_INDEX.encode() + rb"\+([0-9]{1,9})\}\}")

#: What a pod gets from us or from the store, whatever the template says.
_NOT_FROM_TEMPLATE = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What all pods of one role in one attempt have in common, and where they differ."""

    framework_uid: str
    attempt_id: int
    role: RoleName
    #: JSON and the names of gaps, by turns.
    pieces: tuple[bytes, ...]
    #: Labels of the pod of task 0 alone.
    first_labels: Mapping[str, str]

    @classmethod
    def of(
        cls,
        framework_name: FrameworkName,
        namespace: str,
        framework_uid: str,
        attempt_id: int,
        role: TaskRole,
        counts: Mapping[RoleName, int],
        extras: PodOverlay = EMPTY_OVERLAY,
    ) -> "PodTemplate":
        """The template of *role*; *counts* tells every role's number of tasks, in the order of the spec."""
        marks = _marks(framework_name, namespace, framework_uid, attempt_id, role.name)
        values = dict(zip(_NAMES, map(orjson.Fragment, marks.values()), strict=True))
        variables = [*_variables(values, counts), *extras.variables]
        owner = controller_reference(API_VERSION, KIND, framework_name, framework_uid)
        pod = {
            **{key: value for key, value in role.pod.items() if key != "status"},
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": _metadata(role.pod.get("metadata") or {}, values, owner, extras),
            "spec": _spec(role.pod.get("spec") or {}, variables, extras),
        }
        text = _PLACEHOLDER.sub(lambda found: marks[found[1].decode()][1:-1], orjson.dumps(pod))
        text = _COUNTED_PLACEHOLDER.sub(lambda found: _counted(found[1]), text)
        return cls(framework_uid, attempt_id, role.name, tuple(text.split(_EDGE)), dict(extras.first_labels))

    def pod(self, index: int, incarnation: int, task_attempt_id: int) -> Json:
        """The pod of one task attempt, a value that nobody else holds."""
        values = {
            b"index": str(index).encode(),
            b"uid": task_uid(self.framework_uid, self.attempt_id, self.role, index, incarnation).encode(),
            b"attempt": str(task_attempt_id).encode(),
        }
        filled = list(self.pieces)
        filled[1::2] = [values.get(gap) or _count(gap, index) for gap in self.pieces[1::2]]
        pod: Json = orjson.loads(b"".join(filled))
        if self.first_labels and index == 0:
            labels = pod["metadata"]["labels"]
            pod["metadata"]["labels"] = {**self.first_labels, **labels}
        return pod


def compile_templates(
    framework: Framework, attempt_id: int, extras: Mapping[RoleName, PodOverlay] | None = None
) -> dict[RoleName, PodTemplate]:
    """The templates of all roles for one attempt, as the spec has them now, with the *extras* of each."""
    counts = {role.name: role.tasks for role in framework.spec.roles}
    name, namespace, uid = framework.name, framework.namespace, framework.uid
    return {
        role.name: PodTemplate.of(
            name, namespace, uid, attempt_id, role, counts, (extras or {}).get(role.name, EMPTY_OVERLAY)
        )
        for role in framework.spec.roles
    }


def index_plus(first: int) -> orjson.Fragment:
    """A text for Extras that is *first* in the pod of task 0, and one more in each after it: a rank, for instance."""
    return orjson.Fragment(b'"' + _counted(str(first).encode()) + b'"')


def _counted(first: bytes) -> bytes:
    return _EDGE + _COUNTED + first + _EDGE


def _count(gap: bytes, index: int) -> bytes:
    return str(int(gap.removeprefix(_COUNTED)) + index).encode()


def _marks(
    framework: FrameworkName, namespace: str, framework_uid: str, attempt_id: int, role: RoleName
) -> dict[str, bytes]:
    """The value of every mark, in the marks' order, as a JSON string that may have gaps."""
    attempt = attempt_uid(framework_uid, attempt_id)
    before_index = task_name(framework, role, 0).removesuffix("0")
    return {
        PodIdentityKey.FRAMEWORK_NAMESPACE: _quoted(namespace),
        PodIdentityKey.FRAMEWORK_NAME: _quoted(framework),
        PodIdentityKey.TASKROLE_NAME: _quoted(role),
        PodIdentityKey.TASK_INDEX: b'"' + _INDEX + b'"',
        PodIdentityKey.CONFIGMAP_NAME: _quoted(config_map_name(framework)),
        PodIdentityKey.POD_NAME: _quoted(before_index, _INDEX),
        PodIdentityKey.FRAMEWORK_UID: _quoted(framework_uid),
        PodIdentityKey.FRAMEWORK_ATTEMPT_ID: _quoted(str(attempt_id)),
        PodIdentityKey.FRAMEWORK_ATTEMPT_INSTANCE_UID: _quoted(instance_uid(attempt_id, attempt)),
        PodIdentityKey.CONFIGMAP_UID: _quoted(attempt),
        PodIdentityKey.TASKROLE_UID: _quoted(role_uid(framework_uid, attempt_id, role)),
        PodIdentityKey.TASK_UID: b'"' + _TASK_UID + b'"',
        PodIdentityKey.TASK_ATTEMPT_ID: b'"' + _TASK_ATTEMPT + b'"',
    }


def _quoted(text: str, gap: bytes = b"") -> bytes:
    """*text* as a JSON string, with *gap* at its end."""
    return orjson.dumps(text)[:-1] + gap + b'"'


def _variables(values: Values, counts: Mapping[RoleName, int]) -> list[Json]:
    """The environment of every container, in order."""
    return [
        *[{"name": name, "value": value} for name, value in values.items()],
        *_INSTANCE_VARIABLES,
        {"name": "taskindex", "value": values[PodIdentityKey.TASK_INDEX]},
        {"name": "framework_name", "value": values[PodIdentityKey.FRAMEWORK_NAME]},
        {"name": "taskrole", "value": values[PodIdentityKey.TASKROLE_NAME]},
        # A variable may not begin with a digit; older clusters would turn the whole pod down.
        *[
            {"name": f"{role}_tasknum", "value": str(n)}
            for role, n in counts.items()
            if not role[0].isdigit()
        ],
    ]


def _metadata(template: Mapping[str, Any], values: Values, owner: Json, extras: PodOverlay) -> Json:
    return {
        **{key: value for key, value in template.items() if key not in _NOT_FROM_TEMPLATE},
        "name": values[PodIdentityKey.POD_NAME],
        "namespace": values[PodIdentityKey.FRAMEWORK_NAMESPACE],
        "labels": {
            **(template.get("labels") or {}),
            **extras.labels,
            **{label: values[label] for label in _LABELS},
        },
        "annotations": {**(template.get("annotations") or {}), **extras.annotations, **values},
        "ownerReferences": [*(template.get("ownerReferences") or ()), owner],
    }


def _spec(template: Mapping[str, Any], variables: list[Mapping[str, Any]], extras: PodOverlay) -> Json:
    spec = {**extras.defaults, **template}
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_container(container, variables, extras) for container in spec[group]]
    lists = {
        name: [*ours, *(spec.get(name) or ())] for name, ours in extras.spec.items() if isinstance(ours, list)
    }
    return {**spec, **extras.spec, **lists}


def _container(
    template: Mapping[str, Any] | None, variables: list[Mapping[str, Any]], extras: PodOverlay
) -> Json:
    container = dict(template or {})
    if extras.mounts:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *extras.mounts]
    # Of two variables of one name the later counts, so the user's own come last.
    container["env"] = [*variables, *(container.get("env") or ())]
    if not container.get("terminationMessagePolicy"):
        # The end of a failed container's log is then part of the pod's status, and outlives the pod.
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return container
