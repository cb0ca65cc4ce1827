"""
Figures of Kubernetes mode, as ratios within one run on one control plane. ``make bench-cluster`` prints and saves them.

Each module has ``rows()``, as those of ``tests.bench``; ``parts`` is what they are made of.
"""
