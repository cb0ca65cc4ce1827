"""
Figures of ``--runtime docker``, as ratios to the bare API of the engine in one run, printed by ``make bench-engine``.

Each module has ``rows()``, as those of ``tests.bench``.
"""
