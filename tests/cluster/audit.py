"""The requests that kube-apiserver has served, read from its audit log."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.eventually import until

#: Every request without bodies: a line when a watch starts, and a line when a request completes.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One request and the status of its response; fields that its URL does not name are empty."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    status: int
    group: str = ""
    #: Whether RBAC allows it; other refusals are visible in the status only.
    allowed: bool = True
    #: The user that the request impersonates.
    impersonated: str = ""


class AuditLog:
    """The audit log of one server, across its restarts."""

    def __init__(self, path: Path, request_as: Callable[[str], object]) -> None:
        """*request_as* sends any request with the user agent that it gets."""
        self._path = path
        self._request_as = request_as

    def mark(self) -> int:
        """The offset after every request that was served before this call."""
        return self._catch_up()

    def since(self, mark: int = 0, *, user_agent: str = "") -> list[AuditedRequest]:
        """Every request after *mark* whose user agent has this prefix, in the order of the log."""
        self._catch_up()
        events = {event["auditID"]: event for event in self._events(mark)}
        requests = map(_request, events.values())
        return [request for request in requests if request.user_agent.startswith(user_agent)]

    def _catch_up(self) -> int:
        """
        Returns the offset of the end of the log, once it holds every served request.

        A line is written after its response. The offset is that of a line end: the next line may be incomplete.
        """
        begin = self._path.stat().st_size
        agent = f"audit-mark/{uuid.uuid4()}"
        self._request_as(agent)

        def caught_up() -> bytes | None:
            text = self._text(begin)
            return text if agent.encode() in text else None

        return begin + len(until(caught_up, "the audit log has caught up"))

    def _events(self, mark: int) -> list[Any]:
        return [event for line in self._text(mark).splitlines() if not _is_mark(event := orjson.loads(line))]

    def _text(self, mark: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(mark)
            text = file.read()
        return text[: text.rfind(b"\n") + 1]


def _is_mark(event: Any) -> bool:
    return str(event.get("userAgent", "")).startswith("audit-mark/")


def _request(event: Any) -> AuditedRequest:
    target = event.get("objectRef", {})
    return AuditedRequest(
        verb=event["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        user=event["user"].get("username", ""),
        user_agent=event.get("userAgent", ""),
        status=event.get("responseStatus", {}).get("code", 0),
        group=target.get("apiGroup", ""),
        allowed=event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid",
        impersonated=event.get("impersonatedUser", {}).get("username", ""),
    )
