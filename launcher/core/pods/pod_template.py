"""
Creates pods from a role's template, which is compiled once per attempt and role.

The parts that all tasks share are serialized to JSON once, with gaps where tasks differ. A gap is delimited by a byte
that does not occur in UTF-8, so no text of a user can look like one.
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
#: The values of the identity keys, serialized as JSON.
Values = Mapping[str, orjson.Fragment]

_EDGE = b"\xff"
#: The gaps.
_INDEX = _EDGE + b"index" + _EDGE
_TASK_UID = _EDGE + b"uid" + _EDGE
_TASK_ATTEMPT = _EDGE + b"attempt" + _EDGE
#: Prefix of a gap for the sum of the index and a number.
_COUNTED = b"index+"

#: The kubelet sets the pod's uid; the second variable refers to the first and has to follow it.
_INSTANCE_VARIABLES = (
    {"name": POD_UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    {
        "name": TASK_ATTEMPT_INSTANCE_UID_VARIABLE,
        "value": orjson.Fragment(b'"' + _TASK_ATTEMPT + f'_$({POD_UID_VARIABLE})"'.encode()),
    },
)

#: As plain strings, for JSON keys.
_NAMES = tuple(key.value for key in PodIdentityKey)
_LABELS = tuple(label.value for label in LABELS)
_PLACEHOLDER = re.compile(rb"\{\{(" + b"|".join(key.encode() for key in PLACEHOLDERS) + rb")\}\}")
#: The sum of the index and a number: ``{{FC_TASK_INDEX+1}}``, for ranks that continue those of another role.
_COUNTED_PLACEHOLDER = re.compile(rb"\{\{" + PodIdentityKey.TASK_INDEX.encode() + rb"\+([0-9]{1,9})\}\}")

#: Metadata that the launcher or the store sets; ignored in templates.
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
    """The compiled pod template of one role in one attempt."""

    framework_uid: str
    attempt_id: int
    role: RoleName
    #: JSON and the names of gaps, alternating.
    pieces: tuple[bytes, ...]
    #: Labels of the pod of task 0 only.
    first_labels: Mapping[str, str]

    @classmethod
    def compile(
        cls,
        framework_name: FrameworkName,
        namespace: str,
        framework_uid: str,
        attempt_id: int,
        role: TaskRole,
        counts: Mapping[RoleName, int],
        overlay: PodOverlay = EMPTY_OVERLAY,
    ) -> "PodTemplate":
        """Compiles the template of *role*; *counts* are the numbers of tasks of all roles, in the order of the spec."""
        identity = _identity(framework_name, namespace, framework_uid, attempt_id, role.name)
        values = dict(zip(_NAMES, map(orjson.Fragment, identity.values()), strict=True))
        variables = [*_variables(values, counts), *overlay.variables]
        owner = controller_reference(API_VERSION, KIND, framework_name, framework_uid)
        pod = {
            **{key: value for key, value in role.pod.items() if key != "status"},
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": _metadata(role.pod.get("metadata") or {}, values, owner, overlay),
            "spec": _spec(role.pod.get("spec") or {}, variables, overlay),
        }
        text = _PLACEHOLDER.sub(lambda match: identity[match[1].decode()][1:-1], orjson.dumps(pod))
        text = _COUNTED_PLACEHOLDER.sub(lambda match: _index_gap(match[1]), text)
        return cls(framework_uid, attempt_id, role.name, tuple(text.split(_EDGE)), dict(overlay.first_labels))

    def pod(self, index: int, incarnation: int, task_attempt_id: int) -> Json:
        """The pod of one task attempt, as a new object."""
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
    framework: Framework, attempt_id: int, overlays: Mapping[RoleName, PodOverlay] | None = None
) -> dict[RoleName, PodTemplate]:
    """The templates of all roles for one attempt, with their overlays."""
    counts = {role.name: role.tasks for role in framework.spec.roles}
    name, namespace, uid = framework.name, framework.namespace, framework.uid
    return {
        role.name: PodTemplate.compile(
            name, namespace, uid, attempt_id, role, counts, (overlays or {}).get(role.name, EMPTY_OVERLAY)
        )
        for role in framework.spec.roles
    }


def index_plus(first: int) -> orjson.Fragment:
    """A value for a PodOverlay: *first* plus the task index, such as a rank."""
    return orjson.Fragment(b'"' + _index_gap(str(first).encode()) + b'"')


def _index_gap(first: bytes) -> bytes:
    return _EDGE + _COUNTED + first + _EDGE


def _count(gap: bytes, index: int) -> bytes:
    return str(int(gap.removeprefix(_COUNTED)) + index).encode()


def _identity(
    framework: FrameworkName, namespace: str, framework_uid: str, attempt_id: int, role: RoleName
) -> dict[str, bytes]:
    """The value of every identity key, in the order of the keys, as a JSON string that may contain gaps."""
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
    """*text* as a JSON string that ends with *gap*."""
    return orjson.dumps(text)[:-1] + gap + b'"'


def _variables(values: Values, counts: Mapping[RoleName, int]) -> list[Json]:
    """The environment variables of every container."""
    return [
        *[{"name": name, "value": value} for name, value in values.items()],
        *_INSTANCE_VARIABLES,
        {"name": "taskindex", "value": values[PodIdentityKey.TASK_INDEX]},
        {"name": "framework_name", "value": values[PodIdentityKey.FRAMEWORK_NAME]},
        {"name": "taskrole", "value": values[PodIdentityKey.TASKROLE_NAME]},
        # A variable name may not start with a digit; older clusters would reject the pod.
        *[
            {"name": f"{role}_tasknum", "value": str(n)}
            for role, n in counts.items()
            if not role[0].isdigit()
        ],
    ]


def _metadata(template: Mapping[str, Any], values: Values, owner: Json, overlay: PodOverlay) -> Json:
    return {
        **{key: value for key, value in template.items() if key not in _NOT_FROM_TEMPLATE},
        "name": values[PodIdentityKey.POD_NAME],
        "namespace": values[PodIdentityKey.FRAMEWORK_NAMESPACE],
        "labels": {
            **(template.get("labels") or {}),
            **overlay.labels,
            **{label: values[label] for label in _LABELS},
        },
        "annotations": {**(template.get("annotations") or {}), **overlay.annotations, **values},
        "ownerReferences": [*(template.get("ownerReferences") or ()), owner],
    }


def _spec(template: Mapping[str, Any], variables: list[Mapping[str, Any]], overlay: PodOverlay) -> Json:
    spec = {**overlay.defaults, **template}
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_container(container, variables, overlay) for container in spec[group]]
    lists = {
        name: [*values, *(spec.get(name) or ())]
        for name, values in overlay.spec.items()
        if isinstance(values, list)
    }
    return {**spec, **overlay.spec, **lists}


def _container(
    template: Mapping[str, Any] | None, variables: list[Mapping[str, Any]], overlay: PodOverlay
) -> Json:
    container = dict(template or {})
    if overlay.mounts:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *overlay.mounts]
    # Later variables take precedence, so those of the user come last.
    container["env"] = [*variables, *(container.get("env") or ())]
    if not container.get("terminationMessagePolicy"):
        # The end of a failed container's log becomes part of the pod's status and is kept with the attempt.
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return container
