"""A launcher to measure: started for one bench, asked over one kept connection, and gone with all it started."""

import http.client
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from launcher.store.interface import FRAMEWORKS as KIND
from tests.local.server import FRAMEWORKS, PROJECT, Server, until

#: Under this, Python keeps what it has compiled, as it does where the launcher is installed.
AS_INSTALLED = (
    "env",
    "--unset=PYTHONDONTWRITEBYTECODE",
    f"PYTHONPYCACHEPREFIX={PROJECT / 'build' / 'bytecode'}",
)
#: Seconds over which somebody is looked at who may be at rest.
_QUIET = 0.3


@contextmanager
def directory() -> Iterator[Path]:
    """An empty directory for the time being, on a disk: the system's own place for such may be none."""
    build = PROJECT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as name:
        yield Path(name)


@contextmanager
def serving(place: Path) -> Iterator[Server]:
    """A launcher over *place*, ready."""
    server = Server(place, "--node=bench,pods=10000", under=AS_INSTALLED)
    try:
        with connected(server) as ask:
            until(lambda: ask.ready() or None, "ready")
        yield server
    except BaseException as error:
        error.add_note(f"the launcher said: {server.errors()}")
        raise
    finally:
        server.kill()
        # The keeper, the first processes of its sandboxes, which are forks of it, and what runs in them.
        for pid in (*server.keepers(), *server.inside()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def keeper_of(server: Server) -> int:
    """The process that is the parent of every sandbox."""
    found = set(server.keepers())
    (keeper,) = (pid for pid in found if int(_stat(pid)[1]) not in found)
    return keeper


class Asking:
    """One connection to a server, used again and again."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)

    def close(self) -> None:
        self._connection.close()

    def ready(self) -> bool:
        return self.body("GET", "/readyz") == b"ok"

    def body(self, method: str, path: str, obj: object = None, media: str = "application/json") -> bytes:
        """The answer's body, whatever it says."""
        body = None if obj is None else orjson.dumps(obj)
        self._connection.request(method, path, body, {"Content-Type": media} if body else {})
        return self._connection.getresponse().read()

    def object(self, method: str, path: str, obj: object = None, media: str = "application/json") -> Any:
        """The object in the answer, which must not be a refusal."""
        answer = orjson.loads(self.body(method, path, obj, media))
        assert answer.get("status") != "Failure", answer
        return answer

    def completed(self, name: str) -> None:
        """Return as soon as that Framework is over."""
        self.until_state(name, "Completed")

    def until_state(self, name: str, state: str) -> None:
        wanted = f'"state":"{state}"'.encode()
        path = f"{FRAMEWORKS}/{name}"

        def look() -> bool | None:
            # Its own state stands before those of its tasks; most looks need not read those.
            body = self.body("GET", path)
            return (wanted in body and orjson.loads(body)["status"]["state"] == state) or None

        until(look, f"{name} is {state}")


@contextmanager
def connected(server: Server) -> Iterator[Asking]:
    """Somebody who asks the server."""
    asking = Asking(server.url)
    try:
        yield asking
    finally:
        asking.close()


def a_framework(
    name: str,
    tasks: int = 1,
    command: tuple[str, ...] = ("true",),
    *,
    environment: Mapping[str, str] | None = None,
    execution: str = "Start",
) -> dict[str, Any]:
    """A Framework of one role."""
    env = [{"name": key, "value": value} for key, value in (environment or {}).items()]
    container = {"name": "main", "image": "busybox:1.36", "command": list(command), "env": env}
    # To be ended is nothing that these programs need time for.
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]}
    role = {"name": "worker", "taskNumber": tasks, "task": {"pod": {"spec": pod}}}
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name},
        "spec": {"executionType": execution, "taskRoles": [role]},
    }


def processor_seconds(pid: int) -> float:
    """What the process and those of its children that have ended have used of the processors."""
    return sum(int(field) for field in _stat(pid)[11:15]) / os.sysconf("SC_CLK_TCK")


def await_rest(server: Server) -> None:
    """Return when the launcher has nothing more to do."""

    def look() -> bool | None:
        before = processor_seconds(server.pid)
        time.sleep(_QUIET)
        return processor_seconds(server.pid) - before < _QUIET / 10 or None

    until(look, "the launcher is at rest")


def _stat(pid: int) -> list[str]:
    """What the kernel tells of the process after its name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def resident(pid: int) -> int:
    """Bytes of memory that the process has now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def seconds_since(began: float) -> float:
    return time.perf_counter() - began


def own_memory(pid: int) -> int:
    """Bytes that would be free if the process alone were gone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(size) * 1024 for size in re.findall(r"Private_\w+:\s+(\d+) kB", lines))
