"""A launcher for the objects of one file: they are started, shown, and everything of them is ended."""

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from launcher.cli.client.api_client import (
    EVENTS,
    FRAMEWORKS,
    PODS,
    ApiClient,
    ApiPath,
    ServerConfig,
    complaints,
    connected,
)
from launcher.cli.client.watch import pods_of, watch_objects
from launcher.cli.errors import UsageError, print_error
from launcher.cli.logs.follower import LogFollower
from launcher.cli.logs.log_sources import LogQuery, LogSource, TaskSelector
from launcher.cli.manifest_file import ManifestFile
from launcher.cli.output import framework_summary
from launcher.cli.output.event_table import concerns, task_of
from launcher.cli.output.terminal import one_line
from launcher.cli.progress_display import ProgressDisplay, show
from launcher.core.errors import InvalidObject, NotFound, RequestError, Unavailable
from launcher.core.timestamps import age
from launcher.settings import Settings
from launcher.wiring.local import local_launcher

Json = dict[str, Any]

#: The reason of the event that tells what our own last line tells.
_OWN_END = "FrameworkFailed"
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_framework(settings: Settings, texts: Sequence[ManifestFile]) -> int:
    """The exit code of the first Framework in the file that failed, 0 if none did. Raises CommandError."""
    with complaints():
        return asyncio.run(_play(settings, texts))


async def _play(settings: Settings, texts: Sequence[ManifestFile]) -> int:
    interruption, seen = _Interruption(), show()
    async with (
        local_launcher(settings, throw_away=True) as running,
        connected(ServerConfig(running.url, token=running.token)) as anywhere,
    ):
        frameworks = [await _created(anywhere, text) for text in texts]
        plays = [
            _Play(
                anywhere.within(each["metadata"]["namespace"]),
                each,
                interruption,
                seen,
                is_alone=len(frameworks) == 1,
            )
            for each in frameworks
        ]
        async with asyncio.TaskGroup() as tasks:
            showing = tasks.create_task(seen.run())
            running_plays = [tasks.create_task(play.run()) for play in plays]
            await asyncio.wait(running_plays)
            showing.cancel()
        codes = [play.conclude(task.result()) for play, task in zip(plays, running_plays, strict=True)]
        return next((code for code in codes if code), 0)


async def _created(api: ApiClient, text: ManifestFile) -> Json:
    """The Framework of the document, stored and to be started."""
    namespace, kind = text.namespace or api.namespace, text.job_kind
    resource = FRAMEWORKS if kind is None else ApiPath(f"/apis/{kind.api_version}", kind.plural)
    try:
        stored, _ = await api.create(text.data, text.media, namespace=namespace, resource=resource)
    except InvalidObject as error:
        raise UsageError(*text.located(error.errors)) from error
    name, within = stored["metadata"]["name"], api.within(stored["metadata"]["namespace"])
    if kind is not None:
        if (stored["spec"].get("runPolicy") or {}).get("suspend"):
            await within.merge(resource, name, {"spec": {"runPolicy": {"suspend": False}}})
        return await _framework_of_job(within, name)
    if stored["spec"].get("executionType") == "Create":
        # The command itself asks for the start.
        return await within.merge(FRAMEWORKS, name, {"spec": {"executionType": "Start"}})
    return stored


async def _framework_of_job(api: ApiClient, name: str) -> Json:
    """The Framework that the job controller creates for the job of that name."""
    async with aclosing(watch_objects(api, FRAMEWORKS, fields=f"metadata.name={name}")) as seen:
        async for each in seen:
            if each is not None and not each.gone:
                return each.object
    raise Unavailable(f"the Framework of {name} was never created")


class _Interruption:
    """How often, and by which signal first, the user has asked to stop."""

    def __init__(self) -> None:
        self.number = 0
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _STOPS:
            loop.add_signal_handler(number, self._hear, number)

    def _hear(self, number: int) -> None:
        (self.insisted if self.asked.is_set() else self.asked).set()
        self.number = self.number or number


