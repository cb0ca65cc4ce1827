"""
The connection of a normal user's pod network to the outside, by pasta or slirp4netns.

Either program runs outside of the network's namespaces, creates one interface in them, and translates its packets into
sockets of this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time

from launcher.node.shim import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_TUN = "/dev/net/tun"
#: The interface that the program creates.
_INTERFACE = "outside0"
_START_SECONDS = 10.0
_POLL_SECONDS = 0.01
#: The host parts of the addresses of the interface and of the gateway in the subnet of the program.
_ADDRESS, _GATEWAY = 100, 2


def missing_for_outside() -> str:
    """What is missing for a connection to the outside; empty if a program may work."""
    if not any(shutil.which(name) for name in ("pasta", "slirp4netns")):
        return "install pasta (package passt) or slirp4netns"
    try:
        os.close(os.open(_TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{_TUN} cannot be opened: {error.strerror}"
    return ""


class OutsideConnection:
    """One of the programs, for the namespaces of the process *init*."""

    def __init__(self, init: int, network: str) -> None:
        """*network* is a subnet of 256 addresses for the program, without its last number: ``10.1.2``."""
        self._init, self._network = init, network
        self._argv: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Starts the first program that works. Returns why none does, or an empty string."""
        if reason := missing_for_outside():
            return reason
        errors = []
        for argv in self._commands():
            process = _run(argv)
            if self._is_connected(process):
                self._argv, self._process = argv, process
                return ""
            process.kill()
            errors.append(f"{argv[0]} does not connect the network (exit code {process.wait()})")
        return "; ".join(errors)

    def restart_if_ended(self) -> None:
        """Starts the program again, if it has ended since it was started."""
        if self._process is not None and self._process.poll() is not None:
            self._process = _run(self._argv)

    def _commands(self) -> list[Sequence[str]]:
        """The command lines of the installed programs, the faster program first."""
        namespaces, network = f"/proc/{self._init}/ns", self._network
        address = ("-a", f"{network}.{_ADDRESS}", "-n", "24", "-g", f"{network}.{_GATEWAY}")
        ports = ("-t", "none", "-u", "none", "-T", "none", "-U", "none")
        pasta = ("pasta", "--foreground", "--quiet", "-4", "--config-net", "--no-map-gw", *address, *ports)
        slirp = ("slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback")
        commands = (
            (*pasta, "-I", _INTERFACE, "--userns", f"{namespaces}/user", "--netns", f"{namespaces}/net"),
            (*slirp, f"--cidr={network}.0/24", str(self._init), _INTERFACE),
        )
        return [argv for argv in commands if shutil.which(argv[0])]

    def _is_connected(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the program creates a default route in the network, before it ends or the time is up."""
        deadline = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            with open(f"/proc/{self._init}/net/route", encoding="ascii") as routes:
                if any(line.startswith(f"{_INTERFACE}\t00000000\t") for line in routes):
                    return True
            time.sleep(_POLL_SECONDS)
        return False


def _run(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts the program; it is killed when this process ends."""
    return subprocess.Popen(  # noqa: S603  # one of the commands above
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=linux.end_with_parent,
    )
