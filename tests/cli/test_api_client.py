"""What users are told when there is no answer, or not the one they hoped for."""

import asyncio
import errno
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from launcher.cli.client.status_errors import error_of, warnings_of
from launcher.cli.main import main
from launcher.core.errors import BadRequest, Conflict, Expired, InvalidObject, NotFound, TooLarge, Unavailable
from tests.cli.conftest import Served
from tests.cli.terminals import PROJECT, Piped, launcher
from tests.cli.world import PATIENCE, World
from tests.core.manifests import a_framework

Capture = pytest.CaptureFixture[str]
TOKEN = "a-token-that-nobody-guesses"


def test_without_a_server_one_line_says_how_to_start_one(free_port: int, capsys: Capture) -> None:
    url = f"http://127.0.0.1:{free_port}"

    assert main(["list", "--server", url]) == 1
    assert capsys.readouterr().err == (
        f"no server answers at {url}; start one with: launcher serve, or name yours with --server\n"
    )


def test_a_host_that_does_not_exist_is_named(capsys: Capture) -> None:
    assert main(["list", "--server", "http://no-such-host.invalid:8080"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("there is no host no-such-host.invalid (")
    assert line.endswith("; correct --server http://no-such-host.invalid:8080")


def test_https_to_a_plain_server_says_which_address_to_write(served: Served, capsys: Capture) -> None:
    port = served(web.Application(), None)

    assert main(["list", "--server", f"https://127.0.0.1:{port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"https://127.0.0.1:{port} does not speak TLS (")
    assert line.endswith(f"if it serves plain HTTP, write --server http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "start one with: launcher serve"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "cannot be reached: No route to host"),
    ],
)
def test_a_connection_that_fails_names_the_right_way_out(
    error: OSError, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("asyncio.selector_events.BaseSelectorEventLoop.sock_connect", fail)

    assert main(["list", "--server", "http://127.0.0.1:9"]) == 1
    assert hint in capsys.readouterr().err


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    async def wait(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("asyncio.selector_events.BaseSelectorEventLoop.sock_connect", wait)
    monkeypatch.setattr(
        "launcher.cli.client.api_client._PATIENCE", aiohttp.ClientTimeout(total=5, sock_connect=0.1)
    )

    assert main(["list", "--server", "http://127.0.0.1:9"]) == 1
    assert "http://127.0.0.1:9 does not answer within 0.1 s; check the host" in capsys.readouterr().err


def test_the_version_is_ours_and_that_of_the_server_if_there_is_one(
    world: World, free_port: int, capsys: Capture
) -> None:
    assert main(["version"]) == 0
    both = capsys.readouterr()
    assert main(["version", "--server", f"http://127.0.0.1:{free_port}"]) == 0
    alone = capsys.readouterr()

    assert [line.split()[0] for line in both.out.splitlines()] == ["launcher", "server"]
    assert alone.out == both.out.splitlines()[0] + "\n"
    assert "no server answers" in alone.err


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A launcher that wants a token."""
    made = World(TOKEN)
    monkeypatch.setenv("LAUNCHER_SERVER", made.url)
    yield made
    made.close()


def test_a_server_with_a_token_says_which_option_is_missing(
    guarded: World, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "right").write_text(f"{TOKEN}\n")
    (tmp_path / "wrong").write_text("another-token-altogether")

    assert main(["list"]) == 1
    without = capsys.readouterr().err
    assert main(["list", "--token-file", str(tmp_path / "wrong")]) == 1
    wrong = capsys.readouterr().err
    assert main(["list", "-o", "name", "--token-file", str(tmp_path / "right")]) == 0

    assert without == "the server wants a token; name its file with --token-file or in LAUNCHER_TOKEN_FILE\n"
    assert wrong == "the server does not know this token; --token-file names the file of the right one\n"


def test_the_environment_names_the_token_too(
    guarded: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("LAUNCHER_TOKEN_FILE", str(tmp_path / "token"))

    assert main(["list"]) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--token-file", "nowhere"], "--token-file: nowhere: No such file or directory\n"),
        (["--ca", "nowhere"], "--ca: nowhere: No such file or directory\n"),
        (["--ca", str(Path(__file__))], f"--ca: {__file__}: holds no certificate in PEM\n"),
        (["--server", "localhost:8080"], "--server: 'localhost:8080' has to begin with http://, https:// or"),
        (["--server", "http://:8080"], "--server: http://:8080 is no address of a server\n"),
        (["--server", ""], "--server: the value is empty; set one, or leave the option out\n"),
        (["--token-file", ""], "--token-file: the value is empty;"),
        (["--ca", ""], "--ca: the value is empty;"),
    ],
)
def test_an_option_that_cannot_be_used_is_told(arguments: list[str], complaint: str, capsys: Capture) -> None:
    assert main(["list", *arguments]) == 2
    assert capsys.readouterr().err.startswith(complaint)


@pytest.mark.parametrize("variable", ["LAUNCHER_SERVER", "LAUNCHER_TOKEN_FILE", "LAUNCHER_CA_FILE"])
def test_an_empty_variable_is_named(variable: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv(variable, "")

    assert main(["list"]) == 2
    assert capsys.readouterr().err == f"{variable}: the value is empty; set one, or unset the variable\n"


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, "<html>not here</html>"), (302, ""), (200, "<html>welcome</html>"), (200, "[]")],
)
def test_a_server_that_is_no_launcher_is_told_as_such(
    status: int, body: str, served: Served, capsys: Capture
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    port = served(app, None)

    assert main(["list", "--server", f"http://127.0.0.1:{port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"what answers at http://127.0.0.1:{port} is no launcher" in line


def test_a_certificate_is_trusted_when_its_authority_is_named(
    served: Served, tmp_path: Path, capsys: Capture
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    making = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=launcher"
    subprocess.run(
        [*making.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)

    async def version(_: web.Request) -> web.Response:
        return web.json_response({"items": [], "metadata": {"resourceVersion": "1"}})

    app = web.Application()
    app.router.add_get("/{path:.*}", version)
    url = f"https://127.0.0.1:{served(app, tls)}"

    plain = url.replace("https", "http")
    assert main(["list", "--server", plain]) == 1
    assert capsys.readouterr().err.rstrip().endswith(f"if it serves HTTPS, write --server {url}")
    named = url.replace("127.0.0.1", "localhost")
    assert main(["list", "--server", named, "--ca", str(cert)]) == 1
    assert f"the certificate of {named} is for another host" in capsys.readouterr().err
    assert main(["list", "--server", url]) == 1
    assert f"the certificate of {url} is not trusted" in (refused := capsys.readouterr().err)
    assert refused.endswith("name its authority with --ca FILE\n")
    assert main(["list", "--server", url, "--ca", str(cert)]) == 0


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", BadRequest),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (413, "RequestEntityTooLarge", TooLarge),
        (415, "UnsupportedMediaType", BadRequest),
        (422, "Invalid", InvalidObject),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
    ],
)
def test_every_no_is_one_of_our_errors(code: int, reason: str, error: type[Exception]) -> None:
    told = error_of({"reason": reason, "message": "why"}, code)

    assert type(told) is error
    assert str(told) == "why"


def test_warnings_are_read_as_they_were_meant() -> None:
    assert warnings_of([r'299 - "unknown field \"a\\b\""', "199 - other"]) == [r'unknown field "a\b"']


def test_ctrl_c_ends_a_command_without_a_word(world: World, tmp_path: Path) -> None:
    world.create(a_framework())
    with Piped(tmp_path, "wait", "mnist") as command:
        world.until_watched("frameworks", 1)
        command.interrupt()

        assert command.end() == 130
    assert (command.out, command.err) == ("", "")


def test_a_reader_who_has_had_enough_is_no_error_worth_a_word(world: World) -> None:
    world.create(a_framework())
    world.run("mnist-worker-0", *(["a line that fills the pipe"] * 20_000))

    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -n 1', "bash", *launcher("logs", "mnist", "worker/0")],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        timeout=PATIENCE,
    )

    assert (done.returncode, done.stdout, done.stderr) == (1, "a line that fills the pipe\n", "")
