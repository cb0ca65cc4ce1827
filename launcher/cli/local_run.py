"""A launcher for the objects of one file: creates them, shows their progress, and stops all their pods at the end."""

import asyncio
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from launcher.cli.client.api_path import EVENTS, FRAMEWORKS, PODS, ApiPath
from launcher.cli.client.async_client import AsyncApiClient, connected
from launcher.cli.client.server_config import ServerConfig
from launcher.cli.client.watch import pod_selector, watch_objects
from launcher.cli.errors import UsageError, command_errors, print_error
from launcher.cli.finding_reporter import FindingReporter, reported_findings
from launcher.cli.logs.follower import LogFollower
from launcher.cli.logs.log_sources import LogQuery, LogSource, TaskSelector
from launcher.cli.manifest_file import ManifestFile
from launcher.cli.output import framework_summary
from launcher.cli.output.event_table import is_about, task_of
from launcher.cli.output.terminal import one_line
from launcher.cli.progress_display import ProgressDisplay, make_display
from launcher.core.errors import InvalidObject, NotFound, RequestError, Unavailable
from launcher.core.pods.observed_pod import has_terminated
from launcher.core.timestamps import age
from launcher.settings.local import DOCKER, Settings
from launcher.wiring.local import local_launcher

Json = dict[str, Any]

#: The reason of the event with the same content as the last line of this command.
_FAILED_EVENT = "FrameworkFailed"
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_frameworks(settings: Settings, documents: Sequence[ManifestFile]) -> int:
    """The exit code of the first Framework that failed, 0 if all succeeded. Raises CommandError."""
    with command_errors():
        return asyncio.run(_run_frameworks(settings, documents))


async def _run_frameworks(settings: Settings, documents: Sequence[ManifestFile]) -> int:
    interruption, display = _Interruption(), make_display()
    async with (
        local_launcher(settings, stop_shim=True) as launcher,
        connected(ServerConfig(launcher.url, token=launcher.token)) as api,
    ):
        frameworks = [await _create(api, document) for document in documents]
        unused = (
            []
            if settings.runtime == DOCKER
            else sorted({image for each in frameworks for image in _images(each)} - settings.images.keys())
        )
        if unused:
            print_error(
                "Images are not pulled: containers use the files of this machine. To use images: --runtime docker; to "
                f"overlay a directory: --image {unused[0]}=DIR"
            )
        runs = [
            _LocalRun(
                api.in_namespace(each["metadata"]["namespace"]),
                each,
                interruption,
                display,
                is_single=len(frameworks) == 1,
            )
            for each in frameworks
        ]
        async with asyncio.TaskGroup() as tasks:
            display_task = tasks.create_task(display.run())
            run_tasks = [tasks.create_task(run.run()) for run in runs]
            await asyncio.wait(run_tasks)
            display_task.cancel()
        codes = [run.report_result(task.result()) for run, task in zip(runs, run_tasks, strict=True)]
        return next((code for code in codes if code), 0)


async def _create(api: AsyncApiClient, document: ManifestFile) -> Json:
    """The Framework of the document, created and started."""
    namespace, kind = document.namespace or api.namespace, document.job_kind
    resource = FRAMEWORKS if kind is None else ApiPath(f"/apis/{kind.api_version}", kind.plural)
    try:
        created = await api.create(document.data, document.media, namespace=namespace, resource=resource)
    except InvalidObject as error:
        raise UsageError(*document.located(error.errors)) from error
    name, api = created["metadata"]["name"], api.in_namespace(created["metadata"]["namespace"])
    if kind is not None:
        if (created["spec"].get("runPolicy") or {}).get("suspend"):
            await api.merge(resource, name, {"spec": {"runPolicy": {"suspend": False}}})
        return await _framework_of_job(api, name)
    if created["spec"].get("executionType") == "Create":
        # Running the command is the request to start.
        return await api.merge(FRAMEWORKS, name, {"spec": {"executionType": "Start"}})
    return created


def _images(framework: Json) -> Iterator[str]:
    """The images of all containers."""
    for role in framework["spec"]["taskRoles"]:
        pod = role["task"]["pod"]["spec"]
        for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
            if image := container.get("image"):
                yield image


async def _framework_of_job(api: AsyncApiClient, name: str) -> Json:
    """The Framework that the job controller creates for the job of that name."""
    async with aclosing(watch_objects(api, FRAMEWORKS, fields=f"metadata.name={name}")) as changes:
        async for change in changes:
            if change is not None and not change.deleted:
                return change.object
    raise Unavailable(f"the Framework of {name} was never created")


