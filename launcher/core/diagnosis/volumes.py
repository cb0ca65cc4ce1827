"""Why a volume cannot be mounted, and which ConfigMap or Secret is missing."""

import re
from collections.abc import Sequence
from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause
from launcher.core.diagnosis.finding import Problem
from launcher.core.diagnosis.inputs import TaskView

#: Event reasons of the kubelet and of the attach controller.
EVENT_REASONS: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")

_NAME = r'"?(?P<name>[^"\s,;:]+)"?'
#: What the kubelet, or the launcher's own node agent, reports; the first that matches.
_PATTERNS: Sequence[tuple[re.Pattern[str], Cause, str, str]] = (
    (
        re.compile(r"(?i)references non-existent .*key: (?P<name>\S+)"),
        causes.KEY_MISSING,
        "key {name} does not exist in the ConfigMap or Secret",
        "add the key, or correct items[].key in {field}.volumes",
    ),
    (
        re.compile(r"(?i)couldn't find key (?P<name>\S+) in (Secret|ConfigMap)"),
        causes.KEY_MISSING,
        "key {name} does not exist in the ConfigMap or Secret",
        "add the key, or correct valueFrom in {field}.containers[].env",
    ),
    (
        re.compile(rf"(?i)configmaps? {_NAME} not found"),
        causes.CONFIG_MAP_MISSING,
        'ConfigMap "{name}" does not exist',
        "kubectl -n {namespace} create configmap {name} --from-file=FILE",
    ),
    (
        re.compile(rf"(?i)secrets? {_NAME} not found"),
        causes.SECRET_MISSING,
        'Secret "{name}" does not exist',
        "kubectl -n {namespace} create secret generic {name} --from-file=FILE",
    ),
    (
        re.compile(rf"(?i)persistentvolumeclaims? {_NAME} not found|(for|of) the claim (?P<local>[^\s;]+)"),
        causes.CLAIM_MISSING,
        "PersistentVolumeClaim {name} does not exist",
        "create the claim; in local mode: launcher serve --claim {name}=DIR",
    ),
    (
        re.compile(r"(?i)outside the allowed host paths"),
        causes.HOST_PATH_FORBIDDEN,
        "a hostPath is outside the prefixes that the launcher allows",
        "use a path below an allowed prefix in {field}.volumes, or change the admission policy of the launcher",
    ),
    (
        re.compile(r"(?i)hostPath (?P<name>\S+):|hostPath type check failed: (?P<path>\S+)"),
        causes.HOST_PATH_MISSING,
        "hostPath {name} does not exist or is of another type",
        "create it on the node, or set hostPath.type to DirectoryOrCreate in {field}.volumes",
    ),
    (
        re.compile(r"(?i)no space left on device"),
        causes.DISK_FULL,
        "the node's disk is full",
        "free disk space on the node",
    ),
    (
        re.compile(r"(?i)mount\.nfs|nfs|cannot be mounted"),
        causes.NFS_UNREACHABLE,
        "an NFS export cannot be mounted",
        "check server and path in {field}.volumes[].nfs and that the node can reach the server; in local mode a "
        "directory can stand in: launcher serve --nfs SERVER:/PATH=DIR",
    ),
    (
        re.compile(r"(?i)Multi-Attach|already (used|exclusively attached)|AttachVolume"),
        causes.VOLUME_ATTACH,
        "a volume is attached to another node",
        "wait until the pod that uses it is gone, or use a claim with ReadWriteMany",
    ),
)


def explain_volume(view: TaskView, message: str, field: str) -> Problem:
    """A pod whose volumes or references cannot be resolved, with the reported *message*."""
    evidence = (view.evidence(field, message),)
    for pattern, cause, what, step in _PATTERNS:
        if (found := pattern.search(message)) is not None:
            name = next((value for value in found.groupdict().values() if value), "")
            words = {
                "name": name.rstrip(".,;"),
                "field": view.field,
                "namespace": view.context.framework.namespace,
            }
            return Problem(cause, what.format(**words), step.format(**words), evidence)
    return Problem(
        causes.MOUNT_FAILED,
        f"a volume cannot be mounted: {message.rpartition(' : ')[2]}",
        f"correct {view.field}.volumes",
        evidence,
    )


def is_reference_error(message: str) -> bool:
    """Whether the message names a missing ConfigMap, Secret or key."""
    return any(
        pattern.search(message)
        for pattern, cause, _, _ in _PATTERNS
        if cause in (causes.CONFIG_MAP_MISSING, causes.SECRET_MISSING, causes.KEY_MISSING)
    )
