"""Errors of an unusable server, and requests of both clients."""

import asyncio
import errno
import gzip
import socket
import socketserver
import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread

import aiohttp
import pytest
from aiohttp import web

from launcher.cli.client.api_client import connected
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.client.server_config import ServerConfig
from launcher.cli.client.status_errors import error_of, warnings_of
from launcher.cli.main import main
from launcher.core.errors import BadRequest, Conflict, Expired, InvalidObject, NotFound, TooLarge, Unavailable
from tests.builders import a_framework
from tests.cli.conftest import Served
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import PROJECT, Piped, launcher
from tests.eventually import TIMEOUT_SECONDS

Capture = pytest.CaptureFixture[str]
TOKEN = "a-token-that-is-hard-to-guess"


#: A command of each client, the synchronous one and the one of aiohttp: both report the same errors.
either_client = pytest.mark.parametrize("command", [["list"], ["wait", "mnist"]], ids=["list", "wait"])


@either_client
def test_an_unreachable_server_is_reported_in_one_line_with_a_remedy(
    command: list[str], free_port: int, capsys: Capture
) -> None:
    url = f"http://127.0.0.1:{free_port}"

    assert main([*command, "--server", url]) == 1
    assert capsys.readouterr().err == (
        f'cannot connect to {url}: connection refused. Start a server with "launcher serve" or set --server.\n'
    )


