"""The programs, answered by the launcher itself; with the rows I of the scenarios that both decide."""

import asyncio
import base64
import gzip
import json
import socket
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launcher.rendezvous.handler import address_of
from launcher.rendezvous.programs import command, program
from launcher.store.interface import FRAMEWORKS, DeleteOptions
from tests.api.client import PATIENCE, until
from tests.core.manifests import a_role
from tests.rendezvous.programs.conftest import MakeImage
from tests.rendezvous.programs.image import Image
from tests.rendezvous.programs.test_barrier import hurried
from tests.rendezvous.test_handler import Place, serving_rooms
from tests.rendezvous.world import NAMESPACE, some_tokens

#: Seconds after which the barrier gives up in these tests.
SHORT = "2"


class Running(Place):
    """A place whose pods run our programs."""

    async def variables(self, task: str = "worker/0", *, attempt: int = 0) -> dict[str, str]:
        """What the launcher gives to a container of that task."""
        assert self.client is not None
        role, _, index = task.partition("/")
        return {
            "LAUNCHER_RENDEZVOUS": address_of(self.client.url, NAMESPACE, "mnist", attempt),
            "LAUNCHER_TOKEN": await some_tokens().token(self.uid, attempt),
            "FC_FRAMEWORK_NAMESPACE": NAMESPACE,
            "FC_FRAMEWORK_NAME": "mnist",
            "FC_FRAMEWORK_ATTEMPT_ID": str(attempt),
            "FC_TASKROLE_NAME": role,
            "FC_TASK_INDEX": index,
        }

    async def barrier(self, image: Image, **others: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(image.run, hurried(), **await self.variables(), **others)

    async def init(
        self, image: Image, task: str = "worker/0", **others: str
    ) -> subprocess.CompletedProcess[str]:
        """How the init container of that task ends; what it writes is in ``configdir``."""
        mount = image.directory / "configdir"
        mount.mkdir(exist_ok=True)
        given = {**await self.variables(task), "LAUNCHER_MOUNT": str(mount), **others}
        return await asyncio.to_thread(image.run, command("rendezvous.sh")[2], **given)


@pytest.fixture
async def place() -> AsyncIterator[Running]:
    place = Running()
    async with asyncio.timeout(PATIENCE), serving_rooms(place):
        yield place


async def two_and_one(place: Running, **spec: Any) -> None:
    """Two workers and a parameter server, all with their addresses."""
    await place.submit(a_role(tasks=2), a_role("ps", 1), **spec)
    for task, ip in (("worker/0", "10.0.0.1"), ("worker/1", "10.0.0.2"), ("ps/0", "10.0.0.3")):
        await place.place(task, ip)


async def test_the_init_container_writes_what_the_launcher_tells(place: Running, image: MakeImage) -> None:
    await two_and_one(place, discovery={"ports": {"worker": 46866, "ps": 46867}})
    here = image("curl")

    done = await place.init(here, "worker/1")

    mount = here.directory / "configdir"
    assert done.returncode == 0, done.stderr
    assert (mount / "configfile").read_text() == "10.0.0.1:46866,10.0.0.2:46866\n10.0.0.3:46867\n"
    assert json.loads((mount / "tf_config.json").read_text())["task"] == {"type": "worker", "index": 1}
    told = json.loads((mount / "hosts.json").read_text())
    assert [peer["ip"] for peer in told["roles"]["worker"]] == ["10.0.0.1", "10.0.0.2"]
    script = ". configdir/hosts.env && echo $MASTER_ADDR $RANK $WORLD_SIZE $ps_hosts"
    assert here.run(script).stdout == "10.0.0.1 1 3 10.0.0.3:46867\n"


async def test_it_is_told_who_is_missing(place: Running, image: MakeImage) -> None:
    await place.submit(a_role(tasks=2))
    await place.place("worker/0", "10.0.0.1")

    done = await place.init(image("curl"), LAUNCHER_TIMEOUT="1")

    assert (done.returncode, done.stderr) == (
        201,
        "rendezvous: gave up after 1 s: no address yet of worker/1\n",
    )


async def test_it_waits_for_listeners_at_the_ports_that_the_launcher_tells(
    place: Running, image: MakeImage
) -> None:
    here = image("curl", "bash")
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = {"ps": server.getsockname()[1], "worker": 9}
        await place.submit(a_role("ps", 1), a_role(tasks=1), discovery={"ports": ports})
        await place.place("ps/0", "127.0.0.1")
        await place.place("worker/0", "127.0.0.1")

        reached = await place.init(here, LAUNCHER_WAIT_PORTS="ps")
        missed = await place.init(here, LAUNCHER_WAIT_PORTS="ps worker", LAUNCHER_TIMEOUT="1")

    assert reached.returncode == 0, reached.stderr
    assert missed.returncode == 201
    assert "nobody listens for worker/0 at 127.0.0.1 port 9" in missed.stderr


async def test_ports_that_two_tasks_of_a_node_find_are_told_to_both(place: Running, image: MakeImage) -> None:
    await place.submit(a_role(tasks=2), discovery={"ports": {"worker": "auto"}})
    await place.place("worker/0", "10.0.0.1", node="n1")
    await place.place("worker/1", "10.0.0.1", node="n1")
    here = image("curl")
    mounts = [here.directory / name for name in ("first", "second")]
    for mount in mounts:
        mount.mkdir()

    ended = await asyncio.gather(
        place.init(here, "worker/0", LAUNCHER_PORT="auto", LAUNCHER_MOUNT=str(mounts[0])),
        place.init(here, "worker/1", LAUNCHER_PORT="auto", LAUNCHER_MOUNT=str(mounts[1])),
    )

    assert [done.returncode for done in ended] == [0, 0], ended
    first, second = (json.loads((mount / "hosts.json").read_text()) for mount in mounts)
    assert first == second
    assert len({peer["port"] for peer in first["roles"]["worker"]}) == 2


async def test_get_ips_finds_every_host(place: Running, image: MakeImage) -> None:
    await two_and_one(place)
    here = image("curl", shell="bash")
    (here.directory / "get_ips.sh").write_text(program("get_ips.sh"))
    given = {"worker_tasknum": "2", "ps_tasknum": "1", "worker_port": "46866"}

    done = await asyncio.to_thread(
        here.run, "source ./get_ips.sh && echo $worker_hosts $ps_hosts", **await place.variables(), **given
    )

    assert done.stdout == "10.0.0.1:46866,10.0.0.2:46866 10.0.0.3\n", done.stderr


async def test_get_ips_finds_every_host_by_the_api_too(place: Running, image: MakeImage) -> None:
    await two_and_one(place)
    assert place.client is not None
    here = image("curl", shell="bash")
    (here.directory / "get_ips.sh").write_text(program("get_ips.sh"))
    given = {"framework_name": "mnist", "worker_tasknum": "2", "ps_tasknum": "1", "ps_port": "46867"}

    done = await asyncio.to_thread(
        here.run,
        "source ./get_ips.sh && echo $worker_hosts $ps_hosts",
        LAUNCHER_API=place.client.url,
        **given,
    )

    assert done.stdout == "10.0.0.1,10.0.0.2 10.0.0.3:46867\n", done.stderr


async def test_i1_i9_the_barrier_passes_and_its_script_takes_any_ports(
    place: Running, image: MakeImage
) -> None:
    await two_and_one(place)
    here = image("curl", shell="bash")

    done = await place.barrier(here)

    assert done.returncode == 0, done.stderr
    framework = json.loads((here.directory / "framework.json").read_text())
    assert framework["metadata"]["name"] == "mnist"
    script = (
        "export FB_WORKER_PORT=4001 FB_PS_PORT=4002; . ./injector.sh >said; echo $FB_WORKER_IPS $FB_PS_ADDRESSES;"
        "export FB_WORKER_PORT=5001; . ./injector.sh >said; echo $FB_WORKER_ADDRESSES"
    )
    assert here.run(script).stdout == "10.0.0.1,10.0.0.2 10.0.0.3:4002\n10.0.0.1:5001,10.0.0.2:5001\n"


async def test_i2_a_task_without_an_address_keeps_the_barrier_closed(
    place: Running, image: MakeImage
) -> None:
    await place.submit(a_role(tasks=2))
    await place.place("worker/0", "10.0.0.1")
    await place.place("worker/1", "")

    done = await place.barrier(image("curl"), BARRIER_CHECK_TIMEOUT_SEC=SHORT)

    assert done.returncode == 201
    assert done.stderr.endswith("gave up after 2 s: no address yet of worker/1\n")


async def test_i3_a_framework_that_is_gone_is_not_waited_for(place: Running, image: MakeImage) -> None:
    await place.submit(a_role(tasks=1))
    await place.store.delete(FRAMEWORKS, NAMESPACE, "mnist", DeleteOptions(grace=0))

    done = await place.barrier(image("curl"))

    assert (done.returncode, done.stderr) == (
        210,
        "barrier: frameworks.launcher.microsoft.com 'mnist' not found\n",
    )


async def test_the_barrier_of_an_attempt_that_is_over_ends_at_once(place: Running, image: MakeImage) -> None:
    await place.submit(a_role(tasks=1))
    await place.status(attempt=1)

    done = await place.barrier(image("curl"))

    assert (done.returncode, done.stderr) == (210, "barrier: attempt 0 of this Framework is over\n")


async def test_i6_a_task_that_a_rescale_takes_away_is_not_waited_for(
    place: Running, image: MakeImage
) -> None:
    await place.submit(a_role(tasks=4))
    for index in range(3):
        await place.place(f"worker/{index}", f"10.0.0.{index}")
    await place.create("worker/3")
    here = image("curl")
    passing = asyncio.create_task(place.barrier(here))
    await until(lambda: place.rooms.waiters == 1)

    await place.edit(lambda spec: spec["taskRoles"][0].update(taskNumber=3))
    await place.status(rescales=1)
    await place.remove("worker/3")

    assert (await passing).returncode == 0
    assert 'FB_WORKER_IPS="10.0.0.0,10.0.0.1,10.0.0.2"' in (here.directory / "injector.sh").read_text()


async def test_i7_a_task_that_a_rescale_adds_is_waited_for_before_it_is_there(
    place: Running, image: MakeImage
) -> None:
    await place.submit(a_role(tasks=4))
    for index in range(4):
        await place.place(f"worker/{index}", f"10.0.0.{index}")
    await place.edit(lambda spec: spec["taskRoles"][0].update(taskNumber=5))

    done = await place.barrier(image("curl"), BARRIER_CHECK_TIMEOUT_SEC=SHORT)

    assert done.returncode == 201
    assert done.stderr.endswith("no address yet of worker/4\n")


async def test_i8_a_status_that_is_compressed_makes_no_difference(place: Running, image: MakeImage) -> None:
    await two_and_one(place)
    compressed = base64.b64encode(gzip.compress(b"[]")).decode()
    attempt = {"id": 0, "taskRoleStatuses": None, "taskRoleStatusesCompressed": compressed}
    stored = await place.store.get(FRAMEWORKS, NAMESPACE, "mnist")
    status = {"state": "AttemptRunning", "attemptStatus": attempt}
    await place.store.update_status(FRAMEWORKS, {**stored, "status": status})

    assert (await place.barrier(image("curl"))).returncode == 0
