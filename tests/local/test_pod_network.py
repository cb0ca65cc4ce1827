"""Pods with networks of their own: ``--pod-network isolated``."""

import asyncio
import os
import shutil
import signal
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from launcher.converters.kubeflow.tfjob import convert
from tests.api.resources.spdy_client import SpdyClient
from tests.builders import Json, a_framework, a_role
from tests.cluster.ports import free_port
from tests.eventually import TIMEOUT_SECONDS, until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended
from tests.local.test_names import ended_with, wait_for_output
from tests.pod_networks import (
    a_normal_user,
    bridge_of,
    left_behind,
    machine_address,
    network_processes,
    remove_network,
    require_isolation,
    require_outside,
    require_rootless_isolation,
)

pytestmark = pytest.mark.node

#: Binds the port that every replica of a TFJob binds, and calls the same port of all replicas by their names.
REPLICA = """
import json, os, socket, threading, time

server = socket.create_server(("0.0.0.0", 2222))

def serve():
    while True:
        connection, _ = server.accept()
        connection.sendall(socket.gethostname().encode())
        connection.close()

def call(host, port):
    while True:
        try:
            with socket.create_connection((host, port), timeout=5) as connection:
                return connection.recv(100).decode()
        except OSError:
            time.sleep(0.1)

threading.Thread(target=serve, daemon=True).start()
for role, tasks in json.loads(os.environ["TF_CONFIG"])["cluster"].items():
    for task in tasks:
        host, port = task.split(":")
        address = socket.gethostbyname(host)
        print(task, "is", call(host, int(port)), "and", call(address, int(port)), flush=True)
time.sleep(3600 if "ps-" in socket.gethostname() else 2)
"""


@pytest.fixture
def isolated_by_root(serve: Serve) -> Iterator[Server]:
    require_isolation()
    server = serve("--pod-network", "isolated")
    yield server
    server.end()
    remove_network(server.data)


@pytest.fixture
def isolated_by_user(serve: Serve) -> Iterator[Server]:
    require_rootless_isolation()
    with a_normal_user() as user:
        server = serve("--pod-network", "isolated", under=user)
        yield server
        server.end()
        until(lambda: network_processes(server.data) == [], "the holder has ended")


@pytest.fixture(params=["isolated_by_root", "isolated_by_user"])
def isolated(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


def a_pod(server: Server, script: str, **spec: Any) -> Json:
    container = {
        "name": "main",
        "image": "none",
        "command": ["sh", "-c", script],
        "env": [ended_with(server)],
    }
    container |= spec.pop("container", {})
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def a_tfjob(server: Server, name: str) -> Json:
    def replicas(count: int) -> Json:
        container = {"name": "tensorflow", "image": "none", "command": ["python3", "-c", REPLICA]}
        return {
            "replicas": count,
            "template": {"spec": {"containers": [container | {"env": [ended_with(server)]}]}},
        }

    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"PS": replicas(1), "Worker": replicas(2)}},
    }


def address_of(server: Server, pod: str) -> str:
    found: str = server.get(f"{PODS}/{pod}")["status"]["podIP"]
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it ends with another one
            os.kill(pid, signal.SIGKILL)


def container_status(server: Server, pod: str) -> Json:
    """The status of the pod's only container; empty before there is one."""
    found = server.get(f"{PODS}/{pod}")
    statuses = found["status"].get("containerStatuses") if found["kind"] == "Pod" else None
    return statuses[0] if statuses else {}


def delete(server: Server, name: str) -> None:
    server.delete(f"{FRAMEWORKS}/{name}")
    until(lambda: server.get(PODS)["items"] == [] or None, "the pods are deleted")


def test_replicas_of_two_jobs_bind_the_same_port_and_call_each_other(isolated: Server) -> None:
    names = ("one", "two")

    for name in names:
        isolated.post(FRAMEWORKS, convert(a_tfjob(isolated, name)).framework)

    for name in names:
        assert ended(isolated.completed(name)) == "Succeeded"
        for task in ("ps-0", "worker-0", "worker-1"):
            pod = f"{name}-{task}"
            assert f"{pod}.default.svc:2222 is {pod} and {pod}\n" in isolated.log(f"{name}-worker-0")


