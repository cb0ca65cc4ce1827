"""Pods on a node with each of the real container runtimes: the same pods, with the same results."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import unused_port

from launcher.store.interface import CONFIG_MAPS, Object
from tests.engine.archives import BUSYBOX, ENTRYPOINT
from tests.engine.fixtures import ENGINES
from tests.eventually import eventually
from tests.node.contract import REAL_RUNTIMES
from tests.node.contract_node import ContractNode, contract_node, script
from tests.node.harness import container_status, phase, runs, state, waits


@pytest.fixture(params=REAL_RUNTIMES)
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ContractNode]:
    async with contract_node(request, tmp_path / "data") as node:
        yield node


@pytest.mark.parametrize("code", [0, 3])
async def test_a_pod_ends_with_the_exit_code_and_the_log_of_its_container(
    node: ContractNode, code: int
) -> None:
    await node.run(script(f"echo out; echo err >&2; printf 'no line end'; exit {code}"))
    pod = await node.when(phase("Failed" if code else "Succeeded"))

    assert state(pod)["terminated"]["exitCode"] == code
    assert state(pod)["terminated"]["reason"] == ("Error" if code else "Completed")
    log = await node.log(pod)
    assert sorted(log.replace("no line end", "").splitlines()) == ["err", "out"]
    assert log.count("no line end") == 1


async def test_init_containers_run_before_and_sidecars_beside_the_main_containers(
    node: ContractNode,
) -> None:
    mounts: list[Object] = [{"name": "work", "mountPath": "/work"}]
    await node.run(
        script("cat /work/first; test -e /work/sidecar", volumeMounts=mounts),
        initContainers=[
            script("echo first > /work/first", "init", volumeMounts=mounts),
            script(
                "touch /work/sidecar; trap 'exit 0' TERM; while true; do sleep 0.1; done",
                "sidecar",
                volumeMounts=mounts,
                restartPolicy="Always",
                startupProbe={"exec": {"command": ["test", "-e", "/work/sidecar"]}, "periodSeconds": 1},
            ),
        ],
        volumes=[{"name": "work", "emptyDir": {}}],
    )
    pod = await node.when(phase("Succeeded"))

    assert await node.log(pod) == "first\n"
    assert "terminated" in state(pod, "sidecar")


async def test_volumes_are_mounted(node: ContractNode, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_text("from the host\n")
    metadata = {"name": "c", "namespace": "default"}
    await node.store.create(
        CONFIG_MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"greeting": "hello\n"}},
    )
    volumes: list[Object] = [
        {"name": "host", "hostPath": {"path": str(tmp_path / "host")}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "part", "emptyDir": {}},
    ]
    mounts: list[Object] = [
        {"name": volume["name"], "mountPath": f"/mnt/pod/{volume['name']}"} for volume in volumes
    ]
    mounts[0]["readOnly"] = True
    mounts[2]["subPath"] = "a/b"
    command = "cd /mnt/pod; cat host/file config/greeting; touch part/x; touch host/x || echo read-only"
    await node.run(script(command, volumeMounts=mounts), volumes=volumes)
    pod = await node.when(phase("Succeeded"))

    assert [line for line in (await node.log(pod)).splitlines() if "touch" not in line] == [
        "from the host",
        "hello",
        "read-only",
    ]


async def test_a_container_that_exceeds_its_memory_limit_is_oom_killed(node: ContractNode) -> None:
    command = "x=12345678; while true; do x=$x$x; done"
    await node.run(script(command, resources={"limits": {"memory": "24Mi"}}))
    pod = await node.when(phase("Failed"))

    terminated = state(pod)["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "OOMKilled")


async def test_limits_are_those_of_the_container(node: ContractNode) -> None:
    command = (
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max || true"
    )
    await node.run(script(command, resources={"limits": {"memory": "48Mi", "cpu": "500m"}}))
    pod = await node.when(phase("Succeeded"))

    if node.runtimes.kind != "process":  # where the cgroups of the machine are visible
        assert await node.log(pod) == f"{48 * 1024 * 1024}\n"


async def test_a_failed_container_is_restarted(node: ContractNode) -> None:
    mounts = [{"name": "work", "mountPath": "/work"}]
    command = "echo run >> /work/runs; test $(wc -l < /work/runs) = 3"
    await node.run(
        script(command, volumeMounts=mounts),
        restartPolicy="OnFailure",
        volumes=[{"name": "work", "emptyDir": {}}],
    )
    pod = await node.when(phase("Succeeded"))

    assert container_status(pod)["restartCount"] == 2
    assert container_status(pod)["lastState"]["terminated"]["exitCode"] == 1


async def test_a_liveness_probe_restarts_a_container(node: ContractNode) -> None:
    command = "if test -e /work/dead; then exec sleep 60; fi; touch /work/dead; exec sleep 60"
    probe = {
        "exec": {"command": ["sh", "-c", "! test -e /work/dead"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
        "terminationGracePeriodSeconds": 1,
    }
    mounts = [{"name": "work", "mountPath": "/work"}]
    await node.run(
        script(command, volumeMounts=mounts, livenessProbe=probe),
        restartPolicy="Always",
        volumes=[{"name": "work", "emptyDir": {}}],
    )

    await node.when(runs(restarts=1))
    assert await node.when_events("Unhealthy")
    await node.delete(grace=0)


async def test_a_readiness_probe_over_http_reaches_the_container(node: ContractNode, tmp_path: Path) -> None:
    port = unused_port()
    command = (
        f"mkdir /tmp/www; echo yes > /tmp/www/ready; exec busybox httpd -f -p 127.0.0.1:{port} -h /tmp/www"
    )
    probe = {"httpGet": {"port": port, "path": "/ready"}, "periodSeconds": 1}
    await node.run(script(command, readinessProbe=probe))

    await node.when(lambda pod: runs()(pod) and container_status(pod)["ready"])
    await node.delete(grace=0)


async def test_hooks_run_in_the_container(node: ContractNode, tmp_path: Path) -> None:
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started > /work/post"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo stopped > /work/pre"]}},
    }
    (tmp_path / "work").mkdir()
    await node.run(
        script(
            "trap 'exit 0' TERM; while true; do sleep 0.1; done",
            lifecycle=hooks,
            volumeMounts=[{"name": "work", "mountPath": "/work"}],
        ),
        volumes=[{"name": "work", "hostPath": {"path": str(tmp_path / "work")}}],
    )
    await node.when(runs())
    await eventually((tmp_path / "work" / "post").exists, "postStart has run")
    await node.delete()

    assert (tmp_path / "work" / "pre").read_text() == "stopped\n"


async def test_a_deleted_pod_is_killed_after_its_grace_period(node: ContractNode) -> None:
    await node.run(script("trap 'echo ignored' TERM; echo ready; while true; do sleep 0.1; done"))
    pod = await node.when(runs())
    log = node.logs.path("default", "p", pod["metadata"]["uid"], "main", 0)
    await eventually(lambda: log.exists() and "ready" in log.read_text(), "the trap is set")
    began = asyncio.get_running_loop().time()
    await node.delete(grace=2)

    assert asyncio.get_running_loop().time() - began >= 1.9
    assert node.runtime is not None
    await eventually(lambda: node.runtime and not node.runtime.list_containers(), "its container is removed")


async def test_a_container_has_its_user_and_groups(node: ContractNode) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may change the user")
    await node.run(
        script("id -u; id -g; id -G"),
        securityContext={
            "runAsUser": 4321,
            "runAsGroup": 4322,
            "supplementalGroups": [4323],
            "fsGroup": 4324,
        },
    )
    pod = await node.when(phase("Succeeded"))

    user, group, groups = (await node.log(pod)).splitlines()
    assert (user, group) == ("4321", "4322")
    assert {"4323", "4324"} <= set(groups.split())


async def test_a_termination_message_is_in_the_status(node: ContractNode) -> None:
    await node.run(
        script("echo because > /dev/termination-log; exit 1"),
        script("echo last line; exit 1", "log", terminationMessagePolicy="FallbackToLogsOnError"),
    )
    pod = await node.when(phase("Failed"))

    assert state(pod)["terminated"]["message"] == "because\n"
    assert state(pod, "log")["terminated"]["message"] == "last line\n"


async def test_a_missing_program_fails_the_container(node: ContractNode) -> None:
    await node.run({"name": "main", "image": BUSYBOX, "command": ["no-such-program"]})
    pod = await node.when(phase("Failed"))

    terminated = state(pod)["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
    assert "executable file not found" in terminated["message"]


async def test_containers_outlive_the_launcher(node: ContractNode) -> None:
    mounts = [{"name": "work", "mountPath": "/work"}]
    command = "i=0; while ! test -e /work/end; do i=$((i+1)); echo $i; sleep 0.02; done; echo $i >&2; exit 5"
    await node.run(
        script(command, volumeMounts=mounts),
        script("until test -e /work/end; do sleep 0.1; done", "end", volumeMounts=mounts),
        volumes=[{"name": "work", "emptyDir": {}}],
    )
    pod = await node.when(runs())
    for _ in range(3):
        await node.stop()
        await asyncio.sleep(0.3)
        await node.start()
        await asyncio.sleep(0.3)
    await node.stop()
    (node.runtimes.data / "pods" / pod["metadata"]["uid"] / "volumes/work/end").touch()
    await asyncio.sleep(1.0)
    await node.start()
    pod = await node.when(phase("Failed"))

    assert state(pod)["terminated"]["exitCode"] == 5
    assert container_status(pod)["restartCount"] == 0
    lines = list(map(int, (await node.log(pod)).splitlines()))
    number = max(lines)
    assert sorted(lines) == sorted([*range(1, number + 1), number])


@pytest.mark.parametrize("node", ENGINES, indirect=True)
async def test_the_image_has_the_entrypoint_arguments_user_and_directory(node: ContractNode) -> None:
    await node.run(
        {"name": "plain", "image": ENTRYPOINT},
        {"name": "args", "image": ENTRYPOINT, "args": ["mine"]},
        {"name": "command", "image": ENTRYPOINT, "command": ["sh", "-c", "pwd; id -u; echo $FROM_IMAGE $0"]},
    )
    pod = await node.when(phase("Succeeded"))

    assert await node.log(pod, "plain") == "entrypoint cmd\n"
    assert await node.log(pod, "args") == "entrypoint mine\n"
    assert await node.log(pod, "command") == "/tmp\n65532\nyes sh\n"


@pytest.mark.parametrize("node", ENGINES, indirect=True)
async def test_nothing_is_left_behind_and_containers_of_others_are_not_touched(node: ContractNode) -> None:
    assert node.runtimes.engine is not None
    engine = node.runtimes.engine
    body = f'{{"Image": "{BUSYBOX}", "Cmd": ["true"], "Labels": {{"launcher.microsoft.com/run": "x"}}}}'
    status, _ = engine.request("POST", "/containers/create?name=other", body.encode(), "application/json")
    assert status == 201
    try:
        await node.run(script("true"), initContainers=[script("true", "init")])
        await node.when(phase("Succeeded"))
        await node.run(script("sleep 60"), name="q")
        await node.when(runs(), "q")
        await node.delete("p")
        await node.delete("q", grace=0)

        await eventually(lambda: engine.containers() == ["other"], "only the other container is left")
        await eventually(lambda: not os.listdir(node.runtimes.data / "ends"), "no file is left")
    finally:
        engine.request("DELETE", "/containers/other?force=true")


@pytest.mark.parametrize("node", ENGINES, indirect=True)
async def test_run_as_non_root_checks_the_user_of_the_image(node: ContractNode) -> None:
    context = {"runAsNonRoot": True}
    await node.run({"name": "main", "image": ENTRYPOINT}, securityContext=context)
    await node.run(script("true"), name="root", securityContext=context)

    await node.when(phase("Succeeded"))
    await node.when(waits("CreateContainerConfigError"), "root")
