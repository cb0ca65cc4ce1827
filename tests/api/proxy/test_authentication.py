"""As whom a request goes through the front door: as its sender, or not at all."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from launcher.api.proxy.app import ask_for_certificates
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import Credentials, FixedHeader
from launcher.tls.client_context import ClientTls
from launcher.tls.server_context import server_context
from tests.api.client import Answer
from tests.api.proxy.conftest import OWN
from tests.api.proxy.doors import TOKEN, Door, door_to
from tests.api.proxy.upstream import ApiServer, api_server
from tests.api.samples import A, B, framework
from tests.cluster.pki import Authority, Certificate

NOBODY: dict[str, str] = {}


@pytest.fixture
async def stranger(cluster: ApiServer) -> AsyncIterator[Door]:
    """The door, for a client that says nothing about itself."""
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN)), headers=NOBODY) as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/version"), ("GET", "/apis"), ("GET", B), ("POST", B), ("PUT", A), ("DELETE", A), ("GET", "/")],
)
async def test_nobody_is_asked_to_say_who_it_is(
    stranger: Door, cluster: ApiServer, method: str, path: str
) -> None:
    answer = await stranger.call(method, path, framework() if method in ("POST", "PUT") else None)

    assert answer.refused(401, "Unauthorized")["message"] == "Unauthorized"
    assert cluster.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Authorization": ""}, id="empty"),
        pytest.param({"Authorization": "  "}, id="blank"),
        pytest.param({"Authorization": TOKEN, "Connection": "Authorization"}, id="meant for the door alone"),
        pytest.param({"Proxy-Authorization": TOKEN}, id="another header"),
        pytest.param({"X-Remote-User": "admin"}, id="a proxy's word"),
        pytest.param({"Impersonate-User": "admin"}, id="somebody else's name"),
    ],
)
async def test_what_is_no_credential_opens_nothing(
    stranger: Door, cluster: ApiServer, headers: dict[str, str]
) -> None:
    (await stranger.call("GET", B, headers=headers)).refused(401, "Unauthorized")
    assert cluster.asked == []


@pytest.mark.parametrize("given", [TOKEN, "Basic dXNlcjpwYXNz", "Negotiate abc", "bearer lower"])
async def test_credentials_of_any_kind_go_on_as_they_are(
    stranger: Door, cluster: ApiServer, given: str
) -> None:
    await stranger.get(B, Authorization=given)

    assert cluster.last.headers.getall("Authorization") == [given]


async def test_the_launchers_own_certificate_is_not_shown_for_others(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    async with secured(authority) as cluster:
        own = authority.client("launcher", "system:masters")
        tls = ClientTls(authority.certificate, own.certificate, own.key)
        async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN), tls)) as door:
            assert (await door.get(B)).status == 200

    assert not cluster.last.certificate
    assert cluster.last.headers.getall("Authorization") == [TOKEN]


async def test_a_stranger_in_the_place_of_the_api_server_gets_no_credentials(tmp_path: Path) -> None:
    believed, other = Authority(tmp_path / "pki"), Authority(tmp_path / "other")
    async with secured(other) as cluster:
        access = ClusterConfig(cluster.url, FixedHeader(OWN), ClientTls(believed.certificate))
        async with door_to(access) as door:
            told = (await door.get(B)).refused(503, "ServiceUnavailable")

    assert "certificate" in told["message"]
    assert cluster.asked == []


async def test_a_new_authority_of_the_cluster_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.api.proxy.upstream._LOOK_AGAIN", 0.0)
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    file = tmp_path / "ca.crt"
    file.write_bytes(old.certificate.read_bytes())

    async with (
        secured(new) as cluster,
        door_to(ClusterConfig(cluster.url, FixedHeader(), ClientTls(file))) as door,
    ):
        before = await door.get(B)
        file.write_bytes(new.certificate.read_bytes())
        after = await door.get(B)

    assert (before.status, after.status) == (503, 200)


# Client certificates.


@asynccontextmanager
async def secured(authority: Authority) -> AsyncIterator[ApiServer]:
    """A stand-in that knows *authority*, and asks for certificates of it."""
    server, context = authority.server(), server_context()
    context.load_cert_chain(server.certificate, server.key)
    ask_for_certificates(context, authority.certificate)
    async with api_server(context) as cluster:
        yield cluster


@asynccontextmanager
async def certified(
    cluster: ApiServer,
    authority: Authority,
    shown: Certificate | None,
    *,
    credentials: Credentials | None = None,
    headers: Mapping[str, str] = NOBODY,
) -> AsyncIterator[Door]:
    """A door that asks for certificates, and a client that has *shown* one."""
    server, listen = authority.server(), server_context()
    listen.load_cert_chain(server.certificate, server.key)
    ask_for_certificates(listen, authority.certificate)
    call = ssl.create_default_context(cafile=str(authority.certificate))
    if shown is not None:
        call.load_cert_chain(shown.certificate, shown.key)
    access = ClusterConfig(cluster.url, credentials or FixedHeader(OWN))
    async with door_to(access, listen=listen, call=call, headers=headers, certificates=True) as door:
        yield door


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Of the cluster."""
    return Authority(tmp_path / "pki")


