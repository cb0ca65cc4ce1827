"""SECURITY.md is the list of what tests/security proves, and names no file that does not exist."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[1]
NAMED = re.findall(r"`((?:tests/[a-z_/]+/)?test_[a-z_]+\.py)`", (PROJECT / "SECURITY.md").read_text())


def test_every_test_of_a_promise_is_named_once() -> None:
    named = sorted(name for name in NAMED if "/" not in name)

    assert named == sorted(path.name for path in (PROJECT / "tests" / "security").glob("test_*.py"))


def test_every_other_test_that_is_named_exists() -> None:
    assert [name for name in NAMED if "/" in name and not (PROJECT / name).is_file()] == []
