"""
``python -m tests.rig.rendezvous_server TASKS``: a launcher without nodes, with a Framework that lacks its last task.

It prints its port, the rendezvous path of the Framework, and the token of its pods. Then it reads commands: after
``waiters`` it prints the number of waiting requests, after ``complete`` the monotonic time at which it set the address
of the last task.
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
from launcher.rendezvous.handler import RendezvousHandler, attempt_url
from launcher.rendezvous.heartbeats import HeartbeatRecorder
from launcher.rendezvous.session_manager import SessionManager
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, PODS, ChangeType, Object
from launcher.wiring.rendezvous import raise_open_file_limit
from tests import builders
from tests.api.conftest import api_dependencies
from tests.rendezvous.harness import some_tokens

NAME = "meet"
ROLE = "worker"


def a_framework(tasks: int) -> Object:
    return builders.a_framework(
        builders.a_role(ROLE, tasks),
        name=NAME,
        metadata={"namespace": "default"},
        executionType="Start",
        discovery={"ports": {ROLE: 46866}},
    )


async def set_address(store: MemoryStore, index: int) -> None:
    """Sets the address of the pod of that task."""
    pod = await store.get(PODS, "default", f"{NAME}-{ROLE}-{index}")
    status = {"phase": "Running", "podIP": _pod_ip(index), "hostIP": f"192.0.2.{index % 250}"}
    await store.update_status(PODS, {**pod, "status": status})


async def create_framework(store: MemoryStore, tasks: int) -> str:
    """Creates the Framework and returns its uid when all its tasks but the last are running."""
    framework = await store.create(FRAMEWORKS, a_framework(tasks))
    created = 0
    async for change in store.watch(PODS, since=0):
        if change.type is ChangeType.ADDED:
            created += 1
            if change.object["metadata"]["name"] != f"{NAME}-{ROLE}-{tasks - 1}":
                await set_address(store, int(change.object["metadata"]["labels"]["FC_TASK_INDEX"]))
            if created == tasks:
                break
    listed = await store.list(FRAMEWORKS)
    if _running_tasks(listed.items[0]) < tasks - 1:
        async for change in store.watch(FRAMEWORKS, since=listed.version):
            if _running_tasks(change.object) == tasks - 1:
                break
    uid: str = framework["metadata"]["uid"]
    return uid


def _running_tasks(framework: Object) -> int:
    counts: dict[str, int] = (framework.get("status") or {}).get("taskCounts") or {}
    return counts.get("AttemptRunning", 0)


async def write_full_status(store: MemoryStore, tasks: int) -> None:
    """Writes the status that FrameworkController writes: with every task, and compressed if it is large."""
    framework = await store.get(FRAMEWORKS, "default", NAME)
    roles = [{"name": ROLE, "taskStatuses": [_task_status(index) for index in range(tasks)]}]
    serialized = orjson.dumps(roles)
    is_large = len(serialized) >= 700 * 1024
    attempt = {
        **framework["status"]["attemptStatus"],
        "taskRoleStatuses": None if is_large else roles,
        "taskRoleStatusesCompressed": b64encode(gzip.compress(serialized)).decode() if is_large else None,
    }
    await store.update_status(
        FRAMEWORKS, {**framework, "status": {**framework["status"], "attemptStatus": attempt}}
    )


def _task_status(index: int) -> Object:
    """The status of one task."""
    now, uid = "2026-01-01T00:00:00Z", str(UUID(int=hash((NAME, index)) % 2**128))
    times = {"startTime": now, "runTime": now, "completionTime": None}
    pod = {
        "podName": f"{NAME}-{ROLE}-{index}",
        "podUID": uid,
        "podNodeName": f"node-{index % 250}",
        "podIP": _pod_ip(index),
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


def _pod_ip(index: int) -> str:
    return f"10.{64 + index // 65536}.{index // 256 % 256}.{index % 256}"


async def main(tasks: int) -> None:
    """Serves until the input ends."""
    raise_open_file_limit()
    numbers, tokens = count(), some_tokens()
    store = MemoryStore(time.time, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")
    sessions, hook = SessionManager(store), DiscoveryHook(tokens, _endpoint)
    controller = FrameworkController(store, clock=time.time, jitter=lambda: 0.5, hooks=[hook])
    limits = RequestLimits(exempt=lambda request: is_probe(request) or is_rendezvous(request))
    handler = RendezvousHandler(sessions, tokens, HeartbeatRecorder(store, time.time))
    runner = make_runner(
        make_app(api_dependencies(store, rendezvous=handler, limits=limits, metrics=Metrics()))
    )
    await runner.setup()
    async with asyncio.TaskGroup() as group:
        controller_task = group.create_task(controller.run())
        uid = await create_framework(store, tasks)
        controller_task.cancel()
        await asyncio.wait([controller_task])
        await write_full_status(store, tasks)
        sessions_task = group.create_task(sessions.run())
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        path, token = attempt_url("", "default", NAME, 0), await tokens.create_token(uid, 0)
        print(runner.addresses[0][1], path, token, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line == "complete\n":
                await set_address(store, tasks - 1)
                print(time.monotonic(), flush=True)
            else:
                print(sessions.waiters, flush=True)
        sessions_task.cancel()
    await runner.cleanup()


async def _endpoint() -> LauncherEndpoint:
    return LauncherEndpoint("http://127.0.0.1")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
