"""The node agent with real processes, files and the SQLite store."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from time import time

import pytest
from aiohttp.test_utils import unused_port

from launcher.core.pods.log_options import PodLogOptions
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORKS,
    NODES,
    PODS,
    SECRETS,
    ChangeType,
    Object,
    ResourceKind,
)
from tests.eventually import eventually
from tests.node.harness import a_container, a_node, a_pod, container_status, phase, runs, state, waits, when
from tests.node.killable import an_agent, open_store

LIMIT = 30.0


class ProcessNode:
    """A node agent with a process runtime."""

    def __init__(self, data: Path, store: SqliteStore, runtime: ProcessRuntime) -> None:
        self.data, self.store, self.runtime = data, store, runtime
        self.logs = ContainerLogs(data / "logs")
        self.nfs: dict[str, Path] = {}

    def agent(self) -> AbstractAsyncContextManager[None]:
        return an_agent(self.data, self.store, self.runtime, self.nfs, RestartBackoff(first_seconds=0.1))

    async def create(self, kind: ResourceKind, name: str, **more: object) -> Object:
        metadata = {"name": name, **({"namespace": "default"} if kind.namespaced else {})}
        return await self.store.create(
            kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **more}
        )

    async def when(self, name: str, holds: Callable[[Object], bool]) -> Object:
        return await when(self.store, name, holds, LIMIT)

    async def until_deleted(self, name: str) -> None:
        async with asyncio.timeout(LIMIT):
            page = await self.store.list(PODS)
            if not any(pod["metadata"]["name"] == name for pod in page.items):
                return
            async with aclosing(self.store.watch(PODS, since=page.version)) as changes:
                async for change in changes:
                    if change.object["metadata"]["name"] == name and change.type is ChangeType.DELETED:
                        return

    async def log(self, pod: Object, container: str = "main") -> str:
        meta = pod["metadata"]
        text = b""
        async for part in self.logs.read(
            "default", meta["name"], meta["uid"], container, PodLogOptions(follow=True)
        ):
            text += part
        return text.decode()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[ProcessNode]:
    data = tmp_path / "data"
    data.mkdir()
    async with open_store(data) as store:
        runtime = await ProcessRuntime.open(data, images={}, clock=time)
        await store.create(NODES, a_node(address="127.0.0.1"))
        yield ProcessNode(data, store, runtime)
        await runtime.close(stop_shim=True)


def script(text: str, name: str = "main", **more: object) -> Object:
    return a_container(name, "sh", "-c", text, **more)


async def test_volumes_are_mounted_at_their_mount_paths(machine: ProcessNode, tmp_path: Path) -> None:
    export, host = tmp_path / "export", tmp_path / "host"
    export.mkdir()
    host.mkdir()
    (host / "data").write_text("from the host")
    machine.nfs["server:/data"] = export
    await machine.create(CONFIG_MAPS, "c", data={"greeting": "hello"})
    await machine.create(SECRETS, "s", data={"key": base64.b64encode(b"hush").decode()})
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": str(host), "type": "Directory"}},
        {"name": "nfs", "nfs": {"server": "server", "path": "/data"}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {
            "name": "self",
            "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
        },
    ]
    mounts = [{"name": one["name"], "mountPath": f"/mnt/pod/{one['name']}"} for one in volumes]
    mounts[2]["readOnly"] = True  # type: ignore[assignment]
    mounts.append({"name": "work", "mountPath": "/a/part", "subPathExpr": "parts/$(ME)"})
    env = [{"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    init = script(
        "echo made > /mnt/pod/work/file; echo more > /a/part/x", "init", volumeMounts=mounts, env=env
    )
    main = script(
        "cd /mnt/pod; cat work/file work/parts/p/x host/data config/greeting secret/key self/name; "
        "echo y > memory/y && cat memory/y; echo exported > nfs/out; touch host/no || echo read-only; "
        "echo bye > /dev/termination-log",
        volumeMounts=mounts,
        env=env,
    )
    async with machine.agent():
        await machine.store.create(PODS, a_pod("p", main, initContainers=[init], volumes=volumes))
        done = await machine.when("p", phase("Succeeded"))
        output = await machine.log(done)
        await eventually(lambda: not list((machine.data / "pods").iterdir()))

    lines = [line for line in output.splitlines() if "touch" not in line]
    assert "\n".join(lines) == "made\nmore\nfrom the hosthellohushpy\nread-only"
    assert (export / "out").read_text() == "exported\n"
    assert state(done)["terminated"]["message"] == "bye\n"
    assert "pod" not in os.listdir("/mnt")
    assert (host / "data").exists()


async def test_the_environment_is_that_of_the_pod_and_not_of_the_launcher(
    machine: ProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHER_SECRET", "hush")
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    async with machine.agent():
        await machine.store.create(PODS, a_pod("p", a_container("main", "env", env=env)))
        done = await machine.when("p", phase("Succeeded"))
        output = await machine.log(done)

    names = dict(line.split("=", 1) for line in output.splitlines())
    assert names["IP"] == "127.0.0.1"
    assert names["HOSTNAME"] == "p"
    assert "LAUNCHER_SECRET" not in names


async def test_a_failed_container_is_restarted_and_its_message_is_in_the_status(machine: ProcessNode) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    container = script(
        "echo try; test -e /v/second || { touch /v/second; exit 3; }",
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    async with machine.agent():
        await machine.store.create(PODS, a_pod("p", container, restartPolicy="OnFailure", volumes=volumes))
        done = await machine.when("p", phase("Succeeded"))

    last = container_status(done)["lastState"]["terminated"]
    assert container_status(done)["restartCount"] == 1
    assert (last["exitCode"], last["message"]) == (3, "try\n")


async def test_a_missing_program_is_reported(machine: ProcessNode) -> None:
    async with machine.agent():
        await machine.store.create(PODS, a_pod("p", a_container("main", "no-such-program")))
        done = await machine.when("p", phase("Failed"))

    assert state(done)["terminated"]["reason"] == "StartError"


async def test_a_deleted_pod_is_signalled_and_leaves_nothing(machine: ProcessNode) -> None:
    container = script("trap 'echo caught; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    async with machine.agent():
        await machine.store.create(PODS, a_pod("p", container))
        pod = await machine.when("p", runs())
        log = machine.logs.path("default", "p", pod["metadata"]["uid"], "main", 0)
        await eventually(lambda: "up" in machine.logs.tail(log, 1, 100))
        await machine.store.delete(PODS, "default", "p")
        last = await machine.when("p", phase("Succeeded"))
        await machine.until_deleted("p")
        await eventually(lambda: not machine.runtime.list_containers() and not log.exists())

    assert state(last)["terminated"]["exitCode"] == 0


async def test_a_pod_with_a_missing_host_path_waits_for_it(machine: ProcessNode, tmp_path: Path) -> None:
    path = tmp_path / "late"
    volumes = [{"name": "v", "hostPath": {"path": str(path), "type": "Directory"}}]
    async with machine.agent():
        await machine.store.create(PODS, a_pod("p", script("true"), volumes=volumes))
        waiting = await machine.when("p", waits("ContainerCreating"))
        path.mkdir()
        await machine.when("p", phase("Succeeded"))
        events = (await machine.store.list(EVENTS)).items

    assert waiting["status"]["phase"] == "Pending"
    assert (
        f"{path} is not a directory"
        in next(one for one in events if one["reason"] == "FailedMount")["message"]
    )


async def test_a_server_is_ready_when_its_probe_succeeds(machine: ProcessNode) -> None:
    port = unused_port()
    server = a_container(
        "main",
        *("python3", "-m", "http.server", "$(PORT)", "--bind", "$(IP)"),
        env=[
            {"name": "PORT", "value": str(port)},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        ports=[{"name": "web", "containerPort": port}],
        startupProbe={"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 60},
        readinessProbe={"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1},
        livenessProbe={"exec": {"command": ["test", "-d", "/proc"]}, "periodSeconds": 1},
    )
    async with machine.agent():
        await machine.store.create(PODS, a_pod("p", server, terminationGracePeriodSeconds=1))
        pod = await machine.when("p", lambda pod: runs()(pod) and bool(container_status(pod)["ready"]))
        await machine.store.delete(PODS, "default", "p")
        await machine.until_deleted("p")

    ready = next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")
    assert ready["status"] == "True"


async def test_logs_are_retained_until_the_framework_is_deleted(machine: ProcessNode) -> None:
    framework = await machine.create(FRAMEWORKS, "f", spec={})
    owner = {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": "Framework",
        "name": "f",
        "uid": framework["metadata"]["uid"],
        "controller": True,
    }
    async with machine.agent():
        for name, owners in (("f-w-0", [owner]), ("alone", [])):
            pod = a_pod(name, script("echo hello"), metadata={"ownerReferences": owners})
            await machine.store.create(PODS, pod)
            await machine.when(name, phase("Succeeded"))
            await machine.store.delete(PODS, "default", name)
        logs = machine.data / "logs" / "default"
        await eventually(lambda: not (logs / "alone").exists())
        kept = (logs / "f-w-0").exists()
    async with machine.agent():
        await machine.store.delete(FRAMEWORKS, "default", "f")
        await eventually(lambda: not (logs / "f-w-0").exists())

    assert kept


async def test_containers_continue_without_the_agent_and_are_recovered(machine: ProcessNode) -> None:
    async with machine.agent():
        gate = machine.data / "gate"
        waiting = f"until [ -e {gate} ]; do sleep 0.05; done; exit 4"
        await machine.store.create(PODS, a_pod("p", script(waiting)))
        running = await machine.when("p", runs())
    gate.touch()
    async with machine.agent():
        done = await machine.when("p", phase("Failed"))

    assert state(done)["terminated"]["exitCode"] == 4
    assert state(done)["terminated"]["startedAt"] == state(running)["running"]["startedAt"]
