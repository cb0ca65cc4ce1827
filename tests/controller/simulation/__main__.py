"""``make simulate SEEDS=1000``: every workload under every kind of trouble, by that many seeds each."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.controller.simulation.run import Case, quiet, run
from tests.controller.simulation.scenes import KINDS, WORKLOADS

_AT_ONCE = 20
#: Failures after which there is no need to go on.
_ENOUGH = 20


def main() -> int:
    """0 when every promise was kept."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="seeds per workload and kind of trouble")
    parser.add_argument("--case", metavar="WORKLOAD/KIND/SEED", help="play this one again")
    given = parser.parse_args()
    if given.case is not None:
        workload, kind, seed = given.case.split("/")
        print(run(Case(workload, kind, int(seed))))
        return 0
    return _play_all(given.seeds)


def _play_all(seeds: int) -> int:
    began, played, failures = time.monotonic(), 0, 0
    cases = _cases(seeds)
    with ProcessPoolExecutor(os.cpu_count(), initializer=quiet) as pool:
        while failures < _ENOUGH and (some := list(islice(cases, _AT_ONCE * 50))):
            for case, failure in zip(some, pool.map(_played, some, chunksize=_AT_ONCE), strict=True):
                played += 1
                if failure:
                    failures += 1
                    print(f"FAILED {case}: {failure}\n  again: make simulate CASE={case}", flush=True)
            print(f"{played} of {seeds * len(KINDS) * len(WORKLOADS)} played", file=sys.stderr, flush=True)
    print(f"{played - failures} passed, {failures} failed")
    print(f"in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 1 if failures else 0


def _cases(seeds: int) -> Iterator[Case]:
    for seed in range(seeds):
        for workload in WORKLOADS:
            for kind in KINDS:
                yield Case(workload, kind, seed)


def _played(case: Case) -> str:
    """What went wrong, or nothing."""
    try:
        run(case)
    except Exception as error:  # whatever it is, it is this case's
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
