"""What tests of the controller share."""

import logging
from collections.abc import Iterator

import pytest

from tests.controller.simulation.run import quiet


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """The launcher's log says nothing in this test, and speaks again in those after it."""
    log = logging.getLogger("launcher")
    level = log.level
    quiet()
    yield
    log.setLevel(level)
