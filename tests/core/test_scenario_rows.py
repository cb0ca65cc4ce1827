"""Every scenario row has its case: a function named after it, or a parameter whose id begins with it."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

#: How many rows each group has.
GROUPS = {"A": 12, "B": 23, "C": 15, "D": 9, "E": 22, "F": 23, "G": 23, "H": 8}
ROWS = [f"{group}{number}" for group, most in GROUPS.items() for number in range(1, most + 1)]

#: Rows that need a store and a controller to say anything.
TOLD_ELSEWHERE = {
    "A4": "controller/test_framework_controller.py",
    "A12": "controller/test_framework_controller.py",
    "E18": "controller/test_framework_controller.py",
    "F3": "controller/test_framework_controller.py",
    "F15": "controller/test_framework_controller.py",
    "F16": "controller/test_framework_controller.py",
    "F20": "controller/test_framework_controller.py",
    "F22": "controller/test_work_queue.py",
    "F23": "controller/test_framework_controller.py",
}

_FUNCTION = re.compile(r"^(?:async )?def test_([a-h]\d+)_", re.MULTILINE)
_PARAMETER = re.compile(r"""\bid=f?["']([A-H]\d+)\b""")


def rows_told_in(file: Path) -> set[str]:
    """The rows that have a case in *file*."""
    text = file.read_text()
    return {row.upper() for row in _FUNCTION.findall(text)} | set(_PARAMETER.findall(text))


def files_for(row: str) -> list[Path]:
    """Where the row's case may stand; this file only speaks of rows."""
    if row in TOLD_ELSEWHERE:
        return [TESTS / TOLD_ELSEWHERE[row]]
    return [file for file in (TESTS / "core").glob("test_*.py") if file != Path(__file__)]


@pytest.mark.parametrize("row", ROWS)
def test_every_scenario_row_has_a_case(row: str) -> None:
    assert any(row in rows_told_in(file) for file in files_for(row) if file.exists())


def test_a_case_is_known_by_its_function_or_its_parameter(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(
        'async def test_a1_works(): ...\n\n\nX = pytest.param(1, id="G12 the twelfth")\n# B3 is a word\n'
    )

    assert rows_told_in(file) == {"A1", "G12"}
