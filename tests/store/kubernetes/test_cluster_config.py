"""Every way into a cluster, each tried on a server that tells whom it sees."""

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
from launcher.store.kubernetes.cluster_config import ClusterConfig, from_kubeconfig, from_service_account
from launcher.store.kubernetes.kube_store import KubeStore
from tests.cluster.pki import Authority, Certificate


@dataclass
class Door:
    """A server that lets in who is known to it, and notes who came."""

    url: str = ""
    #: Whom it lets in; None is everybody.
    known: set[str] | None = None
    seen: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        certificate = request.get_extra_info("peercert") or {}
        names: dict[str, str] = dict(pair for part in certificate.get("subject", ()) for pair in part)
        who = names.get("commonName") or request.headers.get("Authorization") or "nobody"
        self.seen.append(who)
        if self.known is not None and who not in self.known:
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


@asynccontextmanager
async def door(server: Certificate | None, authority: Path | None) -> AsyncIterator[Door]:
    """A door on a free port, behind TLS if there is a certificate for it."""
    made = Door()
    app = web.Application()
    app.router.add_get("/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = None
    if server is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_cert_chain(server.certificate, server.key)
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        made.url = f"http{'s' if server else ''}://127.0.0.1:{runner.addresses[0][1]}"
        yield made
    finally:
        await runner.cleanup()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "own")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    return authority.server()


@pytest.fixture
async def cluster_door(authority: Authority, server: Certificate) -> AsyncIterator[Door]:
    async with door(server, authority.certificate) as made:
        yield made


async def knock(access: ClusterConfig) -> None:
    """Ask for something, once."""
    store = await KubeStore.open(access)
    try:
        await store.list(PODS)
    finally:
        await store.close()


def kubeconfig(tmp_path: Path, url: str, user: dict[str, Any] | None, **cluster: Any) -> str:
    """A file with one context."""
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


async def entered(paths: str, context: str | None = None) -> None:
    await knock(await from_kubeconfig(paths, context, time.time))


def trusted(authority: Authority) -> dict[str, str]:
    return {"certificate-authority": str(authority.certificate)}


async def test_a_token_of_a_kubeconfig_is_shown(
    tmp_path: Path, cluster_door: Door, authority: Authority
) -> None:
    await entered(kubeconfig(tmp_path, cluster_door.url, {"token": "secret"}, **trusted(authority)))

    assert cluster_door.seen == ["Bearer secret"]


async def test_certificates_may_stand_in_the_kubeconfig_itself(
    tmp_path: Path, cluster_door: Door, authority: Authority
) -> None:
    own = authority.client("alice")

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    user = {"client-certificate-data": inline(own.certificate), "client-key-data": inline(own.key)}
    authority_data = inline(authority.certificate)
    await entered(
        kubeconfig(tmp_path, cluster_door.url, user, **{"certificate-authority-data": authority_data})
    )

    assert cluster_door.seen == ["alice"]


async def test_files_are_found_beside_the_kubeconfig(
    tmp_path: Path, cluster_door: Door, authority: Authority
) -> None:
    shutil.copy(authority.certificate, tmp_path / "ca.crt")
    (tmp_path / "token").write_text("from a file\n")
    user = {"tokenFile": "token"}

    await entered(kubeconfig(tmp_path, cluster_door.url, user, **{"certificate-authority": "ca.crt"}))

    assert cluster_door.seen == ["Bearer from a file"]


async def test_a_user_and_a_password_are_shown(tmp_path: Path) -> None:
    async with door(None, None) as plain:
        await entered(kubeconfig(tmp_path, plain.url, {"username": "u", "password": "p"}))

    assert plain.seen == ["Basic " + base64.b64encode(b"u:p").decode()]


async def test_a_context_without_a_user_shows_nothing(tmp_path: Path) -> None:
    async with door(None, None) as plain:
        await entered(kubeconfig(tmp_path, plain.url, None))

    assert plain.seen == ["nobody"]


async def test_a_server_that_nobody_trusts_is_told_nothing(tmp_path: Path, cluster_door: Door) -> None:
    with pytest.raises(Unavailable, match="certificate"):
        await entered(kubeconfig(tmp_path, cluster_door.url, {"token": "secret"}))

    assert cluster_door.seen == []


async def test_a_kubeconfig_can_say_that_any_server_will_do(tmp_path: Path, cluster_door: Door) -> None:
    insecure = {"insecure-skip-tls-verify": True}

    await entered(kubeconfig(tmp_path, cluster_door.url, {"token": "secret"}, **insecure))

    assert cluster_door.seen == ["Bearer secret"]


