"""``make simulate SEEDS=1000``: runs every workload with every disruption and that many seeds."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.controller.simulation.run import Case, disable_logging, run
from tests.controller.simulation.scenarios import DISRUPTIONS, WORKLOADS

_CHUNK_SIZE = 20
_MAX_FAILURES = 20


def main() -> int:
    """Returns 0 if no invariant was violated."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="seeds per workload and disruption")
    parser.add_argument("--case", metavar="WORKLOAD/DISRUPTION/SEED", help="run this case only")
    args = parser.parse_args()
    if args.case is not None:
        workload, disruption, seed = args.case.split("/")
        print(run(Case(workload, disruption, int(seed))))
        return 0
    return _run_all(args.seeds)


def _run_all(seeds: int) -> int:
    started_at, completed, failures = time.monotonic(), 0, 0
    cases = _cases(seeds)
    with ProcessPoolExecutor(os.cpu_count(), initializer=disable_logging) as pool:
        while failures < _MAX_FAILURES and (chunk := list(islice(cases, _CHUNK_SIZE * 50))):
            for case, failure in zip(chunk, pool.map(_error_of, chunk, chunksize=_CHUNK_SIZE), strict=True):
                completed += 1
                if failure:
                    failures += 1
                    print(f"FAILED {case}: {failure}\n  repeat with: make simulate CASE={case}", flush=True)
            print(
                f"{completed} of {seeds * len(DISRUPTIONS) * len(WORKLOADS)} completed",
                file=sys.stderr,
                flush=True,
            )
    print(f"{completed - failures} passed, {failures} failed")
    print(f"in {time.monotonic() - started_at:.0f}s", file=sys.stderr)
    return 1 if failures else 0


def _cases(seeds: int) -> Iterator[Case]:
    for seed in range(seeds):
        for workload in WORKLOADS:
            for disruption in DISRUPTIONS:
                yield Case(workload, disruption, seed)


def _error_of(case: Case) -> str:
    """Runs the case. Returns its error; empty if it passed."""
    try:
        run(case)
    except Exception as error:  # any error fails this case only
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
