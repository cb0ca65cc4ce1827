"""
Names of pods, labels, annotations and environment variables, and derived uids.

The FC_ names are those of FrameworkController. A pod's identity is read from its labels and annotations, never parsed
from its name; the name only has to match.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha1
from typing import Any

from launcher.core.spec import FrameworkName, PodName, RoleName

API_VERSION = "launcher.microsoft.com/v1"
KIND = "Framework"
#: The init container and the volume that ``spec.discovery`` adds to a pod.
DISCOVERY = "launcher-discovery"
#: Annotations on each pod of a gang: an identifier shared by its pods, and the number of pods scheduled together.
GANG_ANNOTATION = "launcher.microsoft.com/gang"
GANG_MIN_ANNOTATION = "launcher.microsoft.com/gang-min"
#: The label on each pod of a gang that a cluster schedules: the backend.
BACKEND_LABEL = "launcher.microsoft.com/gang-backend"

#: Annotations on pods of roles with progressDeadlineSeconds: that number, and the time of the last heartbeat.
PROGRESS_DEADLINE_ANNOTATION = "launcher.microsoft.com/progress-deadline"
HEARTBEAT_ANNOTATION = "launcher.microsoft.com/heartbeat"


class PodIdentityKey(StrEnum):
    """Keys of a pod's identity in its labels, annotations and environment, in the order of the environment."""

    # Stable across retries and rescaling; a pod template may also use these as {{NAME}}.
    FRAMEWORK_NAMESPACE = "FC_FRAMEWORK_NAMESPACE"
    FRAMEWORK_NAME = "FC_FRAMEWORK_NAME"
    TASKROLE_NAME = "FC_TASKROLE_NAME"
    TASK_INDEX = "FC_TASK_INDEX"
    CONFIGMAP_NAME = "FC_CONFIGMAP_NAME"
    POD_NAME = "FC_POD_NAME"
    # The identity of one instance.
    FRAMEWORK_UID = "FC_FRAMEWORK_UID"
    FRAMEWORK_ATTEMPT_ID = "FC_FRAMEWORK_ATTEMPT_ID"
    FRAMEWORK_ATTEMPT_INSTANCE_UID = "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID"
    CONFIGMAP_UID = "FC_CONFIGMAP_UID"
    TASKROLE_UID = "FC_TASKROLE_UID"
    TASK_UID = "FC_TASK_UID"
    TASK_ATTEMPT_ID = "FC_TASK_ATTEMPT_ID"


#: Replaced by its value wherever a pod template contains ``{{FC_TASK_INDEX}}`` and so on.
PLACEHOLDERS = tuple(PodIdentityKey)[:6]

#: The keys that are also labels, for selectors.
LABELS = (
    PodIdentityKey.FRAMEWORK_NAME,
    PodIdentityKey.TASKROLE_NAME,
    PodIdentityKey.TASK_INDEX,
    PodIdentityKey.FRAMEWORK_ATTEMPT_ID,
    PodIdentityKey.TASK_ATTEMPT_ID,
)

#: Set only inside containers: the pod's uid is assigned when the pod is created.
POD_UID_VARIABLE = "FC_POD_UID"
TASK_ATTEMPT_INSTANCE_UID_VARIABLE = "FC_TASK_ATTEMPT_INSTANCE_UID"

#: The uuid namespace of all derived uids. Must not change: existing pods are recognised by their uids.
_NAMESPACE = bytes.fromhex("5a0c1bb87c335a8b9a556d1f2f0f8a3e")
_FRAMEWORK = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ROLE = re.compile(r"[a-z0-9]{1,63}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def task_name(framework: FrameworkName, role: RoleName, index: int) -> str:
    """``mnist-worker-0``; the same for all attempts of the task."""
    return f"{framework}-{role}-{index}"


def pod_name(framework: FrameworkName, role: RoleName, index: int) -> PodName:
    """The name of every pod of this task. All attempts share it, so two pods can never exist at once."""
    return PodName(task_name(framework, role, index))


def config_map_name(framework: FrameworkName) -> str:
    """The name of the attempt's ConfigMap in FrameworkController. There is none here, but scripts expect the name."""
    return f"{framework}-attempt"


def attempt_record_name(framework: FrameworkName, number: int) -> str:
    """``mnist-1``: the name of the FrameworkAttempt of an attempt, counted from 1."""
    return f"{framework}-{number}"


def role_selector(framework: FrameworkName, role: RoleName) -> str:
    """The label selector of the pods of this role."""
    return f"{PodIdentityKey.FRAMEWORK_NAME}={framework},{PodIdentityKey.TASKROLE_NAME}={role}"


def attempt_uid(framework_uid: str, attempt_id: int) -> str:
    """The uid of one Framework attempt."""
    return _derived_uid(f"attempt/{attempt_id}", framework_uid)


def role_uid(framework_uid: str, attempt_id: int, role: RoleName) -> str:
    """The uid of one role within one Framework attempt."""
    return _derived_uid(f"role/{attempt_id}/{role}", framework_uid)


def task_uid(framework_uid: str, attempt_id: int, role: RoleName, index: int, incarnation: int) -> str:
    """The uid of a task: the same for all its attempts, a new one after a rescale has replaced it."""
    return _derived_uid(f"task/{attempt_id}/{role}/{index}/{incarnation}", framework_uid)


def instance_uid(attempt_id: int, uid: str) -> str:
    """``0_<uid>``: the id of one instance of an attempt."""
    return f"{attempt_id}_{uid}"


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The task attempt that a pod belongs to."""

    framework: FrameworkName
    role: RoleName
    index: int
    framework_attempt: int
    task_attempt: int
    task_uid: str


def task_identity(pod: Mapping[str, Any]) -> TaskIdentity | None:
    """
    The pod's identity from its labels and annotations; None if one is missing, malformed or does not match its name.

    Every client can write labels: ownership is decided by the uid of the pod's controller reference.
    """
    metadata = pod.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    values = (
        *[labels.get(key) for key in LABELS],
        annotations.get(PodIdentityKey.TASK_UID),
        metadata.get("name"),
    )
    return _task_identity(*values) if all(isinstance(value, str) for value in values) else None


# Computed for every update of a pod, from values that never change.
@lru_cache(maxsize=2**14)
def _task_identity(
    framework: str, role: str, index: str, framework_attempt: str, task_attempt: str, uid: str, name: str
) -> TaskIdentity | None:
    if not (_FRAMEWORK.fullmatch(framework) and _ROLE.fullmatch(role) and _UID.fullmatch(uid)):
        return None
    if not all(map(_NUMBER.fullmatch, (index, framework_attempt, task_attempt))):
        return None
    identity = TaskIdentity(
        FrameworkName(framework), RoleName(role), int(index), int(framework_attempt), int(task_attempt), uid
    )
    return identity if name == pod_name(identity.framework, identity.role, identity.index) else None


def _derived_uid(name: str, framework_uid: str) -> str:
    """
    The uuid5 of *name* within the Framework, as text.

    Computed here since every pod needs one, and this is three times faster than ``uuid.UUID``.
    """
    # The uid comes last: it is the only part that users can write, so it cannot change the meaning of what follows.
    digest = sha1(_NAMESPACE + f"{name}/{framework_uid}".encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
