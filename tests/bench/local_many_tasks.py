"""Many tasks at once on this machine: the time until they run and until they are deleted, and the memory per task."""

import time
from collections.abc import Iterator

from tests.bench import Row, row
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server
from tests.rig.measured_launcher import (
    ApiConnection,
    a_framework,
    connected,
    directory,
    own_memory,
    resident,
    running_launcher,
    seconds_since,
    shim_of,
)

TASKS = 500
MIB = 1024 * 1024


def rows() -> list[Row]:
    """Measures one large Framework from POST to DELETE."""
    with directory() as data, running_launcher(data) as server, connected(server) as api:
        return list(_rows(server, api))


def _rows(server: Server, api: ApiConnection) -> Iterator[Row]:
    environment = {"LAUNCHER_TEST": str(server.data)}
    # The first tasks include one-time costs.
    api.object("POST", FRAMEWORKS, a_framework("first", 20))
    api.wait_completed("first")
    shim = shim_of(server)
    before = {pid: resident(pid) for pid in (server.pid, shim)}
    start = time.perf_counter()
    large = a_framework("large", TASKS, ("sleep", "600"), environment=environment)
    api.object("POST", FRAMEWORKS, large)
    until(lambda: _running(api) == TASKS or None, "all tasks run")
    yield row(f"{TASKS} tasks: all run after", seconds_since(start), "s")
    each = {pid: (resident(pid) - size) / TASKS / MIB for pid, size in before.items()}
    yield row(f"{TASKS} tasks: memory of the launcher per task", each[server.pid], "MiB", at_most=1)
    yield row(f"{TASKS} tasks: memory of the shim per task", each[shim], "MiB")
    init_pids = [pid for pid in server.shims() if pid != shim]
    init_memory = sum(own_memory(pid) for pid in init_pids) / TASKS / MIB
    yield row(f"{TASKS} tasks: private memory of a container's init process", init_memory, "MiB")
    start = time.perf_counter()
    api.object("DELETE", f"{FRAMEWORKS}/large")
    until(lambda: not _pods(api) or None, "all pods are deleted")
    yield row(f"{TASKS} tasks: all pods deleted after", seconds_since(start), "s")
    assert not server.inside(), "a process outlives its pod"


def _running(api: ApiConnection) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in _pods(api))


def _pods(api: ApiConnection) -> list[dict[str, dict[str, str]]]:
    path = f"{PODS}?labelSelector=FC_FRAMEWORK_NAME%3Dlarge"
    pods: list[dict[str, dict[str, str]]] = api.object("GET", path)["items"]
    return pods
