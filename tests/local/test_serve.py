"""``launcher serve`` as a user starts it: its output, its errors, and its end."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders import a_framework, a_pod_template, a_role
from tests.eventually import TIMEOUT_SECONDS, until
from tests.launcher_process import PROJECT
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS


def failed_start(*flags: str) -> tuple[int, str]:
    """The exit code and the error of a launcher that does not start."""
    command = [sys.executable, "-m", "launcher", "serve", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=PROJECT)
    # It does not print that it listens.
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as port_in_use:
        port = port_in_use.getsockname()[1]

        code, error = failed_start("--listen", f"127.0.0.1:{port}", "--data", str(tmp_path))

    assert code == 2
    assert error.count("\n") == 1
    assert f"127.0.0.1:{port}: Address already in use;" in error
    assert "--listen" in error


def test_a_read_only_data_directory_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, error = failed_start("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file" / "data"))

    assert code == 2
    assert error.count("\n") == 1
    assert "--data" in error


def test_a_file_as_data_directory_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, error = failed_start("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file"))

    assert code == 2
    assert error == f"launcher serve: data: {tmp_path}/file is not a directory; set another with --data DIR\n"


def test_a_lock_that_cannot_be_opened_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "store.db.lock").mkdir()

    code, error = failed_start("--listen", "127.0.0.1:0", "--data", str(tmp_path))

    assert code == 2
    assert error.count("\n") == 1
    assert f"data: {tmp_path}: Is a directory; set another with --data DIR" in error


def test_an_invalid_certificate_is_reported_in_one_line(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).touch(mode=0o600)
    files = ("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key"))

    code, error = failed_start("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), *files)

    assert code == 2
    assert error.count("\n") == 1
    assert f"tls-cert: {tmp_path}/tls.crt" in error


def test_a_second_launcher_on_the_same_data_is_refused_and_the_first_continues(serve: Serve) -> None:
    first = serve()
    until(lambda: first.curl("/readyz") == "ok" or None, "the first is ready")

    code, error = failed_start("--listen", "127.0.0.1:0", "--data", str(first.data))

    assert code == 2
    assert error.count("\n") == 1, error
    assert str(first.data) in error
    assert first.curl("/readyz") == "ok"


def test_an_invalid_setting_is_reported_in_one_line() -> None:
    code, error = failed_start("--listen", "0.0.0.0:0")

    assert code == 2
    assert error.count("\n") == 1
    assert "token" in error


def test_sigterm_ends_the_launcher_with_exit_code_0_and_its_pods_continue(serve: Serve) -> None:
    server = serve()
    server.post(
        FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_sleeping_framework(str(server.data))), name="long")
    )
    running = f"{PODS}/long-worker-0"
    server.runs("long-worker-0")
    before = server.inside()

    code = server.stop()

    assert code == 0
    assert all("can run commands as root" in line for line in server.errors().splitlines())
    assert "1 container keeps running" in server.output
    assert before
    assert server.inside() == before
    server.start()
    assert server.get(running)["status"]["phase"] == "Running"
    server.curl(f"{FRAMEWORKS}/long", "-X", "DELETE")
    until(lambda: not server.inside() or None, "no process is left")


def a_sleeping_framework(mark: str) -> dict[str, object]:
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "1000"],
        "env": [{"name": "LAUNCHER_TEST", "value": mark}],
    }
    return a_pod_template(containers=[container], terminationGracePeriodSeconds=1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 12 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mount_point = tmp_path / "small"
    mount_point.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", mount_point], check=True, timeout=TIMEOUT_SECONDS
    )
    yield mount_point
    subprocess.run(["umount", "--lazy", mount_point], check=True, timeout=TIMEOUT_SECONDS)


def test_on_a_full_disk_writes_fail_with_the_reason_until_space_is_available(
    small_disk: Path, serve: Serve
) -> None:
    server = serve(at=small_disk)
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1), name="early", executionType="Create"))
    with (small_disk / "fill").open("wb", buffering=0) as fill, suppress(OSError):
        while fill.write(bytes(65536)):
            pass

    rejected = server.post(FRAMEWORKS, a_framework(a_role(tasks=1), name="late"))
    health = server.curl("/readyz")
    findings = server.get(f"{FRAMEWORKS}/early/diagnosis")["findings"]
    (small_disk / "fill").unlink()
    created = server.post(FRAMEWORKS, a_framework(a_role(tasks=1), name="late"))

    assert (rejected["code"], rejected["reason"]) == (503, "ServiceUnavailable")
    assert "full" in rejected["message"]
    assert "[-]disk failed" in health
    assert findings[0]["id"] == "FL-SYS-06"
    assert created["kind"] == "Framework"
    assert server.completed("late")["status"]["state"] == "Completed"
    assert server.curl("/readyz") == "ok"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_running_framework_can_be_deleted_on_a_full_disk(
    small_disk: Path, serve: Serve, restarted: bool
) -> None:
    container = {"name": "main", "image": "none", "command": ["sleep", "600"]}
    server = serve(at=small_disk)
    server.post(
        FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod_template(containers=[container])), name="running")
    )
    server.runs("running-worker-0")
    if restarted:
        server.kill()
    with (small_disk / "fill").open("wb", buffering=0) as fill:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while fill.write(bytes(size)):
                    pass
    if restarted:
        server.start()

    deleted = server.curl(f"{FRAMEWORKS}/running", "-X", "DELETE")

    assert '"code":503' not in deleted, deleted
    until(lambda: server.framework("running").get("code") == 404 or None, "the Framework is deleted")
    until(lambda: server.get(PODS)["items"] == [] or None, "its pod is deleted")
