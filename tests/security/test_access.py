"""Requests that must not get through: without the token, from pages of other sites, or against the policy."""

import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.core.manifests import a_framework, a_pod, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PATIENCE, Server, until

TOKEN = "6f1c0d6a-a-token-for-this-test"


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """A directory with a token, a certificate for localhost and its key."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    return tmp_path


@pytest.fixture
def guarded(serve: Serve, credentials: Path) -> Server:
    """A launcher as an admin would open it to others; it is called by its name in the certificate."""
    flags = {"token-file": "token", "tls-cert": "tls.crt", "tls-key": "tls.key"}
    server = serve(*(f"--{flag}={credentials / file}" for flag, file in flags.items()))
    server.url = server.url.replace("127.0.0.1", "localhost")
    return server


def test_with_token_and_certificate_the_api_is_there(guarded: Server, credentials: Path) -> None:
    trusted = ("--cacert", str(credentials / "tls.crt"))

    listed = guarded.curl(FRAMEWORKS, *trusted, "-H", f"Authorization: Bearer {TOKEN}")

    assert orjson.loads(listed)["kind"] == "FrameworkList"


@pytest.mark.parametrize(
    "header", ["X-Nothing: at all", "Authorization: Bearer wrong", "X-Remote-User: admin"]
)
def test_without_the_token_there_is_nothing_but_health(
    guarded: Server, credentials: Path, header: str
) -> None:
    trusted = ("--cacert", str(credentials / "tls.crt"), "-H", header)

    assert orjson.loads(guarded.curl(FRAMEWORKS, *trusted))["code"] == 401
    assert orjson.loads(guarded.curl("/metrics", *trusted))["code"] == 401
    assert guarded.curl("/readyz", *trusted) == "ok"


def test_plain_http_gets_nothing_from_a_guarded_port(guarded: Server) -> None:
    done = subprocess.run(
        ["curl", "--silent", "--max-time", "20", guarded.url.replace("https", "http") + FRAMEWORKS],
        capture_output=True,
        timeout=PATIENCE,
    )

    assert b"FrameworkList" not in done.stdout


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("Host: evil.example", id="a name that was pointed at this machine"),
        pytest.param("Origin: http://evil.example", id="a page of another origin"),
        pytest.param("Sec-Fetch-Site: cross-site", id="a page that hides its origin"),
    ],
)
def test_a_browser_on_a_strangers_page_can_start_nothing(serve: Serve, header: str) -> None:
    server = serve()
    body = orjson.dumps(a_framework(name="planted")).decode()

    answer = orjson.loads(server.curl(FRAMEWORKS, "-H", header, "-H", "Content-Type:", "--data-binary", body))

    assert answer["code"] == 403
    assert server.get(FRAMEWORKS)["items"] == []


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_post_that_browsers_send_without_asking_first_is_refused(serve: Serve, media: str) -> None:
    server = serve()
    body = orjson.dumps(a_framework(name="planted")).decode()
    headers = ("-H", "Origin: http://evil.example", "-H", f"Content-Type: {media}".rstrip())

    answer = orjson.loads(server.curl(FRAMEWORKS, *headers, "--data-binary", body))

    assert answer["code"] == 403
    assert server.get(FRAMEWORKS)["items"] == []


def test_a_small_text_that_would_unfold_to_a_huge_one_is_refused(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{new}: &{new} [{', '.join(['*' + old] * 9)}]"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    (tmp_path / "bomb.yaml").write_text("\n".join(lines))
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    before = memory_of(server.pid)

    options = ("-H", "Content-Type: application/yaml", "--data-binary", f"@{tmp_path / 'bomb.yaml'}")
    answer = orjson.loads(server.curl(FRAMEWORKS, *options))

    assert answer["code"] in (400, 413)
    assert memory_of(server.pid) - before < 64 * 1024 * 1024
    assert server.curl("/readyz") == "ok"


def test_what_the_admin_forbids_is_refused_with_the_rule(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "policy: {host-path-prefixes: [/srv], nfs-servers: [], host-network: false, max-tasks: 3}\n"
    )
    server = serve(f"--config={config}")
    volumes: list[dict[str, Any]] = [
        {"name": "etc", "hostPath": {"path": "/etc"}},
        {"name": "share", "nfs": {"server": "10.0.0.1", "path": "/"}},
    ]
    framework = a_framework(a_role(tasks=4, pod=a_pod(hostNetwork=True, volumes=volumes)))

    answer = server.post(FRAMEWORKS, framework)

    assert answer["code"] == 422
    pod = "spec.taskRoles[0].task.pod.spec"
    assert {cause["field"] for cause in answer["details"]["causes"]} == {
        "spec.taskRoles",
        f"{pod}.hostNetwork",
        f"{pod}.volumes[0].hostPath.path",
        f"{pod}.volumes[1].nfs.server",
    }


def memory_of(pid: int) -> int:
    """Bytes that the process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096
