"""Pod networks in tests: whether this machine allows them, and what one has left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyroute2.nftables.main import NFTables

from launcher.node.network.bridge import Bridge
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY
from launcher.node.network.networks import network_id_of
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


def why_not_isolated() -> str:
    """Why this machine or user does not allow pod networks; empty if it does."""
    result = subprocess.run(
        [sys.executable, "-c", _PROBE.format(id=os.getpid())], capture_output=True, text=True, timeout=60
    )
    return result.stdout if result.returncode == 0 else result.stderr.strip().splitlines()[-1]


def require_isolation() -> None:
    """Skips the test where pods cannot be isolated; there, ``make test-node`` fails."""
    reason = why_not_isolated()
    if reason and os.environ.get(REQUIRED):
        pytest.fail(f"pods cannot be isolated: {reason}")
    if reason:
        pytest.skip(f"pods cannot be isolated: {reason}")


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
    bridge_of(data).remove()
    (NAMESPACES_DIRECTORY / f"{network_id_of(data)}.lock").unlink(missing_ok=True)


def _tables() -> list[str]:
    with NFTables(nfgen_family=2) as nft:
        return [message.get_attr("NFTA_TABLE_NAME") for message in nft.get_tables()]
