"""kubectl and a launcher that others can reach: certificate and token, as on any cluster."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.clients.kubectl import Kubectl
from tests.clients.space import Space, once
from tests.local.server import PATIENCE, Server

TOKEN = "a-token-that-only-this-test-knows"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a token, a certificate for this machine's loopback address, and its key."""
    directory = tmp_path_factory.mktemp("credentials")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-days", "2", "-subj", "/CN=launcher", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=PATIENCE)
    (directory / "token").write_text(TOKEN)
    (directory / "token").chmod(0o600)
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, credentials: Path) -> Iterator[Server]:
    """A launcher that wants a token and shows a certificate."""
    files = {"token-file": "token", "tls-cert": "tls.crt", "tls-key": "tls.key"}
    flags = [f"--{flag}={credentials / file}" for flag, file in files.items()]
    server = Server(tmp_path_factory.mktemp("server"), *flags)
    yield server
    server.end()


def config(space: Space, credentials: Path, directory: Path, user: object) -> str:
    """A kubeconfig as an admin hands it out."""
    cluster = {"server": space.server.url, "certificate-authority": str(credentials / "tls.crt")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }
    (directory / "config").write_text(yaml.safe_dump(content))
    return f"--kubeconfig={directory / 'config'}"


def test_with_the_token_everything_works(
    space: Space, kubectl: Kubectl, credentials: Path, tmp_path: Path
) -> None:
    me = config(space, credentials, tmp_path, {"token": TOKEN})
    kubectl("create", me, "-f", "-", given=space.framework(script=f"echo first; {once('go')} echo last"))
    kubectl("wait", me, "fw/mnist", "--for=condition=Running", "--timeout=30s")
    watching = kubectl.follow("get", me, "fw", "--watch")
    following = kubectl.follow("logs", me, "--follow", "mnist-worker-0")

    following.until_said("first")
    space.open("go")

    watching.until_said("Succeeded")
    assert following.exit_code() == 0
    assert following.lines() == ["first", "last"]
    assert ["Username", "admin"] in kubectl.table("auth", "whoami", me)


def test_a_wrong_token_opens_nothing(
    space: Space, kubectl: Kubectl, credentials: Path, tmp_path: Path
) -> None:
    stranger = config(space, credentials, tmp_path, {"token": "another"})

    complaint = kubectl.refused("get", stranger, "fw")

    assert "error: You must be logged in to the server" in complaint


def test_a_certificate_that_is_not_known_is_not_trusted(space: Space, kubectl: Kubectl) -> None:
    complaint = kubectl.refused("get", f"--token={TOKEN}", "--raw", space.frameworks)

    assert "certificate" in complaint
