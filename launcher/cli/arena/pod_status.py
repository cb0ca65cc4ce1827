"""Where a pod stands, in the words of kubectl."""

from typing import Any

Json = dict[str, Any]


def pod_words(pod: Json) -> str:
    """``Running``, ``Init:0/1``, ``ContainerCreating``, ``Completed``, …"""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    early = status.get("initContainerStatuses") or []
    done = sum(_exit_code(each) == 0 for each in early)
    if early and done < len(early):
        said = _reason(early[done])
        return f"Init:{said}" if said not in ("", "PodInitializing") else f"Init:{done}/{len(early)}"
    said = next((reason for each in status.get("containerStatuses") or () if (reason := _reason(each))), "")
    return said or status.get("reason") or status.get("phase") or "Unknown"


def is_initialising(pod: Json) -> bool:
    """Whether its init containers are not through yet."""
    return pod_words(pod).startswith("Init:") or (
        bool(pod["spec"].get("initContainers"))
        and (pod.get("status") or {}).get("phase") in (None, "Pending")
    )


def _reason(container: Json) -> str:
    state = container.get("state") or {}
    ended, waiting = state.get("terminated") or {}, state.get("waiting") or {}
    if ended:
        return str(ended.get("reason") or f"ExitCode:{ended.get('exitCode')}")
    return str(waiting.get("reason") or "")


def _exit_code(container: Json) -> int | None:
    ended = (container.get("state") or {}).get("terminated")
    return None if ended is None else int(ended.get("exitCode", -1))
