"""
Many watchers of one change, against a plain loop that writes the same bytes to as many sockets.

Those who listen are the same program both times, in a process of their own.
"""

import socket
import statistics
import time
from collections.abc import Iterator

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, Server
from tests.rig.launching import Asking, a_framework, await_rest, connected, directory, resident, serving
from tests.rig.watchers import listening

WATCHERS = 1_000
CHANGES = 9
#: Makes the change about as long as that of a Framework of a few tasks.
_FILL = "x" * 4_000
#: Stands once in every change, as it is sent.
_MARK = '"bench":"'


def rows() -> list[Row]:
    """One change, again and again."""
    with directory() as place, serving(place) as server, connected(server) as ask:
        watched = a_framework("watched", execution="Create")
        watched["metadata"]["annotations"] = {"fill": _FILL}
        ask.object("POST", FRAMEWORKS, watched)
        await_rest(server)
        return list(_watch_rows(server, ask))


def _watch_rows(server: Server, ask: Asking) -> Iterator[Row]:
    path = f"{FRAMEWORKS}/watched"
    version = ask.object("GET", f"{FRAMEWORKS}?limit=1")["metadata"]["resourceVersion"]
    asked = f"GET {FRAMEWORKS}?watch=1&resourceVersion={version} HTTP/1.1\r\nHost: {server.url[7:]}\r\n\r\n"
    before = resident(server.pid)
    ours = []
    with listening(server.url, WATCHERS, _MARK, asked) as watchers:
        watchers.all_ready()
        each = (resident(server.pid) - before) / WATCHERS / 1024
        for number in range(CHANGES):
            change = {"metadata": {"annotations": {"bench": str(number)}}}
            began = time.monotonic()
            ask.object("PATCH", path, change, "application/merge-patch+json")
            ours.append(watchers.all_heard() - began)
    line = b'{"type":"MODIFIED","object":%b}\n' % ask.body("GET", path).strip()
    others = _bare_times(b"%x\r\n%b\r\n" % (len(line), line))
    what = f"one change of {len(line)} bytes, until {WATCHERS} watchers have it"
    yield row(what, statistics.median(ours) * 1e3, "ms")
    # Not in turns, since both need all the connections: so against the median.
    ratio = statistics.median(ours) / statistics.median(others)
    yield row(f"{what} / writing it to as many sockets", ratio, "ratio")
    yield row("memory of the launcher for each watcher", each, "KiB")


def _bare_times(text: bytes) -> list[float]:
    """How long it takes to write *text* to as many sockets, until those who listen have it."""
    with socket.create_server(("127.0.0.1", 0), backlog=WATCHERS) as server:
        host, port = server.getsockname()
        server.settimeout(60)
        with listening(f"http://{host}:{port}", WATCHERS, _MARK, "") as watchers:
            sockets = [server.accept()[0] for _ in range(WATCHERS)]
            watchers.all_ready()
            spent = []
            for _ in range(CHANGES):
                began = time.monotonic()
                for each in sockets:
                    each.sendall(text)
                spent.append(watchers.all_heard() - began)
            for each in sockets:
                each.close()
    return spent
