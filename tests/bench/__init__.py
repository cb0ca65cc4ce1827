"""
Benchmarks, as ratios within one run. ``make bench`` prints them and writes ``build/bench/NAME.json``.

Each module has ``rows()``, which measures and returns its rows. A row without a goal is information.
"""

from typing import Any

Row = dict[str, Any]


def row(
    name: str, value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None
) -> Row:
    """One measurement, and whether it meets its goal."""
    goal, met = None, None
    if at_most is not None:
        goal, met = f"<= {at_most:g}", value <= at_most
    elif at_least is not None:
        goal, met = f">= {at_least:g}", value >= at_least
    return {"name": name, "value": round(value, 4), "unit": unit, "goal": goal, "holds": met}
