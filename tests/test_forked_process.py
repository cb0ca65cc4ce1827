"""Modules in forked processes."""

import signal
from pathlib import Path

from tests.eventually import TIMEOUT_SECONDS
from tests.forked_process import ForkedProcess


def forked(directory: Path, module: str, *arguments: str, **environment: str) -> ForkedProcess:
    return ForkedProcess(
        module, *arguments, errors=directory / "log", directory=directory, environment=environment
    )


def test_a_forked_module_has_its_arguments_output_errors_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "valid.json").write_text("{}")
    (tmp_path / "invalid.json").write_text("{")

    valid, invalid = (forked(tmp_path, "json.tool", name) for name in ("valid.json", "invalid.json"))

    with valid, invalid:
        assert (valid.communicate(TIMEOUT_SECONDS)[0], valid.returncode) == ("{}\n", 0)
        assert (invalid.communicate(TIMEOUT_SECONDS)[0], invalid.returncode) == ("", 1)
    assert "line 1 column 2" in (tmp_path / "log").read_text()


def test_a_forked_module_has_the_given_environment(tmp_path: Path) -> None:
    process = forked(tmp_path, "site", "--user-base", HOME="/nowhere")

    with process:
        assert process.communicate(TIMEOUT_SECONDS)[0] == "/nowhere/.local\n"


def test_a_forked_module_can_be_killed(tmp_path: Path) -> None:
    process = forked(tmp_path, "http.server", "--bind", "127.0.0.1", "0")

    with process:
        assert process.poll() is None
        process.kill()
        assert process.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
