"""A container cannot take the launcher's disk by writing to its log."""

import os
from pathlib import Path
from typing import Any

from tests.core.manifests import a_framework, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, until


def a_pod(*command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": list(command)}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def on_a_disk_of(size: str, mount_point: Path) -> tuple[str, ...]:
    """A command under which *mount_point* is a disk of its own."""
    users = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    script = f'mount -t tmpfs -o size={size} none {mount_point} && exec "$@"'
    return ("unshare", *users, "--mount", "sh", "-c", script, "sh")


def test_logs_stop_before_the_disk_is_full_and_the_launcher_goes_on(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "server" / "data"
    data.mkdir(parents=True)
    server = serve(under=on_a_disk_of("64m", data), at=data.parent)
    flood = a_framework(a_role(tasks=2, pod=a_pod("yes", "a line of a flood")), name="flood")
    server.post(FRAMEWORKS, flood)

    def stopped() -> bool | None:
        tail = server.curl(f"{PODS}/flood-worker-0/log?tailLines=5")
        return True if "launcher: the log stops here" in tail else None

    until(stopped, "the log stops")
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod("true")), name="quiet"))

    assert server.completed("quiet")["status"]["message"].startswith("Succeeded")
    assert server.curl("/readyz") == "ok"
    server.curl(f"{FRAMEWORKS}/flood", "-X", "DELETE")
    until(lambda: True if server.framework("flood")["kind"] == "Status" else None, "the flood is deleted")
