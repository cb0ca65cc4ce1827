"""
A launcher whose nodes the test plays: the real API and controller on a store in memory, over real HTTP.

It lives in a thread of its own, so that commands can be called as users call them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any, TypeVar
from urllib.request import urlopen

from aiohttp import web

from launcher.api.app import make_app
from launcher.api.http.server import make_runner
from launcher.api.middleware.access_guard import LOOPBACK, Guard
from launcher.controller.framework_controller import FrameworkController
from launcher.controller.service_control import ServiceControl
from launcher.core.errors import BadRequest, NotFound
from launcher.core.manifest import validate_framework
from launcher.core.pods.log_options import PodLogOptions
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, DeleteOptions, MergePatch, Object, ResourceKind
from tests.api.conftest import memory_store, parts_of
from tests.cluster.ports import free_port

PATIENCE = 60.0
NODE = "node-1"
T = TypeVar("T")
Json = dict[str, Any]


class WrittenLogs:
    """What containers have written, in memory: lines with their times, until the container has ended."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
        self._ended: set[tuple[str, str, str]] = set()
        self._news = asyncio.Condition()

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        return [key[2] for key in self._lines if key[0] == pod and uid in (None, key[1])]

    def uid_before(self, namespace: str, pod: str, uid: str | None) -> str | None:
        uids = list(dict.fromkeys(key[1] for key in self._lines if key[0] == pod))
        at = uids.index(uid) if uid in uids else len(uids) - (uid is None)
        return uids[at - 1] if at > 0 else None

    async def read(
        self, namespace: str, pod: str, uid: str | None, container: str, view: PodLogOptions
    ) -> AsyncIterator[bytes]:
        found = [key for key in self._lines if (key[0], key[2]) == (pod, container) and uid in (None, key[1])]
        if not found:
            raise NotFound(f"{pod} has no log")
        if view.previous:
            raise BadRequest(f'previous terminated container "{container}" in pod "{pod}" not found')
        key = found[-1]
        start = sum(written < (view.since or 0) for written, _ in self._lines[key])
        if view.tail_lines is not None:
            start = max(start, len(self._lines[key]) - view.tail_lines)
        while True:
            for written, text in self._lines[key][start:]:
                yield _line(written, text, view.timestamps)
            start = max(start, len(self._lines[key]))
            if not view.follow or key in self._ended:
                return
            async with self._news:
                await self._news.wait()

    async def write(self, pod: str, uid: str, container: str, *lines: str, ended: bool = False) -> None:
        async with self._news:
            # As a node does it: what is written at once has one time.
            key, now = (pod, uid, container), time.time()
            self._lines.setdefault(key, []).extend((now, line) for line in lines)
            if ended:
                self._ended.add(key)
            self._news.notify_all()


def _line(written: float, text: str, timestamps: bool) -> bytes:
    stamp = datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if timestamps else ""
    return f"{stamp}{text}\n".encode()


