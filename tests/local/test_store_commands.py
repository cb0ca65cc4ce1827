"""``launcher store`` while a launcher is running."""

import subprocess
import sys
import threading
from pathlib import Path

from tests.builders import a_framework
from tests.eventually import TIMEOUT_SECONDS
from tests.launcher_process import PROJECT
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def store(server: Server, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "launcher", "store", *words, "--data", str(server.data)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        cwd=PROJECT,
    )


def an_unstarted_framework(name: str) -> dict[str, object]:
    return a_framework(name=name, executionType="Create")


def write_until(stopped: threading.Event, server: Server) -> None:
    number = 0
    while not stopped.is_set():
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{number}"}}
        assert server.post(CONFIG_MAPS, config)["kind"] == "ConfigMap"
        number += 1


def test_a_running_launcher_is_checked_and_backed_up_and_the_backup_restored_after_its_end(
    serve: Serve, tmp_path: Path
) -> None:
    server, stopped = serve(), threading.Event()
    assert server.post(FRAMEWORKS, an_unstarted_framework("kept"))["kind"] == "Framework"
    writer = threading.Thread(target=write_until, args=(stopped, server))
    writer.start()
    try:
        checks = [store(server, "check") for _ in range(3)]
        backup = store(server, "backup", str(tmp_path / "backup.db"))
    finally:
        stopped.set()
        writer.join(TIMEOUT_SECONDS)
    assert [done.returncode for done in (*checks, backup)] == [0] * 4, (checks, backup)

    server.curl(f"{FRAMEWORKS}/kept", "-X", "DELETE")
    assert server.post(FRAMEWORKS, an_unstarted_framework("later"))["kind"] == "Framework"
    rejected = store(server, "restore", str(tmp_path / "backup.db"), "--force")
    assert (rejected.returncode, len(rejected.stderr.splitlines())) == (1, 1)
    assert f"in use by another launcher (process {server.pid})" in rejected.stderr

    server.stop()
    restored = store(server, "restore", str(tmp_path / "backup.db"), "--force")
    server.start()

    assert restored.returncode == 0, restored.stderr
    assert [each["metadata"]["name"] for each in server.get(FRAMEWORKS)["items"]] == ["kept"]


def test_a_damaged_store_stops_the_start_with_one_line_until_the_loss_is_accepted(serve: Serve) -> None:
    server = serve()
    assert server.post(FRAMEWORKS, an_unstarted_framework("lost"))["kind"] == "Framework"
    server.kill()
    (server.data / "store.db-wal").write_bytes(b"")

    command = [
        sys.executable,
        "-m",
        "launcher",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        str(server.data),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=PROJECT)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "acknowledged writes are lost" in done.stderr
    assert f"launcher store accept-loss --data {server.data}" in done.stderr

    assert store(server, "accept-loss").returncode == 0
    server.start()
    assert server.get(FRAMEWORKS)["items"] == []
