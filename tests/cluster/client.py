"""A plain client of kube-apiserver, for what a test arranges and looks at."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.cluster.users import User

#: By which the bed's own requests are told from those of the program under test.
USER_AGENT = "test-bed"
MERGE_PATCH = "application/merge-patch+json"
_JSON = "application/json"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: for what is not JSON, the body is text."""

    status: int
    body: Any


class Client:
    """Asks as one user, each time over a connection of its own: a restart of the server leaves nothing stale."""

    def __init__(self, address: str, port: int, authority: Path, user: User | None) -> None:
        self._address, self._port = address, port
        self._context = ssl.create_default_context(cafile=str(authority))
        self._credentials: dict[str, str] = {}
        if user is not None and user.token:
            self._credentials["Authorization"] = f"Bearer {user.token}"
        if user is not None and user.certificate is not None:
            self._context.load_cert_chain(user.certificate.certificate, user.certificate.key)

    def ask(
        self,
        method: str,
        path: str,
        obj: Mapping[str, Any] | None = None,
        *,
        content_type: str = _JSON,
        user_agent: str = USER_AGENT,
    ) -> Answer:
        """The answer, whatever it says. Raises OSError when there is none."""
        headers = {
            **self._credentials,
            "User-Agent": user_agent,
            "Accept": _JSON,
            "Content-Type": content_type,
        }
        connection = http.client.HTTPSConnection(
            self._address, self._port, timeout=_SECONDS, context=self._context
        )
        try:
            connection.request(method, path, None if obj is None else orjson.dumps(obj), headers)
            response = connection.getresponse()
            content = response.read()
            is_json = content and response.headers.get_content_type() == _JSON
            return Answer(response.status, orjson.loads(content) if is_json else content.decode())
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: the connection was cut") from error
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The object there, which must be."""
        return self._granted("GET", path, None)

    def post(self, path: str, obj: Mapping[str, Any]) -> Any:
        """The object as made."""
        return self._granted("POST", path, obj)

    def patch(self, path: str, change: Mapping[str, Any]) -> Any:
        """The object after *change* is merged into it."""
        return self._granted("PATCH", path, change, MERGE_PATCH)

    def delete(self, path: str) -> Any:
        """What the server says on its deletion."""
        return self._granted("DELETE", path, None)

    def _granted(
        self, method: str, path: str, obj: Mapping[str, Any] | None, content_type: str = _JSON
    ) -> Any:
        answer = self.ask(method, path, obj, content_type=content_type)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.body}"
        return answer.body
