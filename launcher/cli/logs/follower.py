"""Logs as they are written, also by later tasks and attempts, until the Framework completes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from launcher.cli.client.api_path import PODS
from launcher.cli.client.async_client import AsyncApiClient
from launcher.cli.client.watch import pod_selector, watch_framework, watch_objects
from launcher.cli.logs.log_sources import LogQuery, LogSource, TaskSelector, WriteLine
from launcher.cli.logs.reader import copy_log
from launcher.cli.output.framework_summary import is_completed
from launcher.core.errors import RequestError, Unavailable
from launcher.core.names import task_identity
from launcher.core.pods.observed_pod import has_terminated
from launcher.store.backoff import wait_or_timeout

Json = dict[str, Any]

#: The number of logs that are followed at once; the others are read when some of these end.
_MAX_STREAMS = 200
#: The delay before a log is requested again that does not exist yet, or whose server is unavailable.
_RETRY_SECONDS = 1.0


class LogFollower:
    """Follows the logs of one Framework. *on_framework* is called with each of its states."""

    def __init__(
        self,
        api: AsyncApiClient,
        name: str,
        selector: TaskSelector,
        query: LogQuery,
        write: WriteLine,
        on_framework: Callable[[Json], None] = lambda _: None,
    ) -> None:
        self._api, self._name, self._selector, self._query = api, name, selector, query
        self._write, self._on_framework = write, on_framework
        self._readers: dict[tuple[str, str], _ContainerLog] = {}
        self._streams = asyncio.Semaphore(_MAX_STREAMS)
        self._listed = asyncio.Event()

    async def run(self) -> Json | None:
        """The completed Framework, after all its logs have been written; None if it was deleted."""
        async with asyncio.TaskGroup() as tasks:
            pods = tasks.create_task(self._watch_pods(tasks))
            completed = await self._wait_for_completion()
            await self._listed.wait()
            await self._list_pods(tasks)
            pods.cancel()
            for reader in self._readers.values():
                reader.finish()
        if completed is not None:
            await self._read_missed_logs(completed)
        return completed

    async def _wait_for_completion(self) -> Json | None:
        async with aclosing(watch_framework(self._api, self._name)) as states:
            async for framework in states:
                if framework is None:
                    return None
                self._on_framework(framework)
                if is_completed(framework):
                    return framework
        return None

    async def _watch_pods(self, tasks: asyncio.TaskGroup) -> None:
        async with aclosing(watch_objects(self._api, PODS, labels=pod_selector(self._name))) as changes:
            async for change in changes:
                if change is None:
                    self._listed.set()
                else:
                    self._observe_pod(change.object, tasks, deleted=change.deleted)

    async def _list_pods(self, tasks: asyncio.TaskGroup) -> None:
        """Observe the pods that the watch may not have delivered yet."""
        with suppress(Unavailable):
            for pod in (await self._api.list(PODS, labels=pod_selector(self._name)))[0]:
                self._observe_pod(pod, tasks)

    async def _read_missed_logs(self, framework: Json) -> None:
        """Write the logs of tasks whose pods were deleted before they were observed."""
        read = {reader.source for reader in self._readers.values()}
        for source in self._selector.sources(framework):
            if source not in read:
                with suppress(RequestError):
                    await copy_log(self._api, source, self._query.parameters, self._write)

    def _observe_pod(self, pod: Json, tasks: asyncio.TaskGroup, *, deleted: bool = False) -> None:
        task = task_identity(pod)
        if task is None or not self._selector.includes(task.role, task.index):
            return
        meta, status = pod["metadata"], pod.get("status") or {}
        terminated = deleted or has_terminated(pod)
        starts = _container_starts(status)
        for source in self._selector.pod_sources(pod["spec"], meta["name"], f"{task.role}-{task.index}"):
            if source.container in starts:
                reader = self._reader(source, meta["uid"], tasks)
                reader.observe(starts[source.container], terminated=terminated)

    def _reader(self, source: LogSource, uid: str, tasks: asyncio.TaskGroup) -> "_ContainerLog":
        key = (uid, source.container)
        if key not in self._readers:
            # --tail and --since limit what was written before the command started, not what is written later.
            query = LogQuery(timestamps=self._query.timestamps) if self._listed.is_set() else self._query
            self._readers[key] = reader = _ContainerLog(self._api, source, uid, query, self._write)
            tasks.create_task(reader.run(self._streams))
        return self._readers[key]


class _ContainerLog:
    """Follows one container, through its restarts and those of the server, and writes each line once."""

    def __init__(
        self, api: AsyncApiClient, source: LogSource, uid: str, query: LogQuery, write: WriteLine
    ) -> None:
        self._api, self.source, self._uid, self._query, self._write = api, source, uid, query, write
        #: The time of the last line, and all lines of that time so far.
        self._last_time, self._last_lines = b"", list[bytes]()
        self._starts = 0
        self._terminated = False
        self._finished = asyncio.Event()
        self._changed = asyncio.Event()

    def observe(self, starts: int, *, terminated: bool) -> None:
        """The container has been started *starts* times; a *terminated* one is not started again."""
        if (starts, terminated) != (self._starts, self._terminated):
            self._starts, self._terminated = starts, self._terminated or terminated
            self._changed.set()

    def finish(self) -> None:
        """Read to the current end of the log and stop."""
        self._finished.set()
        self._changed.set()

    async def run(self, streams: asyncio.Semaphore) -> None:
        """Write the lines until the container has terminated."""
        while True:
            self._changed.clear()
            is_last = self._terminated or self._finished.is_set()
            is_complete = await self._stream(streams, follow=not is_last)
            if is_last and is_complete:
                return
            await wait_or_timeout(self._changed, None if is_complete else _RETRY_SECONDS)

    async def _stream(self, streams: asyncio.Semaphore, *, follow: bool) -> bool:
        """Write the new lines. Returns False when the log has to be requested again."""
        async with streams:
            reading = asyncio.create_task(self._read(follow=follow))
            finished = asyncio.create_task(self._finished.wait())
            try:
                await asyncio.wait(
                    {reading, finished} if follow else {reading}, return_when=asyncio.FIRST_COMPLETED
                )
                if not reading.done():
                    return False
                await reading
            except RequestError:
                return not follow
            except Unavailable:
                return False
            finally:
                for task in (reading, finished):
                    task.cancel()
                await asyncio.gather(reading, finished, return_exceptions=True)
        return True

    async def _read(self, *, follow: bool) -> None:
        written = _WrittenLines(self._last_time, self._last_lines) if self._last_time else None
        async with self._api.log(self.source.pod, self._parameters(follow)) as lines:
            async for line in lines:
                time, _, text = line.partition(b" ")
                if written is not None:
                    if written.include(time, text):
                        continue
                    written = None
                self._last_lines = [*self._last_lines, text] if time == self._last_time else [text]
                self._last_time = time
                self._write(self.source, line if self._query.timestamps else text)

    def _parameters(self, follow: bool) -> dict[str, str]:
        query = self._query.parameters
        if self._last_time:
            query = {"sinceTime": f"{self._last_time[:19].decode()}Z"}
        return {
            **query,
            "container": self.source.container,
            "uid": self._uid,
            "timestamps": "true",
            "follow": "true" if follow else "false",
        }


class _WrittenLines:
    """Recognises lines that are received again, after a log is requested from the second of its last line."""

    def __init__(self, time: bytes, lines: Sequence[bytes]) -> None:
        self._time, self._lines = time, lines
        self._matched = 0

    def include(self, time: bytes, text: bytes) -> bool:
        """Whether the line has been written already."""
        if time != self._time or self._matched == len(self._lines):
            return time < self._time
        # Lines that are written at once have the same time; their text decides which of them are known.
        self._matched = self._matched + 1 if text == self._lines[self._matched] else 0
        return True


def _container_starts(status: Json) -> dict[str, int]:
    """The number of starts of each container that has been started."""
    starts: dict[str, int] = {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(kind) or ():
            state, last = entry.get("state") or {}, entry.get("lastState") or {}
            if ("waiting" not in state and state) or last.get("terminated"):
                starts[entry["name"]] = int(entry.get("restartCount") or 0) + 1
    return starts
