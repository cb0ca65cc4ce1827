"""Requests are forwarded with the caller's identity or not at all."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from launcher.api.proxy.app import request_client_certificates
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import Credentials, FixedHeader
from launcher.tls.client_context import ClientTls
from launcher.tls.server_context import server_context
from tests.api.client import HttpResponse
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer, run_fake_api_server
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.api.samples import A, B, framework
from tests.cluster.pki import Authority, Certificate

NO_HEADERS: dict[str, str] = {}


@pytest.fixture
async def anonymous(cluster: FakeApiServer) -> AsyncIterator[ProxyClient]:
    """A client of the proxy without credentials."""
    async with run_proxy(
        ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS)), headers=NO_HEADERS
    ) as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/version"), ("GET", "/apis"), ("GET", B), ("POST", B), ("PUT", A), ("DELETE", A), ("GET", "/")],
)
async def test_a_request_without_credentials_is_unauthorized(
    anonymous: ProxyClient, cluster: FakeApiServer, method: str, path: str
) -> None:
    answer = await anonymous.call(method, path, framework() if method in ("POST", "PUT") else None)

    assert answer.failure(401, "Unauthorized")["message"] == "Unauthorized"
    assert cluster.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Authorization": ""}, id="empty"),
        pytest.param({"Authorization": "  "}, id="blank"),
        pytest.param({"Authorization": TOKEN, "Connection": "Authorization"}, id="a hop-by-hop header"),
        pytest.param({"Proxy-Authorization": TOKEN}, id="another header"),
        pytest.param({"X-Remote-User": "admin"}, id="a header of an authenticating proxy"),
        pytest.param({"Impersonate-User": "admin"}, id="impersonation"),
    ],
)
async def test_headers_that_are_no_credentials_are_unauthorized(
    anonymous: ProxyClient, cluster: FakeApiServer, headers: dict[str, str]
) -> None:
    (await anonymous.call("GET", B, headers=headers)).failure(401, "Unauthorized")
    assert cluster.requests == []


@pytest.mark.parametrize("given", [TOKEN, "Basic dXNlcjpwYXNz", "Negotiate abc", "bearer lower"])
async def test_credentials_of_any_kind_are_forwarded(
    anonymous: ProxyClient, cluster: FakeApiServer, given: str
) -> None:
    await anonymous.get(B, Authorization=given)

    assert cluster.last.headers.getall("Authorization") == [given]


async def test_the_launchers_client_certificate_is_not_used_for_callers(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    async with secured(authority) as cluster:
        own = authority.client("launcher", "system:masters")
        tls = ClientTls(authority.certificate, own.certificate, own.key)
        async with run_proxy(ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS), tls)) as proxy:
            assert (await proxy.get(B)).status == 200

    assert not cluster.last.certificate
    assert cluster.last.headers.getall("Authorization") == [TOKEN]


async def test_an_untrusted_api_server_gets_no_credentials(tmp_path: Path) -> None:
    trusted, other = Authority(tmp_path / "pki"), Authority(tmp_path / "other")
    async with secured(other) as cluster:
        access = ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS), ClientTls(trusted.certificate))
        async with run_proxy(access) as proxy:
            reported = (await proxy.get(B)).failure(503, "ServiceUnavailable")

    assert "certificate" in reported["message"]
    assert cluster.requests == []


async def test_a_new_certificate_authority_of_the_cluster_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.store.kubernetes.api_server_session._CERTIFICATE_CHECK_SECONDS", 0.0)
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    file = tmp_path / "ca.crt"
    file.write_bytes(old.certificate.read_bytes())

    async with (
        secured(new) as cluster,
        run_proxy(ClusterConfig(cluster.url, FixedHeader(), ClientTls(file))) as proxy,
    ):
        before = await proxy.get(B)
        file.write_bytes(new.certificate.read_bytes())
        after = await proxy.get(B)

    assert (before.status, after.status) == (503, 200)


# Client certificates.


@asynccontextmanager
async def secured(authority: Authority) -> AsyncIterator[FakeApiServer]:
    """A fake API server that requests client certificates of *authority*."""
    server, context = authority.server(), server_context()
    context.load_cert_chain(server.certificate, server.key)
    request_client_certificates(context, authority.certificate)
    async with run_fake_api_server(context) as cluster:
        yield cluster


@asynccontextmanager
async def certified(
    cluster: FakeApiServer,
    authority: Authority,
    shown: Certificate | None,
    *,
    credentials: Credentials | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> AsyncIterator[ProxyClient]:
    """A proxy that requests certificates, and a client with the *shown* one."""
    server, listen = authority.server(), server_context()
    listen.load_cert_chain(server.certificate, server.key)
    request_client_certificates(listen, authority.certificate)
    call = ssl.create_default_context(cafile=str(authority.certificate))
    if shown is not None:
        call.load_cert_chain(shown.certificate, shown.key)
    access = ClusterConfig(cluster.url, credentials or FixedHeader(LAUNCHER_CREDENTIALS))
    async with run_proxy(access, listen=listen, call=call, headers=headers, certificates=True) as proxy:
        yield proxy


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Of the cluster."""
    return Authority(tmp_path / "pki")


