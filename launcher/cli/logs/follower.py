"""Logs as they are written: of tasks that run, that start later, and of attempts that follow, until the end."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from launcher.cli.client.api_client import PODS, ApiClient
from launcher.cli.client.watch import pods_of, watch_framework, watch_objects
from launcher.cli.logs.log_sources import LogQuery, LogSource, TaskSelector, Write
from launcher.cli.logs.reader import copy_log
from launcher.cli.output.framework_summary import is_over
from launcher.core.errors import RequestError, Unavailable
from launcher.core.names import task_identity

Json = dict[str, Any]

#: More logs than these are not followed at once; the others follow as some of these end.
_MOST_STREAMS = 200
#: Seconds until a log is asked for again that is not there, or whose server is not.
_AGAIN = 1.0


class LogFollower:
    """Follows the logs of one Framework. *told* hears of each of its states."""

    def __init__(
        self,
        api: ApiClient,
        name: str,
        choice: TaskSelector,
        view: LogQuery,
        write: Write,
        told: Callable[[Json], None] = lambda _: None,
    ) -> None:
        self._api, self._name, self._choice, self._view = api, name, choice, view
        self._write, self._told = write, told
        self._readers: dict[tuple[str, str], _Reader] = {}
        self._room = asyncio.Semaphore(_MOST_STREAMS)
        self._listed = asyncio.Event()

    async def run(self) -> Json | None:
        """The Framework as it was when it was over; None if it was deleted. Everything has been written by then."""
        async with asyncio.TaskGroup() as tasks:
            pods = tasks.create_task(self._watch_pods(tasks))
            last = await self._until_over()
            await self._listed.wait()
            await self._look_once_more(tasks)
            pods.cancel()
            for reader in self._readers.values():
                reader.finish()
        if last is not None:
            await self._read_unseen(last)
        return last

    async def _until_over(self) -> Json | None:
        async with aclosing(watch_framework(self._api, self._name)) as seen:
            async for framework in seen:
                if framework is None:
                    return None
                self._told(framework)
                if is_over(framework):
                    return framework
        return None

    async def _watch_pods(self, tasks: asyncio.TaskGroup) -> None:
        async with aclosing(watch_objects(self._api, PODS, labels=pods_of(self._name))) as seen:
            async for each in seen:
                if each is None:
                    self._listed.set()
                else:
                    self._see(each.object, tasks, gone=each.gone)

    async def _look_once_more(self, tasks: asyncio.TaskGroup) -> None:
        """See what the watch may not have told yet."""
        with suppress(Unavailable):
            for pod in (await self._api.list(PODS, labels=pods_of(self._name)))[0]:
                self._see(pod, tasks)

    async def _read_unseen(self, framework: Json) -> None:
        """Write the logs of tasks whose pods were gone before anybody looked."""
        seen = {reader.source for reader in self._readers.values()}
        for source in self._choice.sources(framework):
            if source not in seen:
                with suppress(RequestError):
                    await copy_log(self._api, source, self._view.parameters, self._write)

    def _see(self, pod: Json, tasks: asyncio.TaskGroup, *, gone: bool = False) -> None:
        of = task_identity(pod)
        if of is None or not self._choice.has(of.role, of.index):
            return
        meta, status = pod["metadata"], pod.get("status") or {}
        over = gone or status.get("phase") in ("Succeeded", "Failed")
        runs = _runs(status)
        for source in self._choice.of_pod(pod["spec"], meta["name"], f"{of.role}-{of.index}"):
            if source.container in runs:
                reader = self._reader(source, meta["uid"], tasks)
                reader.see(runs[source.container], over=over)

    def _reader(self, source: LogSource, uid: str, tasks: asyncio.TaskGroup) -> "_Reader":
        key = (uid, source.container)
        if key not in self._readers:
            # What was written before anybody asked can be much; what comes later is wanted whole.
            view = LogQuery(timestamps=self._view.timestamps) if self._listed.is_set() else self._view
            self._readers[key] = reader = _Reader(self._api, source, uid, view, self._write)
            tasks.create_task(reader.run(self._room))
        return self._readers[key]


class _Reader:
    """Follows one container, through its restarts and those of the server, and writes each line once."""

    def __init__(self, api: ApiClient, source: LogSource, uid: str, view: LogQuery, write: Write) -> None:
        self._api, self.source, self._uid, self._view, self._write = api, source, uid, view, write
        #: The time of the last line, and all lines so far that were written at that time.
        self._last, self._latest = b"", list[bytes]()
        self._runs = 0
        self._over = False
        self._finished = asyncio.Event()
        self._news = asyncio.Event()

    def see(self, runs: int, *, over: bool) -> None:
        """The container has been started so many times; *over*, and it will not be again."""
        if (runs, over) != (self._runs, self._over):
            self._runs, self._over = runs, self._over or over
            self._news.set()

    def finish(self) -> None:
        """Read what is there, and no more."""
        self._finished.set()
        self._news.set()

    async def run(self, room: asyncio.Semaphore) -> None:
        """Write the lines until the container is over."""
        while True:
            self._news.clear()
            last = self._over or self._finished.is_set()
            complete = await self._stream(room, follow=not last)
            if last and complete:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(None if complete else _AGAIN):
                    await self._news.wait()

    async def _stream(self, room: asyncio.Semaphore, *, follow: bool) -> bool:
        """Write what is new; False when it should be asked for again."""
        async with room:
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
        known = _Known(self._last, self._latest) if self._last else None
        async with self._api.log(self.source.pod, self._parameters(follow)) as lines:
            async for line in lines:
                time, _, text = line.partition(b" ")
                if known is not None:
                    if known.covers(time, text):
                        continue
                    known = None
                self._latest = [*self._latest, text] if time == self._last else [text]
                self._last = time
                self._write(self.source, line if self._view.timestamps else text)

    def _parameters(self, follow: bool) -> dict[str, str]:
        asked = self._view.parameters
        if self._last:
            asked = {"sinceTime": f"{self._last[:19].decode()}Z"}
        return {
            **asked,
            "container": self.source.container,
            "uid": self._uid,
            "timestamps": "true",
            "follow": "true" if follow else "false",
        }


class _Known:
    """Tells lines that come again, after a log has been asked for from the second of its last known line on."""

    def __init__(self, time: bytes, latest: Sequence[bytes]) -> None:
        self._time, self._latest = time, latest
        self._found = 0

    def covers(self, time: bytes, text: bytes) -> bool:
        """Whether the line is one of those that are known, or from before them."""
        if time != self._time or self._found == len(self._latest):
            return time < self._time
        # What is written at once has one time: the known lines are found among the others by what they say.
        self._found = self._found + 1 if text == self._latest[self._found] else 0
        return True


def _runs(status: Json) -> dict[str, int]:
    """How often each container has been started; those that never were are left out."""
    found: dict[str, int] = {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(kind) or ():
            state, last = entry.get("state") or {}, entry.get("lastState") or {}
            if ("waiting" not in state and state) or last.get("terminated"):
                found[entry["name"]] = int(entry.get("restartCount") or 0) + 1
    return found
