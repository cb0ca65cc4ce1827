"""Requests that must be refused: without the token, from pages of other sites, or against the policy."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import a_framework, a_pod_template, a_role
from tests.cluster.pki import self_signed
from tests.eventually import TIMEOUT_SECONDS, until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server

TOKEN = "6f1c0d6a-a-token-for-this-test"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a token, a certificate for localhost and its key."""
    directory = tmp_path_factory.mktemp("credentials")
    self_signed(directory)
    (directory / "token").write_text(TOKEN)
    (directory / "token").chmod(0o600)
    return directory


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, credentials: Path) -> Iterator[Server]:
    """A launcher with token and certificate, which its tests do not change."""
    flags = {"token-file": "token", "tls-cert": "tls.crt", "tls-key": "tls.key"}
    arguments = (f"--{flag}={credentials / file}" for flag, file in flags.items())
    server = Server(tmp_path_factory.mktemp("guarded"), *arguments)
    server.url = server.url.replace("127.0.0.1", "localhost")
    yield server
    server.end()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher without a token, which refuses all requests of the tests that share it."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


def test_a_client_with_token_and_certificate_can_use_the_api(guarded: Server, credentials: Path) -> None:
    trusted = ("--cacert", str(credentials / "tls.crt"))

    listed = guarded.curl(FRAMEWORKS, *trusted, "-H", f"Authorization: Bearer {TOKEN}")

    assert orjson.loads(listed)["kind"] == "FrameworkList"


@pytest.mark.parametrize(
    "header", ["X-Nothing: at all", "Authorization: Bearer wrong", "X-Remote-User: admin"]
)
def test_without_the_token_only_health_is_served(guarded: Server, credentials: Path, header: str) -> None:
    trusted = ("--cacert", str(credentials / "tls.crt"), "-H", header)

    assert orjson.loads(guarded.curl(FRAMEWORKS, *trusted))["code"] == 401
    assert orjson.loads(guarded.curl("/metrics", *trusted))["code"] == 401
    assert guarded.curl("/readyz", *trusted) == "ok"


def test_a_tls_port_does_not_serve_plain_http(guarded: Server) -> None:
    done = subprocess.run(
        ["curl", "--silent", "--max-time", "20", guarded.url.replace("https", "http") + FRAMEWORKS],
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
    )

    assert b"FrameworkList" not in done.stdout


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("Host: evil.example", id="a DNS name that resolves to this machine"),
        pytest.param("Origin: http://evil.example", id="a page of another origin"),
        pytest.param("Sec-Fetch-Site: cross-site", id="a page that hides its origin"),
    ],
)
def test_a_cross_origin_request_of_a_browser_is_refused(server: Server, header: str) -> None:
    body = orjson.dumps(a_framework(name="planted")).decode()

    response = orjson.loads(
        server.curl(FRAMEWORKS, "-H", header, "-H", "Content-Type:", "--data-binary", body)
    )

    assert response["code"] == 403
    assert server.get(FRAMEWORKS)["items"] == []


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_post_that_browsers_send_without_preflight_is_refused(server: Server, media: str) -> None:
    body = orjson.dumps(a_framework(name="planted")).decode()
    headers = ("-H", "Origin: http://evil.example", "-H", f"Content-Type: {media}".rstrip())

    response = orjson.loads(server.curl(FRAMEWORKS, *headers, "--data-binary", body))

    assert response["code"] == 403
    assert server.get(FRAMEWORKS)["items"] == []


def test_a_small_yaml_text_that_expands_to_a_huge_one_is_refused(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{new}: &{new} [{', '.join(['*' + old] * 9)}]"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    (tmp_path / "bomb.yaml").write_text("\n".join(lines))
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    before = resident_bytes(server.pid)

    options = ("-H", "Content-Type: application/yaml", "--data-binary", f"@{tmp_path / 'bomb.yaml'}")
    response = orjson.loads(server.curl(FRAMEWORKS, *options))

    assert response["code"] in (400, 413)
    assert resident_bytes(server.pid) - before < 64 * 1024 * 1024
    assert server.curl("/readyz") == "ok"


def test_a_violation_of_the_admission_policy_is_refused_with_its_rule(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "policy: {host-path-prefixes: [/srv], nfs-servers: [], host-network: false, max-tasks: 3}\n"
    )
    server = serve(f"--config={config}")
    volumes: list[dict[str, Any]] = [
        {"name": "etc", "hostPath": {"path": "/etc"}},
        {"name": "share", "nfs": {"server": "10.0.0.1", "path": "/"}},
    ]
    framework = a_framework(a_role(tasks=4, pod=a_pod_template(hostNetwork=True, volumes=volumes)))

    response = server.post(FRAMEWORKS, framework)

    assert response["code"] == 422
    pod = "spec.taskRoles[0].task.pod.spec"
    assert {cause["field"] for cause in response["details"]["causes"]} == {
        "spec.taskRoles",
        f"{pod}.hostNetwork",
        f"{pod}.volumes[0].hostPath.path",
        f"{pod}.volumes[1].nfs.server",
    }


def resident_bytes(pid: int) -> int:
    """The resident memory of the process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096
