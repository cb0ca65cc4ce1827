"""The programs that admins install with."""

from pathlib import Path

import pytest

from tests.cluster.build import Kit, is_built, programs_of
from tests.cluster.conftest import programs
from tests.cluster.versions import chosen

__all__ = ["helm", "kubectl", "programs"]


@pytest.fixture(scope="session")
def kubectl(programs: Path) -> Path:
    return programs / "kubectl"


@pytest.fixture(scope="session")
def helm() -> Path:
    """As long as it is not built, the tests that need it wait."""
    if not is_built(chosen(), Kit.CHART):
        pytest.skip("Helm is not built: make test-cluster does it, once")
    return programs_of(chosen(), Kit.CHART) / "helm"