class _Interruption:
    """Signals of the user: the first one stops the Frameworks, the second one kills their pods."""

    def __init__(self) -> None:
        #: The number of the first signal, or 0.
        self.signal = 0
        self.stop = asyncio.Event()
        self.kill = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        (self.kill if self.stop.is_set() else self.stop).set()
        self.signal = self.signal or number


class _LocalRun:
    """One Framework from its creation to the termination of its last pod."""

    def __init__(
        self,
        api: AsyncApiClient,
        framework: Json,
        interruption: _Interruption,
        display: ProgressDisplay,
        *,
        is_single: bool,
    ) -> None:
        self._api, self._interruption, self._display = api, interruption, display
        self._is_single = is_single
        self._name = framework["metadata"]["name"]
        self._start_time = time.time()
        self._reporter: FindingReporter | None = None

    async def run(self) -> Json | None:
        """The completed Framework; None if it was deleted."""
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._show_warnings()), tasks.create_task(self._handle_signals())]
            async with reported_findings(self._api, self._name, self._show_finding) as reporter:
                self._reporter = reporter
                follower = LogFollower(
                    self._api,
                    self._name,
                    TaskSelector(),
                    LogQuery(),
                    self._write_line,
                    self._show_framework,
                )
                completed = await follower.run()
            await self._terminate_pods()
            for task in background:
                task.cancel()
        return completed

    def _show_framework(self, framework: Json) -> None:
        self._display.show_framework(framework)
        if self._reporter is not None:
            self._reporter.observe_framework(framework)

    def _show_finding(self, finding: str) -> None:
        self._display.show_finding(self._name, finding)

    def _write_line(self, source: LogSource, line: bytes) -> None:
        if self._reporter is not None:
            self._reporter.observe_output()
        if not self._is_single:
            task, label = (f"{self._name}/{text}" for text in (source.task, source.label))
            source = replace(source, task=task, label=label)
        self._display.show_line(source, line)

    async def _show_warnings(self) -> None:
        """Show each warning event once."""
        shown: set[str] = set()
        async with aclosing(watch_objects(self._api, EVENTS)) as changes:
            async for change in changes:
                if change is None or not self._is_shown(change.object):
                    continue
                event = change.object
                line = f"warning: {self._warning(event)}"
                if line not in shown:
                    shown.add(line)
                    self._display.show_message(line)

    def _warning(self, event: Json) -> str:
        """The text of an event. That of a Framework is a sentence that needs no reason before it."""
        message, task = one_line(event.get("message") or ""), task_of(event, self._name)
        return f"{self._name}: {message}" if task is None else f"{task}: {event.get('reason')}: {message}"

    def _is_shown(self, event: Json) -> bool:
        is_warning = event.get("type") == "Warning" and event.get("reason") != _FAILED_EVENT
        return is_warning and is_about(event, self._name)

    async def _handle_signals(self) -> None:
        """Stop the Framework on the first signal and kill its pods on the second."""
        await self._interruption.stop.wait()
        self._display.show_message(f"stopping {self._name}; press Ctrl-C again to kill it")
        with suppress(RequestError):
            await self._api.merge(FRAMEWORKS, self._name, {"spec": {"executionType": "Stop"}})
        await self._interruption.kill.wait()
        self._display.show_message(f"killing {self._name}")
        for pod in await self._pods():
            await self._delete(pod, {"gracePeriodSeconds": 0})

    async def _terminate_pods(self) -> None:
        """Delete the pods that still run, as they do with cleanPodPolicy None, and wait until they have terminated."""
        for pod in await self._pods():
            if not has_terminated(pod):
                await self._delete(pod, {})
        async with aclosing(watch_objects(self._api, PODS, labels=pod_selector(self._name))) as changes:
            running: set[str] = set()
            listed = False
            async for change in changes:
                listed = listed or change is None
                if change is not None:
                    terminated = change.deleted or has_terminated(change.object)
                    (running.discard if terminated else running.add)(change.object["metadata"]["uid"])
                if listed and not running:
                    return

    async def _pods(self) -> list[Json]:
        return (await self._api.list(PODS, labels=pod_selector(self._name)))[0]

    async def _delete(self, pod: Json, options: Json) -> None:
        with suppress(NotFound):
            await self._api.delete(PODS, pod["metadata"]["name"], options)

    def report_result(self, framework: Json | None) -> int:
        """Print how the Framework ended. Returns the exit code."""
        duration = age(time.time() - self._start_time)
        if self._interruption.signal:
            print_error(f"{self._name} was stopped after {duration}")
            return 128 + self._interruption.signal
        if framework is None:
            print_error(f"{self._name} was deleted after {duration}")
            return 1
        result = "succeeded" if framework_summary.succeeded(framework) else "failed"
        print_error(f"{self._name} {result} after {duration}: {framework_summary.message_of(framework)}")
        return framework_summary.exit_code(framework)
