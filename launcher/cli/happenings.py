"""Events of a Framework and of its pods."""

import re
from typing import Any

from launcher.cli.client import EVENTS, Api
from launcher.cli.terminal import one_line
from launcher.core.ages import age_of

Json = dict[str, Any]

EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


async def events_of(api: Api, framework: str | None) -> list[Json]:
    """The events about the Framework and its pods, or about everything, oldest first."""
    events, _ = await api.list(EVENTS)
    return sorted((event for event in events if concerns(event, framework)), key=_order)


def concerns(event: Json, framework: str | None) -> bool:
    """Whether the event is about that Framework or one of its pods; None stands for any."""
    if framework is None:
        return True
    about = event["involvedObject"]
    if about.get("kind") == "Pod":
        return task_of(event, framework) is not None
    return (about.get("kind"), about.get("name")) == ("Framework", framework)


def task_of(event: Json, framework: str) -> str | None:
    """``worker-0``: the task whose pod the event is about; None if it is about something else."""
    about = event["involvedObject"]
    pod = re.fullmatch(rf"{re.escape(framework)}-([a-z0-9]+-[0-9]+)", about.get("name") or "")
    return pod[1] if pod is not None and about.get("kind") == "Pod" else None


def last_seen(event: Json) -> str:
    """When it last happened, RFC 3339 so that later is greater."""
    seen = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return str(seen or "")


def _order(event: Json) -> tuple[str, int]:
    """By time, and within one second as they were written."""
    return last_seen(event), int(event["metadata"]["resourceVersion"])


def event_cells(event: Json, now: float) -> tuple[str, ...]:
    """The event's row under EVENT_HEADER."""
    about = event["involvedObject"]
    seen = age_of(last_seen(event), now)
    count = event.get("count") or 1
    if count > 1:
        seen += f" (x{count})"
    where = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    message = one_line(event.get("message") or "")
    return seen, event.get("type") or "", event.get("reason") or "", where, message
