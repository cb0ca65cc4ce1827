"""The S3 server of moto as a process, and the environment with which obstore uses it."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.ports import free_port
from tests.eventually import TIMEOUT_SECONDS, until

#: In an environment of its own; see pyproject.toml.
_PROGRAM = Path(sys.prefix) / "s3-server" / "bin" / "moto_server"


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server. It accepts any credentials."""

    url: str

    @property
    def environment(self) -> Mapping[str, str]:
        return s3_environment(self.url)

    def create_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()


def s3_environment(url: str) -> Mapping[str, str]:
    """Returns the variables for an S3 server at *url*."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "launcher",
        "AWS_SECRET_ACCESS_KEY": "not-checked",
        "AWS_REGION": "us-east-1",
    }


@contextmanager
def run_s3_server(log: Path) -> Iterator[S3Server]:
    """Runs a server on a free port; its output goes to *log*."""
    port = free_port()
    with log.open("wb") as output:
        command = [str(_PROGRAM), "-H", "127.0.0.1", "-p", str(port.number)]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    server = S3Server(f"http://127.0.0.1:{port.number}")

    def responds() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"{server.url}/moto-api/", timeout=TIMEOUT_SECONDS).close()
        except OSError:
            return False
        return True

    try:
        until(responds, "the S3 server responds")
        yield server
    finally:
        process.kill()
        process.wait(TIMEOUT_SECONDS)
        port.release()
