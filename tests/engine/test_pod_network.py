"""``--runtime docker --pod-network isolated``: pods with networks of their own, by Docker and Podman."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.cluster.ports import free_port
from tests.engine.archives import BUSYBOX
from tests.engine.conftest import ServeWith
from tests.engine.engines import EngineProcess
from tests.engine.fixtures import ENGINES, Engines
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server, ended
from tests.local.test_names import wait_for_output
from tests.local.test_pod_network import _get, address_of, container_status, delete, forwarded
from tests.pod_networks import left_behind, remove_network, require_isolation

pytestmark = pytest.mark.engine

#: Serves the host name at the port that all pods use.
SERVE = "hostname >/srv/index.html; exec httpd -f -p 2222 -h /srv"
PROBE = {"httpGet": {"port": 2222}, "periodSeconds": 1}
POD = "mnist-worker-0"


@pytest.fixture(params=ENGINES)
def isolated(
    request: pytest.FixtureRequest, serve_with: ServeWith, engines: Engines
) -> Iterator[tuple[Server, EngineProcess]]:
    """A launcher with isolated pods, and its engine."""
    require_isolation()
    engine = engines.get(request.param)
    server = serve_with(engine, "--pod-network", "isolated")
    yield server, engine
    server.end()
    engine.remove_containers()
    remove_network(server.data)


def a_container(script: str, name: str = "main", **more: Any) -> Json:
    mounts = [{"name": "srv", "mountPath": "/srv"}]
    return {
        "name": name,
        "image": BUSYBOX,
        "command": ["sh", "-c", script],
        "volumeMounts": mounts,
        **more,
    }


def post(server: Server, *containers: Json, tasks: int = 1, **spec: Any) -> None:
    volumes = [{"name": "srv", "emptyDir": {}}]
    pod = a_pod_template(*containers, volumes=volumes, terminationGracePeriodSeconds=1, **spec)
    server.post(FRAMEWORKS, a_framework(a_role(tasks=tasks, pod=pod), discovery={"mountPath": "/peers"}))


def test_the_containers_of_a_pod_share_a_network_that_other_pods_reach(
    isolated: tuple[Server, EngineProcess],
) -> None:
    server, _ = isolated
    names = [f"mnist-worker-{index}" for index in (0, 1)]
    hosts = " ".join(("127.0.0.1", *(f"{name}.mnist.default.svc" for name in names)))
    script = (
        f"for host in {hosts}; do until wget -qO- http://$host:2222/ 2>/dev/null; do sleep 0.2; done; done; "
        "hostname -i; echo $POD_IP; cat /etc/hostname; until test -e /srv/seen; do sleep 0.1; done"
    )
    env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    sidecar = a_container(SERVE, "server", restartPolicy="Always")

    post(server, a_container(script, env=env), tasks=2, initContainers=[sidecar])

    for name in names:
        server.runs(name)
    addresses = [address_of(server, name) for name in names]
    assert len({*addresses, server.get(f"{PODS}/{POD}")["status"]["hostIP"]}) == 3
    for name, address in zip(names, addresses, strict=True):
        wait_for_output(server, name, ["\n".join((name, *names, address, address, name))])


def test_an_isolated_pod_is_found_again_and_leaves_nothing_behind(
    isolated: tuple[Server, EngineProcess],
) -> None:
    server, engine = isolated
    port = free_port()
    ports = [{"containerPort": 2222, "hostPort": port.number, "hostIP": "127.0.0.1"}]
    port.release()
    post(server, a_container(SERVE, ports=ports, readinessProbe=PROBE), restartPolicy="OnFailure")
    until(lambda: container_status(server, POD).get("ready") or None, "the pod is ready")
    before = address_of(server, POD)

    server.kill()
    server.start()
    until(lambda: _get(server, port.number), "the host port is served")
    kill_container(server, engine)
    until(lambda: container_status(server, POD).get("restartCount") or None, "the container is restarted")
    until(lambda: container_status(server, POD).get("ready") or None, "the pod is ready")

    assert address_of(server, POD) == before
    assert _get(server, port.number) == f"{POD}\n"
    assert asyncio.run(forwarded(server, POD, 2222))[1] == b""
    delete(server, "mnist")
    until(lambda: not engine.containers() or None, "no container is left")
    server.stop()
    assert left_behind(server.data) == []


def kill_container(server: Server, engine: EngineProcess) -> None:
    """Kills the container of the pod in the engine."""
    uid = server.get(f"{PODS}/{POD}")["metadata"]["uid"]
    assert engine.request("POST", f"/containers/launcher-{uid}.main.0/kill")[0] == 204


def test_a_pod_gets_another_sandbox_when_docker_has_lost_it(serve_with: ServeWith, engines: Engines) -> None:
    require_isolation()
    engine = engines.get("docker")
    server = serve_with(engine, "--pod-network", "isolated")
    post(server, a_container(SERVE, readinessProbe=PROBE), restartPolicy="OnFailure")
    until(lambda: container_status(server, POD).get("ready") or None, "the pod is ready")
    uid = server.get(f"{PODS}/{POD}")["metadata"]["uid"]

    assert engine.request("DELETE", f"/containers/launcher-{uid}?force=true")[0] == 204
    kill_container(server, engine)

    until(lambda: container_status(server, POD).get("restartCount") or None, "the container is restarted")
    until(lambda: container_status(server, POD).get("ready") or None, "the pod is ready")
    delete(server, "mnist")
    until(lambda: not engine.containers() or None, "no container is left")
    server.stop()
    assert left_behind(server.data) == []


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_that_does_not_run_as_root_uses_the_network_of_the_machine(
    serve_with: ServeWith, engines: Engines, kind: str
) -> None:
    engine = engines.new(kind)
    os.chown(engine.socket, 65534, -1)
    server = serve_with(engine, "--pod-network", "isolated")

    post(server, a_container("cat /proc/net/route"), tasks=2)

    assert ended(server.completed("mnist")) == "Succeeded"
    status = server.get(f"{PODS}/{POD}")["status"]
    assert status["podIP"] == status["hostIP"]
    events = [
        event
        for event in server.get("/api/v1/namespaces/default/events")["items"]
        if event["reason"] == "NotSupported" and "does not run as root" in event["message"]
    ]
    # One for the Framework, on the pod that is started first.
    assert len(events) == 1
