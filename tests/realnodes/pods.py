"""Pods for real nodes."""

from typing import Any

from tests.core.manifests import Json
from tests.realnodes.images import BUSYBOX

#: Longer than any test: whoever runs so is ended.
FOREVER = "exec sleep 600"


def a_real_pod(script: str, *, container: Json | None = None, **spec: Any) -> Json:
    """A pod template whose one container runs a shell script, and is told to end two seconds before it must."""
    main = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script], **(container or {})}
    whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [main]}
    return {"spec": {**whole, **spec}}


def on(node: str) -> dict[str, str]:
    """The node selector for that node."""
    return {"kubernetes.io/hostname": node}


def has_host_data(node: str) -> Json:
    """Of a pod: it runs on that node, and mounts what the node has at /data."""
    volume = {"name": "data", "hostPath": {"path": "/data", "type": "Directory"}}
    return {"nodeSelector": on(node), "volumes": [volume]}


def sees_host_data() -> Json:
    """Of a container of such a pod: it has that at /host."""
    return {"volumeMounts": [{"name": "data", "mountPath": "/host"}]}
