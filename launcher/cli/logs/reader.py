"""Logs as they are now: one after another or, with timestamps, merged by time."""

from collections.abc import Sequence
from typing import Any

from launcher.cli.client.async_client import AsyncApiClient
from launcher.cli.errors import CommandError
from launcher.cli.logs.attempt_pods import AttemptPods
from launcher.cli.logs.log_sources import LogQuery, LogSource, WriteLine
from launcher.cli.logs.merger import merge_logs
from launcher.core.errors import BadRequest, NotFound, RequestError

Json = dict[str, Any]


async def print_logs(
    api: AsyncApiClient, framework: Json, sources: Sequence[LogSource], query: LogQuery, write: WriteLine
) -> None:
    """Write the logs of the sources. Raises CommandError when none of them has one."""
    reader = _LogCopier(api, framework, query)
    if query.timestamps and len(sources) > 1:
        await merge_logs(sources, reader.copy, write)
    else:
        for source in sources:
            await reader.copy(source, write)
    if sources and len(reader.missing) == len(sources):
        prefix = "" if len(sources) == 1 else f"no task of {framework['metadata']['name']} has logs: "
        raise CommandError(f"{prefix}{reader.missing[0]}")


class _LogCopier:
    """Copies the logs of one Framework's tasks."""

    def __init__(self, api: AsyncApiClient, framework: Json, query: LogQuery) -> None:
        self._api, self._query = api, query
        self._pods = AttemptPods(api, framework)
        #: One error for each log that does not exist.
        self.missing: list[RequestError] = []

    async def copy(self, source: LogSource, write: WriteLine) -> None:
        """Write one log; one that does not exist is recorded as missing."""
        try:
            await (self._copy_previous if self._query.previous else self._copy_current)(source, write)
        except (NotFound, BadRequest) as error:
            self.missing.append(error)

    async def _copy_current(self, source: LogSource, write: WriteLine) -> None:
        try:
            await copy_log(self._api, source, self._query.parameters, write)
        except NotFound:
            # On a cluster the log of a deleted pod may be archived, under the uid of the pod.
            if (deleted := await self._pods.current(source)) == source:
                raise
            await copy_log(self._api, deleted, self._query.parameters, write)

    async def _copy_previous(self, source: LogSource, write: WriteLine) -> None:
        """Write the log before the last restart of the container or, if there was none, of the previous attempt."""
        parameters = self._query.parameters
        try:
            await copy_log(self._api, source, {**parameters, "previous": "true"}, write)
        except (NotFound, BadRequest):
            await copy_log(self._api, await self._pods.previous(source), parameters, write)


async def copy_log(
    api: AsyncApiClient, source: LogSource, parameters: dict[str, str], write: WriteLine
) -> None:
    """Write the current content of one log. Raises NotFound, BadRequest when it does not exist."""
    query = {**parameters, "container": source.container, **({"uid": source.uid} if source.uid else {})}
    async with api.log(source.pod, query, exact_uid=bool(source.uid)) as lines:
        async for line in lines:
            write(source, line)
