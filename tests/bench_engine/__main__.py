"""``make bench-engine`` runs all benchmarks, ``python -m tests.bench_engine NAME…`` some of them."""

import sys

import tests.bench_engine
from tests.bench.__main__ import main

if __name__ == "__main__":
    sys.exit(main(tests.bench_engine, sys.argv[1:]))
