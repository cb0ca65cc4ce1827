"""A launcher on a unix socket, whose file permissions control access."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest

from tests.builders import a_framework, a_pod_template, a_role
from tests.eventually import TIMEOUT_SECONDS, until
from tests.launcher_process import PROJECT
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server, ended


@pytest.fixture
def path() -> Iterator[Path]:
    """A socket's path: short, because the kernel allows 107 bytes."""
    with TemporaryDirectory(prefix="launcher-") as directory:
        yield Path(directory) / "api.sock"


def a_launcher(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the launcher."""
    return subprocess.run(
        [sys.executable, "-m", "launcher", *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        cwd=PROJECT,
        env={**os.environ, **variables},
    )


def on_socket(serve: Serve, path: Path) -> Server:
    server = serve("--listen", f"unix:{path}")
    until(lambda: server.curl("/readyz") == "ok" or None, "the launcher is ready")
    return server


def test_only_its_owner_can_connect_to_the_socket(serve: Serve, path: Path) -> None:
    on_socket(serve, path)

    mode = path.stat().st_mode

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert path.stat().st_uid == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_cannot_connect_to_the_socket(serve: Serve, path: Path) -> None:
    on_socket(serve, path)
    path.parent.chmod(0o755)

    rejected = as_another_user("curl", "-sS", "--unix-socket", str(path), f"http://localhost{FRAMEWORKS}")
    path.chmod(0o666)
    allowed = as_another_user("curl", "-sS", "--unix-socket", str(path), f"http://localhost{FRAMEWORKS}")

    assert "FrameworkList" not in rejected
    assert "FrameworkList" in allowed


def as_another_user(*command: str) -> str:
    """The output of a command that neither runs as root nor as the launcher's user."""
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_SECONDS,
        user=65534,
        group=65534,
        extra_groups=[],
    ).stdout


def test_commands_connect_to_the_launcher_through_the_socket(serve: Serve, path: Path) -> None:
    on_socket(serve, path)

    by_flag = a_launcher("list", "--server", f"unix:{path}", "-o", "json")
    by_variable = a_launcher("version", LAUNCHER_SERVER=f"unix:{path}")

    assert (by_flag.returncode, by_flag.stderr) == (0, "")
    assert '"items"' in by_flag.stdout
    assert by_variable.returncode == 0


def test_a_socket_without_a_launcher_is_reported_in_one_line(path: Path) -> None:
    done = a_launcher("list", "--server", f"unix:{path}")

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"cannot connect to unix:{path}: no such file or directory" in done.stderr


def test_a_request_with_a_foreign_host_name_is_refused_on_the_socket_too(serve: Serve, path: Path) -> None:
    server = on_socket(serve, path)

    response = orjson.loads(server.curl(FRAMEWORKS, "-H", "Host: evil.example"))

    assert response["code"] == 403


def test_the_socket_of_a_killed_launcher_is_replaced(serve: Serve, path: Path) -> None:
    server = on_socket(serve, path)
    server.kill()
    assert path.exists()

    server.start()

    until(lambda: server.curl("/readyz") == "ok" or None, "the launcher is ready")


def test_the_socket_is_removed_when_the_launcher_ends(serve: Serve, path: Path) -> None:
    server = on_socket(serve, path)

    assert server.stop() == 0

    assert not path.exists()


def test_the_socket_of_a_running_launcher_is_not_replaced(serve: Serve, path: Path, tmp_path: Path) -> None:
    server = on_socket(serve, path)

    done = a_launcher("serve", "--listen", f"unix:{path}", "--data", str(tmp_path / "other"))

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"unix:{path}" in done.stderr
    assert server.curl("/readyz") == "ok"


def test_a_file_that_is_not_a_socket_is_not_replaced(path: Path, tmp_path: Path) -> None:
    path.write_text("mine")

    done = a_launcher("serve", "--listen", f"unix:{path}", "--data", str(tmp_path))

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "not a socket" in done.stderr
    assert path.read_text() == "mine"


def test_a_socket_in_a_directory_that_every_user_can_write_to_is_refused(path: Path, tmp_path: Path) -> None:
    path.parent.chmod(0o777)

    done = a_launcher("serve", "--listen", f"unix:{path}", "--data", str(tmp_path))

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "private directory" in done.stderr


def test_pods_of_a_launcher_on_a_socket_find_their_peers(serve: Serve, path: Path) -> None:
    server = on_socket(serve, path)
    container = {"name": "main", "image": "none", "command": ["cat", "/configdir/hosts.json"]}
    role = a_role("worker", 2, pod=a_pod_template(containers=[container]))

    server.post(FRAMEWORKS, a_framework(role, name="peers", discovery={"timeoutSeconds": 50}))

    assert ended(server.completed("peers")) == "Succeeded"


def test_only_the_rendezvous_is_served_on_the_port_for_pods(serve: Serve, path: Path) -> None:
    server = on_socket(serve, path)
    port = int((server.data / "rendezvous.port").read_text())

    for request in (FRAMEWORKS, "/api/v1/namespaces/default/pods", "/metrics", "/"):
        done = subprocess.run(
            ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{port}{request}"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        assert done.stdout == "404", request


def test_a_restarted_launcher_serves_pods_on_the_same_port(serve: Serve, path: Path) -> None:
    server = on_socket(serve, path)
    before = (server.data / "rendezvous.port").read_text()
    server.stop()

    server.start()
    until(lambda: server.curl("/readyz") == "ok" or None, "the launcher is ready")

    assert (server.data / "rendezvous.port").read_text() == before
