"""Fixtures of rendezvous tests."""

from collections.abc import AsyncIterator

import pytest

from tests.rendezvous.harness import RendezvousHarness, run_harness


@pytest.fixture
async def harness() -> AsyncIterator[RendezvousHarness]:
    async with run_harness() as harness:
        yield harness
