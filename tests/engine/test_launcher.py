"""``launcher serve --runtime docker``: Frameworks in their images, while the engine is killed or hangs."""

import json
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_framework, a_pod_template, a_role
from tests.cli.terminals import PROJECT, launcher
from tests.engine.archives import BUSYBOX, archive, busybox
from tests.engine.conftest import ServeWith
from tests.engine.fixtures import ENGINES, Engines
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server, ended, loopback
from tests.local.test_examples import submit
from tests.local.test_seeds import manual, post
from tests.realnodes.test_manual import manuals_image, write

pytestmark = pytest.mark.engine

TASKS = 3
#: The last line of worker 0 in the samples of the manual, by Framework.
SAMPLE_OUTPUTS = {
    "tfexample": "worker 0 has done its part",
    "nfsexample": "Hello, NFS",
    "hostpathexample": "Hello, HostPath",
}


def framework(name: str, command: str, tasks: int, directory: Path) -> dict[str, Any]:
    """Tasks that run *command* with the directory at /work."""
    pod = a_pod_template(
        containers=[
            {
                "name": "main",
                "image": BUSYBOX,
                "command": ["sh", "-c", command],
                "volumeMounts": [{"name": "work", "mountPath": "/work"}],
            }
        ],
        volumes=[{"name": "work", "hostPath": {"path": str(directory)}}],
    )
    return a_framework(a_role(tasks=tasks, pod=pod), name=name)


def started_tasks(work: Path) -> list[str]:
    """The index of every task that has started, as often as it has."""
    file = work / "started"
    return file.read_text().split() if file.exists() else []


def event_reasons(server: Server) -> set[str]:
    return {event["reason"] for event in server.get("/api/v1/namespaces/default/events")["items"]}


@pytest.mark.parametrize("kind", ENGINES)
def test_examples_run_in_their_images(
    serve_with: ServeWith, engines: Engines, tmp_path: Path, kind: str
) -> None:
    engine = engines.get(kind)
    engine.load(archive(busybox("docker.io/library/busybox:1.36")))
    server = serve_with(
        engine, f"--nfs=nfs.example.org:/exports/notes={tmp_path}", "--node=node-a", "--node=b"
    )

    names = [submit(server, example) for example in ("hello", "nfs", "hostpath")]

    assert {name: ended(server.completed(name)) for name in names} == dict.fromkeys(names, "Succeeded")
    assert server.log("hello-greeter-1") == "hello from greeter 1 of hello\n"
    assert len((tmp_path / "notes.txt").read_text().splitlines()) == 3
    status = server.get(f"{PODS}/hello-greeter-1")["status"]["containerStatuses"][0]
    assert re.fullmatch(f"{kind}://[0-9a-f]{{64}}", status["containerID"])
    assert re.search("sha256:[0-9a-f]{64}$", status["imageID"])
    version = server.get("/api/v1/nodes/b")["status"]["nodeInfo"]["containerRuntimeVersion"]
    assert re.fullmatch(rf"{kind}://\d+\.\d+\.\d+.*", version)


@pytest.mark.parametrize("kind", ENGINES)
def test_the_samples_of_the_manual_run_in_their_images(
    serve_with: ServeWith, engines: Engines, tmp_path: Path, kind: str
) -> None:
    samples = manual()
    engine, share, host = engines.get(kind), tmp_path / "share", tmp_path / "host"
    engine.load(archive(manuals_image()))
    write(share / "nfstest.txt", "Hello, NFS\n")
    write(share / "cifar-10-batches-py" / "data_batch_1", "a little data\n")
    write(host / "hostpathdir" / "hostpathtest.txt", "Hello, HostPath\n")
    ips = [loopback(last) for last in (41, 42, 43)]
    nodes = [f"--node=10.151.40.2{ip[-2:]},ip={ip}" for ip in ips]
    server = serve_with(engine, *nodes, f"--nfs=10.169.4.12:/home/t-zifang/nfs={share}")

    addresses = {f"{address}:4686{role}" for address in ips for role in (6, 7)}
    for number, sample in enumerate(samples):
        # Two samples misspell a field.
        text = sample.replace(" olumeMounts", " volumeMounts").replace("path: /data", f"path: {host}")
        created, warnings = post(server, tmp_path, text)
        name = created["metadata"]["name"]
        assert (warnings, ended(server.completed(name))) == ([], "Succeeded"), number
        log = server.log(f"{name}-worker-0")
        if number == 1:
            assert set(log.split()) <= addresses
        else:
            assert log.splitlines()[-1] == SAMPLE_OUTPUTS[name], number
        server.curl(f"{FRAMEWORKS}/{name}", "-X", "DELETE")
        until(lambda: not server.get(PODS)["items"] or None, "its pods are deleted")
    until(lambda: not engine.containers() or None, "no container is left")


