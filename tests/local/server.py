"""``launcher serve`` as a process, and the clients that people use against it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import orjson

from tests.cluster.ports import free_port

PROJECT = Path(__file__).parents[2]
GROUP = "/apis/launcher.microsoft.com/v1"
FRAMEWORKS = f"{GROUP}/namespaces/default/frameworks"
PODS = "/api/v1/namespaces/default/pods"
#: Seconds that anything may take: far more than it does, even on a busy machine.
PATIENCE = 60.0

T = TypeVar("T")


def loopback(last: int) -> str:
    """An address of this machine that only this test worker uses: pods with ports of their own do not meet there."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return f"127.0.{worker + 1}.{last}"


def until(look: Callable[[], T | None], what: str, within: float = PATIENCE) -> T:
    """What *look* finds, as soon as it finds something."""
    ends = time.monotonic() + within
    while (found := look()) is None:
        assert time.monotonic() < ends, f"{what}: not within {within:g} s"
        time.sleep(0.05)
    return found


def within(**directories: Path) -> tuple[str, ...]:
    """A command under which a machine has these directories: ``data=DIR`` at /data, ``srv_mnist=DIR`` at /srv/mnist."""
    shown = (f"{directory}=/{name.replace('_', '/')}" for name, directory in directories.items())
    return (sys.executable, "-m", "tests.local.within", *shown, "--")


def ended(framework: Any) -> str:
    """Which of the two conditions came true in the end."""
    true = {c["type"] for c in framework["status"]["conditions"] if c["status"] == "True"}
    return " and ".join(sorted(true & {"Succeeded", "Failed"}))


def last_words(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """What the process still prints once it has that signal; it has ended then, whatever it made of it."""
    assert process.stdout is not None
    process.send_signal(number)
    try:
        return process.communicate(timeout=PATIENCE)[0]
    finally:
        process.kill()
        process.stdout.close()


class Server:
    """A launcher with its own data, port and clients' settings."""

    def __init__(
        self, directory: Path, *flags: str, module: str = "launcher", under: Sequence[str] = ()
    ) -> None:
        """*module* is what Python runs; *under* is a command that runs that, such as ``unshare``."""
        self.data = directory / "data"
        self._directory, self._flags, self._module, self._under = directory, flags, module, under
        self._process: subprocess.Popen[str] | None = None
        #: Nobody else takes it while the launcher is away.
        self._port = free_port()
        self.url = ""
        #: What it printed after its first line, once it has ended.
        self.said = ""
        self.start()

    def start(self) -> None:
        """Start it, where it listened before if it has run already."""
        listen = f"127.0.0.1:{self._port.number}"
        command = [sys.executable, "-m", self._module, "serve", "--listen", listen, "--data", str(self.data)]
        errors = (self._directory / "errors").open("ab")
        with errors:
            self._process = subprocess.Popen(
                [*self._under, *command, *self._flags],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=PROJECT,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"(https?://|unix:)\S+?(?=[,\s])", line)
        assert found, f"it does not say where it listens: {line!r}; {self.errors()}"
        self.url = found[0]

    def errors(self) -> str:
        """What it has complained of so far."""
        return (self._directory / "errors").read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def state(self, within: float) -> str:
        """Whether its process still runs after so many seconds, or has ended and how."""
        assert self._process is not None
        try:
            return f"it ended with code {self._process.wait(within)}"
        except subprocess.TimeoutExpired:
            return "it runs"

    def kill(self) -> None:
        """End the launcher without a word of warning; its pods know nothing of it."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask the launcher to end, and wait until it has."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        self.said = last_words(process, number)
        return process.returncode

    def end(self) -> None:
        """End the launcher, every pod of its, and their keeper."""
        self._end(signal.SIGKILL)
        self._port.give_back()
        for pid in (*self.keepers(), *self.inside()):
            with suppress(ProcessLookupError):  # it may have ended just now
                os.kill(pid, signal.SIGKILL)

    def keepers(self) -> list[int]:
        """The keeper's process, found by the data directory in its command line."""
        return [
            pid
            for pid, words in _commands()
            if "shim" in " ".join(words) and str(self.data) in " ".join(words)
        ]

    def inside(self) -> list[int]:
        """Every process that was started for a container."""
        return [
            pid for pid, environment in _environments() if environment.get("LAUNCHER_TEST") == str(self.data)
        ]

    # Clients.

    def curl(self, path: str, *options: str) -> str:
        """The answer's body."""
        where = [self.url + path]
        if self.url.startswith("unix:"):
            where = ["--unix-socket", self.url.removeprefix("unix:"), "http://localhost" + path]
        command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE), *options, *where]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE * 2, check=True
        ).stdout

    def get(self, path: str) -> Any:
        """The object there; a Status when there is none."""
        return orjson.loads(self.curl(path))

    def post(self, path: str, obj: Mapping[str, Any]) -> Any:
        """What the server made of *obj*."""
        body = orjson.dumps(obj).decode()
        return orjson.loads(self.curl(path, "-H", "Content-Type: application/json", "--data-binary", body))

    def kubectl(self, *words: str, stdin: str | None = None, ok: bool = True) -> str:
        """What kubectl prints; its complaints too when it is to fail."""
        done = subprocess.run(
            ["kubectl", "--server", self.url, "--cache-dir", str(self._directory / "kubectl"), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            env={**os.environ, "KUBECONFIG": "/dev/null"},
        )
        assert (done.returncode == 0) is ok, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout if ok else done.stdout + done.stderr

    def framework(self, name: str) -> Any:
        """The Framework as it is now."""
        return self.get(f"{FRAMEWORKS}/{name}")

    def log(self, pod: str) -> str:
        """What its one container has written."""
        return self.curl(f"{PODS}/{pod}/log")

    def runs(self, pod: str) -> None:
        """Return when the pod runs."""

        def look() -> bool | None:
            found = self.get(f"{PODS}/{pod}")
            return True if found["kind"] == "Pod" and found["status"]["phase"] == "Running" else None

        until(look, f"{pod} runs")

    def completed(self, name: str, within: float = PATIENCE) -> Any:
        """The Framework, once it is over."""

        def look() -> Any:
            framework = self.framework(name)
            return framework if framework.get("status", {}).get("state") == "Completed" else None

        return until(look, f"{name} is completed", within)


def _commands() -> list[tuple[int, list[str]]]:
    return [(pid, _words(pid, "cmdline")) for pid in _pids()]


def _environments() -> list[tuple[int, dict[str, str]]]:
    return [(pid, dict(word.partition("=")[::2] for word in _words(pid, "environ"))) for pid in _pids()]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _words(pid: int, file: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace").split("\0")
    except OSError:
        return []  # it has ended, or is not ours
