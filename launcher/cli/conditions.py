"""What users wait for, and whether it has come true."""

from contextlib import aclosing
from typing import Any

from launcher.cli.client.api_client import ApiClient, ApiPath
from launcher.cli.client.watch import watch_framework
from launcher.cli.errors import CommandError
from launcher.cli.output.framework_summary import has_run, is_over, message_of, state_of, succeeded
from launcher.cli.output.terminal import one_line
from launcher.cli.owning_job import OwningJob

Json = dict[str, Any]


async def wait_for_condition(api: ApiClient, name: str, wish: str) -> str:
    """What the Framework is once *wish* has come true. Raises CommandError when it cannot any more."""
    last: Json | None = None
    async with aclosing(watch_framework(api, name)) as seen:
        async for framework in seen:
            if framework is None:
                break
            last = framework
            verdict = _verdict(framework, wish)
            if verdict is True:
                return wish
            if verdict is False:
                raise CommandError(f"{name}: {state_of(framework)}, so never {wish}: {message_of(framework)}")
    if wish == "deleted":
        return wish
    if last is None:
        raise CommandError(f'there is no Framework "{name}" in namespace {api.namespace}; see: launcher list')
    raise CommandError(f"{name}: deleted, so never {wish}")


async def job_succeeded(api: ApiClient, job: OwningJob) -> None:
    """Return when the job has succeeded. Raises CommandError when it has failed or was deleted."""
    async with aclosing(watch_framework(api, job.name, job.resource)) as seen:
        async for found in seen:
            conditions = ((found or {}).get("status") or {}).get("conditions") or ()
            for each in conditions:
                if each["status"] != "True":
                    continue
                if each["type"] == "Succeeded":
                    return
                if each["type"] == "Failed":
                    raise CommandError(f"{job}: Failed: {one_line(each.get('message') or '')}")
    raise CommandError(f"{job}: deleted, so never Succeeded")


async def gone(api: ApiClient, resource: ApiPath, name: str) -> None:
    """Return when there is no object of that name any more, or another one."""
    async with aclosing(watch_framework(api, name, resource)) as seen:
        async for _ in seen:
            pass


def _verdict(framework: Json, wish: str) -> bool | None:
    """Whether the wish has come true, or never can; None while both may be."""
    over = is_over(framework)
    match wish:
        case "Completed":
            return True if over else None
        case "Succeeded":
            return succeeded(framework) if over else None
        case "Running":
            return True if has_run(framework) else False if over else None
        case _:
            return None