@pytest.mark.parametrize("kind", ENGINES)
def test_no_task_fails_when_the_engine_is_killed(
    serve_with: ServeWith, engines: Engines, tmp_path: Path, kind: str
) -> None:
    engine, work = engines.new(kind), tmp_path / "work"
    work.mkdir()
    server = serve_with(engine)
    command = "echo $taskindex >> /work/started; until test -e /work/end; do sleep 0.1; done; echo done"
    server.post(FRAMEWORKS, framework("outage", command, TASKS, work))
    for index in range(TASKS):
        server.runs(f"outage-worker-{index}")
    engine.kill()
    server.post(FRAMEWORKS, framework("later", "true", 1, work))
    (work / "end").touch()
    time.sleep(1.0)
    engine.start()
    completed = server.completed("outage")

    assert ended(completed) == "Succeeded"
    assert completed["status"]["retryPolicyStatus"]["totalRetriedCount"] == 0
    assert Counter(started_tasks(work)) == {str(index): 1 for index in range(TASKS)}
    if kind == "podman":  # Docker loses what a container writes before its end while Docker is not running
        assert server.log("outage-worker-0") == "done\n"
    assert ended(server.completed("later")) == "Succeeded"
    until(lambda: "RuntimeUnavailable" in event_reasons(server) or None, "the pods report the outage")


@pytest.mark.parametrize("kind", ENGINES)
def test_the_api_responds_while_the_engine_hangs(
    serve_with: ServeWith, engines: Engines, tmp_path: Path, kind: str
) -> None:
    engine = engines.new(kind)
    server = serve_with(engine)
    server.post(FRAMEWORKS, framework("hang", "sleep 3", 1, tmp_path))
    server.runs("hang-worker-0")
    engine.signal(signal.SIGSTOP)
    try:
        server.post(FRAMEWORKS, framework("later", "true", 1, tmp_path))
        began = time.monotonic()
        until(lambda: "RuntimeUnavailable" in event_reasons(server) or None, "the pod reports the outage")
        for _ in range(10):
            asked = time.monotonic()
            assert server.get(f"{PODS}/hang-worker-0")["status"]["phase"] == "Running"
            assert time.monotonic() - asked < 5.0
        assert time.monotonic() - began < 60.0
    finally:
        engine.signal(signal.SIGCONT)

    assert ended(server.completed("hang")) == "Succeeded"
    assert ended(server.completed("later")) == "Succeeded"


def test_without_an_engine_the_launcher_names_what_to_install(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engines
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server", "--runtime=docker")

    assert server.state(within=30.0) == "it ended with code 2"
    assert "start the engine, or unset DOCKER_HOST" in server.errors()
    server.end()


@pytest.mark.parametrize("kind", ENGINES)
def test_containers_of_a_killed_run_are_removed_by_the_next_launcher(
    serve_with: ServeWith, engines: Engines, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines.get(kind)
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    # The directory of its data, which it cannot remove.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    runs = []
    for name in ("killed", "alive"):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(framework(name, "exec sleep 600", 1, tmp_path)))
        runs.append(
            subprocess.Popen(
                launcher("run", str(file), "--runtime=docker", "--pod-network=shared"),
                cwd=PROJECT,
                stdout=subprocess.DEVNULL,
            )
        )
        until(lambda: len(engine.containers()) == len(runs) or None, "it has its container")
    try:
        both = engine.containers()
        runs[0].kill()
        runs[0].wait(30)

        serve_with(engine).ready()

        left = engine.containers()
        assert len(both) == 2
        assert len(left) == 1
        assert set(left) < set(both)
    finally:
        runs[1].terminate()
        assert runs[1].wait(60) is not None
    until(lambda: not engine.containers() or None, "no container is left")
