"""The programs with the real rendezvous endpoints, with the rows I of the scenarios that concern both."""

import asyncio
import base64
import gzip
import json
import socket
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launcher.rendezvous.container_programs import program_command, program_text
from launcher.rendezvous.handler import attempt_url
from launcher.store.interface import FRAMEWORKS, DeleteOptions
from tests.builders import a_role
from tests.rendezvous.harness import KEY, NAMESPACE, some_tokens
from tests.rendezvous.programs.conftest import MakeImage
from tests.rendezvous.programs.image import ProgramImage
from tests.rendezvous.programs.test_barrier import barrier_with_short_limits
from tests.rendezvous.test_handler import ServerHarness, serve

#: A timeout of the barrier for tests that wait until it is exceeded.
SHORT_TIMEOUT = "2"


class ProgramHarness(ServerHarness):
    """A server whose pods run the programs."""

    async def environment(self, task: str = "worker/0", *, attempt: int = 0) -> dict[str, str]:
        """The variables that the launcher sets in the containers of the task."""
        role, _, index = task.partition("/")
        return {
            "LAUNCHER_RENDEZVOUS": attempt_url(self.client.url, NAMESPACE, "mnist", attempt),
            "LAUNCHER_TOKEN": await some_tokens().create_token(self.uid, attempt),
            "FC_FRAMEWORK_NAMESPACE": NAMESPACE,
            "FC_FRAMEWORK_NAME": "mnist",
            "FC_FRAMEWORK_ATTEMPT_ID": str(attempt),
            "FC_TASKROLE_NAME": role,
            "FC_TASK_INDEX": index,
        }

    async def run_barrier(self, image: ProgramImage, **others: str) -> subprocess.CompletedProcess[str]:
        variables = {**await self.environment(), **others}
        return await asyncio.to_thread(image.run, barrier_with_short_limits(), **variables)

    async def run_init_container(
        self, image: ProgramImage, task: str = "worker/0", **others: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the init container of the task; its files are in ``configdir``."""
        mount = image.directory / "configdir"
        mount.mkdir(exist_ok=True)
        variables = {**await self.environment(task), "LAUNCHER_MOUNT": str(mount), **others}
        return await asyncio.to_thread(image.run, program_command("rendezvous.sh")[2], **variables)


@pytest.fixture
async def server() -> AsyncIterator[ProgramHarness]:
    harness = ProgramHarness()
    async with serve(harness):
        yield harness


async def submit_complete(server: ProgramHarness, **spec: Any) -> None:
    """Submit two workers and a parameter server, all with addresses."""
    await server.submit(a_role(tasks=2), a_role("ps", 1), **spec)
    for task, ip in (("worker/0", "10.0.0.1"), ("worker/1", "10.0.0.2"), ("ps/0", "10.0.0.3")):
        await server.set_address(task, ip)


async def test_the_init_container_writes_the_files_of_its_task(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await submit_complete(server, discovery={"ports": {"worker": 46866, "ps": 46867}})
    image = make_image("curl")

    done = await server.run_init_container(image, "worker/1")

    mount = image.directory / "configdir"
    assert done.returncode == 0, done.stderr
    assert (mount / "configfile").read_text() == "10.0.0.1:46866,10.0.0.2:46866\n10.0.0.3:46867\n"
    assert json.loads((mount / "tf_config.json").read_text())["task"] == {"type": "worker", "index": 1}
    hosts = json.loads((mount / "hosts.json").read_text())
    assert [peer["ip"] for peer in hosts["roles"]["worker"]] == ["10.0.0.1", "10.0.0.2"]
    script = ". configdir/hosts.env && echo $MASTER_ADDR $RANK $WORLD_SIZE $ps_hosts"
    assert image.run(script).stdout == "10.0.0.1 1 3 10.0.0.3:46867\n"


async def test_after_the_timeout_the_init_container_names_the_missing_tasks(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await server.submit(a_role(tasks=2))
    await server.set_address("worker/0", "10.0.0.1")

    done = await server.run_init_container(make_image("curl"), LAUNCHER_TIMEOUT="1")

    assert (done.returncode, done.stderr) == (
        201,
        "rendezvous: timed out after 1s: waiting for addresses of worker-1\n",
    )


async def test_the_init_container_waits_for_ports(server: ProgramHarness, make_image: MakeImage) -> None:
    image = make_image("curl", "bash")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports = {"ps": listener.getsockname()[1], "worker": 9}
        await server.submit(a_role("ps", 1), a_role(tasks=1), discovery={"ports": ports})
        await server.set_address("ps/0", "127.0.0.1")
        await server.set_address("worker/0", "127.0.0.1")

        listening = await server.run_init_container(image, LAUNCHER_WAIT_PORTS="ps")
        timed_out = await server.run_init_container(
            image, LAUNCHER_WAIT_PORTS="ps worker", LAUNCHER_TIMEOUT="1"
        )

    assert listening.returncode == 0, listening.stderr
    assert timed_out.returncode == 201
    assert "no listener for worker-0 at 127.0.0.1 port 9" in timed_out.stderr


async def test_two_tasks_of_a_node_choose_different_ports_and_get_both(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await server.submit(a_role(tasks=2), discovery={"ports": {"worker": "auto"}})
    await server.set_address("worker/0", "10.0.0.1", node="n1")
    await server.set_address("worker/1", "10.0.0.1", node="n1")
    image = make_image("curl")
    mounts = [image.directory / name for name in ("first", "second")]
    for mount in mounts:
        mount.mkdir()

    results = await asyncio.gather(
        *(
            server.run_init_container(
                image, f"worker/{index}", LAUNCHER_PORT="auto", LAUNCHER_MOUNT=str(mount)
            )
            for index, mount in enumerate(mounts)
        )
    )

    assert [done.returncode for done in results] == [0, 0], results
    first, second = (json.loads((mount / "hosts.json").read_text()) for mount in mounts)
    assert first == second
    assert len({peer["port"] for peer in first["roles"]["worker"]}) == 2


async def test_get_ips_gets_all_addresses_from_the_rendezvous(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await submit_complete(server)
    image = make_image("curl", shell="bash")
    (image.directory / "get_ips.sh").write_text(program_text("get_ips.sh"))
    variables = {"worker_tasknum": "2", "ps_tasknum": "1", "worker_port": "46866"}

    done = await asyncio.to_thread(
        image.run,
        "source ./get_ips.sh && echo $worker_hosts $ps_hosts",
        **await server.environment(),
        **variables,
    )

    assert done.stdout == "10.0.0.1:46866,10.0.0.2:46866 10.0.0.3\n", done.stderr


async def test_get_ips_gets_all_addresses_from_the_pods_of_the_api(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await submit_complete(server)
    image = make_image("curl", shell="bash")
    (image.directory / "get_ips.sh").write_text(program_text("get_ips.sh"))
    variables = {"framework_name": "mnist", "worker_tasknum": "2", "ps_tasknum": "1", "ps_port": "46867"}

    done = await asyncio.to_thread(
        image.run,
        "source ./get_ips.sh && echo $worker_hosts $ps_hosts",
        LAUNCHER_API=server.client.url,
        **variables,
    )

    assert done.stdout == "10.0.0.1,10.0.0.2 10.0.0.3:46867\n", done.stderr


async def test_i1_i9_the_barrier_passes_and_its_script_uses_any_ports(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await submit_complete(server)
    image = make_image("curl", shell="bash")

    done = await server.run_barrier(image)

    assert done.returncode == 0, done.stderr
    framework = json.loads((image.directory / "framework.json").read_text())
    assert framework["metadata"]["name"] == "mnist"
    script = (
        "export FB_WORKER_PORT=4001 FB_PS_PORT=4002; . ./injector.sh >out; echo $FB_WORKER_IPS $FB_PS_ADDRESSES;"
        "export FB_WORKER_PORT=5001; . ./injector.sh >out; echo $FB_WORKER_ADDRESSES"
    )
    assert image.run(script).stdout == "10.0.0.1,10.0.0.2 10.0.0.3:4002\n10.0.0.1:5001,10.0.0.2:5001\n"


async def test_i2_the_barrier_times_out_while_a_task_has_no_address(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await server.submit(a_role(tasks=2))
    await server.set_address("worker/0", "10.0.0.1")
    await server.set_address("worker/1", "")

    done = await server.run_barrier(make_image("curl"), BARRIER_CHECK_TIMEOUT_SEC=SHORT_TIMEOUT)

    assert done.returncode == 201
    assert done.stderr.endswith("timed out after 2s: waiting for addresses of worker-1\n")


async def test_i3_the_barrier_does_not_wait_for_a_deleted_framework(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await server.submit(a_role(tasks=1))
    await server.store.delete(FRAMEWORKS, *KEY, DeleteOptions(grace=0))

    done = await server.run_barrier(make_image("curl"))

    assert (done.returncode, done.stderr) == (
        210,
        "barrier: frameworks.launcher.microsoft.com 'mnist' not found\n",
    )


async def test_the_barrier_of_an_ended_attempt_exits_at_once(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await server.submit(a_role(tasks=1))
    await server.set_status(attempt=1)

    done = await server.run_barrier(make_image("curl"))

    assert (done.returncode, done.stderr) == (210, "barrier: attempt 0 of this Framework has ended\n")


async def test_i6_the_barrier_does_not_wait_for_a_task_removed_by_a_rescale(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await server.submit(a_role(tasks=4))
    for index in range(3):
        await server.set_address(f"worker/{index}", f"10.0.0.{index}")
    await server.create_pod("worker/3")
    image = make_image("curl")
    barrier = asyncio.create_task(server.run_barrier(image))
    await server.until_waiting()

    await server.update_spec(lambda spec: spec["taskRoles"][0].update(taskNumber=3))
    await server.set_status(rescales=1)
    await server.delete_pod("worker/3")

    assert (await barrier).returncode == 0
    assert 'FB_WORKER_IPS="10.0.0.0,10.0.0.1,10.0.0.2"' in (image.directory / "injector.sh").read_text()


async def test_i7_the_barrier_waits_for_a_task_added_by_a_rescale_before_its_pod_exists(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await server.submit(a_role(tasks=4))
    for index in range(4):
        await server.set_address(f"worker/{index}", f"10.0.0.{index}")
    await server.update_spec(lambda spec: spec["taskRoles"][0].update(taskNumber=5))

    done = await server.run_barrier(make_image("curl"), BARRIER_CHECK_TIMEOUT_SEC=SHORT_TIMEOUT)

    assert done.returncode == 201
    assert done.stderr.endswith("waiting for addresses of worker-4\n")


async def test_i8_the_barrier_passes_with_a_compressed_status(
    server: ProgramHarness, make_image: MakeImage
) -> None:
    await submit_complete(server)
    compressed = base64.b64encode(gzip.compress(b"[]")).decode()
    attempt = {"id": 0, "taskRoleStatuses": None, "taskRoleStatusesCompressed": compressed}
    stored = await server.store.get(FRAMEWORKS, *KEY)
    status = {"state": "AttemptRunning", "attemptStatus": attempt}
    await server.store.update_status(FRAMEWORKS, {**stored, "status": status})

    assert (await server.run_barrier(make_image("curl"))).returncode == 0
