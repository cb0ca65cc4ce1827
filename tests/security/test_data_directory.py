"""The data directory contains Secrets, which other users of the machine cannot read."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.eventually import TIMEOUT_SECONDS
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server

SECRETS = "/api/v1/namespaces/default/secrets"
NO_UMASK = ("sh", "-c", 'umask 000; exec "$@"', "sh")


def open_to_others(directory: Path) -> Iterator[str]:
    """The files below *directory* whose modes permit access to other users who can enter *directory*."""
    for entry in os.scandir(directory):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode) or not mode & 0o077:
            continue
        yield f"{entry.path} {mode & 0o7777:04o}"
        if stat.S_ISDIR(mode):
            yield from open_to_others(Path(entry.path))


def a_framework_with_a_secret() -> Json:
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "600"],
        "volumeMounts": [{"name": "password", "mountPath": "/password"}],
    }
    volumes = [
        {"name": "password", "secret": {"secretName": "password"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    return a_framework(
        a_role(tasks=1, pod=a_pod_template(containers=[container], volumes=volumes)), name="reader"
    )


def run_a_framework(server: Server) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "password"},
        "stringData": {"a": "hunter2"},
    }
    assert server.post(SECRETS, secret)["kind"] == "Secret"
    assert server.post(FRAMEWORKS, a_framework_with_a_secret())["kind"] == "Framework"
    server.runs("reader-worker-0")


def test_other_users_cannot_read_files_in_a_data_directory_that_they_can_enter(
    serve: Serve, tmp_path: Path
) -> None:
    directory = tmp_path / "shared"
    (directory / "data").mkdir(parents=True)
    (directory / "data").chmod(0o755)

    server = serve(under=NO_UMASK, at=directory)
    run_a_framework(server)

    assert "\n".join(open_to_others(server.data)) == ""
    assert f"chmod 700 {server.data}" in server.errors()


def test_files_of_an_older_launcher_become_private_at_the_next_start(serve: Serve) -> None:
    server = serve()
    run_a_framework(server)
    server.kill()
    for name in ("store.db", "store.db-wal", "store.db-shm", "store.db.lock"):
        (server.data / name).chmod(0o644)
    (server.data / "logs").chmod(0o755)

    server.start()
    server.runs("reader-worker-0")

    assert "\n".join(open_to_others(server.data)) == ""


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_a_new_data_directory_is_private(serve: Serve, umask: str) -> None:
    server = serve(under=("sh", "-c", f'umask {umask}; exec "$@"', "sh"))

    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert "chmod" not in server.errors()


def test_the_data_directory_of_launcher_run_is_private(tmp_path: Path) -> None:
    manifest, data = tmp_path / "hello.yaml", tmp_path / "kept"
    manifest.write_bytes(orjson.dumps(a_framework(a_role(tasks=1), name="hello")))

    command = [*NO_UMASK, sys.executable, "-m", "launcher", "run", str(manifest), "--keep", str(data)]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS)

    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert "\n".join(open_to_others(data)) == ""
