"""Logs as they are now, one after another."""

from typing import Any

from launcher.cli.client.api_client import ApiClient
from launcher.cli.errors import CommandError
from launcher.cli.logs.log_sources import LogQuery, LogSource, TaskSelector, Write
from launcher.core.errors import BadRequest, NotFound, RequestError

Json = dict[str, Any]


async def print_logs(
    api: ApiClient, framework: Json, choice: TaskSelector, view: LogQuery, write: Write
) -> None:
    """Write what the chosen tasks have written. Raises CommandError when there is nothing at all to be read."""
    sources = list(choice.sources(framework))
    missing: list[RequestError] = []
    for source in sources:
        try:
            await _print(api, source, view, write)
        except (NotFound, BadRequest) as error:
            missing.append(error)
    if not sources:
        raise CommandError(f"no task of {framework['metadata']['name']} has a container {choice.container}")
    if len(missing) == len(sources):
        raise CommandError(str(missing[0]) if len(sources) == 1 else _nothing(framework, missing))


async def _print(api: ApiClient, source: LogSource, view: LogQuery, write: Write) -> None:
    if not view.previous:
        return await copy_log(api, source, view.parameters, write)
    try:
        await copy_log(api, source, view.parameters, write)
    except (NotFound, BadRequest):
        # No earlier run of the container in this pod: the previous attempt had a pod of its own.
        parameters = {name: value for name, value in view.parameters.items() if name != "previous"}
        await copy_log(api, source, parameters, write, previous_pod=True)


async def copy_log(
    api: ApiClient, source: LogSource, parameters: dict[str, str], write: Write, *, previous_pod: bool = False
) -> None:
    """Write what is there now of one log. Raises NotFound, BadRequest when there is none."""
    asked = {**parameters, "container": source.container}
    async with api.log(source.pod, asked, previous_pod=previous_pod) as lines:
        async for line in lines:
            write(source, line)


def _nothing(framework: Json, missing: list[RequestError]) -> str:
    return f"no task of {framework['metadata']['name']} has written anything: {missing[0]}"
