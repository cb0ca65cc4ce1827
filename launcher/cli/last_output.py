"""The age of the last output of running tasks."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.cli.client.api_client import ApiClient
from launcher.cli.output.task_entries import role_entries
from launcher.cli.output.task_table import MAX_TASKS_IN_FULL
from launcher.core.errors import LauncherError
from launcher.core.timestamps import format_age

Json = dict[str, Any]


def last_output_ages(api: ApiClient, framework: Json, now: float) -> Mapping[str, str]:
    """The age of the last line of each running task, by task; none if more than MAX_TASKS_IN_FULL are running."""
    running = list(_running_pods(framework))
    if len(running) > MAX_TASKS_IN_FULL:
        return {}
    times = {task: _last_time(api, pod, containers) for task, pod, containers in running}
    return {task: format_age(time, now) for task, time in times.items() if time}


def _running_pods(framework: Json) -> Iterator[tuple[str, str, list[str]]]:
    """The name, the pod and the containers of each running task."""
    specs = {role["name"]: role["task"]["pod"]["spec"] for role in framework["spec"].get("taskRoles") or ()}
    for role in role_entries(framework):
        containers = [container["name"] for container in specs.get(role.name, {}).get("containers", ())]
        for task in role.tasks:
            if task["state"] == "AttemptRunning":
                name = f"{role.name}-{task['index']}"
                yield name, f"{framework['metadata']['name']}-{name}", containers


def _last_time(api: ApiClient, pod: str, containers: list[str]) -> str:
    """The time of the last line of all containers; empty if there is none, or if it cannot be read."""
    try:
        return max((api.last_line(pod, container).partition(" ")[0] for container in containers), default="")
    except LauncherError:
        return ""
