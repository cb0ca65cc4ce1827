"""
What things are called: pods, labels, annotations, environment variables, and the uids that we derive.

The FC_ names are those that FrameworkController's users know. Nothing is ever read back from a pod's name: whose
pod it is stands in its labels and annotations, and the name has to agree.
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
#: The init container and the volume that a pod gets by ``spec.discovery``.
DISCOVERY = "launcher-discovery"


class PodIdentityKey(StrEnum):
    """What a pod carries to say whose it is, in the order in which its containers see it."""

    # Stable over retries and rescale; a pod template may also use these as {{NAME}}.
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


#: Written ``{{FC_TASK_INDEX}}`` in a pod template, replaced by its value in every pod.
PLACEHOLDERS = tuple(PodIdentityKey)[:6]

#: The marks by which Services and lists select pods.
LABELS = (
    PodIdentityKey.FRAMEWORK_NAME,
    PodIdentityKey.TASKROLE_NAME,
    PodIdentityKey.TASK_INDEX,
    PodIdentityKey.FRAMEWORK_ATTEMPT_ID,
    PodIdentityKey.TASK_ATTEMPT_ID,
)

#: Known only inside a container, because the pod's uid is given out when it is created.
POD_UID_VARIABLE = "FC_POD_UID"
TASK_ATTEMPT_INSTANCE_UID_VARIABLE = "FC_TASK_ATTEMPT_INSTANCE_UID"

#: Every uid that we derive comes from this one; changed, running pods would no longer be known as ours.
_NAMESPACE = bytes.fromhex("5a0c1bb87c335a8b9a556d1f2f0f8a3e")
_FRAMEWORK = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ROLE = re.compile(r"[a-z0-9]{1,63}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def task_name(framework: FrameworkName, role: RoleName, index: int) -> str:
    """``mnist-worker-0``: what one task is called, whatever becomes of its attempts."""
    return f"{framework}-{role}-{index}"


def pod_name(framework: FrameworkName, role: RoleName, index: int) -> PodName:
    """The name of every pod that serves this task; one name, so never two at once."""
    return PodName(task_name(framework, role, index))


def config_map_name(framework: FrameworkName) -> str:
    """What the attempt's ConfigMap would be called. There is none, but old scripts expect the name."""
    return f"{framework}-attempt"


def role_selector(framework: FrameworkName, role: RoleName) -> str:
    """Which pods serve tasks of this role, as a label selector."""
    return f"{PodIdentityKey.FRAMEWORK_NAME}={framework},{PodIdentityKey.TASKROLE_NAME}={role}"


def attempt_uid(framework_uid: str, attempt_id: int) -> str:
    """The uid of one try of the whole Framework."""
    return _derived(f"attempt/{attempt_id}", framework_uid)


def role_uid(framework_uid: str, attempt_id: int, role: RoleName) -> str:
    """The uid of one role within one try of the Framework."""
    return _derived(f"role/{attempt_id}/{role}", framework_uid)


def task_uid(framework_uid: str, attempt_id: int, role: RoleName, index: int, incarnation: int) -> str:
    """The uid of a task: the same over its retries, another once a rescale has replaced it."""
    return _derived(f"task/{attempt_id}/{role}/{index}/{incarnation}", framework_uid)


def instance_uid(attempt_id: int, uid: str) -> str:
    """``0_<uid>``: one concrete instance of an attempt."""
    return f"{attempt_id}_{uid}"


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """Which attempt of which task a pod serves."""

    framework: FrameworkName
    role: RoleName
    index: int
    framework_attempt: int
    task_attempt: int
    task_uid: str


def task_identity(pod: Mapping[str, Any]) -> TaskIdentity | None:
    """
    Whom the pod serves, by its labels and annotations; None if one is missing, malformed or not as its name says.

    Anybody can write labels: whose pod it is, its controller's uid decides.
    """
    metadata = pod.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    marks = (
        *[labels.get(mark) for mark in LABELS],
        annotations.get(PodIdentityKey.TASK_UID),
        metadata.get("name"),
    )
    return _membership(*marks) if all(isinstance(mark, str) for mark in marks) else None


# A pod is looked at with each of its changes, and these never do.
@lru_cache(maxsize=2**14)
def _membership(
    framework: str, role: str, index: str, framework_attempt: str, task_attempt: str, uid: str, name: str
) -> TaskIdentity | None:
    if not (_FRAMEWORK.fullmatch(framework) and _ROLE.fullmatch(role) and _UID.fullmatch(uid)):
        return None
    if not all(map(_NUMBER.fullmatch, (index, framework_attempt, task_attempt))):
        return None
    of = TaskIdentity(
        FrameworkName(framework), RoleName(role), int(index), int(framework_attempt), int(task_attempt), uid
    )
    return of if name == pod_name(of.framework, of.role, of.index) else None


def _derived(what: str, framework_uid: str) -> str:
    """
    The uuid5 of *what* within the Framework, as text.

    Written out because every pod needs one, and three times faster than by way of ``uuid.UUID``.
    """
    # The uid comes last: it is the one part that others write, so nothing after it can be mistaken.
    digest = sha1(_NAMESPACE + f"{what}/{framework_uid}".encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