async def called(
    cluster: FakeApiServer, authority: Authority, shown: Certificate, headers: Mapping[str, str] = NO_HEADERS
) -> HttpResponse:
    async with certified(cluster, authority, shown, headers=headers) as proxy:
        return await proxy.get(B)


async def test_the_user_of_a_client_certificate_is_impersonated(
    cluster: FakeApiServer, authority: Authority
) -> None:
    answer = await called(cluster, authority, authority.client("alice", "ml", "ops"))

    assert answer.status == 200
    sent = cluster.last.headers
    assert sent.getall("Authorization") == [LAUNCHER_CREDENTIALS]
    assert sent.getall("Impersonate-User") == ["alice"]
    assert sent.getall("Impersonate-Group") == ["ml", "ops"]


async def test_a_token_is_accepted_instead_of_a_certificate(
    cluster: FakeApiServer, authority: Authority
) -> None:
    headers = {"Authorization": TOKEN, "Impersonate-User": "bob"}
    async with certified(cluster, authority, None, headers=headers) as proxy:
        assert (await proxy.get(B)).status == 200

    assert cluster.last.headers.getall("Authorization") == [TOKEN]
    assert cluster.last.headers.getall("Impersonate-User") == ["bob"]


async def test_a_request_without_token_and_certificate_is_unauthorized(
    cluster: FakeApiServer, authority: Authority
) -> None:
    async with certified(cluster, authority, None) as proxy:
        (await proxy.get(B)).failure(401, "Unauthorized")

    assert cluster.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": TOKEN},
        {"Impersonate-User": "admin"},
        {"Impersonate-Group": "system:masters"},
        {"impersonate-uid": "1"},
        {"Impersonate-Extra-Scopes": "all"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_a_certificate_cannot_be_combined_with_other_credentials(
    cluster: FakeApiServer, authority: Authority, headers: dict[str, str]
) -> None:
    answer = await called(cluster, authority, authority.client("alice"), headers)

    answer.failure(400, "BadRequest")
    assert cluster.requests == []


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        pytest.param("alice", ("system:masters",), id="a group of administrators"),
        pytest.param("alice", ("ml", "system:nodes"), id="one of the cluster's own groups"),
        pytest.param("system:kube-controller-manager", (), id="a part of the cluster"),
        pytest.param("system:serviceaccount:kube-system:default", (), id="a service account"),
        pytest.param(" alice", (), id="another name once its ends are cut"),
        pytest.param("alice", (" system:masters",), id="another group once its ends are cut"),
        pytest.param("al\x7fice", (), id="an unprintable name"),
    ],
)
async def test_system_users_are_not_impersonated(
    cluster: FakeApiServer, authority: Authority, name: str, groups: tuple[str, ...]
) -> None:
    answer = await called(cluster, authority, authority.client(name, *groups))

    answer.failure(403, "Forbidden")
    assert cluster.requests == []


async def test_certificates_of_another_authority_are_rejected(
    cluster: FakeApiServer, authority: Authority, tmp_path: Path
) -> None:
    forged = Authority(tmp_path / "other").client("alice")

    with pytest.raises(aiohttp.ClientError):
        await called(cluster, authority, forged)

    assert cluster.requests == []


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_cross_origin_requests_with_a_browser_certificate_are_rejected(
    cluster: FakeApiServer, authority: Authority, headers: dict[str, str]
) -> None:
    answer = await called(cluster, authority, authority.client("alice"), headers)

    answer.failure(403, "Forbidden")
    assert cluster.requests == []


async def test_certificates_are_ignored_unless_they_are_enabled(
    cluster: FakeApiServer, authority: Authority
) -> None:
    shown, server, listen = authority.client("alice"), authority.server(), server_context()
    listen.load_cert_chain(server.certificate, server.key)
    call = ssl.create_default_context(cafile=str(authority.certificate))
    call.load_cert_chain(shown.certificate, shown.key)

    access = ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS))
    async with run_proxy(access, listen=listen, call=call, headers=NO_HEADERS) as proxy:
        (await proxy.get(B)).failure(401, "Unauthorized")

    assert cluster.requests == []


class ExpiredCredentials:
    """Credentials that have run out, and are good once they were renewed."""

    def __init__(self) -> None:
        self._header = "Bearer stale"

    async def header(self) -> str | None:
        return self._header

    async def refresh(self, failure: str | None) -> bool:
        self._header = LAUNCHER_CREDENTIALS
        return failure != LAUNCHER_CREDENTIALS


async def test_rejected_credentials_of_the_launcher_are_a_server_error(
    cluster: FakeApiServer, authority: Authority
) -> None:
    cluster.accepted_credentials = LAUNCHER_CREDENTIALS
    async with certified(
        cluster, authority, authority.client("alice"), credentials=ExpiredCredentials()
    ) as proxy:
        first, second = await proxy.get(B), await proxy.get(B)

    assert "own credentials" in first.failure(503, "ServiceUnavailable")["message"]
    assert first.headers["Retry-After"] == "1"
    assert second.status == 200
