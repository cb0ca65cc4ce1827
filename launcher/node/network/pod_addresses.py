"""
The subnet of isolated pods and the address of each, kept in files.

So the next launcher, and every restart of a container, uses the same ones. An address is released after the last
container of its pod has ended.
"""

import logging
import os
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path

from launcher.core.errors import Unavailable
from launcher.node.file_names import is_file_name
from launcher.node.network.subnet import gateway

log = logging.getLogger(__name__)

#: The kernel connects no more interfaces to one bridge.
_MAX_PODS = 1023


class PodAddresses:
    """The addresses of all isolated pods, by uid. No two pods have the same one at a time."""

    def __init__(self, directory: Path, choose: Callable[[], IPv4Network]) -> None:
        """The addresses are read from *directory*; without any, *choose* returns the subnet."""
        self._directory = directory
        self._addresses = dict(_recorded(directory / "pods"))
        subnet = _read_subnet(directory / "subnet") if self._addresses else None
        self.subnet = subnet or choose()
        if subnet is None:
            _write(directory / "subnet", str(self.subnet))
        self._last = max(self._addresses.values(), default=gateway(self.subnet))

    def pod_uids(self) -> list[str]:
        return list(self._addresses)

    def get(self, uid: str) -> IPv4Address | None:
        """The address of the pod; None if it has none."""
        return self._addresses.get(uid)

    def allocate(self, uid: str) -> IPv4Address:
        """Allocates an address to the pod, unless it has one, and returns it. Raises Unavailable."""
        if (address := self._addresses.get(uid)) is not None:
            return address
        if not is_file_name(uid):
            raise Unavailable(f"metadata.uid {uid!r} is invalid: create the pod again")
        if len(self._addresses) >= _MAX_PODS:
            raise Unavailable(f"the pod network has {_MAX_PODS} pods; waiting until one of them ends")
        address = self._next_free()
        try:
            _write(self._directory / "pods" / uid, str(address))
        except OSError as error:
            raise Unavailable(f"the address of the pod cannot be written: {error}") from error
        self._addresses[uid] = self._last = address
        return address

    def _next_free(self) -> IPv4Address:
        """The next address after the last allocated one, so that one is not used again at once."""
        used = {self.subnet.network_address, gateway(self.subnet), self.subnet.broadcast_address}
        used.update(self._addresses.values())
        first, size = self.subnet.network_address, self.subnet.num_addresses
        start = int(self._last) - int(first) + 1
        return next(
            address for offset in range(size) if (address := first + (start + offset) % size) not in used
        )

    def release(self, uid: str) -> None:
        """Releases the address of the pod, whose containers have ended."""
        if self._addresses.pop(uid, None) is not None:
            (self._directory / "pods" / uid).unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the files, once there are no pods."""
        (self._directory / "subnet").unlink(missing_ok=True)


def has_isolated_pods(directory: Path) -> bool:
    """Whether pods with addresses are recorded in *directory*."""
    return any(True for _ in _recorded(directory / "pods"))


def _recorded(directory: Path) -> "list[tuple[str, IPv4Address]]":
    return [
        (file.name, address)
        for file in directory.glob("[!.]*")
        if (address := _read_address(file)) is not None
    ]


def _read_address(file: Path) -> IPv4Address | None:
    try:
        return IPv4Address(file.read_text().strip())
    except (OSError, AddressValueError) as error:
        # Files are replaced atomically, so it was written before the machine crashed: no container of it runs.
        log.warning("address of a pod is not readable", extra={"file": str(file), "error": str(error)})
        return None


def _read_subnet(file: Path) -> IPv4Network | None:
    try:
        return IPv4Network(file.read_text().strip())
    except (OSError, ValueError):
        return None


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as stream:
        stream.write(f"{text}\n")
    new.replace(file)
