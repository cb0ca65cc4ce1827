"""Logs as they are now, one after another."""

from typing import Any

from launcher.cli.client import EVENTS, PODS, Api
from launcher.cli.complaint import Complaint
from launcher.cli.happenings import last_seen
from launcher.cli.loglines import Choice, Source, View, Write
from launcher.core.errors import BadRequest, NotFound, RequestError

Json = dict[str, Any]


async def print_logs(api: Api, framework: Json, choice: Choice, view: View, write: Write) -> None:
    """Write what the chosen tasks have written. Raises Complaint when there is nothing at all to be read."""
    sources = list(choice.sources(framework))
    missing: list[RequestError] = []
    for source in sources:
        try:
            await _print(api, source, view, write)
        except (NotFound, BadRequest) as error:
            missing.append(error)
    if not sources:
        raise Complaint(f"no task of {framework['metadata']['name']} has a container {choice.container}")
    if len(missing) == len(sources):
        raise Complaint(str(missing[0]) if len(sources) == 1 else _nothing(framework, missing))


async def _print(api: Api, source: Source, view: View, write: Write) -> None:
    if not view.previous:
        return await copy_log(api, source, view.parameters, write)
    try:
        await copy_log(api, source, view.parameters, write)
    except (NotFound, BadRequest):
        # No earlier run in this pod: then the pod before it, if events still tell its uid.
        uid = await _earlier_pod(api, source)
        if uid is None:
            raise
        parameters = {name: value for name, value in view.parameters.items() if name != "previous"}
        await copy_log(api, source, {**parameters, "uid": uid}, write)


async def copy_log(api: Api, source: Source, parameters: dict[str, str], write: Write) -> None:
    """Write what is there now of one log. Raises NotFound, BadRequest when there is none."""
    async with api.log(source.pod, {**parameters, "container": source.container}) as lines:
        async for line in lines:
            write(source, line)


async def _earlier_pod(api: Api, source: Source) -> str | None:
    """The uid of the pod that served the task before the current one."""
    try:
        current = (await api.get(PODS, source.pod))["metadata"]["uid"]
    except NotFound:
        current = None
    fields = f"involvedObject.kind=Pod,involvedObject.name={source.pod}"
    events, _ = await api.list(EVENTS, fields=fields)
    uids = [event["involvedObject"].get("uid") for event in sorted(events, key=last_seen)]
    if current is None and uids:
        current = uids[-1]
    return next((uid for uid in reversed(uids) if uid and uid != current), None)


def _nothing(framework: Json, missing: list[RequestError]) -> str:
    return f"no task of {framework['metadata']['name']} has written anything: {missing[0]}"
