"""Pod networks in tests: whether this machine allows them, and what one has left behind."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from pyroute2.nftables.main import NFTables

from launcher.node.network.bridge import Bridge
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY
from launcher.node.network.networks import exclusively, network_id_of
from launcher.node.network.resolv_conf import usable_resolv_conf
from tests.eventually import until

#: Set where the tests must not be skipped.
REQUIRED = "REQUIRE_POD_NETWORK"
_PROBE = """
import tempfile
from ipaddress import IPv4Network
from pathlib import Path
from launcher.node.network.bridge import Bridge
with tempfile.TemporaryDirectory() as directory:
    bridge, subnet = Bridge("{id:08x}", Path(directory) / "pods"), IPv4Network("192.0.2.240/28")
    try:
        bridge.create(subnet)
        print(bridge.connect_outside(subnet), end="")
    finally:
        bridge.remove()
"""


@cache
def why_not_isolated() -> str:
    """Why this machine or user does not allow pod networks; empty if it does."""
    result = subprocess.run(
        [sys.executable, "-c", _PROBE.format(id=os.getpid())], capture_output=True, text=True, timeout=60
    )
    return result.stdout if result.returncode == 0 else result.stderr.strip().splitlines()[-1]


def require_isolation() -> None:
    """Skips the test where pods cannot be isolated; there, ``make test-node`` fails."""
    _require(why_not_isolated())


def run_in_own_network(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a Python program in a network and a directory of namespaces of its own, so that this machine's stay."""
    inside = f'mkdir -p {NAMESPACES_DIRECTORY} && mount -t tmpfs none {NAMESPACES_DIRECTORY} && exec "$@"'
    return subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", inside, "sh", sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


def require_rootless_isolation() -> None:
    """Skips the test where a normal user cannot create namespaces; there, ``make test-node`` fails."""
    _require(why_not_rootless())


def require_outside(program: str) -> None:
    """Skips the test where *program* cannot work. ``make test-node`` installs pasta and slirp4netns."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun cannot be opened")
    if not machine_address() or usable_resolv_conf() is None:
        pytest.skip("this machine has no address, or no name server")
    if not shutil.which(program):
        _require(f"{program} is not installed")


def _require(reason: str) -> None:
    if reason and os.environ.get(REQUIRED):
        pytest.fail(f"pods cannot be isolated: {reason}")
    if reason:
        pytest.skip(f"pods cannot be isolated: {reason}")


@cache
def why_not_rootless() -> str:
    """Why a normal user of this machine cannot create namespaces; empty if that is possible."""
    command = (*_NEW_USER, "unshare", "--user", "--map-root-user", "--net", "--mount", "true")
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError as error:
        return str(error)
    return result.stderr.strip() if result.returncode else ""


def machine_address() -> str:
    """The address from which this machine calls others; empty if it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, suppress(OSError):
        client.connect(("192.0.2.1", 9))
        return str(client.getsockname()[0])
    return ""


_NEW_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


@contextmanager
def a_normal_user() -> Iterator[tuple[str, ...]]:
    """
    A command prefix: the program is a normal user, who has the files of the user of the tests.

    It is always the same user, as far as the kernel is concerned: one of a user namespace.
    """
    with subprocess.Popen([*_NEW_USER, "sleep", "infinity"]) as first:
        try:
            until(lambda: Path(f"/proc/{first.pid}/comm").read_text() == "sleep\n", "the user exists")
            yield ("nsenter", f"--user=/proc/{first.pid}/ns/user", "--preserve-credentials", "--")
        finally:
            first.kill()


def network_processes(data: Path) -> list[int]:
    """The processes of a normal user's pod network: its holder and worker, and the program that connects it."""
    found = []
    namespaces = set()
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = command.read_text(errors="replace")
            if "launcher.node.network.rootless" in text and str(data) in text:
                found.append(int(command.parent.name))
                namespaces.add(f"/proc/{command.parent.name}/ns/net")
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = command.read_text(errors="replace").split("\0")
            if words[0] in ("pasta", "slirp4netns") and ({*words} & {*map(str, found), *namespaces}):
                found.append(int(command.parent.name))
    return found


def left_behind(data: Path) -> list[str]:
    """The interfaces, routes, nftables tables and namespaces of the network of this data directory."""
    network_id = network_id_of(data)
    lines = [
        *Path("/proc/net/dev").read_text().splitlines(),
        *Path("/proc/net/route").read_text().splitlines(),
        *Path("/proc/self/mountinfo").read_text().splitlines(),
        *_tables(),
        *map(str, NAMESPACES_DIRECTORY.glob("*")),
    ]
    return [line for line in lines if network_id in line]


def bridge_of(data: Path) -> Bridge:
    network_id = network_id_of(data)
    return Bridge(network_id, NAMESPACES_DIRECTORY / network_id)


def remove_network(data: Path) -> None:
    """Removes the network of a killed launcher, as the next one would."""
    until(lambda: not bridge_of(data).is_in_use(), "the containers have ended")
    with exclusively():
        bridge_of(data).remove()
        (NAMESPACES_DIRECTORY / f"{network_id_of(data)}.lock").unlink(missing_ok=True)


def _tables() -> list[str]:
    with NFTables(nfgen_family=2) as nft:
        return [message.get_attr("NFTA_TABLE_NAME") for message in nft.get_tables()]