@either_client
def test_a_host_that_does_not_exist_is_named(command: list[str], capsys: Capture) -> None:
    assert main([*command, "--server", "http://no-such-host.invalid:8080"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("unknown host no-such-host.invalid (")
    assert line.endswith("; correct --server http://no-such-host.invalid:8080")


@either_client
def test_https_to_a_plain_server_is_reported_with_the_right_url(
    command: list[str], served: Served, capsys: Capture
) -> None:
    port = served(web.Application(), None)

    assert main([*command, "--server", f"https://127.0.0.1:{port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"https://127.0.0.1:{port} does not use TLS (")
    assert line.endswith(f"if it serves plain HTTP, set --server http://127.0.0.1:{port}")


@either_client
@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), 'Start a server with "launcher serve"'),
        (
            OSError(errno.EHOSTUNREACH, "No route to host"),
            "cannot connect to http://127.0.0.1:9: no route to host",
        ),
    ],
)
def test_a_connection_that_fails_names_the_reason(
    command: list[str], error: OSError, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    async def fail_async(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("socket.create_connection", fail)
    monkeypatch.setattr("asyncio.selector_events.BaseSelectorEventLoop.sock_connect", fail_async)

    assert main([*command, "--server", "http://127.0.0.1:9"]) == 1
    assert hint in capsys.readouterr().err


@either_client
def test_connecting_has_a_timeout(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def time_out(*_: object, **__: object) -> None:
        raise TimeoutError

    async def wait(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("socket.create_connection", time_out)
    monkeypatch.setattr("asyncio.selector_events.BaseSelectorEventLoop.sock_connect", wait)
    monkeypatch.setattr(
        "launcher.cli.client.async_client._REQUEST_TIMEOUT", aiohttp.ClientTimeout(total=5, sock_connect=0.1)
    )

    assert main([*command, "--server", "http://127.0.0.1:9"]) == 1
    assert "cannot connect to http://127.0.0.1:9 within 10s; check the host" in capsys.readouterr().err


def test_a_response_has_a_timeout(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("launcher.cli.client.api_client.REQUEST_TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        assert main(["list", "--server", url]) == 1
    assert capsys.readouterr().err == f"the connection to {url} was lost: timed out\n"


def test_a_get_is_sent_again_after_the_server_closed_an_idle_connection(server: InMemoryLauncher) -> None:
    server.create(a_framework())
    with connected(ServerConfig(server.url)) as api:
        api.get(FRAMEWORKS, "mnist")
        server.stop()
        server.start()

        assert api.get(FRAMEWORKS, "mnist")["metadata"]["name"] == "mnist"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(gzip.compress(b'{"items": []}'), "No Frameworks found", id="valid"),
        pytest.param(b"no gzip", "was lost: ", id="invalid"),
    ],
)
def test_compressed_responses_are_decompressed(
    body: bytes, error: str, served: Served, capsys: Capture
) -> None:
    async def respond(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    app = web.Application()
    app.router.add_get("/{path:.*}", respond)

    main(["list", "--server", f"http://127.0.0.1:{served(app, None)}"])

    assert error in capsys.readouterr().err


def test_all_pages_of_a_list_are_read(served: Served, capsys: Capture) -> None:
    async def respond(request: web.Request) -> web.Response:
        page = int(request.query.get("continue", "0"))
        assert request.query["nameContains"] == "m"
        metadata = {"continue": str(page + 1)} if page < 2 else {}
        return web.json_response({"metadata": metadata, "items": [{"metadata": {"name": f"m{page}"}}]})

    app = web.Application()
    app.router.add_get("/{path:.*}", respond)

    main(["list", "-o", "name", "--name-contains", "m", "--server", f"http://127.0.0.1:{served(app, None)}"])

    assert capsys.readouterr().out.split() == ["framework/m0", "framework/m1", "framework/m2"]


def test_responses_are_read_over_a_unix_socket(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "s"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"items": []}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return ""

    class Server(socketserver.UnixStreamServer):
        def get_request(self) -> tuple[socket.socket, str]:
            return super().get_request()[0], "client"

    with Server(str(path), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        assert main(["list", "-o", "name", "--server", f"unix:{path}"]) == 0
        thread.join()
    assert main(["list", "--server", f"unix:{tmp_path}/none"]) == 1
    assert capsys.readouterr().err == f"cannot connect to unix:{tmp_path}/none: no such file or directory\n"


def test_version_prints_the_versions_of_the_program_and_the_server(
    server: InMemoryLauncher, free_port: int, capsys: Capture
) -> None:
    assert main(["version"]) == 0
    both = capsys.readouterr()
    assert main(["version", "--server", f"http://127.0.0.1:{free_port}"]) == 0
    alone = capsys.readouterr()

    assert [line.split()[0] for line in both.out.splitlines()] == ["launcher", "server"]
    assert alone.out == both.out.splitlines()[0] + "\n"
    assert "cannot connect to" in alone.err


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryLauncher]:
    """A launcher that requires a token."""
    launcher = InMemoryLauncher(TOKEN)
    monkeypatch.setenv("LAUNCHER_SERVER", launcher.url)
    yield launcher
    launcher.close()


def test_a_missing_token_is_reported_with_its_option(
    guarded: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "right").write_text(f"{TOKEN}\n")
    (tmp_path / "wrong").write_text("another-token-altogether")

    assert main(["list"]) == 1
    without = capsys.readouterr().err
    assert main(["list", "--token-file", str(tmp_path / "wrong")]) == 1
    wrong = capsys.readouterr().err
    assert main(["list", "-o", "name", "--token-file", str(tmp_path / "right")]) == 0

    assert (
        without == "the server requires a token; set --token-file or LAUNCHER_TOKEN_FILE to a file with it\n"
    )
    assert wrong == "the server rejected the token; set --token-file to a file with a valid token\n"


def test_the_token_file_may_be_set_by_the_environment(
    guarded: InMemoryLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("LAUNCHER_TOKEN_FILE", str(tmp_path / "token"))

    assert main(["list"]) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--token-file", "nowhere"], "--token-file: nowhere: No such file or directory\n"),
        (["--ca", "nowhere"], "--ca: nowhere: No such file or directory\n"),
        (["--ca", str(Path(__file__))], f"--ca: {__file__}: contains no certificate in PEM\n"),
        (["--server", "localhost:8080"], "--server: 'localhost:8080' must start with http://, https:// or"),
        (["--server", "http://:8080"], "--server: http://:8080 is not a valid URL of a server\n"),
        (["--server", ""], "--server: must not be empty; set a value or omit the option\n"),
        (["--token-file", ""], "--token-file: must not be empty;"),
        (["--ca", ""], "--ca: must not be empty;"),
    ],
)
def test_an_invalid_server_option_is_reported(arguments: list[str], error: str, capsys: Capture) -> None:
    assert main(["list", *arguments]) == 2
    assert capsys.readouterr().err.startswith(error)


@pytest.mark.parametrize("variable", ["LAUNCHER_SERVER", "LAUNCHER_TOKEN_FILE", "LAUNCHER_CA_FILE"])
def test_an_empty_variable_is_named(variable: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv(variable, "")

    assert main(["list"]) == 2
    assert capsys.readouterr().err == f"{variable}: must not be empty; set a value or unset the variable\n"


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, "<html>not here</html>"), (302, ""), (200, "<html>welcome</html>"), (200, "[]")],
)
def test_a_server_that_is_not_a_launcher_is_reported(
    status: int, body: str, served: Served, capsys: Capture
) -> None:
    async def respond(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    port = served(app, None)

    assert main(["list", "--server", f"http://127.0.0.1:{port}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the server at http://127.0.0.1:{port} is not a launcher" in line


def test_a_certificate_is_trusted_with_its_ca(served: Served, tmp_path: Path, capsys: Capture) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=launcher"
    )
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
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
    assert capsys.readouterr().err.rstrip().endswith(f"if it serves HTTPS, set --server {url}")
    other_host = url.replace("127.0.0.1", "localhost")
    assert main(["list", "--server", other_host, "--ca", str(cert)]) == 1
    assert f"the certificate of {other_host} is for another host" in capsys.readouterr().err
    assert main(["list", "--server", url]) == 1
    assert f"the certificate of {url} is not trusted" in (untrusted := capsys.readouterr().err)
    assert untrusted.endswith("set --ca to a file with its CA certificate\n")
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
def test_every_error_response_is_a_launcher_error(code: int, reason: str, error: type[Exception]) -> None:
    printed = error_of({"reason": reason, "message": "why"}, code)

    assert type(printed) is error
    assert str(printed) == "why"


def test_warnings_are_parsed() -> None:
    assert warnings_of([r'299 - "unknown field \"a\\b\""', "199 - other"]) == [r'unknown field "a\b"']


def test_ctrl_c_ends_a_command_without_output(server: InMemoryLauncher, tmp_path: Path) -> None:
    server.create(a_framework())
    with Piped(tmp_path, "wait", "mnist") as command:
        server.until_watched("frameworks", 1)
        command.interrupt()

        assert command.end() == 130
    assert (command.out, command.err) == ("", "")


def test_a_closed_pipe_is_not_reported(server: InMemoryLauncher) -> None:
    server.create(a_framework())
    server.run("mnist-worker-0", *(["a line that fills the pipe"] * 20_000))

    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -n 1', "bash", *launcher("logs", "mnist", "worker/0")],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        timeout=TIMEOUT_SECONDS,
    )

    assert (done.returncode, done.stdout, done.stderr) == (1, "a line that fills the pipe\n", "")
