"""Debian's docker-registry on loopback, with or without credentials."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.cluster.ports import free_port
from tests.eventually import until

USER, PASSWORD = "ada", "lovelace"
#: The password's hash by bcrypt.
_HASH = "$2y$05$abcdefghijklmnopqrstuuugyJgZetmHGvxwCJ1rpgM8bgT8KJ8.i"


class RegistryServer:
    """A registry that accepts any image."""

    def __init__(self, *, protected: bool = False) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="registry-"))
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port.number}"
        auth = f"auth:\n  htpasswd: {{realm: test, path: {self._directory}/users}}\n" if protected else ""
        (self._directory / "users").write_text(f"{USER}:{_HASH}\n")
        (self._directory / "config.yml").write_text(
            f"version: 0.1\nstorage:\n  filesystem: {{rootdirectory: {self._directory}/data}}\n"
            f"http: {{addr: {self.address}}}\n{auth}"
        )
        self._process = subprocess.Popen(
            ["docker-registry", "serve", str(self._directory / "config.yml")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._responds, "the registry responds")

    def image(self, name: str) -> str:
        return f"{self.address}/{name}"

    def _responds(self) -> bool:
        try:
            urlopen(f"http://{self.address}/v2/", timeout=5).close()
        except HTTPError:
            return True  # it requests credentials
        except URLError:
            return False
        return True

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._port.release()
        shutil.rmtree(self._directory, ignore_errors=True)
