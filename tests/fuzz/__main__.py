"""Runs a long campaign: ``python -m tests.fuzz [--requests 100000] [--seed 1] [--batch 1000] [--seconds 3600]``."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import FuzzFailure, campaign


def main() -> None:
    """Prints the outcome. Returns exit code 1 for a failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=100_000, help="requests in total")
    parser.add_argument("--batch", type=int, default=1000, help="requests between two restarts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="no batch starts after that time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        try:
            outcome = campaign(
                Path(directory),
                options.seed,
                max(1, options.requests // options.batch),
                options.batch,
                options.seconds,
            )
        except FuzzFailure as failure:
            sys.exit(str(failure))
    print(outcome)


main()
