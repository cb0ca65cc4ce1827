"""Engines for all tests of one worker, each started once with the images of the tests."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.engine.archives import archive, busybox, with_entrypoint
from tests.engine.engines import EngineProcess
from tests.engine.prepare import missing_requirement

#: The parameters of tests with a container engine.
ENGINES = [pytest.param(kind, marks=pytest.mark.engine) for kind in ("docker", "podman")]


class Engines:
    """The engines that were started, by kind."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started: dict[str, EngineProcess] = {}

    def get(self, kind: str) -> EngineProcess:
        """The engine of that kind, which all tests share."""
        if kind not in self._started:
            self._started[kind] = self.new(kind)
        return self._started[kind]

    def new(self, kind: str) -> EngineProcess:
        """Another engine, which the test may kill."""
        engine = EngineProcess(kind)
        self._stack.callback(engine.close)
        for image in (archive(busybox()), with_entrypoint()):
            engine.load(image)
        return engine


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    if reason := missing_requirement():
        pytest.skip(f"left out the tests with container engines: {reason}")
    with ExitStack() as stack:
        yield Engines(stack)
