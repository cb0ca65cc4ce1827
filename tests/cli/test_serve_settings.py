"""A setting of ``launcher serve`` that cannot be used is one line, which names it, and exit code 2."""

import os
from pathlib import Path

import pytest

from launcher.cli.commands.serve import REPEATED, SINGLE
from launcher.cli.main import main

NAMES = [*SINGLE, *REPEATED, "config"]


def refusal(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The one line on stderr."""
    assert main(["serve", *flags]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    return printed.err


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_flag_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in refusal(capsys, f"--{name}", "")


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_variable_is_one_line(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "LAUNCHER_" + name.upper().replace("-", "_")
    monkeypatch.setenv(variable, "")

    line = refusal(capsys)

    assert variable in line or "tls-cert and tls-key" in line


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        pytest.param(["--listen", ":8080"], "--listen: ':8080' is not HOST:PORT", id="a port alone"),
        pytest.param(["--listen", "a b:80"], "--listen: 'a b:80' is not HOST:PORT", id="no host"),
        pytest.param(["--listen", f"{'a' * 70}:80"], "is not HOST:PORT", id="a host name that is too long"),
        pytest.param(["--listen", "unix:"], "--listen: 'unix:' is not unix:PATH", id="no path of a socket"),
        pytest.param(["--listen", f"unix:/{'a' * 107}"], "at most 107 bytes", id="a long path of a socket"),
        pytest.param(["--listen", "unix:/nowhere/x"], "cannot listen on unix:/nowhere/x", id="no directory"),
        pytest.param(["--listen", "unix:/x", "--kubernetes"], "no unix socket", id="a socket on a cluster"),
        pytest.param(
            ["--image", "="], "--image: '=' is not KEY=DIR", id="an image without name and directory"
        ),
        pytest.param(["--image", "a="], "--image: 'a=' is not KEY=DIR", id="an image without a directory"),
        pytest.param(["--nfs", "=/"], "--nfs: '=/' is not KEY=DIR", id="a directory for no export"),
        pytest.param(["--claim", "a=/nowhere"], "--claim: a: /nowhere is no directory", id="no directory"),
        pytest.param(["--node", ","], "--node: ", id="a node without a name"),
        pytest.param(["--node", "a,cpu"], "--node: ", id="a resource without an amount"),
        pytest.param(["--host", "http://a"], "--host: 'http://a' is not a host name", id="a URL as a host"),
        pytest.param(["--config", "."], "--config: . is no file", id="a directory as a file"),
        pytest.param(["--token-file", "."], "--token-file: . is no file", id="a directory as a token"),
        pytest.param(["--token-file", "a" * 5000], "is no file", id="a path that is too long"),
        pytest.param(["--image", f"a=/{'a' * 5000}"], "is no directory", id="a directory's path is too long"),
        pytest.param(
            ["--data", "~no-such-user/x"], "--data: the home directory of", id="the home of no user"
        ),
        pytest.param(["--data", f"/{'a' * 5000}"], "data: /aaa", id="a path of data that is too long"),
        pytest.param(["--data", "/proc/nothing"], "data: /proc/nothing", id="data where nothing can be made"),
    ],
)
def test_a_value_that_cannot_be_used_is_one_line(
    flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(capsys, *flags)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        pytest.param(b"a: b: c", "line 1, column 5", id="no YAML"),
        pytest.param(b"listen: \xff", "line 1, column 9: this is not UTF-8", id="no UTF-8"),
        pytest.param(b"listen: 1\nlisten: 2", "line 2: listen is set twice", id="a setting twice"),
        pytest.param(b"\nlisten: 80", "line 2: listen has to be text", id="a number as text"),
        pytest.param(b"host: a", "line 1: host has to be a list of texts", id="a text as a list"),
        pytest.param(b"x: &a [*a]", "stands for nothing", id="an alias of itself"),
        pytest.param(b"data: !!python/object:os.system x", "tag", id="a tag"),
    ],
)
def test_what_is_wrong_in_the_config_file_is_one_line(
    config: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(config)

    line = refusal(capsys, "--config", str(file))

    assert str(file) in line
    assert told in line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("listen: x")
    file.chmod(0)
    os.seteuid(65534)
    try:
        line = refusal(capsys, "--config", str(file))
    finally:
        os.seteuid(0)

    assert f"--config: {file} is no file that can be read" in line
