"""The programs of an installation."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kubectl(programs: Path) -> Path:
    return programs / "kubectl"
