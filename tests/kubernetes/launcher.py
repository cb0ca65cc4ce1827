"""``launcher serve --kubernetes`` as a process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tests.cluster.ports import free_port
from tests.local.server import PATIENCE, PROJECT, last_words, until

#: By which the launcher's requests are told from those of others in the audit log.
USER_AGENT = "framework-launcher"


class KubeLauncher:
    """A launcher for one cluster, outside of it, with a port of its own."""

    def __init__(
        self, directory: Path, kubeconfig: Path, *flags: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """*directory* keeps its log; *flags* stand behind those that every test wants."""
        directory.mkdir(parents=True, exist_ok=True)
        self._log, self._kubeconfig, self._flags = directory / "log", kubeconfig, flags
        self._environment = environment or {}
        self._process: subprocess.Popen[str] | None = None
        #: Nobody else takes it while the launcher is away.
        self._port = free_port()
        self.url = ""
        #: The line with which it began.
        self.announced = ""
        #: What it printed after its first line, once it has ended.
        self.said = ""
        self.start()

    def start(self) -> None:
        """Start it, where it listened before if it has run already."""
        listen = f"127.0.0.1:{self._port.number}"
        command = [sys.executable, "-m", "launcher", "serve", "--kubernetes", "--listen", listen]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--kubeconfig", str(self._kubeconfig), *self._flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=PROJECT,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self.announced = self._process.stdout.readline()
        found = re.search(r"https?://\S+?(?=[,\s])", self.announced)
        assert found, f"it does not say where it listens: {self.announced!r}; {self.log()}"
        self.url = found[0]

    def log(self) -> str:
        """All that it has told so far, over all its lives."""
        return self._log.read_text()

    def errors(self) -> str:
        """What it has complained of so far."""
        return "".join(line for line in self.log().splitlines(keepends=True) if " INFO " not in line)

    def told(self, words: str, within: float = PATIENCE) -> str:
        """The first line of its log with these words, as soon as there is one."""

        def look() -> str | None:
            return next((line for line in self.log().splitlines() if words in line), None)

        return until(look, f"it tells {words!r}", within)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether its process is over, by itself or by us."""
        return self._process is None or self._process.poll() is not None

    def pause(self) -> None:
        """From now on it is there and does nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it without a word of warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end, and wait until it has: its exit code."""
        return self._end(signal.SIGTERM)

    def end(self) -> None:
        """End it in any case; gently if it still can, so that the next one has not to wait for its lease."""
        self._port.give_back()
        if self.ended:
            self.kill()
            return
        self.resume()
        self.stop()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        self.said = last_words(process, number)
        return process.returncode

    # Its port.

    def curl(self, path: str, *options: str) -> str:
        """The answer's body, whoever vouches for the certificate."""
        command = ["curl", "--silent", "--show-error", "--insecure", "--max-time", str(PATIENCE)]
        done = subprocess.run(
            [*command, *options, self.url + path], capture_output=True, text=True, timeout=PATIENCE * 2
        )
        assert done.returncode == 0, f"curl {path}: {done.stderr}"
        return done.stdout

    def get(self, path: str, *options: str) -> Any:
        """The object there; a Status when there is none."""
        return orjson.loads(self.curl(path, *options))

    def metric(self, sample: str) -> float:
        """What it counts under that name and these labels; 0 where it counts nothing."""
        lines = (line.rpartition(" ") for line in self.curl("/metrics").splitlines())
        return next((float(value) for name, _, value in lines if name == sample), 0.0)

    def ready(self) -> None:
        """Return when it says so."""
        until(lambda: self.curl("/readyz") == "ok" or None, "the launcher is ready")
