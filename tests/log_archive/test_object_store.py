"""Log archives in object stores: their keys, and errors of the store."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from launcher.core.errors import Forbidden, LauncherError, Unavailable
from launcher.log_archive.interface import ArchivedPod, LogArchive, LogKey
from launcher.log_archive.object_store import open_archive
from tests.log_archive.s3_server import S3Server, s3_environment

KEY = LogKey(ArchivedPod("default", "mnist-worker-0", "uid-1"), "main", 2)
CALLS: dict[str, Callable[[LogArchive], Awaitable[object]]] = {
    "create": lambda archive: archive.create(KEY, b"text"),
    "exists": lambda archive: archive.exists(KEY),
    "read": lambda archive: archive.read(KEY),
    "runs": lambda archive: archive.runs(KEY.pod),
}


@asynccontextmanager
async def failing_s3_server(status: int) -> AsyncIterator[str]:
    """The URL of a server that responds to every request with that status."""

    async def respond(_: web.Request) -> web.Response:
        return web.Response(status=status, text="<Error><Code>Simulated</Code></Error>")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_log_is_a_file_at_the_path_of_local_mode(tmp_path: Path) -> None:
    await open_archive(f"file://{tmp_path}").create(KEY, b"text")

    assert (tmp_path / "default/mnist-worker-0/uid-1/main/2.log").read_bytes() == b"text"


async def test_other_files_are_not_logs(tmp_path: Path) -> None:
    archive = open_archive(f"file://{tmp_path}")
    await archive.create(KEY, b"text")
    folder = tmp_path / "default/mnist-worker-0/uid-1/main"
    for name in ("notes.txt", "x.log", "0.log.gz"):
        (folder / name).touch()

    assert await archive.runs(KEY.pod) == {"main": [2]}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        pytest.param(403, Forbidden, id="access is denied"),
        pytest.param(401, Forbidden, id="the credentials are not known"),
        pytest.param(500, Unavailable, id="an error of the server"),
        pytest.param(503, Unavailable, id="an overloaded server"),
    ],
)
async def test_an_error_of_the_store_is_translated(
    monkeypatch: pytest.MonkeyPatch, call: str, status: int, error: type[LauncherError]
) -> None:
    async with failing_s3_server(status) as url:
        for name, value in s3_environment(url).items():
            monkeypatch.setenv(name, value)

        # obstore reports all errors of a list as one type.
        with pytest.raises(Unavailable if call == "runs" else error) as raised:
            await CALLS[call](open_archive("s3://logs"))

    assert str(status) in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_store_that_cannot_be_reached_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_environment("http://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)

    with pytest.raises(Unavailable):
        await open_archive("s3://logs").create(KEY, b"text")


async def test_a_missing_bucket_is_an_error_of_a_write(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(Unavailable, match="does not exist"):
        await open_archive("s3://no-such-bucket").create(KEY, b"text")


async def test_a_directory_that_cannot_be_written_to_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "default").write_text("a file where a directory is expected")

    with pytest.raises(Unavailable):
        await open_archive(f"file://{tmp_path}").create(KEY, b"text")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("file:///no/such/directory", "/no/such/directory", id="a missing directory"),
        pytest.param("s3://", "URL", id="no bucket"),
        pytest.param("az://logs", "Account", id="no storage account"),
        pytest.param("logs", "relative URL", id="no scheme"),
    ],
)
def test_an_invalid_url_is_rejected_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        open_archive(url)


def test_missing_ca_certificates_are_named() -> None:
    # The certificates are read once per process.
    program = "from launcher.log_archive.object_store import open_archive; open_archive('s3://logs')"
    environment = {**os.environ, "SSL_CERT_FILE": "/dev/null", "SSL_CERT_DIR": "/dev/null"}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )

    assert "ValueError: there are no CA certificates" in done.stderr
