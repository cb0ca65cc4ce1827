"""The table of Frameworks."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.cli.output import framework_summary
from launcher.cli.output.tables import table, table_with_reasons
from launcher.cli.output.terminal import width_of

Json = dict[str, Any]


def framework_table(items: Sequence[Json], now: float, *, wide: bool, namespaces: bool) -> Iterator[str]:
    """One line per Framework, no wider than the terminal."""
    header = ("NAME", "STATE", "TASKS", "ATTEMPT", "AGE", *(("DURATION", "MESSAGE") if wide else ()))
    rows = [
        (
            item["metadata"]["name"],
            framework_summary.state_of(item, now),
            framework_summary.finished_tasks(item),
            framework_summary.attempt_of(item),
            framework_summary.age_of(item, now),
            *((framework_summary.duration_of(item, now), framework_summary.message_of(item)) if wide else ()),
        )
        for item in items
    ]
    if namespaces:
        header = ("NAMESPACE", *header)
        rows = [(item["metadata"]["namespace"], *row) for item, row in zip(items, rows, strict=True)]
    if not items:
        return iter(())
    return (table_with_reasons if wide else table)(header, rows, width_of(sys.stdout))
