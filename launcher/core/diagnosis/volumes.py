"""Pods whose volumes cannot be mounted, or whose ConfigMaps and Secrets are missing."""

from collections.abc import Mapping
from typing import Final

from launcher.core import causes
from launcher.core.diagnosis.finding import Problem
from launcher.core.diagnosis.inputs import TaskView
from launcher.core.pods.volume_reason import volume_reason

#: Event reasons of the kubelet and of the attach controller.
EVENT_REASONS: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")

#: The next step by cause. ``{name}`` is the missing object.
_STEPS: Mapping[str, str] = {
    causes.KEY_MISSING.id: "add the key, or correct {user} in {field}",
    causes.CONFIG_MAP_MISSING.id: "kubectl -n {namespace} create configmap {name} --from-file=FILE",
    causes.SECRET_MISSING.id: "kubectl -n {namespace} create secret generic {name} --from-file=FILE",
    causes.CLAIM_MISSING.id: "create the claim; in local mode: launcher serve --claim {name}=DIR",
    causes.HOST_PATH_FORBIDDEN.id: "use a path below an allowed prefix in {field}.volumes, or change the admission "
    "policy of the launcher",
    causes.HOST_PATH_MISSING.id: "create it on the node, or set hostPath.type to DirectoryOrCreate in {field}.volumes",
    causes.DISK_FULL.id: "free disk space on the node",
    causes.NFS_UNREACHABLE.id: "check server and path in {field}.volumes[].nfs and that the node can reach the server; "
    "in local mode a directory can stand in: launcher serve --nfs SERVER:/PATH=DIR",
    causes.VOLUME_ATTACH.id: "wait until the pod that uses it is gone, or use a claim with ReadWriteMany",
    causes.MOUNT_FAILED.id: "correct {field}.volumes",
}


def explain_volume(view: TaskView, message: str, field: str) -> Problem:
    """A pod whose volumes or references cannot be resolved, with the *message* in that *field*."""
    reason = volume_reason(message)
    words = {
        "name": reason.subject,
        "field": view.field,
        "namespace": view.context.framework.namespace,
        "user": "containers[].env[].valueFrom" if "couldn't find key" in message else "volumes[].items",
    }
    step = _STEPS[reason.cause.id].format(**words)
    return Problem(reason.cause, reason.text, step, (view.evidence(field, message),))
