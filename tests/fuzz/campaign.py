"""
A fuzzing campaign against a real ``launcher serve``.

One batch: random requests; SIGKILL; a start on the same data directory; a Framework that has to run to its end; then
everything that was accepted is deleted. A 5xx response, a request without a response, a traceback, memory above the
limit, a start that fails, a Framework that does not complete and an object that cannot be deleted are failures.
"""

import http.client
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import orjson

from tests.eventually import until
from tests.fuzz.objects import DELETED, NAMESPACES, canary
from tests.fuzz.requests import FuzzRequest, random_requests
from tests.local.server import Server

#: Seconds within which every request has its response.
RESPONSE_SECONDS = 30.0
#: Seconds within which a Framework completes and everything accepted is deleted, on a busy machine.
RECOVERY_SECONDS = 120.0
MAX_RESIDENT_BYTES = 512 * 1024 * 1024
_CANARIES = "/apis/launcher.microsoft.com/v1/namespaces/canary/frameworks"
_MERGE_PATCH = "application/merge-patch+json"
#: Seconds for which a launcher that does not respond may still log why it ends.
_ENDING_SECONDS = 15.0
#: Requests that a failure report shows.
_SHOWN = 20
#: The policy of a shared machine: host paths are limited to a directory of the fuzzer.
_CONFIG = """
policy:
  host-path-prefixes: [{directory}]
  nfs-servers: []
  max-tasks: 8
"""


class FuzzFailure(AssertionError):
    """The launcher failed; the message contains the seed and the last requests."""


@dataclass(slots=True)
class CampaignOutcome:
    """The counts of a campaign."""

    statuses: Counter[int] = field(default_factory=Counter)
    batches: int = 0
    peak_resident_bytes: int = 0

    @property
    def requests(self) -> int:
        return self.statuses.total()

    def __str__(self) -> str:
        by_status = ", ".join(f"{status}: {number}" for status, number in sorted(self.statuses.items()))
        peak = self.peak_resident_bytes // 2**20
        return f"{self.requests} requests in {self.batches} batches; {by_status}; peak {peak} MiB"


class Campaign:
    """Batches against one data directory."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Starts the launcher; ``close`` ends it. *directory* exists."""
        config = directory / "config.yaml"
        config.write_text(_CONFIG.format(directory=directory / "shared"))
        (directory / "shared").mkdir()
        self.outcome = CampaignOutcome()
        self._server = Server(directory, "--config", str(config))
        self._env = {"LAUNCHER_TEST": str(self._server.data)}
        self._seed = seed
        self._requests: Iterator[FuzzRequest] = random_requests(Random(seed), self._env)
        self._last: list[str] = []
        #: Server errors with their requests; they are reported at the end of a batch.
        self._errors: list[str] = []
        self._connection = self._connect()

    def close(self) -> None:
        self._connection.close()
        self._server.end()

    def batch(self, requests: int) -> None:
        """Runs one batch. Raises FuzzFailure."""
        for request in islice(self._requests, requests):
            self._check(request, *self._send(request))
        if self._errors:
            self._fail("\n".join(self._errors[:_SHOWN]))
        self._check_memory()
        self._connection.close()
        self._server.kill()
        self._server.start()
        self._connection = self._connect()
        self.outcome.batches += 1
        self._run_canary()
        self._delete_all()
        self._check_memory()
        if "Traceback" in self._server.errors():
            self._fail("a traceback was logged")

    # Requests.

    def _connect(self) -> http.client.HTTPConnection:
        host, _, port = self._server.url.removeprefix("http://").partition(":")
        return http.client.HTTPConnection(host, int(port), timeout=RESPONSE_SECONDS)

    def _send(self, request: FuzzRequest) -> tuple[int, bytes]:
        self._last = [*self._last[1 - _SHOWN :], str(request)]
        try:
            self._connection.request(
                request.method, request.path, request.body or None, dict(request.headers)
            )
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._fail(f"no response: {type(error).__name__}: {error}; {self._server.state(_ENDING_SECONDS)}")
        return response.status, body

    def _check(self, request: FuzzRequest, status: int, body: bytes) -> None:
        self.outcome.statuses[status] += 1
        # 504 is kube-apiserver's response to a resourceVersion that does not exist yet.
        if status >= 500 and not (status == 504 and "resourceVersion" in request.path):
            self._errors.append(f"status {status}: {body[:500]!r} for {str(request)[:2000]}")

    def _call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """The response to a request of the campaign itself, as JSON."""
        text = b"" if body is None else orjson.dumps(body)
        status, response = self._send(FuzzRequest(method, path, {"Content-Type": content_type}, text))
        if status >= 500:
            self._fail(f"status {status}: {response[:2000]!r}")
        return orjson.loads(response)

    # Checks.

    def _run_canary(self) -> None:
        name = f"canary{self.outcome.batches}"
        created = self._call("POST", _CANARIES, canary(name, self._env))
        if created.get("kind") != "Framework":
            self._fail(f"a valid Framework was rejected: {created}")

        def succeeded() -> bool | None:
            status = self._call("GET", f"{_CANARIES}/{name}").get("status", {})
            conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
            if conditions.get("Failed") == "True":
                self._fail(f"a valid Framework failed after a restart: {status}")
            return True if conditions.get("Succeeded") == "True" else None

        self._until(succeeded, f"{name} succeeds")
        self._call("DELETE", f"{_CANARIES}/{name}")

    def _delete_all(self) -> None:
        for resource in DELETED:
            for namespace in (*NAMESPACES, "canary"):
                self._call("DELETE", f"{resource.path(namespace)}?gracePeriodSeconds=0")

        def empty() -> bool | None:
            # Finalizers of requests may block a deletion, nothing else.
            remaining = self._remaining()
            for path, item in remaining:
                if item["metadata"].get("finalizers"):
                    self._call("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE_PATCH)
            return None if remaining else True

        self._until(empty, "every object is deleted")

    def _remaining(self) -> list[tuple[str, Any]]:
        return [
            (resource.path(namespace, item["metadata"]["name"]), item)
            for resource in DELETED
            for namespace in (*NAMESPACES, "canary")
            for item in self._call("GET", resource.path(namespace)).get("items") or ()
        ]

    def _until(self, condition: Any, what: str) -> None:
        try:
            until(condition, what, within=RECOVERY_SECONDS)
        except FuzzFailure:
            raise
        except AssertionError as error:
            remaining = [path for path, _ in self._remaining()][:10]
            self._fail(f"{error}; these objects remain: {remaining}")

    def _check_memory(self) -> None:
        status = Path(f"/proc/{self._server.pid}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        self.outcome.peak_resident_bytes = max(peak, self.outcome.peak_resident_bytes)
        if peak > MAX_RESIDENT_BYTES:
            self._fail(f"the launcher has used {peak // 2**20} MiB")

    def _fail(self, message: str) -> NoReturn:
        last = "\n".join(line[:2000] for line in self._last)
        errors = self._server.errors()[-4000:]
        raise FuzzFailure(
            f"seed {self._seed}, {self.outcome}\n{message}\nlast requests:\n{last}\nlog:\n{errors}"
        )


def campaign(directory: Path, seed: int, batches: int, requests: int, seconds: float) -> CampaignOutcome:
    """Runs *batches* of that many *requests*, at most for so many *seconds*. Raises FuzzFailure."""
    ends = time.monotonic() + seconds
    running = Campaign(directory, seed)
    try:
        for _ in range(batches):
            if time.monotonic() > ends:
                break
            running.batch(requests)
    finally:
        running.close()
    return running.outcome
