"""
Many watchers of one change, compared with a plain loop that writes the same bytes to the same number of sockets.

The clients are the same program in both cases, in its own process.
"""

import socket
import statistics
import time
from collections.abc import Iterator

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, Server
from tests.rig.measured_launcher import (
    ApiConnection,
    a_framework,
    connected,
    directory,
    resident,
    running_launcher,
    wait_until_idle,
)
from tests.rig.watch_clients import watch_clients

WATCHERS = 1_000
CHANGES = 9
#: Fills the change up to the size of that of a Framework with a few tasks.
_FILL = "x" * 4_000
#: A text that occurs once in every change.
_MARK = '"bench":"'


def rows() -> list[Row]:
    """Measures one change repeatedly."""
    with directory() as data, running_launcher(data) as server, connected(server) as api:
        watched = a_framework("watched", execution="Create")
        watched["metadata"]["annotations"] = {"fill": _FILL}
        api.object("POST", FRAMEWORKS, watched)
        wait_until_idle(server)
        return list(_watch_rows(server, api))


def _watch_rows(server: Server, api: ApiConnection) -> Iterator[Row]:
    path = f"{FRAMEWORKS}/watched"
    version = api.object("GET", f"{FRAMEWORKS}?limit=1")["metadata"]["resourceVersion"]
    request = f"GET {FRAMEWORKS}?watch=1&resourceVersion={version} HTTP/1.1\r\nHost: {server.url[7:]}\r\n\r\n"
    before = resident(server.pid)
    launcher_seconds = []
    with watch_clients(server.url, WATCHERS, _MARK, request) as watchers:
        watchers.all_ready()
        each = (resident(server.pid) - before) / WATCHERS / 1024
        for number in range(CHANGES):
            change = {"metadata": {"annotations": {"bench": str(number)}}}
            start = time.monotonic()
            api.object("PATCH", path, change, "application/merge-patch+json")
            launcher_seconds.append(watchers.all_received() - start)
    line = b'{"type":"MODIFIED","object":%b}\n' % api.body("GET", path).strip()
    baseline_seconds = _baseline_seconds(b"%x\r\n%b\r\n" % (len(line), line))
    name = f"one change of {len(line)} bytes, until {WATCHERS} watchers have it"
    yield row(name, statistics.median(launcher_seconds) * 1e3, "ms")
    # Compared by median and not in turns, because both need all connections.
    ratio = statistics.median(launcher_seconds) / statistics.median(baseline_seconds)
    yield row(f"{name} / writing it to {WATCHERS} sockets", ratio, "ratio")
    yield row("memory of the launcher per watcher", each, "KiB")


def _baseline_seconds(text: bytes) -> list[float]:
    """Seconds to write *text* to all sockets, until all clients have received it."""
    with socket.create_server(("127.0.0.1", 0), backlog=WATCHERS) as server:
        host, port = server.getsockname()
        server.settimeout(60)
        with watch_clients(f"http://{host}:{port}", WATCHERS, _MARK, "") as watchers:
            sockets = [server.accept()[0] for _ in range(WATCHERS)]
            watchers.all_ready()
            spent = []
            for _ in range(CHANGES):
                start = time.monotonic()
                for each in sockets:
                    each.sendall(text)
                spent.append(watchers.all_received() - start)
            for each in sockets:
                each.close()
    return spent
