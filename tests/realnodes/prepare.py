"""
Install the programs of real nodes, if possible: ``python -m tests.realnodes.prepare``.

Exits with 0 if the tests can run. Otherwise it prints the reason in one line and exits with 1.
"""

import os
import shutil
import subprocess
import sys

from tests.realnodes.configuration import cni_programs

#: The Debian package of each program.
_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "busybox": "busybox-static",
    "pasta": "passt",
    "slirp4netns": "slirp4netns",
    "bash": "bash",
    "gcc": "gcc",
    "openssl": "openssl",
}
_CNI_PACKAGE = "containernetworking-plugins"


def missing_requirement() -> str | None:
    """Why real nodes cannot run on this machine, or None."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "they need root"
    if packages := missing():
        return f"they need Debian's {', '.join(packages)}, which `make test-node` installs"
    namespaces = ["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "true"]
    if subprocess.run(namespaces, capture_output=True, timeout=30).returncode:
        return "they need a kernel that lets root make namespaces"
    return None


def missing() -> list[str]:
    """The Debian packages that are not installed."""
    packages = {package for program, package in _PACKAGES.items() if shutil.which(program) is None}
    if cni_programs() is None:
        packages.add(_CNI_PACKAGE)
    return sorted(packages)


def install(packages: list[str]) -> None:
    """Tries to install the packages; ``missing`` shows the result."""
    words = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(words, env=environment, stdout=sys.stderr).returncode:
        # The package lists may be missing.
        subprocess.run(["apt-get", "update", "--quiet=2"], env=environment, stdout=sys.stderr)
        subprocess.run(words, env=environment, stdout=sys.stderr)


if __name__ == "__main__":
    if os.geteuid() == 0 and shutil.which("apt-get") and (packages := missing()):
        install(packages)
    if reason := missing_requirement():
        sys.exit(f"left out the tests on real nodes: {reason}")
