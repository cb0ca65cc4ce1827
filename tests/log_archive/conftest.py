"""Log archives: in a directory and on an S3 server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.log_archive.interface import LogArchive
from launcher.log_archive.object_store import open_archive
from tests.log_archive.memory_archive import MemoryArchive
from tests.log_archive.s3_server import S3Server, run_s3_server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server with the bucket "logs"."""
    with run_s3_server(tmp_path_factory.mktemp("s3") / "log") as server:
        server.create_bucket("logs")
        yield server


@pytest.fixture(params=["directory", "s3", "memory"])
def archive(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LogArchive]:
    """An empty archive of each kind."""
    match request.param:
        case "directory":
            yield open_archive(f"file://{tmp_path}")
        case "s3":
            for name, value in request.getfixturevalue("s3_server").environment.items():
                monkeypatch.setenv(name, value)
            # A prefix of its own: the bucket is shared.
            yield open_archive(f"s3://logs/{tmp_path.name}")
        case _:
            yield MemoryArchive()
