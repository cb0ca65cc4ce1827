"""
The resolv.conf of isolated pods.

A name server on the machine's loopback interface, such as that of systemd-resolved, cannot be reached from the network
namespace of a pod. systemd-resolved writes another file with the servers that it uses itself.
"""

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

_FILES = ("etc/resolv.conf", "run/systemd/resolve/resolv.conf")


def usable_resolv_conf(root: Path = Path("/")) -> Path | None:
    """The first file that names a server which pods can reach; None if there is none."""
    return next((root / file for file in _FILES if _has_usable_server(root / file)), None)


def name_servers(file: Path) -> Iterator[IPv4Address]:
    """The IPv4 name servers of *file*."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        if words[:1] == ["nameserver"]:
            with suppress(ValueError):  # an IPv6 address, or none
                yield IPv4Address("".join(words[1:2]))


def _has_usable_server(file: Path) -> bool:
    return any(not address.is_loopback for address in name_servers(file))
