"""Events of a Framework and of its pods."""

import re
from typing import Any

from launcher.cli.client.api_client import ApiClient
from launcher.cli.client.api_path import EVENTS
from launcher.cli.output.task_entries import role_entries
from launcher.cli.output.terminal import one_line
from launcher.core.timestamps import format_age

Json = dict[str, Any]

EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def events_of(api: ApiClient, framework: Json | str | None) -> list[Json]:
    """
    The events of a Framework and its pods, or of the whole namespace, oldest first.

    For the name of a Framework that no longer exists, these are the events of all Frameworks of that name.
    """
    name = framework["metadata"]["name"] if isinstance(framework, dict) else framework
    found = [event for event in api.list(EVENTS) if is_about(event, name)]
    if isinstance(framework, dict):
        uids = _uids(framework)
        found = [event for event in found if _is_of(event, framework["metadata"], uids)]
    return sorted(found, key=_sort_key)


def _uids(framework: Json) -> set[str]:
    """The uid of the Framework and of the pods of its current attempts."""
    attempts = [task["attemptStatus"] for role in role_entries(framework) for task in role.tasks]
    pods = [attempt["podUID"] for attempt in attempts if attempt.get("podUID")]
    return {framework["metadata"]["uid"], *pods}


def _is_of(event: Json, metadata: Json, uids: set[str]) -> bool:
    """Whether the event is about that Framework, and not about a deleted one of the same name."""
    uid = event["involvedObject"].get("uid")
    if not uid or uid in uids:
        return True
    # The status no longer lists the pods of earlier attempts, but they were created after the Framework.
    is_pod = event["involvedObject"].get("kind") == "Pod"
    return is_pod and first_seen(event) > str(metadata["creationTimestamp"])


def is_about(event: Json, framework: str | None) -> bool:
    """Whether the event is about that Framework or one of its pods; None is any Framework."""
    if framework is None:
        return True
    about = event["involvedObject"]
    if about.get("kind") == "Pod":
        return task_of(event, framework) is not None
    return (about.get("kind"), about.get("name")) == ("Framework", framework)


def task_of(event: Json, framework: str) -> str | None:
    """``worker-0``: the task whose pod the event is about; None for other objects."""
    about = event["involvedObject"]
    pod = re.fullmatch(rf"{re.escape(framework)}-([a-z0-9]+-[0-9]+)", about.get("name") or "")
    return pod[1] if pod is not None and about.get("kind") == "Pod" else None


def last_seen(event: Json) -> str:
    """The time of the last occurrence, in RFC 3339."""
    seen = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return str(seen or "")


def first_seen(event: Json) -> str:
    """The time of the first occurrence, in RFC 3339."""
    return str(event.get("firstTimestamp") or last_seen(event))


def _sort_key(event: Json) -> tuple[str, int]:
    """By time, and within one second in the order of their creation."""
    return last_seen(event), int(event["metadata"]["resourceVersion"])


def event_cells(event: Json, now: float) -> tuple[str, ...]:
    """The event's row under EVENT_HEADER."""
    about = event["involvedObject"]
    seen = format_age(last_seen(event), now)
    count = event.get("count") or 1
    if count > 1:
        seen += f" (x{count})"
    name = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    message = one_line(event.get("message") or "")
    return seen, event.get("type") or "", event.get("reason") or "", name, message
