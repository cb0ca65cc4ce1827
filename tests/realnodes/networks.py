"""The network of nodes, pods and this machine: a bridge, and a veth pair for each."""

import fcntl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.cluster.build import CACHE
from tests.realnodes.machine import NodeMachine

_CLAIMS = CACHE / "networks"
_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class AddressBlock:
    """A subnet of 198.19.0.0/16, which is reserved for benchmarks."""

    number: int

    @property
    def interface(self) -> str:
        """The name of this machine's interface."""
        return f"launcher{self.number}"

    @property
    def host_address(self) -> str:
        """This machine's address."""
        return self._address(0, 1)

    def node(self, number: int) -> str:
        """The address of node *number*, from 1 on."""
        return self._address(0, 10 + number)

    def pods(self, number: int) -> str:
        """The network of the pods on that node."""
        return self._address(number, 0) + "/24"

    def _address(self, network: int, host: int) -> str:
        return f"198.19.{self.number * _BLOCKS + network}.{host}"


class Network:
    """
    A bridge that is connected to this machine and to each node.

    The bridge is in its own simulated machine, so that it ends with the tests, even if they are killed.
    """

    def __init__(self, directory: Path) -> None:
        self.block, self._claim = _free_block()
        self._switch = NodeMachine("switch", directory)
        self._switch.run("ip", "link", "add", "bridge", "type", "bridge")
        self._switch.run("ip", "link", "set", "bridge", "up")
        self._connect_port(self.block.interface, "here")
        _ip("addr", "add", f"{self.block.host_address}/24", "dev", self.block.interface)
        _ip("link", "set", self.block.interface, "up")

    def add_node(self, node: NodeMachine, number: int) -> None:
        """Sets the node's address, and the routes of all others to its pods."""
        block, port = self.block, f"node{number}"
        _ip(
            *("link", "add", port, "netns", str(self._switch.pid)),
            *("type", "veth", "peer", "name", "eth0", "netns", str(node.pid)),
        )
        self._switch.run("ip", "link", "set", port, "master", "bridge", "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{block.node(number)}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", block.host_address),
        ):
            node.run("ip", *words)
        node.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        _ip("route", "add", block.pods(number), "via", block.node(number))

    def connect(self, node: NodeMachine, other: int) -> None:
        """Adds the route to the pods of another node."""
        node.run("ip", "route", "add", self.block.pods(other), "via", self.block.node(other))

    def end(self) -> None:
        """Removes the network."""
        self._switch.switch_off()
        self._claim.close()

    def _connect_port(self, interface: str, port: str) -> None:
        _ip("link", "add", interface, "type", "veth", "peer", "name", port, "netns", str(self._switch.pid))
        self._switch.run("ip", "link", "set", port, "master", "bridge", "up")


def _free_block() -> tuple[AddressBlock, TextIO]:
    """An unused subnet, and the file that is locked for it."""
    _CLAIMS.mkdir(parents=True, exist_ok=True)
    for number in range(_BLOCKS):
        block, claim = AddressBlock(number), (_CLAIMS / str(number)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            claim.close()
            continue
        # The interface of a run that was just killed may still exist for a moment.
        if not Path("/sys/class/net", block.interface).exists():
            return block, claim
        claim.close()
    raise RuntimeError("no part of 198.19.0.0/16 is free")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
