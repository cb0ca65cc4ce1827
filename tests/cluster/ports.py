"""Ports that are reserved for one test process."""

import fcntl
import random
import socket
from pathlib import Path
from typing import TextIO

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
    """A port that is free now."""
    _CLAIMS.mkdir(parents=True, exist_ok=True)
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    highest = first_ephemeral - 1
    candidates = range(max(1024, highest - _CANDIDATES), highest + 1)
    for number in random.sample(candidates, len(candidates)):
        claim = (_CLAIMS / str(number)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", number)):
                return Port(number, claim)
        except OSError:
            claim.close()
    raise RuntimeError(f"no port below {first_ephemeral} is free")
