"""
Install what real nodes are made of, where that can be done: ``python -m tests.realnodes.prepare``.

Ends with 0 when they can run here. Else it says in one line what is left out and why, and ends with 1.
"""

import os
import shutil
import subprocess
import sys

from tests.realnodes.configuration import cni_programs

#: Program -> the Debian package that has it.
_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "busybox": "busybox-static",
    "bash": "bash",
    "gcc": "gcc",
    "openssl": "openssl",
}
_CNI_PACKAGE = "containernetworking-plugins"


def lacking() -> str | None:
    """Why there can be no real nodes here, if so."""
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
    wanted = {package for program, package in _PACKAGES.items() if shutil.which(program) is None}
    if cni_programs() is None:
        wanted.add(_CNI_PACKAGE)
    return sorted(wanted)


def install(packages: list[str]) -> None:
    """Install them, as far as that goes; what comes of it is seen by looking again."""
    words = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(words, env=environment, stdout=sys.stderr).returncode:
        # Perhaps it has never looked which packages there are.
        subprocess.run(["apt-get", "update", "--quiet=2"], env=environment, stdout=sys.stderr)
        subprocess.run(words, env=environment, stdout=sys.stderr)


if __name__ == "__main__":
    if os.geteuid() == 0 and shutil.which("apt-get") and (packages := missing()):
        install(packages)
    if reason := lacking():
        sys.exit(f"left out the tests on real nodes: {reason}")
