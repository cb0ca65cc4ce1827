"""Every scenario row of the reference has a test: a function named after it, or a parameter whose id starts with it."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

#: The number of rows of each group.
GROUPS = {"A": 12, "B": 23, "C": 15, "D": 9, "E": 22, "F": 23, "G": 23, "H": 8}
ROWS = [f"{group}{number}" for group, most in GROUPS.items() for number in range(1, most + 1)]

#: Rows whose tests need a store and a controller.
OTHER_FILES = {
    "A4": "controller/test_framework_controller.py",
    "A12": "controller/test_framework_controller.py",
    "E18": "controller/test_framework_controller.py",
    "F3": "controller/test_framework_controller.py",
    "F15": "controller/test_framework_controller.py",
    "F16": "controller/test_framework_controller.py",
    "F20": "controller/test_framework_controller.py",
    "F22": "store/test_work_queue.py",
    "F23": "controller/test_framework_controller.py",
}

_FUNCTION = re.compile(r"^(?:async )?def test_([a-h]\d+)_", re.MULTILINE)
_PARAMETER = re.compile(r"""\bid=f?["']([A-H]\d+)\b""")


def rows_in(file: Path) -> set[str]:
    """The rows that have a test in *file*."""
    text = file.read_text()
    return {row.upper() for row in _FUNCTION.findall(text)} | set(_PARAMETER.findall(text))


def files_for(row: str) -> list[Path]:
    """The files that may contain the test of the row."""
    if row in OTHER_FILES:
        return [TESTS / OTHER_FILES[row]]
    return [file for file in (TESTS / "core").rglob("test_*.py") if file != Path(__file__)]


@pytest.mark.parametrize("row", ROWS)
def test_every_scenario_row_has_a_test(row: str) -> None:
    assert any(row in rows_in(file) for file in files_for(row) if file.exists())


def test_a_row_is_found_by_function_name_or_parameter_id(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(
        'async def test_a1_works(): ...\n\n\nX = pytest.param(1, id="G12 the twelfth")\n# B3 is a comment\n'
    )

    assert rows_in(file) == {"A1", "G12"}
