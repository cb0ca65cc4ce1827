"""Shells, tools and launchers for the programs of users' containers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.rendezvous.programs.image import SHELLS, Image, an_image
from tests.rendezvous.programs.pretended import Answer, Pretended, pretended


class Pretend(Protocol):
    def __call__(self, *answers: Answer, tls: bool = False) -> Pretended: ...


class MakeImage(Protocol):
    def __call__(self, *tools: str, shell: str = "sh") -> Image: ...


@pytest.fixture
def pretend() -> Iterator[Pretend]:
    """Let there be a launcher with these answers until the test is over."""
    with ExitStack() as stack:
        yield lambda *answers, tls=False: stack.enter_context(pretended(*answers, tls=tls))


@pytest.fixture
def image(tmp_path: Path) -> MakeImage:
    """An image with these tools."""
    return lambda *tools, shell="sh": an_image(tmp_path / "image", *tools, shell=shell)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Each of the shells in turn."""
    return str(request.param)
