"""Shells, tools and launchers for the programs of users' containers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.rendezvous.programs.fake_launcher import FakeLauncher, FakeResponse, run_fake_launcher
from tests.rendezvous.programs.image import SHELLS, ProgramImage, an_image


class StartLauncher(Protocol):
    def __call__(self, *responses: FakeResponse, tls: bool = False) -> FakeLauncher: ...


class MakeImage(Protocol):
    def __call__(self, *tools: str, shell: str = "sh") -> ProgramImage: ...


@pytest.fixture
def start_launcher() -> Iterator[StartLauncher]:
    """Starts a launcher with these responses, which runs until the end of the test."""
    with ExitStack() as stack:
        yield lambda *responses, tls=False: stack.enter_context(run_fake_launcher(*responses, tls=tls))


@pytest.fixture
def make_image(tmp_path: Path) -> MakeImage:
    """Creates an image with these tools."""
    return lambda *tools, shell="sh": an_image(tmp_path / "image", *tools, shell=shell)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Each of the shells."""
    return str(request.param)
