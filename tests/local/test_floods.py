"""A container that writes as fast as it can harms neither the launcher nor the disk."""

import time
from contextlib import suppress
from pathlib import Path

from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS

MIB = 1024 * 1024


def log_bytes(data: Path) -> int:
    found = 0
    for path in (data / "logs").rglob("*.log*"):
        with suppress(FileNotFoundError):  # rotation renames and removes files meanwhile
            found += path.stat().st_size
    return found


def test_frameworks_run_and_requests_are_answered_while_containers_flood_their_logs(serve: Serve) -> None:
    server = serve("--log-budget=8Mi", "--log-budget-framework=4Mi")
    flood = a_framework(
        a_role(tasks=2, pod=a_pod_template(a_container("yes", "a line of a flood"))), name="flood"
    )
    server.post(FRAMEWORKS, flood)
    until(lambda: log_bytes(server.data) > 2 * MIB or None, "the flood has begun")

    slowest = 0.0
    for number in range(3):
        server.post(
            FRAMEWORKS,
            a_framework(a_role(tasks=1, pod=a_pod_template(a_container("true"))), name=f"quiet{number}"),
        )
        done = server.completed(f"quiet{number}")
        assert done["status"]["message"].startswith("All ")
        began = time.monotonic()
        assert server.framework("flood")["status"]["state"] == "AttemptRunning"
        slowest = max(slowest, time.monotonic() - began)
        # A rotation creates the next file before it removes the oldest.
        assert log_bytes(server.data) <= 6 * MIB

    assert slowest < 5.0
    metrics = server.curl("/metrics")
    assert "\nlauncher_log_bytes " in metrics
    assert "\nlauncher_log_removed_bytes " in metrics
    server.curl(f"{FRAMEWORKS}/flood", "-X", "DELETE")
    until(lambda: True if server.framework("flood")["kind"] == "Status" else None, "the flood is deleted")
