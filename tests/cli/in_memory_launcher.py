"""
The real API and controller on a store in memory, served over real HTTP; the test acts as the nodes.

It runs in its own thread, so that a test can call commands synchronously.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any, TypeVar
from urllib.request import urlopen

from aiohttp import web

from launcher.api.app import make_app
from launcher.api.http.server import make_runner
from launcher.api.middleware.access_guard import LOOPBACK, AccessGuard
from launcher.controller.framework_controller import FrameworkController
from launcher.controller.service_control import ServiceControl
from launcher.core.errors import NotFound
from launcher.core.manifest import validate_framework
from launcher.core.planning.options import PlannerOptions
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, DeleteOptions, MergePatch, Object, ResourceKind
from tests.api.conftest import api_dependencies, memory_store
from tests.cluster.ports import free_port
from tests.eventually import TIMEOUT_SECONDS, eventually, until
from tests.in_memory_logs import InMemoryLogs

NODE = "node-1"
T = TypeVar("T")
Json = dict[str, Any]


class InMemoryLauncher:
    """The launcher, and the actions of its nodes."""

    def __init__(self, token: str | None = None, planner_options: PlannerOptions | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._token, self._planner_options = token, planner_options
        self._claimed = free_port()
        self._port = self._claimed.number
        self._runner: web.AppRunner | None = None
        self.call(self._open())
        self.start()

    async def _open(self) -> None:
        self.store, self.logs = memory_store(), InMemoryLogs()
        self._controller = FrameworkController(
            self.store,
            clock=time.time,
            jitter=lambda: 0.5,
            hooks=[ServiceControl(self.store)],
            planner_options=self._planner_options,
        )
        self._controlling = asyncio.create_task(self._controller.run())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Serve, on the same port as before."""
        self.call(self._start())

    async def _start(self) -> None:
        guard = AccessGuard(LOOPBACK, self._token)
        app = make_app(api_dependencies(self.store, logs=self.logs, guard=guard))
        self._runner = make_runner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    def until_watched(self, plural: str, watchers: int) -> None:
        """Wait until that many clients watch objects of that kind."""
        expected = f'launcher_watchers{{resource="{plural}"}} {float(watchers)}\n'
        until(
            lambda: expected in urlopen(f"{self.url}/metrics", timeout=TIMEOUT_SECONDS).read().decode(),
            f"{watchers} clients watch {plural}",
        )

    def stop(self) -> None:
        """Stop serving and close all connections."""
        if self._runner is not None:
            self.call(self._runner.cleanup())
        self._runner = None

    def close(self) -> None:
        """Stop the launcher and its thread."""
        self.stop()
        self._claimed.release()
        self.call(self._stop_controller())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_SECONDS)
        self._loop.close()

    async def _stop_controller(self) -> None:
        self._controller.stop()
        await self._controlling

    # Objects

    def create(self, framework: Json) -> None:
        """Store a Framework, as the API would."""
        manifest = validate_framework(framework)
        named = {"namespace": "default", **manifest.object["metadata"]}
        self.call(self.store.create(FRAMEWORKS, {**manifest.object, "metadata": named}))

    def get(self, name: str) -> Object:
        """The Framework as it is stored."""
        return self.call(self.store.get(FRAMEWORKS, "default", name))

    def until(self, name: str, state: str) -> Object:
        """The Framework, once it is in that state."""
        return self.call(eventually(lambda: self._in_state(name, state), f"{name} is {state}"))

    def until_message(self, name: str, message: str) -> None:
        """Wait until the Framework has that status message."""

        async def has_message() -> bool:
            status = (await self.store.get(FRAMEWORKS, "default", name)).get("status") or {}
            return bool(status.get("message") == message)

        self.call(eventually(has_message, f"the message of {name} is: {message}"))

    def names(self) -> list[str]:
        """The names of all Frameworks."""
        page = self.call(self.store.list(FRAMEWORKS))
        return [item["metadata"]["name"] for item in page.items]

    def remove_framework(self, name: str) -> None:
        """Remove a Framework once its deletion is requested."""
        self.call(eventually(lambda: self._deleting(FRAMEWORKS, name), f"Framework {name} is deleted"))
        self.call(
            self.store.patch(FRAMEWORKS, "default", name, MergePatch({"metadata": {"finalizers": None}}))
        )

    def create_event(
        self,
        kind: str,
        name: str,
        reason: str,
        message: str,
        *,
        uid: str = "",
        warning: bool = False,
        age: int = 0,
    ) -> None:
        """Create an event of *age* seconds ago."""
        now = (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "event-", "namespace": "default"},
            "involvedObject": {"kind": kind, "namespace": "default", "name": name, "uid": uid},
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        self.call(self.store.create(EVENTS, event))

    # Actions of nodes

    def run(self, pod: str, *lines: str) -> None:
        """Start the container of that pod as soon as it exists, and write these lines to its log."""
        self.call(self._run(pod, lines))

    async def _run(self, name: str, lines: Sequence[str]) -> None:
        pod = await eventually(lambda: self.startable_pod(name), f"pod {name} exists")
        if not pod["spec"].get("nodeName"):
            await self.store.patch(PODS, "default", name, MergePatch({"spec": {"nodeName": NODE}}))
        await self.logs.write(name, pod["metadata"]["uid"], "main", *lines)
        await self._report(name, "Running", {"running": {"startedAt": _now()}})

    def uid(self, pod: str) -> str:
        """The uid of that pod."""
        return str(self.call(self.store.get(PODS, "default", pod))["metadata"]["uid"])

    def until_replaced(self, pod: str, uid: str) -> None:
        """Wait until another pod of that name exists."""

        async def is_replaced() -> bool:
            found = await self._pod(pod)
            return found is not None and found["metadata"]["uid"] != uid

        self.call(eventually(is_replaced, f"pod {pod} is replaced"))

    def reject(self, pod: str, message: str) -> None:
        """Report that no node is suitable for the pod as soon as it exists, as a scheduler does."""
        self.call(self._reject(pod, message))

    async def _reject(self, name: str, message: str) -> None:
        pod = await eventually(lambda: self.startable_pod(name), f"pod {name} exists")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status = {**(pod.get("status") or {}), "conditions": [condition]}
        await self.store.update_status(PODS, {**pod, "status": status})

    def write(self, pod: str, *lines: str) -> None:
        """Write lines to the log of the container."""
        self.call(self.logs.write(pod, self.uid(pod), "main", *lines))

    def end(self, pod: str, code: int = 0, *lines: str) -> None:
        """Write these lines to the log of the container and terminate it with that exit code."""
        self.call(self._end(pod, code, lines))

    async def _end(self, name: str, code: int, lines: Sequence[str]) -> None:
        uid = (await self.store.get(PODS, "default", name))["metadata"]["uid"]
        await self.logs.write(name, uid, "main", *lines, ended=True)
        reason = "Error" if code else "Completed"
        ended = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _now()}}
        await self._report(name, "Failed" if code else "Succeeded", ended)

    def remove(self, pod: str) -> None:
        """Remove a pod once its deletion is requested."""
        self.call(self._remove(pod))

    async def _remove(self, name: str) -> None:
        async def is_deleted() -> bool:
            pod = await self._pod(name)
            return pod is None or bool(pod["metadata"].get("deletionTimestamp"))

        await eventually(is_deleted, f"pod {name} is deleted")
        with suppress(NotFound):  # a pod without a node is removed at once
            await self.store.delete(PODS, "default", name, DeleteOptions(grace=0))

    async def _report(self, name: str, phase: str, state: Json) -> None:
        pod = await self.store.get(PODS, "default", name)
        entry = {
            "name": "main",
            "state": state,
            "restartCount": 0,
            "ready": phase == "Running",
            "image": "busybox",
        }
        status = {**(pod.get("status") or {}), "phase": phase, "containerStatuses": [entry]}
        await self.store.update_status(PODS, {**pod, "status": status})

    # Calls

    async def _in_state(self, name: str, state: str) -> Object | None:
        framework = await self.store.get(FRAMEWORKS, "default", name)
        return framework if (framework.get("status") or {}).get("state") == state else None

    async def _deleting(self, kind: ResourceKind, name: str) -> Object | None:
        with suppress(NotFound):
            found = await self.store.get(kind, "default", name)
            return found if found["metadata"].get("deletionTimestamp") else None
        return None

    async def startable_pod(self, name: str) -> Object | None:
        """The pod, unless it has terminated and will be replaced."""
        pod = await self._pod(name)
        phase = None if pod is None else (pod.get("status") or {}).get("phase")
        return None if phase in ("Succeeded", "Failed") else pod

    async def _pod(self, name: str) -> Object | None:
        with suppress(NotFound):
            return await self.store.get(PODS, "default", name)
        return None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_SECONDS)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
