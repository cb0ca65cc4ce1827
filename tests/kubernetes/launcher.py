"""``launcher serve --kubernetes`` as a process."""

from collections.abc import Mapping
from pathlib import Path

from tests.eventually import TIMEOUT_SECONDS, until
from tests.launcher_process import LauncherProcess

#: The user agent of the launcher's requests in the audit log.
USER_AGENT = "framework-launcher"


class KubeLauncher(LauncherProcess):
    """A launcher outside of its cluster."""

    #: No test needs a trusted certificate.
    curl_options = ("--insecure",)

    def __init__(
        self, directory: Path, kubeconfig: Path, *flags: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """*directory* is for its log."""
        directory.mkdir(parents=True, exist_ok=True)
        mode = ("--kubernetes", "--kubeconfig", str(kubeconfig))
        super().__init__(directory / "log", *mode, *flags, environment=environment)

    def log(self) -> str:
        """Returns the log of all its runs."""
        return self.log_text()

    def errors(self) -> str:
        """Returns its log records above level INFO."""
        return "".join(line for line in self.log().splitlines(keepends=True) if " INFO " not in line)

    def wait_for_log(self, text: str, within: float = TIMEOUT_SECONDS) -> str:
        """Waits for a log line with this text and returns it."""

        def probe() -> str | None:
            return next((line for line in self.log().splitlines() if text in line), None)

        return until(probe, f"{text!r} is logged", within)

    def end(self) -> None:
        """Stops it with SIGTERM if it runs, so that it releases its lease."""
        self._port.release()
        if self.ended:
            self.kill()
            return
        self.resume()
        self.stop()