def test_a_pod_keeps_its_address_when_its_container_and_the_launcher_restart(isolated: Server) -> None:
    script = "hostname; hostname -i; echo $POD_IP $HOST_IP; test -e /run/again && sleep 3600; touch /run/again; exit 1"
    env = [
        ended_with(isolated),
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]
    volume = {
        "container": {"env": env, "volumeMounts": [{"name": "run", "mountPath": "/run"}]},
        "volumes": [{"name": "run", "emptyDir": {}}],
        "restartPolicy": "OnFailure",
    }
    isolated.post(FRAMEWORKS, a_framework(a_role("worker", pod=a_pod(isolated, script, **volume))))
    pod = "mnist-worker-0"
    until(lambda: container_status(isolated, pod).get("restartCount") or None, "the container is restarted")
    before = address_of(isolated, pod)

    isolated.kill()
    isolated.start()

    status = isolated.get(f"{PODS}/{pod}")["status"]
    expected = f"{pod}\n{before}\n{before} {status['hostIP']}\n"
    assert address_of(isolated, pod) == before != status["hostIP"]
    wait_for_output(isolated, pod, [expected])
    assert isolated.curl(f"{PODS}/{pod}/log?previous=true") == expected


def test_probes_and_hooks_reach_the_pod(isolated: Server) -> None:
    container = {
        "command": ["python3", "-m", "http.server", "8080"],
        "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60},
        "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
        "livenessProbe": {"exec": {"command": ["python3", "-c", _CALLS_ITSELF]}, "timeoutSeconds": 30},
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "hostname -i"]}}},
    }
    pod = a_pod(isolated, "", container=container)

    isolated.post(FRAMEWORKS, a_framework(a_role("worker", 2, pod=pod)))

    pods = ("mnist-worker-0", "mnist-worker-1")
    until(lambda: all(container_status(isolated, pod).get("ready") for pod in pods), "the pods are ready")


_CALLS_ITSELF = "import socket; socket.create_connection(('127.0.0.1', 8080)).close()"


def test_pods_find_their_peers_through_the_gateway_which_serves_nothing_else(isolated: Server) -> None:
    script = (
        "cat /peers/hosts.env; "
        'api=${LAUNCHER_RENDEZVOUS%/rendezvous/*}; curl -s -o /dev/null -w "api %{http_code}\\n" $api/api/v1/pods'
    )
    role = a_role("worker", 2, pod=a_pod(isolated, script))

    isolated.post(FRAMEWORKS, a_framework(role, discovery={"mountPath": "/peers"}))

    assert ended(isolated.completed("mnist")) == "Succeeded"
    log = isolated.log("mnist-worker-0")
    for index in (0, 1):
        assert address_of(isolated, f"mnist-worker-{index}") in log
    assert "api 404\n" in log


def test_a_host_port_is_forwarded_also_by_the_next_launcher(isolated: Server) -> None:
    port = free_port()
    container = {
        "command": ["python3", "-m", "http.server", "80", "--directory", "/etc"],
        "ports": [{"containerPort": 80, "hostPort": port.number, "hostIP": "127.0.0.1"}],
    }
    port.release()

    isolated.post(FRAMEWORKS, a_framework(a_role("worker", pod=a_pod(isolated, "", container=container))))

    _serves(isolated, port.number)
    isolated.kill()
    isolated.start()
    _serves(isolated, port.number)
    delete(isolated, "mnist")
    assert _get(isolated, port.number) is None


def _serves(server: Server, port: int) -> None:
    until(lambda: "hostname" in (_get(server, port) or "") or None, "the host port is served")


def _get(server: Server, port: int) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as response:
            text: str = response.read().decode()
            return text
    except OSError:
        return None


def test_a_pod_on_the_host_network_has_the_address_of_its_node(isolated: Server) -> None:
    pod = a_pod(isolated, "readlink /proc/self/ns/net", hostNetwork=True)

    # Its init container calls the launcher.
    isolated.post(FRAMEWORKS, a_framework(a_role("worker", pod=pod), discovery={"mountPath": "/peers"}))

    isolated.completed("mnist")
    status = isolated.get(f"{PODS}/mnist-worker-0")["status"]
    assert status["podIP"] == status["hostIP"]
    assert isolated.log("mnist-worker-0") == os.readlink("/proc/self/ns/net") + "\n"


@pytest.mark.parametrize("kills_shim", [False, True], ids=["the launcher", "the launcher and the shim"])
def test_nothing_is_left_behind_when_pods_are_deleted_after_a_kill(
    isolated_by_root: Server, kills_shim: bool
) -> None:
    isolated_by_root.post(
        FRAMEWORKS, a_framework(a_role("worker", 2, pod=a_pod(isolated_by_root, "exec sleep 3600")))
    )
    for index in (0, 1):
        isolated_by_root.runs(f"mnist-worker-{index}")
    isolated_by_root.kill()
    if kills_shim:
        kill(*isolated_by_root.shims())
    assert left_behind(isolated_by_root.data)

    isolated_by_root.start()
    delete(isolated_by_root, "mnist")
    isolated_by_root.stop()

    assert left_behind(isolated_by_root.data) == []


