"""
Install the container engines for the tests, if possible: ``python -m tests.engine.prepare``.

Exits with 0 if the tests can run. Otherwise it prints the reason in one line and exits with 1.
"""

import os
import shutil
import sys

from tests.realnodes.prepare import install

#: The Debian package of each program.
_PACKAGES = {
    "dockerd": "docker.io",
    "podman": "podman",
    "runc": "runc",
    "bwrap": "bubblewrap",
    "busybox": "busybox-static",
    "docker-registry": "docker-registry",
}


def missing() -> list[str]:
    """The Debian packages that are not installed."""
    return sorted({package for program, package in _PACKAGES.items() if shutil.which(program) is None})


def missing_requirement() -> str | None:
    """Why container engines cannot run on this machine, or None."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "they need root"
    if packages := missing():
        return f"they need Debian's {', '.join(packages)}, which `make test-engine` installs"
    return None


if __name__ == "__main__":
    if os.geteuid() == 0 and shutil.which("apt-get") and (packages := missing()):
        install(packages)
    if reason := missing_requirement():
        sys.exit(f"left out the tests with container engines: {reason}")
