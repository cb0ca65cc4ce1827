"""Which requests kube-apiserver has answered, from its audit log: the way to count them."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.local.server import until

#: Every request but no bodies; one line when its answer begins (a watch), and one when it is over.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request and the status it was answered with; what a URL does not name is empty."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    status: int
    group: str = ""
    #: Whether the user has the right to it; what else may be against it shows in the status alone.
    allowed: bool = True
    #: In whose name the user asked, if not in the own.
    impersonated: str = ""


class AuditLog:
    """The log of one server, over all its restarts."""

    def __init__(self, path: Path, ask_as: Callable[[str], object]) -> None:
        """*ask_as* makes any request with the user agent that it is given."""
        self._path = path
        self._ask_as = ask_as

    def mark(self) -> int:
        """A place in the log: after everything that has been answered before this call."""
        return self._settle()

    def since(self, mark: int = 0, *, user_agent: str = "") -> list[Request]:
        """Every request after *mark* whose user agent begins so, in the order of the log, each once."""
        self._settle()
        events = {event["auditID"]: event for event in self._events(mark)}
        requests = map(_request, events.values())
        return [request for request in requests if request.user_agent.startswith(user_agent)]

    def _settle(self) -> int:
        """
        Return when the log has caught up: a line is written just after its answer.

        To where is told, too: the end of a line, for the next one may be half written.
        """
        begin = self._path.stat().st_size
        agent = f"audit-mark/{uuid.uuid4()}"
        self._ask_as(agent)

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


def _request(event: Any) -> Request:
    target = event.get("objectRef", {})
    return Request(
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
