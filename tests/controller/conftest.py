"""Fixtures of the controller's tests."""

import logging
from collections.abc import Iterator

import pytest

from tests.controller.simulation.run import disable_logging


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Disables the launcher's log during the test."""
    log = logging.getLogger("launcher")
    level = log.level
    disable_logging()
    yield
    log.setLevel(level)
