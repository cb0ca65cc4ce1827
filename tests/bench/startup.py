"""How soon ``launcher --help`` answers, against the bare start of Python."""

import subprocess
import sys
from statistics import median
from time import perf_counter

from tests.bench import Row, row

ROUNDS = 15
#: Seconds that may be added to three times the bare start.
ALLOWED = 0.1


def rows() -> list[Row]:
    """One row: the share of what is allowed."""
    bare, ours = [], []
    for _ in range(ROUNDS):
        bare.append(_seconds("-c", "import json"))
        ours.append(_seconds("-m", "launcher", "--help"))
    share = median(ours) / (3 * median(bare) + ALLOWED)
    return [row("launcher --help / (3 x python -c 'import json' + 100 ms)", share, "ratio", at_most=1)]


def _seconds(*arguments: str) -> float:
    began = perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, timeout=60)
    return perf_counter() - began
