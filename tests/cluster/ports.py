"""Ports that stay ours for as long as a control plane needs them."""

import fcntl
import random
import socket
from pathlib import Path
from typing import TextIO

from tests.cluster.build import CACHE

_CLAIMS = CACHE / "ports"
_WANTED = 10_000


class Port:
    """
    A port that nothing listens on and that no other test worker takes.

    It is below those that the kernel gives to outgoing connections: a server that was killed finds it free again.
    """

    def __init__(self, number: int, claim: TextIO) -> None:
        self.number = number
        self._claim = claim

    def give_back(self) -> None:
        """Let others have it."""
        self._claim.close()


def free_port() -> Port:
    """One that is free now."""
    _CLAIMS.mkdir(parents=True, exist_ok=True)
    first_of_the_kernel = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    highest = first_of_the_kernel - 1
    candidates = range(max(1024, highest - _WANTED), highest + 1)
    for number in random.sample(candidates, len(candidates)):
        claim = (_CLAIMS / str(number)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.create_server(("127.0.0.1", number)):
                return Port(number, claim)
        except OSError:
            claim.close()
    raise RuntimeError(f"no port below {first_of_the_kernel} is free")
