"""Pod statuses in the output of Arena's commands."""

from typing import Any

from launcher.core.pods.pod_status_column import pod_status_column

Json = dict[str, Any]


def is_initialising(pod: Json) -> bool:
    """Whether the init containers of the pod are not completed yet."""
    return pod_status_column(pod).startswith("Init:") or (
        bool(pod["spec"].get("initContainers"))
        and (pod.get("status") or {}).get("phase") in (None, "Pending")
    )