async def test_a_server_may_have_another_name_than_its_address(
    tmp_path: Path, cluster_door: Door, authority: Authority
) -> None:
    def named(name: str) -> str:
        return kubeconfig(
            tmp_path, cluster_door.url, {"token": "x"}, **trusted(authority), **{"tls-server-name": name}
        )

    await entered(named("kubernetes.default.svc"))
    with pytest.raises(Unavailable):
        await entered(named("example.com"))

    assert len(cluster_door.seen) == 1


PLUGIN = """
import json, os, pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": json.loads(sys.argv[2].replace("RUN", str(len(runs.read_text()))))}))
"""


def plugin(tmp_path: Path, status: str) -> dict[str, Any]:
    """A user whose credentials a program gives out; RUN in *status* is how often it has run."""
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


async def test_a_plugin_gives_out_tokens_and_is_asked_again_when_one_is_refused(tmp_path: Path) -> None:
    async with door(None, None) as plain:
        plain.known = {"Bearer t1", "Bearer t2"}
        now = time.time()
        paths = kubeconfig(tmp_path, plain.url, plugin(tmp_path, '{"token": "tRUN"}'))
        store = await KubeStore.open(await from_kubeconfig(paths, None, lambda: now))
        await store.list(PODS)
        await store.list(PODS)
        plain.known = {"Bearer t2"}
        now += 3600
        await store.list(PODS)
        await store.close()

    assert plain.seen == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"]


async def test_a_watch_is_begun_again_with_what_the_plugin_gives_when_it_is_refused(tmp_path: Path) -> None:
    async with door(None, None) as plain:
        plain.known = {"Bearer t2"}
        now = time.time()
        paths = kubeconfig(tmp_path, plain.url, plugin(tmp_path, '{"token": "tRUN"}'))
        store = await KubeStore.open(await from_kubeconfig(paths, None, lambda: now))
        now += 3600
        ended = [change async for change in store.watch(PODS, since=1)]
        await store.close()

    assert plain.seen == ["Bearer t1", "Bearer t2"]
    assert ended == []


async def test_a_plugin_is_asked_again_before_its_token_runs_out(tmp_path: Path) -> None:
    async with door(None, None) as plain:
        now = time.time()
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + 3600))
        status = f'{{"token": "tRUN", "expirationTimestamp": "{expires}"}}'
        paths = kubeconfig(tmp_path, plain.url, plugin(tmp_path, status))
        store = await KubeStore.open(await from_kubeconfig(paths, None, lambda: now))
        await store.list(PODS)
        now += 3590
        await store.list(PODS)
        await store.close()

    assert plain.seen == ["Bearer t1", "Bearer t2"]


async def test_a_plugin_may_give_out_certificates(
    tmp_path: Path, cluster_door: Door, authority: Authority
) -> None:
    own = authority.client("bob")
    texts = [path.read_text().replace("\n", "\\n") for path in (own.certificate, own.key)]
    status = f'{{"clientCertificateData": "{texts[0]}", "clientKeyData": "{texts[1]}"}}'

    await entered(kubeconfig(tmp_path, cluster_door.url, plugin(tmp_path, status), **trusted(authority)))

    assert cluster_door.seen == ["bob"]


async def test_a_plugin_that_fails_is_told_in_its_own_words(tmp_path: Path) -> None:
    command = ["-c", "import sys; sys.exit('please log in')"]
    user = {"exec": {"apiVersion": "v1", "command": sys.executable, "args": command}}

    with pytest.raises(Unavailable, match="please log in"):
        await entered(kubeconfig(tmp_path, "http://127.0.0.1:1", user))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "no such file", id="none"),
        pytest.param("a: [", "cannot be read", id="no YAML"),
        pytest.param("just words", "cannot be read", id="no mapping"),
        pytest.param("apiVersion: v1\nkind: Config\n", "current-context", id="nothing in it"),
    ],
)
async def test_what_is_no_kubeconfig_is_refused_by_name(
    tmp_path: Path, content: str | None, says: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)

    with pytest.raises(BadRequest, match=says) as caught:
        await from_kubeconfig(str(path), None, time.time)

    assert str(path) in str(caught.value)


async def test_a_context_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="two"):
        await entered(kubeconfig(tmp_path, "http://127.0.0.1:1", None), "two")


async def test_an_authority_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.crt")

    with pytest.raises(BadRequest, match=r"missing\.crt"):
        await entered(
            kubeconfig(tmp_path, "https://127.0.0.1:1", {"token": "x"}, **{"certificate-authority": missing})
        )


# Inside a cluster


def account(tmp_path: Path, authority: Authority, token: str) -> Path:
    """What a pod finds of its service account."""
    (tmp_path / "token").write_text(token)
    shutil.copy(authority.certificate, tmp_path / "ca.crt")
    return tmp_path


