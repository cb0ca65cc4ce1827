"""``make bench-cluster``: measure, print, save. ``python -m tests.bench_cluster NAME…`` measures only those."""

import sys

import tests.bench_cluster
from tests.bench.__main__ import main

if __name__ == "__main__":
    sys.exit(main(tests.bench_cluster, sys.argv[1:]))
