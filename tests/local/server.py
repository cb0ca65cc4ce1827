"""``launcher serve`` in local mode, as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.eventually import TIMEOUT_SECONDS, until
from tests.forked_process import ForkedProcess
from tests.launcher_process import PROJECT, LauncherProcess

GROUP = "/apis/launcher.microsoft.com/v1"
FRAMEWORKS = f"{GROUP}/namespaces/default/frameworks"
PODS = "/api/v1/namespaces/default/pods"


def loopback(last: int) -> str:
    """A loopback address that only this test worker uses, so that the ports of pods do not conflict."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return f"127.0.{worker + 1}.{last}"


def within(**directories: Path) -> tuple[str, ...]:
    """A command prefix that mounts these directories: ``data=DIR`` at /data, ``srv_mnist=DIR`` at /srv/mnist."""
    shown = (f"{directory}=/{name.replace('_', '/')}" for name, directory in directories.items())
    return (sys.executable, "-m", "tests.local.with_mounts", *shown, "--")


def ended(framework: Any) -> str:
    """Which of the conditions Succeeded and Failed is true."""
    true = {c["type"] for c in framework["status"]["conditions"] if c["status"] == "True"}
    return " and ".join(sorted(true & {"Succeeded", "Failed"}))


def _pod_network(flags: Sequence[str]) -> Sequence[str]:
    """
    The flag for the network of pods, unless *flags* have one.

    With the default of the launcher, it would depend on the machine and its user. `make test-node` sets the variable.
    """
    if any(flag.startswith("--pod-network") for flag in flags):
        return ()
    return ("--pod-network", os.environ.get("LAUNCHER_POD_NETWORK", "shared"))


class Server(LauncherProcess):
    """A launcher in local mode with its own data directory. Its process is forked unless it runs under a command."""

    def __init__(
        self, directory: Path, *flags: str, module: str = "launcher", under: Sequence[str] = ()
    ) -> None:
        self.data = directory / "data"
        own = ("--data", str(self.data), *_pod_network(flags))
        super().__init__(directory / "errors", *own, *flags, module=module, under=under)

    def _new_process(self, *arguments: str) -> subprocess.Popen[str] | ForkedProcess:
        if self._under:
            return super()._new_process(*arguments)
        return ForkedProcess(
            self._module, *arguments, errors=self._log_file, directory=PROJECT, environment=os.environ
        )

    def errors(self) -> str:
        """Its log."""
        return self.log_text()

    def end(self) -> None:
        """Kills the launcher, the shim and every container."""
        self._end(signal.SIGKILL)
        self._port.release()
        for pid in (*self.shims(), *self.inside()):
            with suppress(ProcessLookupError):  # it may just have exited
                os.kill(pid, signal.SIGKILL)

    def shims(self) -> list[int]:
        """The processes of the shim, found by the data directory in their command lines."""
        return [
            pid
            for pid, words in _commands()
            if "shim" in " ".join(words) and str(self.data) in " ".join(words)
        ]

    def inside(self) -> list[int]:
        """The processes of all containers."""
        return [
            pid for pid, environment in _environments() if environment.get("LAUNCHER_TEST") == str(self.data)
        ]

    def framework(self, name: str) -> Any:
        """Returns the Framework."""
        return self.get(f"{FRAMEWORKS}/{name}")

    def log(self, pod: str) -> str:
        """The log of the pod's only container."""
        return self.curl(f"{PODS}/{pod}/log")

    def runs(self, pod: str) -> None:
        """Waits until the pod is running."""

        def probe() -> bool | None:
            found = self.get(f"{PODS}/{pod}")
            return True if found["kind"] == "Pod" and found["status"]["phase"] == "Running" else None

        until(probe, f"{pod} runs")

    def completed(self, name: str, within: float = TIMEOUT_SECONDS) -> Any:
        """Waits until the Framework is completed, and returns it."""

        def probe() -> Any:
            framework = self.framework(name)
            return framework if framework.get("status", {}).get("state") == "Completed" else None

        return until(probe, f"{name} is completed", within)


def _commands() -> list[tuple[int, list[str]]]:
    return [(pid, _null_separated(pid, "cmdline")) for pid in _pids()]


def _environments() -> list[tuple[int, dict[str, str]]]:
    return [
        (pid, dict(word.partition("=")[::2] for word in _null_separated(pid, "environ"))) for pid in _pids()
    ]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _null_separated(pid: int, file: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace").split("\0")
    except OSError:
        return []  # it has exited, or belongs to another user