def start_and_stop(serve: Serve) -> None:
    server = serve("--pod-network", "isolated")
    server.ready()
    server.stop()


def test_the_network_of_a_launcher_that_never_returns_is_removed_by_another_one(
    isolated_by_root: Server, serve: Serve
) -> None:
    isolated_by_root.post(
        FRAMEWORKS, a_framework(a_role("worker", pod=a_pod(isolated_by_root, "exec sleep 3600")))
    )
    isolated_by_root.runs("mnist-worker-0")
    isolated_by_root.kill()

    start_and_stop(serve)
    with_pods = left_behind(isolated_by_root.data)
    kill(*isolated_by_root.shims(), *isolated_by_root.inside())
    until(lambda: not bridge_of(isolated_by_root.data).is_in_use(), "the containers have ended")
    start_and_stop(serve)

    assert with_pods
    assert left_behind(isolated_by_root.data) == []


def test_isolated_pods_stay_so_when_the_next_launcher_shares_the_network(
    isolated_by_root: Server, serve: Serve
) -> None:
    pod = a_pod(
        isolated_by_root, "cat /proc/net/dev; test -e /run/again && sleep 3600; touch /run/again; exit 1"
    )
    pod["spec"]["restartPolicy"] = "OnFailure"
    pod["spec"]["volumes"] = [{"name": "run", "emptyDir": {}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "run", "mountPath": "/run"}]
    isolated_by_root.post(FRAMEWORKS, a_framework(a_role("worker", pod=pod)))
    until(lambda: container_status(isolated_by_root, "mnist-worker-0") or None, "the pod has started")
    before = address_of(isolated_by_root, "mnist-worker-0")
    isolated_by_root.stop()

    shared = serve("--pod-network", "shared", at=isolated_by_root.data.parent)

    until(lambda: "eth0" in shared.log("mnist-worker-0") or None, "the container is started again")
    assert address_of(shared, "mnist-worker-0") == before
    shared.post(FRAMEWORKS, a_framework(a_role("worker", pod=a_pod(shared, "true")), name="new"))
    shared.completed("new")
    status = shared.get(f"{PODS}/new-worker-0")["status"]
    assert status["podIP"] == status["hostIP"]


def test_auto_isolates_pods_or_an_event_has_the_reason(serve: Serve) -> None:
    require_isolation()
    server = serve("--pod-network", "auto")
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod(server, "true"))))

    assert ended(server.completed("mnist")) == "Succeeded"
    server.stop()

    # A firewall of this machine, such as Docker's, may drop the packets of pods.
    server.start()
    status = server.get(f"{PODS}/mnist-worker-0")["status"]
    is_isolated = status["podIP"] != status["hostIP"]
    assert is_isolated is ("pods share the network" not in server.errors())
    assert is_isolated is ("NotSupported" not in str(server.get("/api/v1/events")))
    server.end()
    remove_network(server.data)


#: Serves its name at port 2222, and prints that of the pod whose address is in the file /peers/address.
GREETER = """
import socket, threading, time
from pathlib import Path

server = socket.create_server(("0.0.0.0", 2222))

def serve():
    while True:
        connection, _ = server.accept()
        connection.sendall(socket.gethostname().encode())
        connection.close()

threading.Thread(target=serve, daemon=True).start()
while True:
    try:
        peer = Path("/peers/address").read_text(), 2222
        with socket.create_connection(peer, timeout=5) as connection:
            print("reached", connection.recv(100).decode(), flush=True)
        time.sleep(3600)
    except OSError:
        time.sleep(0.1)
"""


def a_greeter(server: Server, peers: Path) -> Json:
    return a_pod(
        server,
        "",
        container={
            "command": ["python3", "-c", GREETER],
            "volumeMounts": [{"name": "peers", "mountPath": "/peers"}],
        },
        volumes=[{"name": "peers", "hostPath": {"path": str(peers)}}],
    )


def test_the_network_of_a_user_survives_the_end_of_its_holder(
    isolated_by_user: Server, tmp_path: Path
) -> None:
    server = isolated_by_user
    (tmp_path / "peers").mkdir()
    server.post(
        FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_greeter(server, tmp_path / "peers")), name="old")
    )
    server.runs("old-worker-0")

    kill(*(pid for pid in network_processes(server.data) if pid not in workers(server.data)))
    server.post(
        FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_greeter(server, tmp_path / "peers")), name="new")
    )
    server.runs("new-worker-0")
    (tmp_path / "address").write_text(address_of(server, "new-worker-0"))
    (tmp_path / "address").rename(tmp_path / "peers" / "address")

    wait_for_output(server, "old-worker-0", ["reached new-worker-0"])


