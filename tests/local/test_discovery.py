"""Tasks of a launcher process, each on its own node, find and connect to each other."""

import re
from pathlib import Path

import orjson

from tests.builders import Json, a_container, a_framework, a_pod_template, a_role
from tests.cluster.pki import self_signed
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended

NODES = ("--node=a,ip=127.0.0.2", "--node=b,ip=127.0.0.3")

#: Listens on its own address and connects to all peers until it has connected to all.
_CONNECT = """
. /configdir/hosts.env
exec python3 - <<'END'
import os, socket, time

reserved = os.environ["LAUNCHER_PORT"]
peers = os.environ["worker_hosts"].split(",")
address, _, port = peers[int(os.environ["RANK"])].rpartition(":")
assert port == reserved, (port, reserved)
listening = socket.create_server((address, int(port)))
for other in peers:
    host, _, port = other.rpartition(":")
    ends = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            break
        except OSError:
            assert time.monotonic() < ends, other
            time.sleep(0.05)
for _ in peers:
    listening.accept()[0].close()
print("connected", ",".join(peers))
END
"""


def a_shell_pod(command: str, node: str = "") -> Json:
    """A pod template that runs a shell script, optionally on *node*."""
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return a_pod_template(a_container("/bin/sh", "-c", command), **selector)


def log(server: Server, pod: str, container: str) -> str:
    return server.curl(f"{PODS}/{pod}/log?container={container}")


def test_tasks_use_free_ports_and_connect_to_each_other(serve: Serve) -> None:
    server = serve(*NODES)
    framework = a_framework(
        a_role("worker", 3, pod=a_shell_pod(_CONNECT)),
        name="meet",
        discovery={"ports": {"worker": "auto"}, "timeoutSeconds": 50},
    )

    server.post(FRAMEWORKS, framework)
    done = server.completed("meet")

    assert ended(done) == "Succeeded", [log(server, f"meet-worker-{n}", "main") for n in range(3)]
    assert len({log(server, f"meet-worker-{index}", "main") for index in range(3)}) == 1


def test_a_task_whose_peers_never_start_fails_and_names_them(serve: Serve) -> None:
    server = serve(*NODES)
    schedulable, unschedulable = a_shell_pod("true", "a"), a_shell_pod("true", "c")
    framework = a_framework(
        a_role("worker", 1, pod=schedulable),
        a_role("far", 1, pod=unschedulable),
        discovery={"timeoutSeconds": 1},
    )

    server.post(FRAMEWORKS, framework)
    done = server.completed("mnist")

    completion = done["status"]["attemptStatus"]["completionStatus"]
    assert ended(done) == "Failed"
    assert "waiting for addresses of far-0" in str(completion)


def test_pods_need_only_their_own_token(serve: Serve, tmp_path: Path) -> None:
    """They have neither the token of the API nor the CA of its certificate."""
    self_signed(tmp_path, "IP:127.0.0.1")
    (tmp_path / "token").write_text("a-token-of-the-api-for-this-test")
    (tmp_path / "token").chmod(0o600)
    files = {"token-file": "token", "tls-cert": "tls.crt", "tls-key": "tls.key"}
    server = serve(*(f"--{flag}={tmp_path / file}" for flag, file in files.items()))
    options = (
        "--cacert",
        str(tmp_path / "tls.crt"),
        "-H",
        "Authorization: Bearer a-token-of-the-api-for-this-test",
    )
    framework = a_framework(
        a_role("worker", 1, pod=a_shell_pod("cat /configdir/configfile; env")),
        discovery={"ports": {"worker": 46866}},
    )

    body = ("-H", "Content-Type: application/json", "--data-binary", orjson.dumps(framework).decode())
    server.curl(FRAMEWORKS, *options, *body)

    def is_completed() -> bool | None:
        status = orjson.loads(server.curl(f"{FRAMEWORKS}/mnist", *options)).get("status") or {}
        return status.get("state") == "Completed" or None

    until(is_completed, "the Framework is completed")
    output = server.curl(f"{PODS}/mnist-worker-0/log?container=main", *options)
    assert re.match(r"[0-9.]+:46866\n", output)
    assert "a-token-of-the-api" not in output
