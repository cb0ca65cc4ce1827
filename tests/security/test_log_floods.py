"""A container cannot fill the launcher's disk by writing to its log."""

import os
from pathlib import Path

from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, ended


def on_a_disk_of(size: str, mount_point: Path) -> tuple[str, ...]:
    """A command prefix that mounts a filesystem of *size* at *mount_point*."""
    users = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    script = f'mount -t tmpfs -o size={size} none {mount_point} && exec "$@"'
    return ("unshare", *users, "--mount", "sh", "-c", script, "sh")


def test_logs_stop_before_the_disk_is_full_and_the_launcher_continues(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "server" / "data"
    data.mkdir(parents=True)
    server = serve(under=on_a_disk_of("64m", data), at=data.parent)
    flood = a_framework(
        a_role(tasks=2, pod=a_pod_template(a_container("yes", "a line of a flood"))), name="flood"
    )
    server.post(FRAMEWORKS, flood)

    def stopped() -> bool | None:
        tail = server.curl(f"{PODS}/flood-worker-0/log?tailLines=5")
        return True if "launcher: the log stops here" in tail else None

    until(stopped, "the log stops")
    server.post(
        FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod_template(a_container("true"))), name="quiet")
    )

    assert ended(server.completed("quiet")) == "Succeeded"
    assert server.curl("/readyz") == "ok"
    server.curl(f"{FRAMEWORKS}/flood", "-X", "DELETE")
    until(lambda: True if server.framework("flood")["kind"] == "Status" else None, "the flood is deleted")
