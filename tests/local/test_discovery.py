"""Tasks of a real launcher find each other, each on a node of its own, and speak to each other."""

import re
import subprocess
from pathlib import Path

import orjson

from tests.core.manifests import Json, a_framework, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PATIENCE, PODS, Server, ended, until

NODES = ("--node=a,ip=127.0.0.2", "--node=b,ip=127.0.0.3")

#: Listens where it was told that it would, and greets everybody else until all have been greeted.
_GREET = """
. /configdir/hosts.env
exec python3 - <<'END'
import os, socket, time

own = os.environ["LAUNCHER_PORT"]
everybody = os.environ["worker_hosts"].split(",")
me = everybody[int(os.environ["RANK"])]
address, _, port = me.rpartition(":")
assert port == own, (port, own)
listening = socket.create_server((address, int(port)))
for other in everybody:
    host, _, port = other.rpartition(":")
    ends = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            break
        except OSError:
            assert time.monotonic() < ends, other
            time.sleep(0.05)
for _ in everybody:
    listening.accept()[0].close()
print("met", ",".join(everybody))
END
"""


def a_pod(command: str, node: str = "") -> Json:
    where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    container = {"name": "main", "image": "busybox", "command": ["/bin/sh", "-c", command]}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **where}}


def log(server: Server, pod: str, container: str) -> str:
    return server.curl(f"{PODS}/{pod}/log?container={container}")


def test_tasks_take_free_ports_and_meet(serve: Serve) -> None:
    server = serve(*NODES)
    framework = a_framework(
        a_role("worker", 3, pod=a_pod(_GREET)),
        name="meet",
        discovery={"ports": {"worker": "auto"}, "timeoutSeconds": 50},
    )

    server.post(FRAMEWORKS, framework)
    done = server.completed("meet")

    assert ended(done) == "Succeeded", [log(server, f"meet-worker-{n}", "main") for n in range(3)]
    assert len({log(server, f"meet-worker-{index}", "main") for index in range(3)}) == 1


def test_who_waits_in_vain_fails_and_says_for_whom(serve: Serve) -> None:
    server = serve(*NODES)
    here, nowhere = a_pod("true", "a"), a_pod("true", "c")
    framework = a_framework(
        a_role("worker", 1, pod=here), a_role("far", 1, pod=nowhere), discovery={"timeoutSeconds": 1}
    )

    server.post(FRAMEWORKS, framework)
    done = server.completed("mnist")

    completion = done["status"]["attemptStatus"]["completionStatus"]
    assert ended(done) == "Failed"
    assert "far/0" in str(completion)


def test_pods_need_no_more_than_their_own_token(serve: Serve, tmp_path: Path) -> None:
    """Neither the token of the API nor the authority of its certificate is known to them otherwise."""
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    command += ["-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE)
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
        a_role("worker", 1, pod=a_pod("cat /configdir/configfile; env")),
        discovery={"ports": {"worker": 46866}},
    )

    body = ("-H", "Content-Type: application/json", "--data-binary", orjson.dumps(framework).decode())
    server.curl(FRAMEWORKS, *options, *body)

    def over() -> bool | None:
        status = orjson.loads(server.curl(f"{FRAMEWORKS}/mnist", *options)).get("status") or {}
        return status.get("state") == "Completed" or None

    until(over, "it is over")
    said = server.curl(f"{PODS}/mnist-worker-0/log?container=main", *options)
    assert re.match(r"[0-9.]+:46866\n", said)
    assert "a-token-of-the-api" not in said