class _Play:
    """One Framework from its creation to the end of its last pod."""

    def __init__(
        self,
        api: ApiClient,
        framework: Json,
        interruption: _Interruption,
        seen: ProgressDisplay,
        *,
        is_alone: bool,
    ) -> None:
        self._api, self._interruption, self._show, self._is_alone = api, interruption, seen, is_alone
        self._name = framework["metadata"]["name"]
        self._began = time.time()

    async def run(self) -> Json | None:
        """The Framework as it ended; None if it was deleted."""
        async with asyncio.TaskGroup() as tasks:
            helpers = [tasks.create_task(self._warn()), tasks.create_task(self._heed())]
            follower = LogFollower(
                self._api, self._name, TaskSelector(), LogQuery(), self._line, self._show.framework
            )
            end = await follower.run()
            await self._end_pods()
            for helper in helpers:
                helper.cancel()
        return end

    def _line(self, source: LogSource, line: bytes) -> None:
        if not self._is_alone:
            task, label = (f"{self._name}/{text}" for text in (source.task, source.label))
            source = replace(source, task=task, label=label)
        self._show.line(source, line)

    async def _warn(self) -> None:
        """Tell what goes wrong, each thing once."""
        told: set[str] = set()
        async with aclosing(watch_objects(self._api, EVENTS)) as seen:
            async for each in seen:
                if each is None or not self._matters(each.object):
                    continue
                event = each.object
                words = f"{event.get('reason')}: {one_line(event.get('message') or '')}"
                line = f"warning: {task_of(event, self._name) or self._name}: {words}"
                if line not in told:
                    told.add(line)
                    self._show.say(line)

    def _matters(self, event: Json) -> bool:
        bad = event.get("type") == "Warning" and event.get("reason") != _OWN_END
        return bad and concerns(event, self._name)

    async def _heed(self) -> None:
        """Stop the Framework when asked to, and kill its pods when asked again."""
        await self._interruption.asked.wait()
        self._show.say(f"stopping {self._name}; Ctrl-C again kills it at once")
        with suppress(RequestError):
            await self._api.merge(FRAMEWORKS, self._name, {"spec": {"executionType": "Stop"}})
        await self._interruption.insisted.wait()
        self._show.say(f"killing {self._name}")
        for pod in await self._pods():
            await self._delete(pod, {"gracePeriodSeconds": 0})

    async def _end_pods(self) -> None:
        """End what still runs, as it may under cleanPodPolicy None, and wait until it has."""
        for pod in await self._pods():
            if not _ended(pod):
                await self._delete(pod, {})
        async with aclosing(watch_objects(self._api, PODS, labels=pods_of(self._name))) as seen:
            left: set[str] = set()
            listed = False
            async for each in seen:
                listed = listed or each is None
                if each is not None:
                    over = each.gone or _ended(each.object)
                    (left.discard if over else left.add)(each.object["metadata"]["uid"])
                if listed and not left:
                    return

    async def _pods(self) -> list[Json]:
        return (await self._api.list(PODS, labels=pods_of(self._name)))[0]

    async def _delete(self, pod: Json, options: Json) -> None:
        with suppress(NotFound):
            await self._api.delete(PODS, pod["metadata"]["name"], options)

    def conclude(self, end: Json | None) -> int:
        """The exit code, after one line that says how it ended."""
        took = age(time.time() - self._began)
        if self._interruption.number:
            print_error(f"{self._name} was stopped after {took}")
            return 128 + self._interruption.number
        if end is None:
            print_error(f"{self._name} was deleted after {took}")
            return 1
        word = "succeeded" if framework_summary.succeeded(end) else "failed"
        print_error(f"{self._name} {word} after {took}: {framework_summary.outcome(end)}")
        return framework_summary.exit_code(end)


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
