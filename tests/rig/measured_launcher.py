"""A launcher to measure: started for one benchmark, with one persistent connection, and ended with its containers."""

import http.client
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from tests import builders
from tests.eventually import until
from tests.launcher_process import PROJECT
from tests.local.server import FRAMEWORKS, Server

#: With this, Python writes bytecode, as in an installation.
AS_INSTALLED = (
    "env",
    "--unset=PYTHONDONTWRITEBYTECODE",
    f"PYTHONPYCACHEPREFIX={PROJECT / 'build' / 'bytecode'}",
)
#: Seconds without CPU time after which a process is idle.
_IDLE_SECONDS = 0.3


@contextmanager
def directory() -> Iterator[Path]:
    """An empty temporary directory on a disk; that of the system may be a tmpfs."""
    build = PROJECT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as name:
        yield Path(name)


@contextmanager
def running_launcher(data: Path, *flags: str) -> Iterator[Server]:
    """A ready launcher with *data* as its directory."""
    server = Server(data, "--node=bench,pods=10000", *flags, under=AS_INSTALLED)
    try:
        with connected(server) as connection:
            until(lambda: connection.ready() or None, "the launcher is ready")
        yield server
    except BaseException as error:
        error.add_note(f"the log of the launcher: {server.errors()}")
        raise
    finally:
        server.kill()
        # The shim, its forks, which are the first processes of sandboxes, and the containers.
        for pid in (*server.shims(), *server.inside()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def shim_of(server: Server) -> int:
    """The process that is the parent of every sandbox."""
    found = set(server.shims())
    (shim,) = (pid for pid in found if int(_stat(pid)[1]) not in found)
    return shim


class ApiConnection:
    """One persistent connection to a server."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)

    def close(self) -> None:
        self._connection.close()

    def ready(self) -> bool:
        return self.body("GET", "/readyz") == b"ok"

    def body(self, method: str, path: str, obj: object = None, media: str = "application/json") -> bytes:
        """The body of the response, with any status."""
        body = None if obj is None else orjson.dumps(obj)
        self._connection.request(method, path, body, {"Content-Type": media} if body else {})
        return self._connection.getresponse().read()

    def object(self, method: str, path: str, obj: object = None, media: str = "application/json") -> Any:
        """The object in the response, which must have succeeded."""
        response = orjson.loads(self.body(method, path, obj, media))
        assert response.get("status") != "Failure", response
        return response

    def wait_completed(self, name: str) -> None:
        """Return when that Framework is completed."""
        self.wait_for_state(name, "Completed")

    def wait_for_state(self, name: str, state: str) -> None:
        expected = f'"state":"{state}"'.encode()
        path = f"{FRAMEWORKS}/{name}"

        def probe() -> bool | None:
            # Cheaper than parsing each response: the state of the Framework precedes those of its tasks.
            body = self.body("GET", path)
            return (expected in body and orjson.loads(body)["status"]["state"] == state) or None

        until(probe, f"{name} is {state}")


@contextmanager
def connected(server: Server) -> Iterator[ApiConnection]:
    """A connection to the server."""
    connection = ApiConnection(server.url)
    try:
        yield connection
    finally:
        connection.close()


def a_framework(
    name: str,
    tasks: int = 1,
    command: tuple[str, ...] = ("true",),
    *,
    environment: Mapping[str, str] | None = None,
    execution: str = "Start",
) -> dict[str, Any]:
    """A Framework with one role, whose containers terminate at once."""
    env = [{"name": key, "value": value} for key, value in (environment or {}).items()]
    container = builders.a_container(*command, image="busybox:1.36", env=env)
    pod = builders.a_pod_template(container, terminationGracePeriodSeconds=5)
    return builders.a_framework(builders.a_role(tasks=tasks, pod=pod), name=name, executionType=execution)


def processor_seconds(pid: int) -> float:
    """The CPU time of the process and of its children that have exited."""
    return sum(int(field) for field in _stat(pid)[11:15]) / os.sysconf("SC_CLK_TCK")


def wait_until_idle(server: Server) -> None:
    """Return when the launcher is idle."""

    def probe() -> bool | None:
        before = processor_seconds(server.pid)
        time.sleep(_IDLE_SECONDS)
        return processor_seconds(server.pid) - before < _IDLE_SECONDS / 10 or None

    until(probe, "the launcher is idle")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def resident(pid: int) -> int:
    """Bytes of memory that the process has now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def seconds_since(start: float) -> float:
    return time.perf_counter() - start


def own_memory(pid: int) -> int:
    """The private memory of the process in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(size) * 1024 for size in re.findall(r"Private_\w+:\s+(\d+) kB", lines))


def task_start_rate(api: ApiConnection, names: Sequence[str], tasks: int) -> float:
    """Tasks per second of Frameworks with these names, from the first POST until all are completed."""
    start = time.perf_counter()
    for name in names:
        api.object("POST", FRAMEWORKS, a_framework(name, tasks))
    for name in names:
        api.wait_completed(name)
    return len(names) * tasks / seconds_since(start)


def first_output_seconds(server: Server, api: ApiConnection, name: str) -> float:
    """The time from POST of a Framework with one task to its first line of output; waits until it is completed."""
    start = time.perf_counter()
    api.object("POST", FRAMEWORKS, a_framework(name, command=("echo", "hello")))
    deadline = start + 60
    folder = server.data / "logs" / "default" / f"{name}-worker-0"
    while not any(log.stat().st_size for log in folder.rglob("*.log")):
        assert time.perf_counter() < deadline, f"{name} has no output"
        time.sleep(0.001)
    seconds = seconds_since(start)
    api.wait_completed(name)
    return seconds
