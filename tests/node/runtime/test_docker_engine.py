"""Errors of container engines."""

import pytest

from launcher.node.runtime.docker_engine import EngineError, is_missing


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(EngineError(404, "No such container: x"), True, id="Docker"),
        pytest.param(
            EngineError(500, "container x does not exist in database: no such container"), True, id="Podman"
        ),
        pytest.param(EngineError(500, "internal error"), False, id="another error"),
    ],
)
def test_a_missing_container_is_recognized(error: EngineError, expected: bool) -> None:
    assert is_missing(error) is expected
