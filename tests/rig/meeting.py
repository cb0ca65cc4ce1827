"""
A launcher without nodes, one Framework of which waits for its last task: ``python -m tests.rig.meeting TASKS``.

It prints its port, the path at which the Framework's pods ask, and their token. Then it answers lines: to ``waiters``
how many wait, and to ``place`` the monotonic time at which the last task has got its address.
"""

import asyncio
import gzip
import sys
import time
from base64 import b64encode
from itertools import count
from uuid import UUID

import orjson
from aiohttp import web

from launcher.api.app import make_app
from launcher.api.http.server import make_runner
from launcher.api.middleware.metrics import Metrics
from launcher.api.middleware.request_info import is_probe, is_rendezvous
from launcher.api.middleware.request_limits import RequestLimits
from launcher.controller.framework_controller import FrameworkController
from launcher.rendezvous.discovery_hook import DiscoveryHook, LauncherEndpoint
from launcher.rendezvous.handler import Rendezvous, address_of
from launcher.rendezvous.session_manager import SessionManager
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, PODS, ChangeType, Object
from launcher.wiring.rendezvous import raise_open_file_limit
from tests.api.conftest import parts_of
from tests.rendezvous.world import some_tokens

NAME = "meet"
ROLE = "worker"


def a_framework(tasks: int) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": FRAMEWORKS.kind,
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "executionType": "Start",
            "discovery": {"ports": {ROLE: 46866}},
            "taskRoles": [{"name": ROLE, "taskNumber": tasks, "task": {"pod": pod}}],
        },
    }


async def place(store: MemoryStore, index: int) -> None:
    """Give that task's pod an address."""
    pod = await store.get(PODS, "default", f"{NAME}-{ROLE}-{index}")
    status = {"phase": "Running", "podIP": _own_address(index), "hostIP": f"192.0.2.{index % 250}"}
    await store.update_status(PODS, {**pod, "status": status})


async def fill(store: MemoryStore, tasks: int) -> str:
    """The uid of the Framework, whose tasks all run but the last, and whose status says so."""
    made = await store.create(FRAMEWORKS, a_framework(tasks))
    created = 0
    async for change in store.watch(PODS, since=0):
        if change.happened is ChangeType.ADDED:
            created += 1
            if change.object["metadata"]["name"] != f"{NAME}-{ROLE}-{tasks - 1}":
                await place(store, int(change.object["metadata"]["labels"]["FC_TASK_INDEX"]))
            if created == tasks:
                break
    now = await store.list(FRAMEWORKS)
    if _running(now.items[0]) < tasks - 1:
        async for change in store.watch(FRAMEWORKS, since=now.version):
            if _running(change.object) == tasks - 1:
                break
    uid: str = made["metadata"]["uid"]
    return uid


def _running(framework: Object) -> int:
    counts: dict[str, int] = (framework.get("status") or {}).get("taskCounts") or {}
    return counts.get("AttemptRunning", 0)


async def tell_of_all(store: MemoryStore, tasks: int) -> None:
    """Give the Framework the status that FrameworkController gives it, with every task, and packed when it is large."""
    framework = await store.get(FRAMEWORKS, "default", NAME)
    roles = [{"name": ROLE, "taskStatuses": [_status(index) for index in range(tasks)]}]
    written = orjson.dumps(roles)
    large = len(written) >= 700 * 1024
    attempt = {
        **framework["status"]["attemptStatus"],
        "taskRoleStatuses": None if large else roles,
        "taskRoleStatusesCompressed": b64encode(gzip.compress(written)).decode() if large else None,
    }
    await store.update_status(
        FRAMEWORKS, {**framework, "status": {**framework["status"], "attemptStatus": attempt}}
    )


def _status(index: int) -> Object:
    """What that status says of one task."""
    now, uid = "2026-01-01T00:00:00Z", str(UUID(int=hash((NAME, index)) % 2**128))
    times = {"startTime": now, "runTime": now, "completionTime": None}
    pod = {
        "podName": f"{NAME}-{ROLE}-{index}",
        "podUID": uid,
        "podNodeName": f"node-{index % 250}",
        "podIP": _own_address(index),
        "podHostIP": f"192.0.2.{index % 250}",
    }
    retries = {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None}
    return {
        "index": index,
        **times,
        "transitionTime": now,
        "state": "AttemptRunning",
        "deletionPending": False,
        "retryPolicyStatus": retries,
        "attemptStatus": {"id": 0, **times, "instanceUID": f"0_{uid}", **pod, "completionStatus": None},
    }


def _own_address(index: int) -> str:
    return f"10.{64 + index // 65536}.{index // 256 % 256}.{index % 256}"


async def main(tasks: int) -> None:
    """Serve until there is nothing more on the input."""
    raise_open_file_limit()
    numbers, tokens = count(), some_tokens()
    store = MemoryStore(time.time, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")
    rooms, introducer = SessionManager(store), DiscoveryHook(tokens, _where)
    controller = FrameworkController(store, clock=time.time, chance=lambda: 0.5, attendants=[introducer])
    limits = RequestLimits(free=lambda request: is_probe(request) or is_rendezvous(request))
    runner = make_runner(
        make_app(parts_of(store, rendezvous=Rendezvous(rooms, tokens), limits=limits, metrics=Metrics()))
    )
    await runner.setup()
    async with asyncio.TaskGroup() as group:
        controlling = group.create_task(controller.run())
        uid = await fill(store, tasks)
        controlling.cancel()
        await asyncio.wait([controlling])
        await tell_of_all(store, tasks)
        meeting = group.create_task(rooms.run())
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        path, token = address_of("", "default", NAME, 0), await tokens.token(uid, 0)
        print(runner.addresses[0][1], path, token, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line == "place\n":
                await place(store, tasks - 1)
            print(time.monotonic() if line == "place\n" else rooms.waiters, flush=True)
        meeting.cancel()
    await runner.cleanup()


async def _where() -> LauncherEndpoint:
    return LauncherEndpoint("http://127.0.0.1")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
