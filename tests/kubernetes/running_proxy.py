"""The API proxy in front of a real control plane, and clients that return complete responses."""

import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from launcher.api.proxy.app import request_client_certificates
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from launcher.tls.client_context import ClientTls
from launcher.tls.server_context import server_context
from tests.api.proxy.threaded_proxy import run_proxy_in_thread
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.users import User
from tests.eventually import TIMEOUT_SECONDS

#: Headers that differ between any two responses.
_VARYING_HEADERS = {"date", "audit-id", "server", "connection"}


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response with all its headers."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    def comparable(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """Everything that is equal in the responses to two equal requests."""
        return (
            self.status,
            sorted(pair for pair in self.headers if pair[0] not in _VARYING_HEADERS),
            self.body,
        )


class RawClient:
    """Sends the requests of one user to one server."""

    def __init__(self, url: str, authority: Path, user: User | None) -> None:
        self._address = urlsplit(url)
        self._context = ssl.create_default_context(cafile=str(authority))
        self._headers = {"User-Agent": "raw-client", "Accept": "application/json"}
        if user is not None and user.token:
            self._headers["Authorization"] = f"Bearer {user.token}"
        if user is not None and user.certificate is not None:
            self._context.load_cert_chain(user.certificate.certificate, user.certificate.key)

    def request(
        self, method: str, path: str, body: Any = None, media: str = "application/json", **headers: str
    ) -> RawResponse:
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        with self.open(method, path, data, media, **headers) as response:
            content = response.read()
            return RawResponse(response.status, [(n.lower(), v) for n, v in response.getheaders()], content)

    def open(
        self, method: str, path: str, data: bytes | None = None, media: str = "", **headers: str
    ) -> http.client.HTTPResponse:
        """A response whose body is not yet read; its connection is closed with it."""
        connection = http.client.HTTPSConnection(
            str(self._address.hostname), self._address.port, timeout=TIMEOUT_SECONDS, context=self._context
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = {"Content-Type": media} if data is not None else {}
        connection.request(method, path, data, {**self._headers, **content, **named, "Connection": "close"})
        return connection.getresponse()


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """The address of a proxy, and the control plane behind it."""

    url: str
    ca: Path
    cluster: ControlPlane

    def client(self, user: User | None) -> RawClient:
        """A client of the proxy."""
        return RawClient(self.url, self.ca, user)

    def direct_client(self, user: User | None) -> RawClient:
        """A client of kube-apiserver itself."""
        return RawClient(self.cluster.url, self.cluster.ca, user)


@contextmanager
def running_proxy(
    cluster: ControlPlane, launcher: User, directory: Path, *, client_certificates: bool = False
) -> Iterator[RunningProxy]:
    """A proxy with its own certificate and the permissions of *launcher*; it may authenticate client certificates."""
    authority = Authority(directory / "pki")
    certificate, context = authority.server(), server_context()
    context.load_cert_chain(certificate.certificate, certificate.key)
    if client_certificates:
        request_client_certificates(context, cluster.ca)
    config = ClusterConfig(cluster.url, FixedHeader(f"Bearer {launcher.token}"), ClientTls(cluster.ca))
    with run_proxy_in_thread(config, context, certificates=client_certificates) as url:
        yield RunningProxy(url, authority.certificate, cluster)
