"""A plain client of kube-apiserver, for the setup and the assertions of tests."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.cluster.users import User

#: Distinguishes the requests of tests from those of the launcher in the audit log.
USER_AGENT = "test-bed"
MERGE_PATCH = "application/merge-patch+json"
_JSON = "application/json"
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Response:
    """A response; a body that is not JSON is text."""

    status: int
    body: Any


class ClusterClient:
    """Sends the requests of one user, each over a new connection: no connection is stale after a restart."""

    def __init__(self, address: str, port: int, authority: Path, user: User | None) -> None:
        self._address, self._port = address, port
        self._context = ssl.create_default_context(cafile=str(authority))
        self._credentials: dict[str, str] = {}
        if user is not None and user.token:
            self._credentials["Authorization"] = f"Bearer {user.token}"
        if user is not None and user.certificate is not None:
            self._context.load_cert_chain(user.certificate.certificate, user.certificate.key)

    def request(
        self,
        method: str,
        path: str,
        obj: Mapping[str, Any] | None = None,
        *,
        content_type: str = _JSON,
        user_agent: str = USER_AGENT,
    ) -> Response:
        """The response with any status. Raises OSError if there is none."""
        headers = {
            **self._credentials,
            "User-Agent": user_agent,
            "Accept": _JSON,
            "Content-Type": content_type,
        }
        connection = http.client.HTTPSConnection(
            self._address, self._port, timeout=_TIMEOUT_SECONDS, context=self._context
        )
        try:
            connection.request(method, path, None if obj is None else orjson.dumps(obj), headers)
            response = connection.getresponse()
            content = response.read()
            is_json = content and response.headers.get_content_type() == _JSON
            return Response(response.status, orjson.loads(content) if is_json else content.decode())
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: the connection was closed") from error
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The object, which must exist."""
        return self._succeed("GET", path, None)

    def post(self, path: str, obj: Mapping[str, Any]) -> Any:
        """The created object."""
        return self._succeed("POST", path, obj)

    def patch(self, path: str, change: Mapping[str, Any]) -> Any:
        """The object after *change* is merged into it."""
        return self._succeed("PATCH", path, change, MERGE_PATCH)

    def delete(self, path: str) -> Any:
        """The response to its deletion."""
        return self._succeed("DELETE", path, None)

    def _succeed(
        self, method: str, path: str, obj: Mapping[str, Any] | None, content_type: str = _JSON
    ) -> Any:
        response = self.request(method, path, obj, content_type=content_type)
        assert response.status < 300, f"{method} {path}: {response.status} {response.body}"
        return response.body
