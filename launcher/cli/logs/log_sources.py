"""Lines of logs: of which containers, which part of each, and how they are printed."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.cli.errors import CommandError
from launcher.cli.output.terminal import coloured, harmless, has_colours, is_terminal
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
    #: What stands before its lines.
    label: str


#: Takes each line of a log, without its end.
Write = Callable[[LogSource, bytes], None]


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of each log is wanted."""

    tail: int | None = None
    #: Seconds since 1970.
    since: float | None = None
    timestamps: bool = False
    previous: bool = False

    @property
    def parameters(self) -> dict[str, str]:
        """As the API wants to be asked."""
        wanted = {
            "tailLines": None if self.tail is None else str(self.tail),
            "sinceTime": None if self.since is None else format_rfc3339(int(self.since)),
            "timestamps": "true" if self.timestamps else None,
            "previous": "true" if self.previous else None,
        }
        return {name: value for name, value in wanted.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TaskSelector:
    """Which tasks and containers are meant; None is all of them."""

    role: str | None = None
    index: int | None = None
    container: str | None = None

    def has(self, role: str, index: int) -> bool:
        return self.role in (None, role) and self.index in (None, index)

    def is_one_of(self, framework: Json) -> bool:
        """Whether there can be no more than one source."""
        return len(list(self.sources(framework))) <= 1

    def sources(self, framework: Json) -> Iterator[LogSource]:
        """What is chosen of the Framework, by role, index and container. Raises CommandError when there is no such."""
        name, spec = framework["metadata"]["name"], framework["spec"]
        roles = spec.get("taskRoles") or ()
        numbers = zip(roles, tasks_of_roles(spec), strict=True)
        chosen = [(role, tasks) for role, tasks in numbers if self.role in (None, role["name"])]
        if not chosen and roles:
            raise CommandError(
                f"{name} has no role {self.role}; it has {', '.join(role['name'] for role in roles)}"
            )
        for role, tasks in chosen:
            yield from self._of_role(FrameworkName(name), role, tasks)

    def of_pod(self, pod_spec: Json, pod: str, task: str) -> Iterator[LogSource]:
        """The chosen containers of one pod, those that run first in front."""
        main = [container["name"] for container in pod_spec.get("containers") or ()]
        early = [container["name"] for container in pod_spec.get("initContainers") or ()]
        for container in (*early, *main):
            if self.container in (None, container):
                label = task if main == [container] else f"{task}/{container}"
                yield LogSource(task, pod, container, label)

    def _of_role(self, framework: FrameworkName, role: Json, tasks: int) -> Iterator[LogSource]:
        name = RoleName(role["name"])
        if self.index is not None and self.index >= tasks:
            raise CommandError(f"{framework} has no task {name}/{self.index}; the last is {name}/{tasks - 1}")
        pod_spec = role["task"]["pod"].get("spec") or {}
        for index in range(min(tasks, INDEXES_END)) if self.index is None else (self.index,):
            pod = pod_name(framework, name, index)
            yield from self.of_pod(pod_spec, pod, f"{name}-{index}")


class LogPrinter:
    """Prints lines: in front of each who wrote it, unless they are all from one."""

    def __init__(self, *, alone: bool) -> None:
        self._alone, self._labels = alone, Labels()
        self._shown = is_terminal(sys.stdout)

    def write(self, source: LogSource, line: bytes) -> None:
        """Print the line at once, as it is; for a terminal, without what could do harm there."""
        label = b"" if self._alone else self._labels.of(source).encode()
        text = harmless(line.decode(errors="replace")).encode() if self._shown else line
        sys.stdout.buffer.write(label + text + b"\n")
        sys.stdout.buffer.flush()


class Labels:
    """What stands before the lines of each source: on a terminal in a colour per task."""

    def __init__(self) -> None:
        self._colours = has_colours(sys.stdout)
        self._tasks: dict[str, int] = {}

    def of(self, source: LogSource) -> str:
        """``worker-0 | ``."""
        label = f"{source.label} | "
        if not self._colours:
            return label
        return coloured(label, self._tasks.setdefault(source.task, len(self._tasks)))
