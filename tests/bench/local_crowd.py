"""Many tasks at once on this machine: how soon they run and are gone again, and how much memory each takes."""

import time
from collections.abc import Iterator

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, PODS, Server, until
from tests.rig.launching import (
    Asking,
    a_framework,
    connected,
    directory,
    keeper_of,
    own_memory,
    resident,
    seconds_since,
    serving,
)

TASKS = 500
MIB = 1024 * 1024


def rows() -> list[Row]:
    """One crowd, from its POST to its end."""
    with directory() as place, serving(place) as server, connected(server) as ask:
        return list(_rows(server, ask))


def _rows(server: Server, ask: Asking) -> Iterator[Row]:
    environment = {"LAUNCHER_TEST": str(server.data)}
    # What the first tasks of all take is not what each takes.
    ask.object("POST", FRAMEWORKS, a_framework("first", 20))
    ask.completed("first")
    keeper = keeper_of(server)
    before = {pid: resident(pid) for pid in (server.pid, keeper)}
    began = time.perf_counter()
    crowd = a_framework("crowd", TASKS, ("sleep", "600"), environment=environment)
    ask.object("POST", FRAMEWORKS, crowd)
    until(lambda: _running(ask) == TASKS or None, "all run")
    yield row(f"{TASKS} tasks: all run after", seconds_since(began), "s")
    each = {pid: (resident(pid) - size) / TASKS / MIB for pid, size in before.items()}
    yield row(f"{TASKS} tasks: memory of the launcher, for each", each[server.pid], "MiB", at_most=1)
    yield row(f"{TASKS} tasks: memory of the keeper, for each", each[keeper], "MiB")
    firsts = [pid for pid in server.keepers() if pid != keeper]
    first = sum(own_memory(pid) for pid in firsts) / TASKS / MIB
    yield row(f"{TASKS} tasks: memory of a sandbox's first process, its own", first, "MiB")
    began = time.perf_counter()
    ask.object("DELETE", f"{FRAMEWORKS}/crowd")
    until(lambda: not _pods(ask) or None, "all are gone")
    yield row(f"{TASKS} tasks: all are gone after", seconds_since(began), "s")
    assert not server.inside(), "a task has outlived its pod"


def _running(ask: Asking) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in _pods(ask))


def _pods(ask: Asking) -> list[dict[str, dict[str, str]]]:
    chosen = f"{PODS}?labelSelector=FC_FRAMEWORK_NAME%3Dcrowd"
    found: list[dict[str, dict[str, str]]] = ask.object("GET", chosen)["items"]
    return found
