"""The pods of earlier attempts, from the status of a Framework and its FrameworkAttempts. Their uids identify logs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.cli.client.api_path import FRAMEWORK_ATTEMPTS
from launcher.cli.client.async_client import AsyncApiClient
from launcher.cli.errors import CommandError
from launcher.cli.logs.log_sources import LogSource
from launcher.cli.output.framework_attempts import (
    AttemptNumber,
    TaskPod,
    current_attempt,
    own_records,
    task_pods,
)
from launcher.cli.output.framework_summary import attempt_status
from launcher.core.errors import NotFound
from launcher.core.names import attempt_record_name
from launcher.core.spec import FrameworkName

Json = dict[str, Any]


class AttemptPods:
    """Reads the FrameworkAttempts of one Framework as they are needed."""

    def __init__(self, api: AsyncApiClient, framework: Json) -> None:
        self._api, self._framework = api, framework
        self._name: str = framework["metadata"]["name"]
        self._current = current_attempt(framework)
        self._pods: dict[int, Mapping[str, list[TaskPod]]] = {}

    async def sources(self, sources: Sequence[LogSource], number: AttemptNumber) -> list[LogSource]:
        """The sources in that attempt; tasks without it are left out. Raises CommandError if none has it."""
        pods = await self._pods_of(number.framework_attempt(self._current))
        attempt = number.task_attempt(self._current)
        found = [
            self._source(source, pod, is_current=pod == pods[source.task][-1])
            for source in sources
            for pod in pods.get(source.task, ())[slice(-1, None) if attempt is None else slice(None)]
            if attempt in (None, pod.attempt)
        ]
        if sources and not found:
            raise CommandError(f"no selected task of {self._name} has attempt {number}; {self._list_hint()}")
        return found

    async def current(self, source: LogSource) -> LogSource:
        """The source with the uid of its pod, if that is known."""
        pods = (await self._pods_of(self._current)).get(source.task, ())
        return replace(source, uid=pods[-1].uid) if pods and not source.uid else source

    async def previous(self, source: LogSource) -> LogSource:
        """The source in the attempt before the current one. Raises NotFound."""
        pods = (await self._pods_of(self._current)).get(source.task, ())
        if len(pods) < 2 and self._current > 1:
            pods = [*(await self._pods_of(self._current - 1)).get(source.task, ())[-1:], *pods]
        if len(pods) < 2 or not pods[-2].uid:
            raise NotFound(f"{source.task} has no previous attempt; {self._list_hint()}")
        return replace(source, uid=pods[-2].uid)

    def _source(self, source: LogSource, pod: TaskPod, *, is_current: bool) -> LogSource:
        return source if is_current and self._is_latest(source, pod) else replace(source, uid=pod.uid)

    def _is_latest(self, source: LogSource, pod: TaskPod) -> bool:
        """Whether it is the pod of the task's current attempt, which needs no uid."""
        current = self._pods.get(self._current, {}).get(source.task)
        return current is not None and current[-1] == pod

    async def _pods_of(self, number: int) -> Mapping[str, list[TaskPod]]:
        """The pods of each task in that attempt of the Framework. Raises CommandError."""
        if number not in self._pods:
            self._pods[number] = task_pods(await self._attempt_status(number))
        return self._pods[number]

    async def _attempt_status(self, number: int) -> Json:
        if number == self._current:
            return attempt_status(self._framework)
        if number > self._current:
            raise CommandError(f"{self._name} has no attempt {number}; it is in attempt {self._current}")
        name = attempt_record_name(FrameworkName(self._name), number)
        try:
            (record,) = own_records(self._framework, [await self._api.get(FRAMEWORK_ATTEMPTS, name)])
        except (NotFound, ValueError) as error:
            raise CommandError(
                f"attempt {number} of {self._name} is no longer kept; {self._list_hint()}"
            ) from error
        status: Json = record["attemptStatus"]
        return status

    def _list_hint(self) -> str:
        return f"list them with: launcher attempts {self._name}"
