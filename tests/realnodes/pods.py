"""Pods for real nodes."""

from typing import Any

from tests.builders import Json
from tests.realnodes.images import BUSYBOX

#: Longer than any test.
SLEEP_COMMAND = "exec sleep 600"


def a_real_pod(script: str, *, container: Json | None = None, **spec: Any) -> Json:
    """A pod template whose container runs a shell script, with a grace period of two seconds."""
    main = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script], **(container or {})}
    whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [main]}
    return {"spec": {**whole, **spec}}


def node_selector(node: str) -> dict[str, str]:
    """The node selector for that node."""
    return {"kubernetes.io/hostname": node}


def host_data_volume(node: str) -> Json:
    """The fields of a pod on that node that mounts the node's /data."""
    volume = {"name": "data", "hostPath": {"path": "/data", "type": "Directory"}}
    return {"nodeSelector": node_selector(node), "volumes": [volume]}


def host_data_mount() -> Json:
    """The fields of a container of such a pod, with /data at /host."""
    return {"volumeMounts": [{"name": "data", "mountPath": "/host"}]}
