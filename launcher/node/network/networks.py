"""
The pod networks of this machine: each belongs to a data directory.

As root, the namespaces of its pods are mounted in a directory below /run, next to a file that the launcher locks. A
network whose launcher has ended, and in whose namespaces no process is left, is removed by the next launcher of any
data directory: its own launcher creates it again when it needs it. That of a normal user ends with its processes.
"""

import asyncio
import fcntl
import logging
import os
import zlib
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from ipaddress import IPv4Network
from pathlib import Path

from launcher.core.errors import Unavailable
from launcher.node.network.bridge import Bridge, machine_networks
from launcher.node.network.forwarding_check import check_bridge, why_not_forwarded
from launcher.node.network.isolated_network import IsolatedPodNetwork
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY
from launcher.node.network.pod_addresses import PodAddresses
from launcher.node.network.pod_network import PodBridge, PodNetworkUnavailable
from launcher.node.network.resolv_conf import name_servers, usable_resolv_conf
from launcher.node.network.rootless.rootless_bridge import RootlessBridge
from launcher.node.network.service_forwarding import run_in
from launcher.node.network.subnet import NoFreeSubnet, choose_subnet

log = logging.getLogger(__name__)

#: The time after which the start of a holder is tried again.
_RESTORE_SECONDS = 1.0


@asynccontextmanager
async def isolated_network(
    data: Path, *, isolates_new_pods: bool, remove_pods: bool, needs_outside: bool = False
) -> AsyncGenerator[IsolatedPodNetwork]:
    """
    The pod network of the data directory. At the end it is removed if it has no pods, or with *remove_pods*.

    Without *isolates_new_pods*, only pods that are isolated already stay so. Raises PodNetworkUnavailable, with
    *needs_outside* also if pods would not reach everything that the machine reaches.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="pod-network") as thread:
        opened = _root_bridge(data, thread) if os.geteuid() == 0 else _rootless_bridge(data, thread)
        async with opened as (bridge, addresses):
            network = IsolatedPodNetwork(bridge, addresses, thread, isolates_new_pods=isolates_new_pods)
            await network.open()
            try:
                if needs_outside:
                    await _require_outside(network, bridge, thread)
                yield network
            finally:
                await network.close(remove_pods=remove_pods)


async def _require_outside(
    network: IsolatedPodNetwork, bridge: PodBridge, thread: ThreadPoolExecutor
) -> None:
    """Raises PodNetworkUnavailable if pods do not reach everything that the machine reaches."""
    if reason := network.unreachable:
        raise PodNetworkUnavailable(reason)
    if isinstance(bridge, Bridge):
        try:
            reason = await run_in(thread, _check_forwarding, bridge, network.subnet)
        except Unavailable as error:
            raise PodNetworkUnavailable(str(error)) from error
        if reason:
            raise PodNetworkUnavailable(reason)


def _check_forwarding(bridge: Bridge, subnet: IPv4Network) -> str:
    """Why this machine does not forward the packets of pods; empty if it does. Raises OSError, Unavailable."""
    with exclusively():
        return why_not_forwarded(bridge, subnet, _choose_subnet(bridge.network_id, subnet))


@asynccontextmanager
async def _root_bridge(
    data: Path, thread: ThreadPoolExecutor
) -> AsyncGenerator[tuple[PodBridge, PodAddresses]]:
    """The bridge in the network of this machine. Raises PodNetworkUnavailable."""
    network_id = network_id_of(data)
    with _locked(network_id):
        bridge = Bridge(network_id, NAMESPACES_DIRECTORY / network_id)
        try:
            addresses = await run_in(thread, _open_bridge, data, bridge)
        except Unavailable as error:
            raise PodNetworkUnavailable(str(error)) from error
        yield bridge, addresses


@asynccontextmanager
async def _rootless_bridge(
    data: Path, thread: ThreadPoolExecutor
) -> AsyncGenerator[tuple[PodBridge, PodAddresses]]:
    """The bridge in a network namespace of this user. Raises PodNetworkUnavailable."""
    bridge = RootlessBridge(network_id_of(data), data / "network")
    try:
        addresses = await run_in(thread, _open_rootless_bridge, data, bridge)
        restoring = asyncio.create_task(_restore_holder(bridge, thread))
        try:
            yield bridge, addresses
        finally:
            restoring.cancel()
            await asyncio.wait([restoring])
    except Unavailable as error:
        raise PodNetworkUnavailable(str(error)) from error
    finally:
        await asyncio.to_thread(bridge.close)


def _open_rootless_bridge(data: Path, bridge: RootlessBridge) -> PodAddresses:
    """Creates the bridge, and returns the addresses of the pods of *data*."""
    bridge.lock()
    addresses = PodAddresses(data / "network", lambda: _choose_subnet(bridge.network_id))
    if not addresses.pod_uids():
        # That of an earlier launcher may have another subnet.
        bridge.remove()
    bridge.open(_choose_subnet(bridge.network_id, addresses.subnet))
    bridge.create(addresses.subnet)
    return addresses


async def _restore_holder(bridge: RootlessBridge, thread: ThreadPoolExecutor) -> None:
    """Replaces a holder that has ended, such as one that was killed."""
    while (pid := bridge.holder) is not None:
        await _end_of(pid)
        if bridge.holder is None:
            return
        log.warning("holder of the pod network has ended", extra={"pid": pid})
        try:
            await run_in(thread, bridge.restore)
        except (Unavailable, PodNetworkUnavailable) as error:
            log.error("holder of the pod network not started", extra={"error": str(error)})
            await asyncio.sleep(_RESTORE_SECONDS)


async def _end_of(pid: int) -> None:
    """Waits until the process has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop.add_reader(file, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(file)
        os.close(file)


def _open_bridge(data: Path, bridge: Bridge) -> PodAddresses:
    """Creates the bridge, and returns the addresses of the pods of *data*. Removes what ended launchers left behind."""
    with exclusively():
        for file in NAMESPACES_DIRECTORY.glob("*.lock"):
            if file.stem != bridge.network_id:
                _remove_if_unused(file)
        addresses = PodAddresses(data / "network", lambda: _choose_subnet(bridge.network_id))
        if not addresses.pod_uids():
            # That of a deleted data directory may have had the same id.
            bridge.remove()
        bridge.create(addresses.subnet)
    return addresses


def _choose_subnet(network_id: str, *taken: IPv4Network) -> IPv4Network:
    """A subnet that neither this machine uses nor is *taken*. Raises Unavailable."""
    servers = [
        IPv4Network(address) for address in name_servers(usable_resolv_conf() or Path("/etc/resolv.conf"))
    ]
    try:
        return choose_subnet([*machine_networks(), *servers, *taken], int(network_id, 16))
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
            check_bridge(file.stem).remove()
            file.unlink(missing_ok=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


@contextmanager
def _locked(network_id: str) -> Iterator[None]:
    """Locks the network for the block, so that no other launcher removes it."""
    file = NAMESPACES_DIRECTORY / f"{network_id}.lock"
    with exclusively():
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
        with exclusively():
            if not (NAMESPACES_DIRECTORY / network_id).exists():
                file.unlink(missing_ok=True)
    finally:
        os.close(lock)


@contextmanager
def exclusively() -> Iterator[None]:
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
