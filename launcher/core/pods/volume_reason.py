"""Why a volume cannot be mounted, or a ConfigMap or Secret not be used: the cause and a clause."""

import re
from collections.abc import Sequence

from launcher.core import causes
from launcher.core.causes import Cause, Reason

_NAME = r'"?(?P<name>[^"\s,;:]+)"?'
#: What the kubelet, or the launcher's own node agent, reports; the first that matches.
_PATTERNS: Sequence[tuple[re.Pattern[str], Cause, str]] = (
    (
        re.compile(r"(?i)references non-existent .*key: (?P<name>\S+)"),
        causes.KEY_MISSING,
        "key {name} does not exist in the ConfigMap or Secret",
    ),
    (
        re.compile(r"(?i)couldn't find key (?P<name>\S+) in (Secret|ConfigMap)"),
        causes.KEY_MISSING,
        "key {name} does not exist in the ConfigMap or Secret",
    ),
    (
        re.compile(rf"(?i)configmaps? {_NAME} not found"),
        causes.CONFIG_MAP_MISSING,
        'ConfigMap "{name}" does not exist',
    ),
    (
        re.compile(rf"(?i)secrets? {_NAME} not found"),
        causes.SECRET_MISSING,
        'Secret "{name}" does not exist',
    ),
    (
        re.compile(rf"(?i)persistentvolumeclaims? {_NAME} not found|(for|of) the claim (?P<local>[^\s;]+)"),
        causes.CLAIM_MISSING,
        "PersistentVolumeClaim {name} does not exist",
    ),
    (
        re.compile(r"(?i)outside the allowed host paths"),
        causes.HOST_PATH_FORBIDDEN,
        "a hostPath is outside the prefixes that the launcher allows",
    ),
    (
        re.compile(r"(?i)hostPath (?P<name>\S+):|hostPath type check failed: (?P<path>\S+)"),
        causes.HOST_PATH_MISSING,
        "hostPath {name} does not exist or is of another type",
    ),
    (re.compile(r"(?i)no space left on device"), causes.DISK_FULL, "the node's disk is full"),
    (
        re.compile(r"(?i)mount\.nfs|nfs|cannot be mounted"),
        causes.NFS_UNREACHABLE,
        "an NFS export cannot be mounted",
    ),
    (
        re.compile(r"(?i)Multi-Attach|already (used|exclusively attached)|AttachVolume"),
        causes.VOLUME_ATTACH,
        "a volume is attached to another node",
    ),
)
_REFERENCES = frozenset({causes.CONFIG_MAP_MISSING, causes.SECRET_MISSING, causes.KEY_MISSING})


def volume_reason(message: str) -> Reason:
    """The reason of a pod whose volumes or references cannot be resolved."""
    for pattern, cause, what in _PATTERNS:
        if (found := pattern.search(message)) is not None:
            name = next((value for value in found.groupdict().values() if value), "").rstrip(".,;")
            return Reason(cause, what.format(name=name), name)
    return Reason(causes.MOUNT_FAILED, f"a volume cannot be mounted: {message.rpartition(' : ')[2]}")


def is_reference_error(message: str) -> bool:
    """Whether the message names a missing ConfigMap, Secret or key."""
    return any(cause in _REFERENCES and pattern.search(message) for pattern, cause, _ in _PATTERNS)
