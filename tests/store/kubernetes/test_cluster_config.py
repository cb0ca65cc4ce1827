"""Every kind of cluster access, against a server that records its clients."""

import asyncio
import base64
import os
import shutil
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from launcher.core.errors import BadRequest, LauncherError, Unavailable
from launcher.store.interface import PODS
from launcher.store.kubernetes.cluster_config import ClusterConfig, from_service_account
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.kubernetes.kubeconfig import from_kubeconfig
from tests.cluster.pki import Authority, Certificate


@dataclass
class RecordingServer:
    """A server that accepts known clients and records them."""

    url: str = ""
    #: Accepted clients; None means all.
    accepted: set[str] | None = None
    clients: list[str] = field(default_factory=list)

    async def respond(self, request: web.Request) -> web.Response:
        certificate = request.get_extra_info("peercert") or {}
        names: dict[str, str] = dict(pair for part in certificate.get("subject", ()) for pair in part)
        client = names.get("commonName") or request.headers.get("Authorization") or "anonymous"
        self.clients.append(client)
        if self.accepted is not None and client not in self.accepted:
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


@asynccontextmanager
async def recording_server(
    server: Certificate | None, authority: Path | None
) -> AsyncIterator[RecordingServer]:
    """A server on a free port, with TLS if a certificate is given."""
    recording = RecordingServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", recording.respond)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = None
    if server is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_cert_chain(server.certificate, server.key)
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        recording.url = f"http{'s' if server else ''}://127.0.0.1:{runner.addresses[0][1]}"
        yield recording
    finally:
        await runner.cleanup()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "own")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    return authority.server()


@pytest.fixture
async def tls_server(authority: Authority, server: Certificate) -> AsyncIterator[RecordingServer]:
    async with recording_server(server, authority.certificate) as recording:
        yield recording


async def send_request(access: ClusterConfig) -> None:
    """Sends one request."""
    store = await KubeStore.open(access)
    try:
        await store.list(PODS)
    finally:
        await store.close()


