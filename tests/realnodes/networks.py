"""The network between the nodes, the pods and this machine: a switch, and a cable from each."""

import fcntl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.cluster.build import CACHE
from tests.realnodes.machine import Machine

_CLAIMS = CACHE / "networks"
_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class Block:
    """A part of 198.19.0.0/16, which is set aside for such tests: no other network has it."""

    number: int

    @property
    def cable(self) -> str:
        """The name that this machine's end of its cable has."""
        return f"launcher{self.number}"

    @property
    def here(self) -> str:
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
    A switch with a cable to this machine, and to each node that is plugged in.

    The switch is a machine of its own, so all of it goes with the tests, however they end.
    """

    def __init__(self, directory: Path) -> None:
        self.block, self._claim = _free_block()
        self._switch = Machine("switch", directory)
        self._switch.run("ip", "link", "add", "bridge", "type", "bridge")
        self._switch.run("ip", "link", "set", "bridge", "up")
        self._plug(self.block.cable, "here")
        _ip("addr", "add", f"{self.block.here}/24", "dev", self.block.cable)
        _ip("link", "set", self.block.cable, "up")

    def plug(self, node: Machine, number: int) -> None:
        """Give that node its address, and all others the way to its pods."""
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
            ("route", "add", "default", "via", block.here),
        ):
            node.run("ip", *words)
        node.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        _ip("route", "add", block.pods(number), "via", block.node(number))

    def connect(self, node: Machine, other: int) -> None:
        """Tell a node the way to the pods of another."""
        node.run("ip", "route", "add", self.block.pods(other), "via", self.block.node(other))

    def end(self) -> None:
        """Take it down."""
        self._switch.switch_off()
        self._claim.close()

    def _plug(self, cable: str, port: str) -> None:
        _ip("link", "add", cable, "type", "veth", "peer", "name", port, "netns", str(self._switch.pid))
        self._switch.run("ip", "link", "set", port, "master", "bridge", "up")


def _free_block() -> tuple[Block, TextIO]:
    """One that no other test run has, and the file whose lock says so."""
    _CLAIMS.mkdir(parents=True, exist_ok=True)
    for number in range(_BLOCKS):
        block, claim = Block(number), (_CLAIMS / str(number)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            claim.close()
            continue
        # Of a run that was killed just now, the cable may still be there for a moment.
        if not Path("/sys/class/net", block.cable).exists():
            return block, claim
        claim.close()
    raise RuntimeError("no part of 198.19.0.0/16 is free")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