async def called(
    cluster: ApiServer, authority: Authority, shown: Certificate, headers: Mapping[str, str] = NOBODY
) -> Answer:
    async with certified(cluster, authority, shown, headers=headers) as door:
        return await door.get(B)


async def test_the_owner_of_a_certificate_is_named_by_the_launcher(
    cluster: ApiServer, authority: Authority
) -> None:
    answer = await called(cluster, authority, authority.client("alice", "ml", "ops"))

    assert answer.status == 200
    sent = cluster.last.headers
    assert sent.getall("Authorization") == [OWN]
    assert sent.getall("Impersonate-User") == ["alice"]
    assert sent.getall("Impersonate-Group") == ["ml", "ops"]


async def test_without_a_certificate_a_token_does(cluster: ApiServer, authority: Authority) -> None:
    headers = {"Authorization": TOKEN, "Impersonate-User": "bob"}
    async with certified(cluster, authority, None, headers=headers) as door:
        assert (await door.get(B)).status == 200

    assert cluster.last.headers.getall("Authorization") == [TOKEN]
    assert cluster.last.headers.getall("Impersonate-User") == ["bob"]


async def test_without_either_nobody_gets_in(cluster: ApiServer, authority: Authority) -> None:
    async with certified(cluster, authority, None) as door:
        (await door.get(B)).refused(401, "Unauthorized")

    assert cluster.asked == []


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
async def test_the_owner_of_a_certificate_is_nobody_else_besides(
    cluster: ApiServer, authority: Authority, headers: dict[str, str]
) -> None:
    answer = await called(cluster, authority, authority.client("alice"), headers)

    answer.refused(400, "BadRequest")
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        pytest.param("alice", ("system:masters",), id="who may do everything"),
        pytest.param("alice", ("ml", "system:nodes"), id="one of the cluster's own groups"),
        pytest.param("system:kube-controller-manager", (), id="a part of the cluster"),
        pytest.param("system:serviceaccount:kube-system:default", (), id="a service account"),
        pytest.param(" alice", (), id="another name once its ends are cut"),
        pytest.param("alice", (" system:masters",), id="another group once its ends are cut"),
        pytest.param("al\x7fice", (), id="a name that nobody can read"),
    ],
)
async def test_whom_nobody_else_may_name_is_sent_to_the_api_server(
    cluster: ApiServer, authority: Authority, name: str, groups: tuple[str, ...]
) -> None:
    answer = await called(cluster, authority, authority.client(name, *groups))

    answer.refused(403, "Forbidden")
    assert cluster.asked == []


async def test_certificates_of_others_are_not_believed(
    cluster: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    forged = Authority(tmp_path / "other").client("alice")

    with pytest.raises(aiohttp.ClientError):
        await called(cluster, authority, forged)

    assert cluster.asked == []


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_strangers_page_does_not_get_in_with_the_certificate_of_a_browser(
    cluster: ApiServer, authority: Authority, headers: dict[str, str]
) -> None:
    answer = await called(cluster, authority, authority.client("alice"), headers)

    answer.refused(403, "Forbidden")
    assert cluster.asked == []


async def test_a_door_that_does_not_ask_for_certificates_does_not_heed_them(
    cluster: ApiServer, authority: Authority
) -> None:
    shown, server, listen = authority.client("alice"), authority.server(), server_context()
    listen.load_cert_chain(server.certificate, server.key)
    call = ssl.create_default_context(cafile=str(authority.certificate))
    call.load_cert_chain(shown.certificate, shown.key)

    access = ClusterConfig(cluster.url, FixedHeader(OWN))
    async with door_to(access, listen=listen, call=call, headers=NOBODY) as door:
        (await door.get(B)).refused(401, "Unauthorized")

    assert cluster.asked == []


class Stale:
    """Credentials that have run out, and are good once they were renewed."""

    def __init__(self) -> None:
        self._header = "Bearer stale"

    async def header(self) -> str | None:
        return self._header

    async def renewed(self, refused: str | None) -> bool:
        self._header = OWN
        return refused != OWN


async def test_that_the_launcher_is_not_accepted_is_not_the_callers_fault(
    cluster: ApiServer, authority: Authority
) -> None:
    cluster.believes = OWN
    async with certified(cluster, authority, authority.client("alice"), credentials=Stale()) as door:
        first, second = await door.get(B), await door.get(B)

    assert "own credentials" in first.refused(503, "ServiceUnavailable")["message"]
    assert first.headers["Retry-After"] == "1"
    assert second.status == 200
