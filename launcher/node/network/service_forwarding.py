"""The ports of Services that the kernel forwards, by rules in the network of the bridge."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from typing import TypeVar

from pyroute2 import NetlinkError

from launcher.core.errors import Unavailable
from launcher.node.network.forwarding_check import why_services_not_forwarded
from launcher.node.network.pod_network import TCP, UDP, Endpoint, ListenAddress, PodBridge

log = logging.getLogger(__name__)

T = TypeVar("T")
Endpoints = Mapping[ListenAddress, Sequence[Endpoint]]

#: How many endpoints are set in one transaction, unless a single port has more; so many fit into a call of the worker.
_MAX_BATCH = 1000


class ServiceForwarding:
    """Keeps the rules of the kernel equal to the endpoints of Services. They remain when the launcher ends."""

    def __init__(self, bridge: PodBridge, subnet: IPv4Network, thread: ThreadPoolExecutor) -> None:
        """*thread* runs the calls of *bridge*."""
        self._bridge, self._subnet, self._thread = bridge, subnet, thread
        #: Whether the kernel forwards ports; None before the first one.
        self._is_available: bool | None = None
        #: The rules that are set; None if that is not known.
        self._applied: Endpoints | None = None

    async def _has_rules(self) -> bool:
        """Whether there are rules of an earlier launcher."""
        try:
            return bool(await run_in(self._thread, self._bridge.service_ports))
        except Unavailable:
            return False

    async def _check(self) -> bool:
        """Whether the kernel forwards ports of Services; if not, the launcher has to."""
        if reason := await self._why_unavailable():
            log.warning("cluster IPs not forwarded by the kernel", extra={"reason": reason})
            with suppress(Unavailable):
                await run_in(self._thread, self._bridge.close_services)
        return not reason

    async def _why_unavailable(self) -> str:
        try:
            reason = await run_in(self._thread, self._bridge.open_services, self._subnet)
            return reason or await run_in(
                self._thread, why_services_not_forwarded, self._bridge, self._subnet
            )
        except Unavailable as error:
            return str(error)

    async def replace(self, endpoints: Endpoints) -> Collection[ListenAddress]:
        """Forwards these ports only. Returns those that the kernel does not forward."""
        if self._is_available is None and (endpoints or await self._has_rules()):
            self._is_available = await self._check()
        if not self._is_available:
            return endpoints.keys()
        wanted = {
            address: targets for address, targets in endpoints.items() if self._is_routed(address, targets)
        }
        try:
            await self._apply(wanted)
        except Unavailable:
            try:
                # Another program may have deleted the rules, such as ``nft flush ruleset``.
                await self._apply_again(wanted)
            except Unavailable as error:
                log.error("rules of Services not set", extra={"error": str(error)})
                return endpoints.keys()
        return endpoints.keys() - wanted.keys()

    def _is_routed(self, address: ListenAddress, targets: Sequence[Endpoint]) -> bool:
        """Whether all targets are isolated pods: others may have loopback addresses, which pods cannot reach."""
        return address.protocol in (TCP, UDP) and all(
            IPv4Address(target.address) in self._subnet for target in targets
        )

    async def _apply_again(self, wanted: Endpoints) -> None:
        self._applied = None
        if reason := await run_in(self._thread, self._bridge.open_services, self._subnet):
            raise Unavailable(f"pod network: {reason}")
        await self._apply(wanted)

    async def _apply(self, wanted: Endpoints) -> None:
        if self._applied is None:
            self._applied = dict.fromkeys(await run_in(self._thread, self._bridge.service_ports), ())
        changed = {
            address: wanted[address] for address in wanted if self._applied.get(address) != wanted[address]
        }
        deleted = sorted(self._applied.keys() - wanted.keys())
        for batch in _batches(changed):
            await run_in(self._thread, self._bridge.replace_services, batch, ())
        if deleted:
            await run_in(self._thread, self._bridge.replace_services, {}, deleted)
        self._applied = wanted


def _batches(endpoints: Endpoints) -> Iterator[Endpoints]:
    batch: dict[ListenAddress, Sequence[Endpoint]] = {}
    size = 0
    for address, targets in endpoints.items():
        if batch and size + len(targets) > _MAX_BATCH:
            yield batch
            batch, size = {}, 0
        batch[address] = targets
        size += len(targets)
    if batch:
        yield batch


async def run_in(thread: ThreadPoolExecutor, call: Callable[..., T], *args: object) -> T:
    """Calls a function of the bridge in its *thread*. Raises Unavailable."""
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, partial(call, *args))
    except (OSError, NetlinkError) as error:
        raise Unavailable(f"pod network: {error}") from error
