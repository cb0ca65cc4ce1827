"""An invalid setting of ``launcher serve`` is reported in one line that names it, with exit code 2."""

import os
from pathlib import Path

import pytest

from launcher.cli.commands.serve import REPEATED, SINGLE
from launcher.cli.main import main

NAMES = [*SINGLE, *REPEATED, "config"]


def error_line(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Runs ``launcher serve``; returns the only line on stderr."""
    assert main(["serve", *flags]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    return printed.err


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_flag_is_reported_in_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in error_line(capsys, f"--{name}", "")


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_variable_is_reported_in_one_line(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "LAUNCHER_" + name.upper().replace("-", "_")
    monkeypatch.setenv(variable, "")

    line = error_line(capsys)

    assert variable in line or "tls-cert and tls-key" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--listen", ":8080"], "--listen: ':8080' is not HOST:PORT", id="only a port"),
        pytest.param(["--listen", "a b:80"], "--listen: 'a b:80' is not HOST:PORT", id="no host"),
        pytest.param(["--listen", f"{'a' * 70}:80"], "is not HOST:PORT", id="a host name that is too long"),
        pytest.param(["--listen", "unix:"], "--listen: 'unix:' is not unix:PATH", id="no path of a socket"),
        pytest.param(["--listen", f"unix:/{'a' * 107}"], "at most 107 bytes", id="a long path of a socket"),
        pytest.param(["--listen", "unix:/nowhere/x"], "cannot listen on unix:/nowhere/x", id="no directory"),
        pytest.param(
            ["--listen", "unix:/x", "--kubernetes"],
            "unix sockets are not supported",
            id="a socket on a cluster",
        ),
        pytest.param(
            ["--image", "="], "--image: '=' is not KEY=DIR", id="an image without name and directory"
        ),
        pytest.param(["--image", "a="], "--image: 'a=' is not KEY=DIR", id="an image without a directory"),
        pytest.param(["--nfs", "=/"], "--nfs: '=/' is not KEY=DIR", id="a directory for no export"),
        pytest.param(["--claim", "a=/nowhere"], "--claim: a: /nowhere is not a directory", id="no directory"),
        pytest.param(["--node", ","], "--node: ", id="a node without a name"),
        pytest.param(["--node", "a,cpu"], "--node: ", id="a resource without an amount"),
        pytest.param(["--host", "http://a"], "--host: 'http://a' is not a host name", id="a URL as a host"),
        pytest.param(["--config", "."], "--config: . is not a readable file", id="a directory as a file"),
        pytest.param(
            ["--token-file", "."], "--token-file: . is not a readable file", id="a directory as a token"
        ),
        pytest.param(["--token-file", "a" * 5000], "is not a readable file", id="a path that is too long"),
        pytest.param(
            ["--image", f"a=/{'a' * 5000}"], "is not a directory", id="a directory's path is too long"
        ),
        pytest.param(
            ["--data", "~no-such-user/x"], "--data: the home directory of", id="the home of an unknown user"
        ),
        pytest.param(["--data", f"/{'a' * 5000}"], "data: /aaa", id="a path of data that is too long"),
        pytest.param(
            ["--data", "/proc/nothing"],
            "data: /proc/nothing",
            id="data in a directory that cannot be created",
        ),
    ],
)
def test_an_invalid_value_is_reported_in_one_line(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in error_line(capsys, *flags)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param(b"a: b: c", "line 1, column 5", id="no YAML"),
        pytest.param(b"listen: \xff", "line 1, column 9: not UTF-8", id="no UTF-8"),
        pytest.param(b"listen: 1\nlisten: 2", "line 2: listen is set twice", id="a setting twice"),
        pytest.param(b"\nlisten: 80", "line 2: listen must be a string", id="a number as text"),
        pytest.param(b"host: a", "line 1: host must be a list of strings", id="a text as a list"),
        pytest.param(b"x: &a [*a]", "there is no complete anchor", id="an alias of itself"),
        pytest.param(b"data: !!python/object:os.system x", "tag", id="a tag"),
    ],
)
def test_an_error_in_the_config_file_is_reported_in_one_line(
    config: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(config)

    line = error_line(capsys, "--config", str(file))

    assert str(file) in line
    assert message in line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_an_unreadable_config_file_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("listen: x")
    file.chmod(0)
    os.seteuid(65534)
    try:
        line = error_line(capsys, "--config", str(file))
    finally:
        os.seteuid(0)

    assert f"--config: {file} is not a readable file" in line
