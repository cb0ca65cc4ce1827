"""Docker and Podman as processes of a test, each with a directory of its own for everything that it stores."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

from launcher.node.volumes.mounts import mounts_below
from tests.eventually import until

KINDS = ("docker", "podman")
#: Podman does not start containers with higher limits than its own.
_MAX_OPEN_FILES = 20_000


class EngineProcess:
    """A container engine. Its containers continue when it is killed, until ``close``."""

    def __init__(self, kind: str, registries: str = "", under: Sequence[str] = ()) -> None:
        """*registries*: the content of Podman's registries.conf; *under*: runs Podman as another user."""
        self.kind, self._under = kind, under
        # The path of a socket is limited to 108 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        self.socket = self.directory / "s"
        self.url = f"unix://{self.socket}"
        self._log = (self.directory / "log").open("ab")
        if kind == "podman":
            self._configure_podman(registries)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts the engine, and waits until it accepts connections."""
        words, environment = self._command()
        self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            words,
            env={**os.environ, **environment},
            # conmon writes a file into the working directory.
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        try:
            until(self._accepts, f"{self.kind} accepts connections")
        except AssertionError as error:
            error.add_note(f"the end of its log: {self._log_text()}")
            raise

    def _command(self) -> tuple[list[str], dict[str, str]]:
        directory = self.directory
        if self.kind == "docker":
            options = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--live-restore"]
            cgroups = ["--exec-opt", "native.cgroupdriver=cgroupfs"]
            roots = ["--data-root", f"{directory}/data", "--exec-root", f"{directory}/exec"]
            return ["dockerd", *options, *cgroups, *roots, "-p", f"{directory}/pid", "-H", self.url], {}
        roots = [
            "--root",
            f"{directory}/root",
            "--runroot",
            f"{directory}/run",
            "--tmpdir",
            f"{directory}/tmp",
        ]
        environment = {
            "CONTAINERS_CONF": f"{directory}/containers.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{directory}/registries.conf",
        }
        if self._under:
            environment |= {
                "CONTAINERS_STORAGE_CONF": f"{directory}/storage.conf",
                "HOME": f"{directory}/home",
                "XDG_RUNTIME_DIR": f"{directory}/home",
            }
        return [*self._under, "podman", *roots, "system", "service", "--time=0", self.url], environment

    def _configure_podman(self, registries: str) -> None:
        files = min(_MAX_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        (self.directory / "containers.conf").write_text(
            f'[containers]\ndefault_ulimits=["nofile={files}:{files}","nproc=20000:20000"]\n'
            '[engine]\nruntime="runc"\ncgroup_manager="cgroupfs"\nevents_logger="file"\n'
        )
        (self.directory / "registries.conf").write_text(registries)
        (self.directory / "storage.conf").write_text('[storage]\ndriver="overlay"\n')
        (self.directory / "home").mkdir(mode=0o700)

    def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "it has exited"
        with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
            client.settimeout(5.0)
            client.connect(str(self.socket))
            client.sendall(b"GET /version HTTP/1.0\r\n\r\n")
            return client.recv(12).endswith(b"200")
        return False

    def _log_text(self) -> str:
        return (self.directory / "log").read_text()[-2000:]

    def load(self, archive: bytes) -> None:
        """Loads the images of a docker-archive."""
        assert self.request("POST", "/images/load", archive)[0] == 200

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content: str = "application/x-tar",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """The status and body of a response of the engine."""
        connection = _UnixConnection(self.socket)
        types = {"Content-Type": content} if body is not None else {}
        connection.request(method, f"/v1.40{path}", body, {**types, **(headers or {})})
        response = connection.getresponse()
        try:
            return response.status, response.read()
        finally:
            connection.close()

    def containers(self) -> list[str]:
        """The names of all containers."""
        status, body = self.request("GET", "/containers/json?all=true")
        assert status == 200, body
        listed = json.loads(body)
        return sorted(name.lstrip("/") for container in listed for name in container["Names"])

    def remove_containers(self) -> None:
        for name in self.containers():
            self.request("DELETE", f"/containers/{name}?force=true")

    def signal(self, number: int) -> None:
        """Sends the signal to the engine itself."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the engine; its containers continue."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)
        for name in ("pid", "exec/containerd/containerd.pid"):
            with suppress(FileNotFoundError):
                file = self.directory / name
                with suppress(ProcessLookupError, ValueError):
                    os.kill(int(file.read_text()), signal.SIGKILL)
                file.unlink()

    def container_processes(self) -> list[int]:
        """The processes of containers, and those that monitor them."""
        assert self._process is not None
        own = {self._process.pid}
        with suppress(FileNotFoundError):
            own.add(int((self.directory / "exec/containerd/containerd.pid").read_text()))
        return [pid for pid in self._processes() if pid not in own and _command_line(pid)]

    def close(self) -> None:
        """Ends the engine and all of its containers, and removes its files."""
        self.kill()
        pause = self.directory / "tmp/pause.pid"  # it keeps the namespaces of a user's Podman
        for pid in (*self._processes(), *([int(pause.read_text())] if pause.exists() else [])):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount_point in sorted(mounts_below(self.directory), reverse=True):
            subprocess.run(["umount", "--lazy", mount_point], check=False, timeout=30)
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _processes(self) -> list[int]:
        """Processes with the engine's directory in their command lines, and those that they have started."""
        own = str(self.directory).encode()
        parents = {pid: _parent(pid) for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))}
        found = {pid for pid in parents if own in _command_line(pid)}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found - {os.getpid()})


class _UnixConnection(HTTPConnection):
    """A connection to the engine's socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def registries_conf(*registries: str) -> str:
    """The content of a registries.conf in which these registries need no TLS."""
    tables = [f"[[registry]]\nlocation = {json.dumps(name)}\ninsecure = true\n" for name in registries]
    return "\n".join(tables)
