"""Ports that are reserved for one test process."""

import fcntl
import random
import socket
from pathlib import Path
from typing import TextIO

from launcher.store.service_store import NODE_PORTS
from tests.cluster.build import CACHE

_CLAIMS = CACHE / "ports"
_CANDIDATES = 10_000


class Port:
    """
    A port that no program listens on and no other test worker takes.

    It is below the ephemeral ports, so that it is still free after the server on it was killed.
    """

    def __init__(self, number: int, claim: TextIO) -> None:
        self.number = number
        self._claim = claim

    def release(self) -> None:
        """End the reservation."""
        self._claim.close()


def free_port() -> Port:
    """A port that is free now, and not one that a launcher may allocate to a Service."""
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    highest = min(first_ephemeral, NODE_PORTS[0]) - 1
    return _free_port(range(max(1024, highest - _CANDIDATES), highest + 1))


def free_node_port() -> Port:
    """A node port that is free now."""
    return _free_port(NODE_PORTS)


def _free_port(candidates: range) -> Port:
    _CLAIMS.mkdir(parents=True, exist_ok=True)
    for number in random.sample(candidates, len(candidates)):
        claim = (_CLAIMS / str(number)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", number)):
                return Port(number, claim)
        except OSError:
            claim.close()
    raise RuntimeError(f"no port of {candidates} is free")
