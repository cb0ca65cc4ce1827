"""``make bench-cluster`` runs all benchmarks, ``python -m tests.bench_cluster NAME…`` some of them."""

import sys

import tests.bench_cluster
from tests.bench.__main__ import main

if __name__ == "__main__":
    sys.exit(main(tests.bench_cluster, sys.argv[1:]))
