"""The table of Frameworks."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.cli.output import framework_summary
from launcher.cli.output.tables import INDENT_COLUMNS, table, table_with_reasons
from launcher.cli.output.terminal import cut, width_of

Json = dict[str, Any]


def framework_table(items: Sequence[Json], now: float, *, wide: bool, namespaces: bool) -> Iterator[str]:
    """
    One line per Framework, no wider than the terminal.

    The reason of one that waits or failed is in the last column, or cut below its line where the column does not fit;
    *wide* has all messages in full.
    """
    width = width_of(sys.stdout)
    header = ("NAME", "STATE", "TASKS", "ATTEMPT", "AGE", *(("DURATION", "MESSAGE") if wide else ("REASON",)))
    rows = [
        (
            item["metadata"]["name"],
            framework_summary.state_of(item, now),
            framework_summary.finished_tasks(item),
            framework_summary.attempt_of(item),
            framework_summary.age_of(item, now),
            *(
                (framework_summary.duration_of(item, now), framework_summary.message_of(item))
                if wide
                else (_reason(item, width),)
            ),
        )
        for item in items
    ]
    if namespaces:
        header = ("NAMESPACE", *header)
        rows = [(item["metadata"]["namespace"], *row) for item, row in zip(items, rows, strict=True)]
    if not items:
        return iter(())
    if not wide and not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
        return table(header, rows, width)
    return table_with_reasons(header, rows, width)


def _reason(item: Json, width: int | None) -> str:
    """What the Framework waits for or why it failed, in one line; empty for others."""
    if framework_summary.succeeded(item) or not (
        framework_summary.is_waiting(item) or framework_summary.is_completed(item)
    ):
        return ""
    message = framework_summary.message_of(item)
    return message if width is None else cut(message, width - INDENT_COLUMNS)
