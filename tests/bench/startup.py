"""The start-up cost of commands, compared with the start of Python."""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from threading import Thread
from time import perf_counter

from tests.bench import Row, row
from tests.rig.measured_launcher import AS_INSTALLED

ROUNDS = 15
#: The allowance in addition to three times the start of Python.
ALLOWED_SECONDS = 0.1
#: The imports of a minimal command with one request over HTTPS.
BARE_CLIENT = ("-c", "import json, argparse, http.client, ssl")


def rows() -> list[Row]:
    """Measures ``--help`` by elapsed time, and commands with one request by CPU time."""
    python_seconds, launcher_seconds = [], []
    for _ in range(ROUNDS):
        python_seconds.append(_seconds("-c", "import json"))
        launcher_seconds.append(_seconds("-m", "launcher", "--help"))
    share = median(launcher_seconds) / (3 * median(python_seconds) + ALLOWED_SECONDS)
    return [
        row("launcher --help / (3 x python -c 'import json' + 100 ms)", share, "ratio", at_most=1),
        *_request_rows(),
    ]


def _request_rows() -> list[Row]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _OneFramework)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    commands = {"list": ["list"], "get": ["get", "mnist"], "Tab": ["completion", "names"]}
    python_seconds: list[float] = []
    launcher_seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        python_seconds.append(_cpu_seconds(BARE_CLIENT))
        for name, arguments in commands.items():
            launcher_seconds[name].append(_cpu_seconds(["-m", "launcher", *arguments, "--server", url]))
    server.shutdown()
    server.server_close()
    return [
        row(
            f"launcher {name} / python {' '.join(BARE_CLIENT)}",
            min(seconds) / min(python_seconds),
            "ratio",
            at_most=1.5,
        )
        for name, seconds in launcher_seconds.items()
    ]


class _OneFramework(BaseHTTPRequestHandler):
    """An API with one Framework, which has no status yet."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        metadata = {"name": "mnist", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
        framework = {"metadata": metadata, "spec": {"taskRoles": []}}
        body = framework if self.path.endswith("/mnist") else {"items": [framework]}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _seconds(*arguments: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, timeout=60)
    return perf_counter() - start


def _cpu_seconds(arguments: Sequence[str]) -> float:
    """The CPU time of a Python process, which depends less on other load than elapsed time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [*AS_INSTALLED, sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, timeout=60
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
