"""Which logs are printed, which part of each, and how."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.cli.errors import CommandError
from launcher.cli.output.terminal import coloured, has_colours, is_terminal, sanitize
from launcher.core.names import pod_name
from launcher.core.replicas import tasks_of_roles
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.spec import FrameworkName, RoleName
from launcher.core.timestamps import format_rfc3339

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LogSource:
    """One container of one task."""

    task: str
    pod: str
    container: str
    #: Printed before its lines.
    label: str
    #: The uid of the pod of an earlier attempt; empty: the current pod.
    uid: str = ""


#: Called with each line of a log, without its end.
WriteLine = Callable[[LogSource, bytes], None]


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The part of each log to read."""

    tail: int | None = None
    #: Seconds since 1970.
    since: float | None = None
    timestamps: bool = False
    #: The run before the last restart of each container, or else the previous attempt.
    previous: bool = False

    @property
    def parameters(self) -> dict[str, str]:
        """The query parameters of the API."""
        parameters = {
            "tailLines": None if self.tail is None else str(self.tail),
            "sinceTime": None if self.since is None else format_rfc3339(int(self.since)),
            "timestamps": "true" if self.timestamps else None,
        }
        return {name: value for name, value in parameters.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TaskSelector:
    """Selects tasks and containers; None selects all of them."""

    role: str | None = None
    index: int | None = None
    container: str | None = None

    def includes(self, role: str, index: int) -> bool:
        return self.role in (None, role) and self.index in (None, index)

    def sources(self, framework: Json) -> list[LogSource]:
        """The selected containers, by role and index. Raises CommandError if what is selected does not exist."""
        found = list(self._sources(framework))
        if not found and self.container is not None:
            raise CommandError(f"no task of {framework['metadata']['name']} has a container {self.container}")
        return found

    def _sources(self, framework: Json) -> Iterator[LogSource]:
        name, spec = framework["metadata"]["name"], framework["spec"]
        roles = spec.get("taskRoles") or ()
        numbers = zip(roles, tasks_of_roles(spec), strict=True)
        selected = [(role, tasks) for role, tasks in numbers if self.role in (None, role["name"])]
        if not selected and roles:
            raise CommandError(
                f"{name} has no role {self.role}; roles: {', '.join(role['name'] for role in roles)}"
            )
        for role, tasks in selected:
            yield from self._role_sources(FrameworkName(name), role, tasks)

    def pod_sources(self, pod_spec: Json, pod: str, task: str) -> Iterator[LogSource]:
        """The selected containers of one pod, init containers first."""
        main = [container["name"] for container in pod_spec.get("containers") or ()]
        init = [container["name"] for container in pod_spec.get("initContainers") or ()]
        for container in (*init, *main):
            if self.container in (None, container):
                label = task if main == [container] else f"{task}/{container}"
                yield LogSource(task, pod, container, label)

    def _role_sources(self, framework: FrameworkName, role: Json, tasks: int) -> Iterator[LogSource]:
        name = RoleName(role["name"])
        if self.index is not None and self.index >= tasks:
            raise CommandError(
                f"{framework} has no task {name}/{self.index}; the last one is {name}/{tasks - 1}"
            )
        pod_spec = role["task"]["pod"].get("spec") or {}
        for index in range(min(tasks, INDEXES_END)) if self.index is None else (self.index,):
            pod = pod_name(framework, name, index)
            yield from self.pod_sources(pod_spec, pod, f"{name}-{index}")


def matching_lines(write: WriteLine, pattern: re.Pattern[bytes], *, timestamps: bool) -> WriteLine:
    """Writes only lines that match *pattern*, apart from their times."""

    def write_matching(source: LogSource, line: bytes) -> None:
        if pattern.search(line.partition(b" ")[2] if timestamps else line):
            write(source, line)

    return write_matching


class LogPrinter:
    """Prints lines, each after the name of its task unless there is only one."""

    def __init__(self, *, is_single: bool) -> None:
        self._is_single, self._labels = is_single, Labels()
        self._sanitizes = is_terminal(sys.stdout)

    def write(self, source: LogSource, line: bytes) -> None:
        """Print the line at once, unchanged; to a terminal, without control characters."""
        label = b"" if self._is_single else self._labels.label_of(source).encode()
        text = sanitize(line.decode(errors="replace")).encode() if self._sanitizes else line
        sys.stdout.buffer.write(label + text + b"\n")
        sys.stdout.buffer.flush()


class Labels:
    """The text before the lines of each source, on a terminal in one colour per task."""

    def __init__(self) -> None:
        self._colours = has_colours(sys.stdout)
        self._tasks: dict[str, int] = {}

    def label_of(self, source: LogSource) -> str:
        """``worker-0 | ``."""
        label = f"{source.label} | "
        if not self._colours:
            return label
        return coloured(label, self._tasks.setdefault(source.task, len(self._tasks)))
