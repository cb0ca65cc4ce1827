"""``launcher serve`` as a process: start, stop and kill it, and send requests to it with curl."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.cluster.ports import free_port
from tests.eventually import TIMEOUT_SECONDS, until
from tests.forked_process import ForkedProcess

PROJECT = Path(__file__).parents[1]

_launchers: list["LauncherProcess"] = []


def launchers() -> Sequence["LauncherProcess"]:
    """The launchers that run, or have ended since the last ``forget_ended_launchers``."""
    return tuple(_launchers)


def forget_ended_launchers() -> None:
    _launchers[:] = [launcher for launcher in _launchers if not launcher.ended]


class LauncherProcess:
    """A launcher with a port of its own, which it keeps when it is started again."""

    #: Options of every request.
    curl_options: Sequence[str] = ()

    def __init__(
        self,
        log_file: Path,
        *flags: str,
        module: str = "launcher",
        under: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """*module* is what Python runs; *under* is a command that runs that, such as ``unshare``."""
        self._log_file, self._flags, self._module, self._under = log_file, flags, module, under
        self._environment = environment or {}
        self._process: subprocess.Popen[str] | ForkedProcess | None = None
        self._port = free_port()
        self.url = ""
        #: The first line of its output, which names the address.
        self.announced = ""
        #: The rest of its output, once it has ended.
        self.output = ""
        _launchers.append(self)
        self.start()

    def start(self) -> None:
        """Start it on the same port as before, and return when it listens."""
        self._process = self._new_server()
        assert self._process.stdout is not None
        self.announced = self._process.stdout.readline()
        found = re.search(r"(https?://|unix:)\S+?(?=[,\s])", self.announced)
        assert found, f"the first line names no address: {self.announced!r}; {self.log_text()}"
        self.url = found[0]

    def start_and_kill(self, after: float) -> None:
        """Start it, and kill it so many seconds later, whether it listens by then or not."""
        self._process = self._new_server()
        time.sleep(after)
        self.kill()

    def _new_server(self) -> subprocess.Popen[str] | ForkedProcess:
        return self._new_process("serve", "--listen", f"127.0.0.1:{self._port.number}", *self._flags)

    def _new_process(self, *arguments: str) -> subprocess.Popen[str] | ForkedProcess:
        with self._log_file.open("ab") as log:
            return subprocess.Popen(
                [*self._under, sys.executable, "-m", self._module, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=PROJECT,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )

    def log_text(self) -> str:
        """Everything that it has logged, in all of its runs."""
        return self._log_file.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def state(self, within: float) -> str:
        """Whether its process still runs after so many seconds, or how it has ended."""
        assert self._process is not None
        try:
            return f"it ended with code {self._process.wait(within)}"
        except subprocess.TimeoutExpired:
            return "it runs"

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL; its pods keep running."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it with SIGTERM, and return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdout is not None
        process.send_signal(number)
        try:
            self.output = process.communicate(timeout=TIMEOUT_SECONDS)[0]
        finally:
            process.kill()
            process.stdout.close()
        assert process.returncode is not None
        return process.returncode

    # Requests.

    def curl(self, path: str, *options: str) -> str:
        """The body of the response."""
        target = [self.url + path]
        if self.url.startswith("unix:"):
            target = ["--unix-socket", self.url.removeprefix("unix:"), "http://localhost" + path]
        command = ["curl", "--silent", "--show-error", "--max-time", str(TIMEOUT_SECONDS)]
        return subprocess.run(
            [*command, *self.curl_options, *options, *target],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS * 2,
            check=True,
        ).stdout

    def get(self, path: str, *options: str) -> Any:
        """The object there; a Status if there is none."""
        return orjson.loads(self.curl(path, *options))

    def post(self, path: str, obj: Mapping[str, Any]) -> Any:
        """The object as the server has stored it."""
        return self._send("POST", path, obj, "application/json")

    def patch(self, path: str, change: Mapping[str, Any]) -> Any:
        """The object after *change* is merged into it."""
        return self._send("PATCH", path, change, "application/merge-patch+json")

    def delete(self, path: str) -> Any:
        """The server's response to the deletion."""
        return orjson.loads(self.curl(path, "-X", "DELETE"))

    def _send(self, method: str, path: str, obj: Mapping[str, Any], media: str) -> Any:
        body = orjson.dumps(obj).decode()
        return orjson.loads(
            self.curl(path, "-X", method, "-H", f"Content-Type: {media}", "--data-binary", body)
        )

    def metric(self, sample: str) -> float:
        """The value of a metric, named with its labels; 0 if there is none."""
        lines = (line.rpartition(" ") for line in self.curl("/metrics").splitlines())
        return next((float(value) for name, _, value in lines if name == sample), 0.0)

    def ready(self) -> None:
        """Return when ``/readyz`` responds with ok."""
        until(lambda: self.curl("/readyz") == "ok", "the launcher is ready")