class World:
    """The launcher, and what a test does in the place of its nodes."""

    def __init__(self, token: str | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._token = token
        self._claimed = free_port()
        self._port = self._claimed.number
        self._runner: web.AppRunner | None = None
        self._call(self._open())
        self.start()

    async def _open(self) -> None:
        self.store, self._logs = memory_store(), WrittenLogs()
        self._controller = FrameworkController(
            self.store, clock=time.time, chance=lambda: 0.5, attendants=[ServiceControl(self.store)]
        )
        self._controlling = asyncio.create_task(self._controller.run())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Serve, where it was served before if it was."""
        self._call(self._start())

    async def _start(self) -> None:
        guard = Guard(LOOPBACK, self._token)
        app = make_app(parts_of(self.store, logs=self._logs, guard=guard))
        self._runner = make_runner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    def until_watched(self, plural: str, watchers: int) -> None:
        """Wait until so many clients watch objects of that kind."""
        ends = time.monotonic() + PATIENCE
        wanted = f'launcher_watchers{{resource="{plural}"}} {watchers}\n'
        while wanted not in urlopen(f"{self.url}/metrics", timeout=PATIENCE).read().decode():
            assert time.monotonic() < ends, f"nobody watches {plural}"
            time.sleep(0.02)

    def stop(self) -> None:
        """No longer serve; whoever is connected is cut off."""
        if self._runner is not None:
            self._call(self._runner.cleanup())
        self._runner = None

    def close(self) -> None:
        """End everything."""
        self.stop()
        self._claimed.give_back()
        self._call(self._stop_controller())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _stop_controller(self) -> None:
        self._controller.stop()
        await self._controlling

    # Objects

    def create(self, framework: Json) -> None:
        """Store a Framework, as the API would."""
        manifest = validate_framework(framework)
        named = {"namespace": "default", **manifest.object["metadata"]}
        self._call(self.store.create(FRAMEWORKS, {**manifest.object, "metadata": named}))

    def get(self, name: str) -> Object:
        """The Framework as it is."""
        return self._call(self.store.get(FRAMEWORKS, "default", name))

    def until(self, name: str, state: str) -> Object:
        """The Framework, once it is in that state."""
        return self._call(self._until(lambda: self._in_state(name, state), f"{name} is never {state}"))

    def until_message(self, name: str, message: str) -> None:
        """Wait until the status of the Framework says this."""

        async def look() -> bool | None:
            status = (await self.store.get(FRAMEWORKS, "default", name)).get("status") or {}
            return True if status.get("message") == message else None

        self._call(self._until(look, f"{name} never says: {message}"))

    def names(self) -> list[str]:
        """Of every Framework there is."""
        page = self._call(self.store.list(FRAMEWORKS))
        return [item["metadata"]["name"] for item in page.items]

    def forget(self, name: str) -> None:
        """Let a Framework go once somebody has asked for its end."""
        self._call(self._until(lambda: self._deleting(FRAMEWORKS, name), f"{name} is never deleted"))
        self._call(
            self.store.patch(FRAMEWORKS, "default", name, MergePatch({"metadata": {"finalizers": None}}))
        )

    def happen(
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
        """Write an event about something, as of *age* seconds ago."""
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
        self._call(self.store.create(EVENTS, event))

    # The node's part

    def run(self, pod: str, *lines: str) -> None:
        """Start the container of that pod, as soon as there is one, and have it write these lines."""
        self._call(self._run(pod, lines))

    async def _run(self, name: str, lines: Sequence[str]) -> None:
        pod = await self._until(lambda: self._startable(name), f"there is no pod {name}")
        if not pod["spec"].get("nodeName"):
            await self.store.patch(PODS, "default", name, MergePatch({"spec": {"nodeName": NODE}}))
        await self._logs.write(name, pod["metadata"]["uid"], "main", *lines)
        await self._report(name, "Running", {"running": {"startedAt": _now()}})

    def uid(self, pod: str) -> str:
        """The uid of that pod."""
        return str(self._call(self.store.get(PODS, "default", pod))["metadata"]["uid"])

    def until_replaced(self, pod: str, uid: str) -> None:
        """Wait until there is another pod of that name."""

        async def look() -> bool | None:
            found = await self._pod(pod)
            return True if found is not None and found["metadata"]["uid"] != uid else None

        self._call(self._until(look, f"there is no other {pod}"))

    def write(self, pod: str, *lines: str) -> None:
        """Have the container write more."""
        self._call(self._logs.write(pod, self.uid(pod), "main", *lines))

    def end(self, pod: str, code: int = 0, *lines: str) -> None:
        """Have the container write these lines and end with that exit code."""
        self._call(self._end(pod, code, lines))

    async def _end(self, name: str, code: int, lines: Sequence[str]) -> None:
        uid = (await self.store.get(PODS, "default", name))["metadata"]["uid"]
        await self._logs.write(name, uid, "main", *lines, ended=True)
        reason = "Error" if code else "Completed"
        ended = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _now()}}
        await self._report(name, "Failed" if code else "Succeeded", ended)

    def remove(self, pod: str) -> None:
        """Let a pod go that is to be deleted."""
        self._call(self._remove(pod))

    async def _remove(self, name: str) -> None:
        async def is_told() -> bool | None:
            pod = await self._pod(name)
            return True if pod is None or pod["metadata"].get("deletionTimestamp") else None

        await self._until(is_told, f"{name} is never deleted")
        with suppress(NotFound):  # one that never had a node goes by itself
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

    async def _startable(self, name: str) -> Object | None:
        """The pod, unless it is one that has ended and makes room for the next."""
        pod = await self._pod(name)
        phase = None if pod is None else (pod.get("status") or {}).get("phase")
        return None if phase in ("Succeeded", "Failed") else pod

    async def _pod(self, name: str) -> Object | None:
        with suppress(NotFound):
            return await self.store.get(PODS, "default", name)
        return None

    async def _until(self, look: Callable[[], Coroutine[Any, Any, T | None]], complaint: str) -> T:
        ends = time.monotonic() + PATIENCE
        while (found := await look()) is None:
            assert time.monotonic() < ends, complaint
            await asyncio.sleep(0.01)
        return found

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
