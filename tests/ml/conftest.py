"""The environment with TensorFlow and PyTorch, which ``make test-ml`` installs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher_process import PROJECT
from tests.local.server import Server
from tests.pod_networks import remove_network, require_isolation

PROGRAMS = Path(__file__).parent / "programs"
ENVIRONMENTS = PROJECT / "build" / "ml"
#: The images of the users' manifests, with the environment of each.
IMAGES = {"tensorflow/tensorflow:latest": "tensorflow", "pytorch/pytorch:latest": "torch"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher with isolated pods, in which ``python`` has the frameworks and /train the programs."""
    require_isolation()
    flags = []
    for name, framework in IMAGES.items():
        directory = tmp_path_factory.mktemp(framework)
        _fill(directory, ENVIRONMENTS / framework / "bin" / "python")
        flags += ["--image", f"{name}={directory}"]
    with pytest.MonkeyPatch.context() as environment:
        # The PATH of the launcher precedes that of images, and the python of these tests has no frameworks.
        environment.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
        server = Server(tmp_path_factory.mktemp("server"), "--pod-network", "isolated", *flags)
    yield server
    server.end()
    remove_network(server.data)


def _fill(image: Path, python: Path) -> None:
    """Writes the programs, and a ``python`` that runs that of an environment."""
    program = image / "usr/local/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    program.chmod(0o755)
    (image / "train").mkdir()
    for source in PROGRAMS.glob("*.py"):
        (image / "train" / source.name).write_text(source.read_text())