def workers(data: Path) -> list[int]:
    """The processes in the network of a user that end with the launcher."""
    return [pid for pid in network_processes(data) if "rootless.worker" in command_of(pid)]


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def test_nothing_of_a_network_of_a_user_is_left_behind_after_kills(isolated_by_user: Server) -> None:
    server = isolated_by_user
    server.post(FRAMEWORKS, a_framework(a_role("worker", 2, pod=a_pod(server, "exec sleep 3600"))))
    for index in (0, 1):
        server.runs(f"mnist-worker-{index}")
    before = network_processes(server.data)

    server.kill()
    kill(*network_processes(server.data))

    assert before
    until(lambda: network_processes(server.data) == [], "the programs have ended")
    server.start()
    delete(server, "mnist")
    server.stop()
    assert network_processes(server.data) == []
    assert mounts_below(server.data / "network") == []
    assert not (server.data / "network" / "holder").exists()


def mounts_below(directory: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(directory) in line]


def test_an_event_reports_what_is_missing_for_the_outside(serve: Serve) -> None:
    require_rootless_isolation()
    with a_normal_user() as user:
        server = serve("--pod-network", "isolated", under=(*user, "sh", "-c", 'PATH=/nowhere exec "$0" "$@"'))
        pod = a_pod(server, "", container={"command": ["/bin/sleep", "0"]})

        server.post(FRAMEWORKS, a_framework(a_role(pod=pod)))

        assert ended(server.completed("mnist")) == "Succeeded"
        until(lambda: "slirp4netns" in str(server.get("/api/v1/events")), "the event is recorded")
        server.end()


@pytest.mark.parametrize(("program", "mode"), [("pasta", "isolated"), ("slirp4netns", "auto")])
def test_pods_of_a_user_reach_the_outside(serve: Serve, tmp_path: Path, program: str, mode: str) -> None:
    require_rootless_isolation()
    require_outside(program)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program).symlink_to(str(shutil.which(program)))
    path = f'PATH={tmp_path / "bin"} exec "$0" "$@"'
    with a_normal_user() as user, a_listener() as url:
        server = serve("--pod-network", mode, under=(*user, "/bin/sh", "-c", path))
        pod = a_pod(server, "", container={"command": ["/usr/bin/curl", "--max-time", "30", "-s", url]})

        server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod)))

        assert ended(server.completed("mnist")) == "Succeeded"
        assert server.log("mnist-worker-0") == "from the outside"
        status = server.get(f"{PODS}/mnist-worker-0")["status"]
        assert status["podIP"] != status["hostIP"]
        assert "NotSupported" not in str(server.get("/api/v1/events"))
        programs = network_processes(server.data)
        assert any(program in command_of(pid) for pid in programs)
        server.kill()
        kill(*programs[:1])
        until(lambda: network_processes(server.data) == [], "the programs have ended")


@contextmanager
def a_listener() -> Iterator[str]:
    """The URL of an HTTP server of this machine, not at its loopback address."""

    class OutsideHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"from the outside")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((machine_address(), 0), OutsideHandler) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield f"http://{listener.server_address[0]!s}:{listener.server_port}/"
        finally:
            listener.shutdown()
            thread.join()


#: Listens on the loopback address of its own network, which the machine cannot reach.
LOOPBACK_PROGRAM = """
import socket
server = socket.create_server(("127.0.0.1", 2222))
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(socket.gethostname().encode())
    connection.close()
"""


def test_ports_are_forwarded_into_the_network_of_each_pod(isolated: Server) -> None:
    pod = a_pod(isolated, "", container={"command": ["python3", "-c", LOOPBACK_PROGRAM]})
    isolated.post(FRAMEWORKS, a_framework(a_role(tasks=2, pod=pod)))
    names = [f"mnist-worker-{index}" for index in (0, 1)]
    for name in names:
        wait_for_output(isolated, name, ["ready"])

    assert [asyncio.run(forwarded(isolated, name, 2222)) for name in names] == [
        (name.encode(), b"") for name in names
    ]
    # The launcher itself listens on the loopback address of the machine.
    own_port = int(isolated.url.rpartition(":")[2])
    assert b"connection refused" in asyncio.run(forwarded(isolated, names[0], own_port))[1]


async def forwarded(server: Server, pod: str, port: int) -> tuple[bytes, bytes]:
    """What the program at a port of the pod sends, and the error if there is none."""
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{server.url}{PODS}/{pod}/portforward", protocols=["SPDY/3.1+portforward.k8s.io"]
        ) as socket,
    ):
        client = SpdyClient(socket)
        error, data = await client.connect(port)
        await client.send(data, b"", is_last=True)
        await client.until_ended(error, data)
        return client.data[data], client.data[error]
