"""kubectl with a launcher that has a certificate and a token."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl
from tests.cluster.pki import self_signed
from tests.local.server import Server

TOKEN = "a-token-that-only-this-test-knows"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a token, a certificate for this machine's loopback address, and its key."""
    directory = tmp_path_factory.mktemp("credentials")
    self_signed(directory, "IP:127.0.0.1")
    (directory / "token").write_text(TOKEN)
    (directory / "token").chmod(0o600)
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, credentials: Path) -> Iterator[Server]:
    """A launcher with a token and a certificate."""
    files = {"token-file": "token", "tls-cert": "tls.crt", "tls-key": "tls.key"}
    flags = [f"--{flag}={credentials / file}" for flag, file in files.items()]
    server = Server(tmp_path_factory.mktemp("server"), *flags)
    yield server
    server.end()


def config(isolated: IsolatedNamespace, credentials: Path, directory: Path, user: object) -> str:
    """Writes a kubeconfig for the launcher."""
    cluster = {"server": isolated.server.url, "certificate-authority": str(credentials / "tls.crt")}
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


def test_kubectl_works_with_the_token(
    isolated: IsolatedNamespace, kubectl: Kubectl, credentials: Path, tmp_path: Path
) -> None:
    me = config(isolated, credentials, tmp_path, {"token": TOKEN})
    kubectl(
        "create",
        me,
        "-f",
        "-",
        stdin=isolated.framework(script=f"echo first; {wait_for_file('go')} echo last"),
    )
    kubectl("wait", me, "fw/mnist", "--for=condition=Running", "--timeout=30s")
    watching = kubectl.follow("get", me, "fw", "--watch")
    following = kubectl.follow("logs", me, "--follow", "mnist-worker-0")

    following.wait_for_line("first")
    isolated.create_file("go")

    watching.wait_for_line("Succeeded")
    assert following.exit_code() == 0
    assert following.lines() == ["first", "last"]
    assert ["Username", "admin"] in kubectl.table("auth", "whoami", me)


def test_a_wrong_token_is_rejected(
    isolated: IsolatedNamespace, kubectl: Kubectl, credentials: Path, tmp_path: Path
) -> None:
    other_token = config(isolated, credentials, tmp_path, {"token": "another"})

    error = kubectl.error_output("get", other_token, "fw")

    assert "error: You must be logged in to the server" in error


def test_an_unknown_certificate_is_not_trusted(isolated: IsolatedNamespace, kubectl: Kubectl) -> None:
    error = kubectl.error_output("get", f"--token={TOKEN}", "--raw", isolated.frameworks)

    assert "certificate" in error
