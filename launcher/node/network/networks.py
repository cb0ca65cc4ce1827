"""
The pod networks of this machine: each belongs to a data directory.

The namespaces of its pods are mounted in a directory below /run, next to a file that the launcher locks. A network
whose launcher has ended, and in whose namespaces no process is left, is removed by the next launcher of any data
directory: its own launcher creates it again when it needs it.
"""

import fcntl
import os
import zlib
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Network
from pathlib import Path

from launcher.core.errors import Unavailable
from launcher.node.network.bridge import Bridge, machine_networks
from launcher.node.network.isolated_network import IsolatedPodNetwork, run_in
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY
from launcher.node.network.pod_addresses import PodAddresses
from launcher.node.network.pod_network import PodNetworkUnavailable
from launcher.node.network.resolv_conf import name_servers, usable_resolv_conf
from launcher.node.network.subnet import NoFreeSubnet, choose_subnet


@asynccontextmanager
async def isolated_network(
    data: Path, *, isolates_new_pods: bool, remove_pods: bool
) -> AsyncGenerator[IsolatedPodNetwork]:
    """
    The pod network of the data directory. At the end it is removed if it has no pods, or with *remove_pods*.

    Without *isolates_new_pods*, only pods that are isolated already stay so. Raises PodNetworkUnavailable.
    """
    if os.geteuid() != 0:
        raise PodNetworkUnavailable("start the launcher as root")
    network_id = network_id_of(data)
    with ThreadPoolExecutor(1, thread_name_prefix="pod-network") as thread, _locked(network_id):
        bridge = Bridge(network_id, NAMESPACES_DIRECTORY / network_id)
        try:
            addresses = await run_in(thread, _open_bridge, data, bridge)
        except Unavailable as error:
            raise PodNetworkUnavailable(str(error)) from error
        network = IsolatedPodNetwork(bridge, addresses, thread, isolates_new_pods=isolates_new_pods)
        await network.open()
        try:
            yield network
        finally:
            await network.close(remove_pods=remove_pods)


def _open_bridge(data: Path, bridge: Bridge) -> PodAddresses:
    """Creates the bridge, and returns the addresses of the pods of *data*. Removes what ended launchers left behind."""
    with _exclusively():
        for file in NAMESPACES_DIRECTORY.glob("*.lock"):
            if file.stem != bridge.network_id:
                _remove_if_unused(file)
        addresses = PodAddresses(data / "network", lambda: _choose_subnet(bridge.network_id))
        if not addresses.pod_uids():
            # That of a deleted data directory may have had the same id.
            bridge.remove()
        bridge.create(addresses.subnet)
    return addresses


def _choose_subnet(network_id: str) -> IPv4Network:
    servers = [
        IPv4Network(address) for address in name_servers(usable_resolv_conf() or Path("/etc/resolv.conf"))
    ]
    try:
        return choose_subnet([*machine_networks(), *servers], int(network_id, 16))
    except NoFreeSubnet as error:
        raise Unavailable(f"pod network: {error}") from error


def _remove_if_unused(file: Path) -> None:
    """Removes the network whose launcher locked *file*, if neither that nor its pods exist."""
    try:
        lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        bridge = Bridge(file.stem, NAMESPACES_DIRECTORY / file.stem)
        if not bridge.is_in_use():
            bridge.remove()
            file.unlink()
    except BlockingIOError:
        return
    finally:
        os.close(lock)


@contextmanager
def _locked(network_id: str) -> Iterator[None]:
    """Locks the network for the block, so that no other launcher removes it."""
    file = NAMESPACES_DIRECTORY / f"{network_id}.lock"
    with _exclusively():
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
        with _exclusively():
            if not (NAMESPACES_DIRECTORY / network_id).exists():
                file.unlink(missing_ok=True)
    finally:
        os.close(lock)


@contextmanager
def _exclusively() -> Iterator[None]:
    """No other launcher of this machine changes the list of networks, or chooses a subnet, during the block."""
    NAMESPACES_DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    directory = os.open(NAMESPACES_DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def network_id_of(data: Path) -> str:
    """Eight digits that the networks of other data directories do not have."""
    status = os.stat(data)
    return f"{zlib.crc32(f'{status.st_dev:x}-{status.st_ino:x}'.encode()):08x}"
