"""Sessions with pods of a real kubelet, through the API proxy with the rights of the caller."""

import hashlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import a_framework, a_role
from tests.clients.kubectl import Kubectl
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.cluster.versions import chosen
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.conftest import ALL_ON_FRAMEWORKS
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient
from tests.realnodes.pods import SLEEP_COMMAND, a_real_pod

READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
#: The first minor version whose kube-apiserver requires create too for a command over a WebSocket.
CREATE_REQUIRED = 35


@pytest.fixture
def launcher(account: User, tmp_path: Path) -> Iterator[KubeLauncher]:
    running = KubeLauncher(tmp_path / "launcher", account.kubeconfig)
    yield running
    running.end()


def execute(
    launcher: KubeLauncher, user: User, directory: Path, *words: str
) -> subprocess.CompletedProcess[bytes]:
    """Runs ``launcher exec`` for that user, with one line as its input."""
    token = directory / "token"
    token.write_text(user.token)
    token.chmod(0o600)
    return subprocess.run(
        [sys.executable, "-m", "launcher", "exec", *words],
        env={**os.environ, "LAUNCHER_SERVER": launcher.url, "LAUNCHER_TOKEN_FILE": str(token)},
        input=b"hello\n",
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
    )


def a_user(cluster: ControlPlane, ns: NamespaceClient, *verbs: str) -> User:
    """A user with these verbs on sessions with pods, who can read Frameworks and pods."""
    user = cluster.new_user()
    names = ["pods/exec", "pods/portforward"]
    sessions = [{"apiGroups": [""], "resources": names, "verbs": verbs}] if verbs else []
    cluster.grant(user, [*ALL_ON_FRAMEWORKS, READ, *sessions], namespace=ns.namespace)
    return user


def test_a_command_runs_with_its_streams_and_exit_code_if_the_caller_may_execute_it(
    launcher: KubeLauncher, cluster: ControlPlane, ns: NamespaceClient, tmp_path: Path
) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(SLEEP_COMMAND))))
    ns.wait_running("mnist-worker-0")
    task = ("-n", ns.namespace, "mnist", "worker/0")
    script = "read line; echo $line from $FC_TASK_INDEX; echo bad >&2; exit 7"

    done = execute(
        launcher, a_user(cluster, ns, "get", "create"), tmp_path, *task, "-i", "--", "sh", "-c", script
    )
    missing = execute(launcher, a_user(cluster, ns, "get", "create"), tmp_path, *task, "--", "nosuch")
    others = {
        verbs: execute(launcher, a_user(cluster, ns, *verbs), tmp_path, *task, "--", "true")
        for verbs in ((), ("get",), ("create",))
    }

    assert (done.returncode, done.stdout, done.stderr) == (7, b"hello from 0\n", b"bad\n")
    assert (missing.returncode, b"nosuch" in missing.stderr) == (1, True)
    allowed = {verbs for verbs, result in others.items() if result.returncode == 0}
    assert allowed == (set() if chosen().minor >= CREATE_REQUIRED else {("get",)})
    assert all(b"forbidden" in others[verbs].stderr for verbs in others.keys() - allowed)


def test_ports_are_forwarded_by_kubectl_through_the_launcher(
    shared_launcher: KubeLauncher, cluster: ControlPlane, ns: NamespaceClient, programs: Path, tmp_path: Path
) -> None:
    serve = "mkdir /www; head -c 3000000 /dev/urandom >/www/file; cd /www; sha256sum file >sum; exec httpd -f -p 8080"
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(serve))))
    ns.wait_running("mnist-worker-0")
    kubectl = Kubectl(programs / "kubectl", shared_launcher.url, ns.namespace, tmp_path, tmp_path / "cache")
    token = a_user(cluster, ns, "get", "create").token
    _, port = kubectl.forward("pod/mnist-worker-0", 8080, f"--token={token}", "--insecure-skip-tls-verify")

    try:
        content, digest = (read(port, path) for path in ("file", "sum"))
    finally:
        kubectl.end()

    assert (len(content), hashlib.sha256(content).hexdigest()) == (3_000_000, digest.split()[0].decode())


def read(port: int, path: str) -> bytes:
    """The file at *path* of the HTTP server at that port of this machine, once it responds."""

    def respond() -> bytes | None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/{path}", timeout=TIMEOUT_SECONDS
            ) as response:
                return bytes(response.read())
        except OSError:
            return None

    content: bytes = until(respond, f"{path} is served")
    return content