async def test_a_pod_shows_the_token_of_its_account_as_it_is_replaced(
    tmp_path: Path, cluster_door: Door, authority: Authority
) -> None:
    port = cluster_door.url.rpartition(":")[2]
    found = account(tmp_path, authority, "first")
    store = await KubeStore.open(from_service_account("127.0.0.1", port, found))

    await store.list(PODS)
    (tmp_path / "next").write_text("second")
    os.replace(tmp_path / "next", tmp_path / "token")
    await store.list(PODS)
    await store.close()

    assert cluster_door.seen == ["Bearer first", "Bearer second"]


def test_an_address_of_the_new_kind_stands_in_brackets(tmp_path: Path, authority: Authority) -> None:
    access = from_service_account("fd00::1", "443", account(tmp_path, authority, "x"))

    assert access.url == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_an_account_is_told_so(tmp_path: Path, authority: Authority, missing: str) -> None:
    (account(tmp_path, authority, "x") / missing).unlink()

    with pytest.raises(LauncherError, match="service account"):
        from_service_account("127.0.0.1", "443", tmp_path)


def test_a_pod_is_at_home_in_the_namespace_of_its_account(tmp_path: Path, authority: Authority) -> None:
    found = account(tmp_path, authority, "x")
    unnamed = from_service_account("127.0.0.1", "443", found)

    (found / "namespace").write_text("framework-launcher\n")

    assert unnamed.namespace == "default"
    assert from_service_account("127.0.0.1", "443", found).namespace == "framework-launcher"


async def test_outside_of_a_cluster_the_context_says_where_the_launcher_is_at_home(tmp_path: Path) -> None:
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

    home, away = [await from_kubeconfig(str(path), context, time.time) for context in (None, "away")]

    assert (home.namespace, away.namespace) == ("ours", "default")


# Certificates that change


def spoil(certificate: Path) -> None:
    """Within the same tick of the clock as what stood there: the file's time does not change."""
    before = certificate.stat()
    certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    os.utime(certificate, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_certificates_that_are_replaced_on_disk_are_used_from_the_next_connection_on(
    tmp_path: Path, cluster_door: Door, authority: Authority
) -> None:
    certificate, key = tmp_path / "own.crt", tmp_path / "own.key"

    def use(name: str) -> None:
        own = authority.client(name)
        shutil.copy(own.certificate, certificate)
        shutil.copy(own.key, key)

    use("old")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    paths = kubeconfig(tmp_path, cluster_door.url, user, **trusted(authority))
    access = await from_kubeconfig(paths, None, time.time)
    await knock(access)
    use("new")
    await knock(access)

    assert cluster_door.seen == ["old", "new"]


async def test_a_certificate_that_is_half_written_leaves_the_old_one_in_use(
    tmp_path: Path, cluster_door: Door, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    own = authority.client("old")
    certificate = Path(shutil.copy(own.certificate, tmp_path / "own.crt"))
    user = {"client-certificate": str(certificate), "client-key": str(own.key)}
    paths = kubeconfig(tmp_path, cluster_door.url, user, **trusted(authority))
    access = await from_kubeconfig(paths, None, time.time)

    spoil(certificate)
    await knock(access)

    assert cluster_door.seen == ["old"]
    assert "certificates not read" in caplog.text


async def test_a_certificate_whose_key_is_not_yet_there_leaves_the_old_one_in_use(
    tmp_path: Path, cluster_door: Door, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    own = authority.client("old")
    certificate = Path(shutil.copy(own.certificate, tmp_path / "own.crt"))
    user = {"client-certificate": str(certificate), "client-key": str(own.key)}
    paths = kubeconfig(tmp_path, cluster_door.url, user, **trusted(authority))
    access = await from_kubeconfig(paths, None, time.time)

    shutil.copy(authority.client("new").certificate, certificate)
    await knock(access)

    assert cluster_door.seen == ["old"]
    assert "certificates not read" in caplog.text


async def test_an_authority_that_is_replaced_is_trusted(
    tmp_path: Path, authority: Authority, cluster_door: Door
) -> None:
    other = Authority(tmp_path / "other")
    trust = Path(shutil.copy(other.certificate, tmp_path / "ca.crt"))
    paths = kubeconfig(tmp_path, cluster_door.url, {"token": "x"}, **{"certificate-authority": str(trust)})
    access = await from_kubeconfig(paths, None, time.time)
    with pytest.raises(Unavailable):
        await knock(access)

    shutil.copy(authority.certificate, trust)
    async with asyncio.timeout(20):
        await knock(access)

    assert cluster_door.seen == ["Bearer x"]
