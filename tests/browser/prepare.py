"""
Install chromium, if possible: ``python -m tests.browser.prepare``.

Exits with 0 if the tests can run. Otherwise it prints the reason in one line and exits with 1.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

#: Names under which distributions install it.
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
#: With a font for the signs of states.
_PACKAGES = ("chromium", "fonts-dejavu-core")


def chromium_path() -> Path | None:
    """The installed browser, or None."""
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    return None if found is None else Path(found)


def install() -> None:
    """Tries to install chromium; ``chromium_path`` shows the result."""
    words = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", *_PACKAGES]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(words, env=environment, stdout=sys.stderr).returncode:
        # The package lists may be missing.
        subprocess.run(["apt-get", "update", "--quiet=2"], env=environment, stdout=sys.stderr)
        subprocess.run(words, env=environment, stdout=sys.stderr)


if __name__ == "__main__":
    if chromium_path() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install()
    if chromium_path() is None:
        sys.exit("left out the tests in a browser: they need chromium, which Debian packages")
