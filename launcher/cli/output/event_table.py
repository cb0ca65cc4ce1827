"""Events of a Framework and of its pods."""

import re
from typing import Any

from launcher.cli.client.api_client import EVENTS, ApiClient
from launcher.cli.output.framework_summary import record_of
from launcher.cli.output.terminal import one_line
from launcher.core.timestamps import format_age

Json = dict[str, Any]

EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


async def events_of(api: ApiClient, framework: Json | str | None) -> list[Json]:
    """
    The events about a Framework and its pods, or about everything, oldest first.

    Of a Framework that exists, those about others that had its name are left out; of a name alone, all of them count.
    """
    events, _ = await api.list(EVENTS)
    name = framework["metadata"]["name"] if isinstance(framework, dict) else framework
    found = [event for event in events if concerns(event, name)]
    if isinstance(framework, dict):
        known = _uids(framework)
        found = [event for event in found if _is_of(event, framework["metadata"], known)]
    return sorted(found, key=_order)


def _uids(framework: Json) -> set[str]:
    """The uid of the Framework and of the pods of its current attempts."""
    record = record_of(framework)
    tasks = [task for role in record.roles for task in role.tasks] if record else []
    return {framework["metadata"]["uid"], *(task.attempt.pod_uid for task in tasks if task.attempt.pod_uid)}


def _is_of(event: Json, metadata: Json, known: set[str]) -> bool:
    """Whether the event is about that Framework, and not about a deleted one that had its name."""
    uid = event["involvedObject"].get("uid")
    if not uid or uid in known:
        return True
    # Pods of earlier attempts are no longer in the status, but began after their Framework.
    is_pod = event["involvedObject"].get("kind") == "Pod"
    return is_pod and first_seen(event) > str(metadata["creationTimestamp"])


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


def first_seen(event: Json) -> str:
    """When it first happened, RFC 3339."""
    return str(event.get("firstTimestamp") or last_seen(event))


def _order(event: Json) -> tuple[str, int]:
    """By time, and within one second as they were written."""
    return last_seen(event), int(event["metadata"]["resourceVersion"])


def event_cells(event: Json, now: float) -> tuple[str, ...]:
    """The event's row under EVENT_HEADER."""
    about = event["involvedObject"]
    seen = format_age(last_seen(event), now)
    count = event.get("count") or 1
    if count > 1:
        seen += f" (x{count})"
    where = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    message = one_line(event.get("message") or "")
    return seen, event.get("type") or "", event.get("reason") or "", where, message
