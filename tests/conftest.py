"""Settings and markers of all tests."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.clients.gobuild import informer
from tests.cluster.build import Kit, programs_of
from tests.cluster.versions import chosen

#: `pytester` is for the tests of our own plugin.
pytest_plugins = ("tests.launcher_report", "tests.engine.fixtures", "pytester")

# A shell that runs tests in the background, or nohup, has these ignored, and whatever a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# `make test-slow` runs all examples. A busy machine is no reason to fail.
for _profile, _examples in {"short": 30, "full": 100}.items():
    settings.register_profile(
        _profile, max_examples=_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

#: Fixtures that return programs built with Go: their tests belong to `make test-cluster`.
_BUILT_PROGRAMS = {"programs", "helm", "informer_program"}
_REAL_NODES = Path(__file__).parent / "realnodes"
_ML = Path(__file__).parent / "ml"
#: The fixture that starts chromium: its tests belong to `make test-browser`.
_BROWSER = "chromium"


def pytest_xdist_auto_num_workers() -> int:
    """More workers than cores: many tests wait for the processes that they start."""
    cores = os.cpu_count() or 1
    return cores + cores // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need more than Python; `make test` deselects them, so that none is skipped silently."""
    for item in items:
        if item.path.is_relative_to(_REAL_NODES):
            item.add_marker(pytest.mark.node)
        elif item.path.is_relative_to(_ML):
            item.add_marker(pytest.mark.ml)
        elif _BROWSER in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        elif not _BUILT_PROGRAMS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)


def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection: they stay in memory, and it would visit them often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def programs() -> Path:
    """The directory with the control plane's programs and kubectl. Raises NoGo if they are neither built nor can be."""
    return programs_of(chosen())


@pytest.fixture(scope="session")
def helm() -> Path:
    return programs_of(chosen(), Kit.CHART) / "helm"


@pytest.fixture(scope="session")
def informer_program() -> Path:
    """A client-go informer that prints what it observes."""
    return informer()