def kubeconfig(tmp_path: Path, url: str, user: dict[str, Any] | None, **cluster: Any) -> str:
    """Writes a kubeconfig with one context. Returns its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user}] if user is not None else [],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def connect(paths: str, context: str | None = None) -> None:
    await send_request(await from_kubeconfig(paths, context, time.time))


def trusted(authority: Authority) -> dict[str, str]:
    return {"certificate-authority": str(authority.certificate)}


async def test_a_token_of_a_kubeconfig_is_sent(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority
) -> None:
    await connect(kubeconfig(tmp_path, tls_server.url, {"token": "secret"}, **trusted(authority)))

    assert tls_server.clients == ["Bearer secret"]


async def test_certificates_may_be_inline_in_the_kubeconfig(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority
) -> None:
    own = authority.client("alice")

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    user = {"client-certificate-data": inline(own.certificate), "client-key-data": inline(own.key)}
    authority_data = inline(authority.certificate)
    await connect(
        kubeconfig(tmp_path, tls_server.url, user, **{"certificate-authority-data": authority_data})
    )

    assert tls_server.clients == ["alice"]


async def test_paths_are_relative_to_the_kubeconfig(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority
) -> None:
    shutil.copy(authority.certificate, tmp_path / "ca.crt")
    (tmp_path / "token").write_text("from a file\n")
    user = {"tokenFile": "token"}

    await connect(kubeconfig(tmp_path, tls_server.url, user, **{"certificate-authority": "ca.crt"}))

    assert tls_server.clients == ["Bearer from a file"]


async def test_a_user_and_a_password_are_sent(tmp_path: Path) -> None:
    async with recording_server(None, None) as http_server:
        await connect(kubeconfig(tmp_path, http_server.url, {"username": "u", "password": "p"}))

    assert http_server.clients == ["Basic " + base64.b64encode(b"u:p").decode()]


async def test_a_context_without_a_user_sends_no_credentials(tmp_path: Path) -> None:
    async with recording_server(None, None) as http_server:
        await connect(kubeconfig(tmp_path, http_server.url, None))

    assert http_server.clients == ["anonymous"]


async def test_nothing_is_sent_to_an_untrusted_server(tmp_path: Path, tls_server: RecordingServer) -> None:
    with pytest.raises(Unavailable, match="certificate"):
        await connect(kubeconfig(tmp_path, tls_server.url, {"token": "secret"}))

    assert tls_server.clients == []


async def test_a_kubeconfig_can_disable_verification(tmp_path: Path, tls_server: RecordingServer) -> None:
    insecure = {"insecure-skip-tls-verify": True}

    await connect(kubeconfig(tmp_path, tls_server.url, {"token": "secret"}, **insecure))

    assert tls_server.clients == ["Bearer secret"]


async def test_a_server_may_have_another_name_than_its_address(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority
) -> None:
    def named(name: str) -> str:
        return kubeconfig(
            tmp_path, tls_server.url, {"token": "x"}, **trusted(authority), **{"tls-server-name": name}
        )

    await connect(named("kubernetes.default.svc"))
    with pytest.raises(Unavailable):
        await connect(named("example.com"))

    assert len(tls_server.clients) == 1


PLUGIN = """
import json, os, pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": json.loads(sys.argv[2].replace("RUN", str(len(runs.read_text()))))}))
"""


def plugin(tmp_path: Path, status: str) -> dict[str, Any]:
    """A user with a credential plugin; RUN in *status* is replaced by the number of its run."""
    program = tmp_path / "plugin.py"
    program.write_text(PLUGIN)
    arguments = ["-I", "-S", str(program), str(tmp_path / "runs"), status]
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": arguments,
        }
    }


async def test_a_plugin_issues_a_new_token_when_one_is_rejected(tmp_path: Path) -> None:
    async with recording_server(None, None) as http_server:
        http_server.accepted = {"Bearer t1", "Bearer t2"}
        now = time.time()
        paths = kubeconfig(tmp_path, http_server.url, plugin(tmp_path, '{"token": "tRUN"}'))
        store = await KubeStore.open(await from_kubeconfig(paths, None, lambda: now))
        await store.list(PODS)
        await store.list(PODS)
        http_server.accepted = {"Bearer t2"}
        now += 3600
        await store.list(PODS)
        await store.close()

    assert http_server.clients == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"]


async def test_a_rejected_watch_is_retried_with_a_new_token(tmp_path: Path) -> None:
    async with recording_server(None, None) as http_server:
        http_server.accepted = {"Bearer t2"}
        now = time.time()
        paths = kubeconfig(tmp_path, http_server.url, plugin(tmp_path, '{"token": "tRUN"}'))
        store = await KubeStore.open(await from_kubeconfig(paths, None, lambda: now))
        now += 3600
        ended = [change async for change in store.watch(PODS, since=1)]
        await store.close()

    assert http_server.clients == ["Bearer t1", "Bearer t2"]
    assert ended == []


async def test_a_plugin_runs_again_before_its_token_expires(tmp_path: Path) -> None:
    async with recording_server(None, None) as http_server:
        now = time.time()
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + 3600))
        status = f'{{"token": "tRUN", "expirationTimestamp": "{expires}"}}'
        paths = kubeconfig(tmp_path, http_server.url, plugin(tmp_path, status))
        store = await KubeStore.open(await from_kubeconfig(paths, None, lambda: now))
        await store.list(PODS)
        now += 3590
        await store.list(PODS)
        await store.close()

    assert http_server.clients == ["Bearer t1", "Bearer t2"]


async def test_a_plugin_may_issue_certificates(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority
) -> None:
    own = authority.client("bob")
    texts = [path.read_text().replace("\n", "\\n") for path in (own.certificate, own.key)]
    status = f'{{"clientCertificateData": "{texts[0]}", "clientKeyData": "{texts[1]}"}}'

    await connect(kubeconfig(tmp_path, tls_server.url, plugin(tmp_path, status), **trusted(authority)))

    assert tls_server.clients == ["bob"]


async def test_the_error_of_a_plugin_is_reported(tmp_path: Path) -> None:
    command = ["-c", "import sys; sys.exit('please log in')"]
    user = {"exec": {"apiVersion": "v1", "command": sys.executable, "args": command}}

    with pytest.raises(Unavailable, match="please log in"):
        await connect(kubeconfig(tmp_path, "http://127.0.0.1:1", user))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "no such file", id="none"),
        pytest.param("a: [", "invalid", id="no YAML"),
        pytest.param("just words", "invalid", id="no mapping"),
        pytest.param("apiVersion: v1\nkind: Config\n", "current-context", id="nothing in it"),
    ],
)
async def test_an_invalid_kubeconfig_is_rejected_by_name(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)

    with pytest.raises(BadRequest, match=message) as caught:
        await from_kubeconfig(str(path), None, time.time)

    assert str(path) in str(caught.value)


async def test_a_missing_context_is_rejected_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="two"):
        await connect(kubeconfig(tmp_path, "http://127.0.0.1:1", None), "two")


async def test_a_missing_ca_file_is_rejected_by_name(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.crt")

    with pytest.raises(BadRequest, match=r"missing\.crt"):
        await connect(
            kubeconfig(tmp_path, "https://127.0.0.1:1", {"token": "x"}, **{"certificate-authority": missing})
        )


# Inside a cluster


def write_service_account(tmp_path: Path, authority: Authority, token: str) -> Path:
    """Writes the files of a service account as they are mounted in a pod."""
    (tmp_path / "token").write_text(token)
    shutil.copy(authority.certificate, tmp_path / "ca.crt")
    return tmp_path


async def test_a_rotated_service_account_token_is_used(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority
) -> None:
    port = tls_server.url.rpartition(":")[2]
    found = write_service_account(tmp_path, authority, "first")
    store = await KubeStore.open(from_service_account("127.0.0.1", port, found))

    await store.list(PODS)
    (tmp_path / "next").write_text("second")
    os.replace(tmp_path / "next", tmp_path / "token")
    await store.list(PODS)
    await store.close()

    assert tls_server.clients == ["Bearer first", "Bearer second"]


def test_an_ipv6_address_is_in_brackets(tmp_path: Path, authority: Authority) -> None:
    access = from_service_account("fd00::1", "443", write_service_account(tmp_path, authority, "x"))

    assert access.url == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_service_account_is_an_error(
    tmp_path: Path, authority: Authority, missing: str
) -> None:
    (write_service_account(tmp_path, authority, "x") / missing).unlink()

    with pytest.raises(LauncherError, match="service account"):
        from_service_account("127.0.0.1", "443", tmp_path)


def test_in_a_pod_the_namespace_is_that_of_the_service_account(tmp_path: Path, authority: Authority) -> None:
    found = write_service_account(tmp_path, authority, "x")
    unnamed = from_service_account("127.0.0.1", "443", found)

    (found / "namespace").write_text("framework-launcher\n")

    assert unnamed.namespace == "default"
    assert from_service_account("127.0.0.1", "443", found).namespace == "framework-launcher"


async def test_outside_of_a_cluster_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": "home", "context": {"cluster": "c", "user": "u", "namespace": "ours"}},
            {"name": "away", "context": {"cluster": "c", "user": "u"}},
        ],
        "current-context": "home",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))

    default_context, other_context = [
        await from_kubeconfig(str(path), context, time.time) for context in (None, "away")
    ]

    assert (default_context.namespace, other_context.namespace) == ("ours", "default")


# Replaced certificates


def overwrite(certificate: Path) -> None:
    """Overwrites the certificate without a change of the file's modification time."""
    before = certificate.stat()
    certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    os.utime(certificate, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_replaced_certificate_files_are_used_for_new_connections(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority
) -> None:
    certificate, key = tmp_path / "own.crt", tmp_path / "own.key"

    def use(name: str) -> None:
        client_certificate = authority.client(name)
        shutil.copy(client_certificate.certificate, certificate)
        shutil.copy(client_certificate.key, key)

    use("old")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    paths = kubeconfig(tmp_path, tls_server.url, user, **trusted(authority))
    access = await from_kubeconfig(paths, None, time.time)
    await send_request(access)
    use("new")
    await send_request(access)

    assert tls_server.clients == ["old", "new"]


async def test_a_certificate_that_is_half_written_leaves_the_old_one_in_use(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    own = authority.client("old")
    certificate = Path(shutil.copy(own.certificate, tmp_path / "own.crt"))
    user = {"client-certificate": str(certificate), "client-key": str(own.key)}
    paths = kubeconfig(tmp_path, tls_server.url, user, **trusted(authority))
    access = await from_kubeconfig(paths, None, time.time)

    overwrite(certificate)
    await send_request(access)

    assert tls_server.clients == ["old"]
    assert "certificates not reloaded" in caplog.text


async def test_a_certificate_without_its_key_leaves_the_old_one_in_use(
    tmp_path: Path, tls_server: RecordingServer, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    own = authority.client("old")
    certificate = Path(shutil.copy(own.certificate, tmp_path / "own.crt"))
    user = {"client-certificate": str(certificate), "client-key": str(own.key)}
    paths = kubeconfig(tmp_path, tls_server.url, user, **trusted(authority))
    access = await from_kubeconfig(paths, None, time.time)

    shutil.copy(authority.client("new").certificate, certificate)
    await send_request(access)

    assert tls_server.clients == ["old"]
    assert "certificates not reloaded" in caplog.text


async def test_an_authority_that_is_replaced_is_trusted(
    tmp_path: Path, authority: Authority, tls_server: RecordingServer
) -> None:
    other = Authority(tmp_path / "other")
    trust = Path(shutil.copy(other.certificate, tmp_path / "ca.crt"))
    paths = kubeconfig(tmp_path, tls_server.url, {"token": "x"}, **{"certificate-authority": str(trust)})
    access = await from_kubeconfig(paths, None, time.time)
    with pytest.raises(Unavailable):
        await send_request(access)

    shutil.copy(authority.certificate, trust)
    async with asyncio.timeout(20):
        await send_request(access)

    assert tls_server.clients == ["Bearer x"]
