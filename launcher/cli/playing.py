"""A launcher for one Framework: it is started, shown, and everything of it ended."""

import asyncio
import signal
import time
from contextlib import aclosing, suppress
from typing import Any

from launcher.cli import states
from launcher.cli.client import EVENTS, FRAMEWORKS, PODS, Api, Target, complaints, connected
from launcher.cli.complaint import Refused, tell
from launcher.cli.files import Text
from launcher.cli.following import Follower
from launcher.cli.happenings import concerns, task_of
from launcher.cli.loglines import Choice, View
from launcher.cli.showing import Show, show
from launcher.cli.terminal import one_line
from launcher.cli.watching import changes, pods_of
from launcher.core.ages import age
from launcher.core.errors import InvalidObject, NotFound, RequestError
from launcher.settings import Settings
from launcher.wiring.local import local_launcher

Json = dict[str, Any]

#: The reason of the event that tells what our own last line tells.
_OWN_END = "FrameworkFailed"
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def play(settings: Settings, text: Text) -> int:
    """The exit code that tells how the Framework ended. Raises Complaint."""
    with complaints():
        return asyncio.run(_play(settings, text))


async def _play(settings: Settings, text: Text) -> int:
    interruption = _Interruption()
    async with (
        local_launcher(settings, throw_away=True) as running,
        connected(Target(running.url, token=running.token)) as anywhere,
    ):
        framework = await _created(anywhere, text)
        api = anywhere.within(framework["metadata"]["namespace"])
        return await _Play(api, framework, interruption).run()


async def _created(api: Api, text: Text) -> Json:
    """The Framework, stored and to be started."""
    try:
        framework, _ = await api.create(text.data, text.media, namespace=text.namespace or api.namespace)
    except InvalidObject as error:
        raise Refused(*text.located(error.problems)) from error
    meta = framework["metadata"]
    if framework["spec"].get("executionType") == "Create":
        # Somebody who says run does not want it held.
        return await api.within(meta["namespace"]).merge(
            FRAMEWORKS, meta["name"], {"spec": {"executionType": "Start"}}
        )
    return framework


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

    def __init__(self, api: Api, framework: Json, interruption: _Interruption) -> None:
        self._api, self._interruption = api, interruption
        self._name = framework["metadata"]["name"]
        self._show: Show = show()
        self._began = time.time()

    async def run(self) -> int:
        async with asyncio.TaskGroup() as tasks:
            helpers = [
                tasks.create_task(self._show.run()),
                tasks.create_task(self._warn()),
                tasks.create_task(self._heed()),
            ]
            follower = Follower(
                self._api, self._name, Choice(), View(), self._show.line, self._show.framework
            )
            end = await follower.run()
            await self._end_pods()
            for helper in helpers:
                helper.cancel()
        return self._conclude(end)

    async def _warn(self) -> None:
        """Tell what goes wrong, each thing once."""
        told: set[str] = set()
        async with aclosing(changes(self._api, EVENTS)) as seen:
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
        async with aclosing(changes(self._api, PODS, labels=pods_of(self._name))) as seen:
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

    def _conclude(self, end: Json | None) -> int:
        """The exit code, after one line that says how it ended."""
        took = age(time.time() - self._began)
        if self._interruption.number:
            tell(f"{self._name} was stopped after {took}")
            return 128 + self._interruption.number
        if end is None:
            tell(f"{self._name} was deleted after {took}")
            return 1
        word = "succeeded" if states.succeeded(end) else "failed"
        tell(f"{self._name} {word} after {took}: {states.outcome(end)}")
        return states.exit_code(end)


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
