"""``launcher serve`` as a user starts it: what it says, what it refuses, and how it ends."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.core.manifests import a_framework, a_pod, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PATIENCE, PODS, PROJECT, until


def refused(*flags: str) -> tuple[int, str]:
    """Exit code and complaint of a launcher that does not start."""
    command = [sys.executable, "-m", "launcher", "serve", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=PROJECT)
    # It does not claim to listen.
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code, complaint = refused("--listen", f"127.0.0.1:{port}", "--data", str(tmp_path))

    assert code == 2
    assert complaint.count("\n") == 1
    assert f"127.0.0.1:{port}: Address already in use;" in complaint
    assert "--listen" in complaint


def test_data_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, complaint = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file" / "data"))

    assert code == 2
    assert complaint.count("\n") == 1
    assert "--data" in complaint


def test_data_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, complaint = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file"))

    assert code == 2
    assert (
        complaint
        == f"launcher serve: data: {tmp_path}/file is no directory; choose another with --data DIR\n"
    )


def test_a_lock_that_cannot_be_opened_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "store.db.lock").mkdir()

    code, complaint = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path))

    assert code == 2
    assert complaint.count("\n") == 1
    assert f"data: {tmp_path}: Is a directory; choose another with --data DIR" in complaint


def test_a_certificate_that_is_none_is_one_clear_line(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).touch(mode=0o600)
    files = ("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key"))

    code, complaint = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), *files)

    assert code == 2
    assert complaint.count("\n") == 1
    assert f"tls-cert: {tmp_path}/tls.crt" in complaint


def test_a_second_launcher_on_the_same_data_is_refused_and_the_first_goes_on(serve: Serve) -> None:
    first = serve()
    until(lambda: first.curl("/readyz") == "ok" or None, "the first is ready")

    code, complaint = refused("--listen", "127.0.0.1:0", "--data", str(first.data))

    assert code == 2
    assert complaint.count("\n") == 1, complaint
    assert str(first.data) in complaint
    assert first.curl("/readyz") == "ok"


def test_a_setting_that_cannot_be_followed_is_one_clear_line() -> None:
    code, complaint = refused("--listen", "0.0.0.0:0")

    assert code == 2
    assert complaint.count("\n") == 1
    assert "token" in complaint


def test_asked_to_end_it_ends_well_and_its_pods_go_on(serve: Serve) -> None:
    server = serve()
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_sleeper(str(server.data))), name="long"))
    running = f"{PODS}/long-worker-0"
    server.runs("long-worker-0")
    before = server.inside()

    code = server.stop()

    assert code == 0
    assert all("can run commands as root" in line for line in server.errors().splitlines())
    assert "1 container is still running" in server.said
    assert before
    assert server.inside() == before
    server.start()
    assert server.get(running)["status"]["phase"] == "Running"
    server.curl(f"{FRAMEWORKS}/long", "-X", "DELETE")
    until(lambda: not server.inside() or None, "no process is left")


def a_sleeper(mark: str) -> dict[str, object]:
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "1000"],
        "env": [{"name": "LAUNCHER_TEST", "value": mark}],
    }
    return a_pod(containers=[container], terminationGracePeriodSeconds=1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", place], check=True, timeout=PATIENCE)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True, timeout=PATIENCE)


def test_on_a_full_disk_it_says_so_and_goes_on_when_there_is_room(small_disk: Path, serve: Serve) -> None:
    server = serve(at=small_disk)
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    with (small_disk / "fill").open("wb") as fill, suppress(OSError):
        while fill.write(bytes(65536)):
            fill.flush()

    refused = server.post(FRAMEWORKS, a_framework(a_role(tasks=1), name="late"))
    health = server.curl("/readyz")
    (small_disk / "fill").unlink()
    created = server.post(FRAMEWORKS, a_framework(a_role(tasks=1), name="late"))

    assert (refused["code"], refused["reason"]) == (503, "ServiceUnavailable")
    assert "full" in refused["message"]
    assert "[-]disk failed" in health
    assert created["kind"] == "Framework"
    assert server.completed("late")["status"]["state"] == "Completed"
    assert server.curl("/readyz") == "ok"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_running_framework_can_be_deleted_on_a_full_disk(
    small_disk: Path, serve: Serve, restarted: bool
) -> None:
    container = {"name": "main", "image": "none", "command": ["sleep", "600"]}
    server = serve(at=small_disk)
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod(containers=[container])), name="running"))
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
    until(lambda: server.framework("running").get("code") == 404 or None, "the Framework is gone")
    until(lambda: server.get(PODS)["items"] == [] or None, "its pod is gone")
