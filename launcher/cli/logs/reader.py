"""Logs as they are now, one after another."""

from typing import Any

from launcher.cli.client.async_client import AsyncApiClient
from launcher.cli.errors import CommandError
from launcher.cli.logs.log_sources import LogQuery, LogSource, TaskSelector, WriteLine
from launcher.core.errors import BadRequest, NotFound, RequestError

Json = dict[str, Any]


async def print_logs(
    api: AsyncApiClient, framework: Json, selector: TaskSelector, query: LogQuery, write: WriteLine
) -> None:
    """Write the logs of the selected tasks. Raises CommandError when none of them has a log."""
    sources = list(selector.sources(framework))
    missing: list[RequestError] = []
    for source in sources:
        try:
            await _print_log(api, source, query, write)
        except (NotFound, BadRequest) as error:
            missing.append(error)
    name = framework["metadata"]["name"]
    if not sources:
        raise CommandError(f"no task of {name} has a container {selector.container}")
    if len(missing) == len(sources):
        prefix = "" if len(sources) == 1 else f"no task of {name} has logs: "
        raise CommandError(f"{prefix}{missing[0]}")


async def _print_log(api: AsyncApiClient, source: LogSource, query: LogQuery, write: WriteLine) -> None:
    if not query.previous:
        return await copy_log(api, source, query.parameters, write)
    try:
        await copy_log(api, source, query.parameters, write)
    except (NotFound, BadRequest):
        # The container was not restarted in this pod: the previous attempt had its own pod.
        parameters = {name: value for name, value in query.parameters.items() if name != "previous"}
        await copy_log(api, source, parameters, write, previous_pod=True)


async def copy_log(
    api: AsyncApiClient,
    source: LogSource,
    parameters: dict[str, str],
    write: WriteLine,
    *,
    previous_pod: bool = False,
) -> None:
    """Write the current content of one log. Raises NotFound, BadRequest when it does not exist."""
    query = {**parameters, "container": source.container}
    async with api.log(source.pod, query, previous_pod=previous_pod) as lines:
        async for line in lines:
            write(source, line)
