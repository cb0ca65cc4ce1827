"""Frameworks as Arena shows jobs: one word for where each stands, and its instances."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.cli.client.api_client import FRAMEWORKS, ApiClient
from launcher.cli.errors import CommandError
from launcher.cli.output.framework_summary import condition, is_over, record_of, succeeded
from launcher.converters.arena.flag_parsers import GPU
from launcher.converters.arena.labels import GPUS, JOB_LABEL, JOB_VALUE
from launcher.converters.arena.tensorboard import ROLE as TENSORBOARD
from launcher.core.completion_codes import Code
from launcher.core.names import pod_name
from launcher.core.quantity import quantity
from launcher.core.replicas import tasks_of_roles
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.spec import FrameworkName, RoleName
from launcher.core.status import State, TaskStatus
from launcher.core.timestamps import parse_rfc3339, short

Json = dict[str, Any]

TRAINER = "TFJOB"
NONE = "N/A"
#: Which Frameworks are jobs of Arena's.
SELECTOR = f"{JOB_LABEL}={JOB_VALUE}"
_TYPES = ("tfjob", "tensorflow", "tf")


@dataclass(frozen=True, slots=True)
class Instance:
    """One pod of a job, there or yet to come."""

    name: str
    role: str
    index: int
    #: The phase of its pod, in capitals.
    status: str
    node: str
    node_ip: str
    ip: str
    gpus: int
    is_chief: bool
    #: The end of the job was the end of it, too, and its pod has been taken away.
    is_gone: bool


@dataclass(frozen=True, slots=True)
class ArenaJobSummary:
    """A Framework of Arena's."""

    framework: Json
    now: float
    instances: tuple[Instance, ...]

    @property
    def name(self) -> str:
        return str(self.framework["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.framework["metadata"]["namespace"])

    @property
    def status(self) -> str:
        """SUCCEEDED, FAILED, RUNNING, QUEUING or PENDING; it runs when no instance is still to start."""
        if is_over(self.framework):
            return "SUCCEEDED" if succeeded(self.framework) else "FAILED"
        if self.framework["spec"].get("executionType") == "Create":
            return "QUEUING"
        waiting = any(instance.status == "PENDING" for instance in self.instances)
        return "RUNNING" if condition(self.framework, "Running") and not waiting else "PENDING"

    @property
    def has_begun(self) -> bool:
        return bool((self.framework.get("status") or {}).get("startTime"))

    @property
    def started(self) -> float:
        status, metadata = self.framework.get("status") or {}, self.framework["metadata"]
        return parse_rfc3339(status.get("startTime") or metadata["creationTimestamp"])

    @property
    def ended(self) -> float | None:
        end = (self.framework.get("status") or {}).get("completionTime")
        return parse_rfc3339(end) if end else None

    @property
    def seconds(self) -> int:
        """How long it has taken, or took."""
        return max(0, int((self.ended or self.now) - self.started))

    @property
    def age(self) -> str:
        return short(self.seconds)

    @property
    def shown(self) -> list[Instance]:
        """Those whose pods are there, or are to come, by name; of a job that was stopped, all."""
        found = sorted(self.instances, key=lambda each: (each.role, each.index))
        return [each for each in found if not each.is_gone] or found

    @property
    def chief(self) -> Instance | None:
        return next((each for each in self.instances if each.is_chief), None)

    @property
    def has_tensorboard(self) -> bool:
        return any(role["name"] == TENSORBOARD for role in self.framework["spec"].get("taskRoles") or ())

    @property
    def gpus(self) -> int:
        """What it asks for, by its own word or by its pods."""
        said = (self.framework["metadata"].get("annotations") or {}).get(GPUS, "")
        return (int(said) if said.isdecimal() else 0) or sum(each.gpus for each in self.instances)

    @property
    def allocated_gpus(self) -> int | None:
        """What it has; None when it is over or not begun."""
        if self.status not in ("PENDING", "RUNNING"):
            return None
        return sum(each.gpus for each in self.instances if each.status == "RUNNING")


def check_type(type_: str | None) -> None:
    """Raise CommandError unless *type_* means jobs that there can be."""
    if type_ is not None and type_.lower() not in _TYPES:
        raise CommandError(f"--type: there are no jobs of type {type_} here; there are tfjob (tf)")


async def job_named(api: ApiClient, name: str, now: float) -> ArenaJobSummary:
    """The job of that name. Raises NotFound, CommandError when it is none of Arena's."""
    framework = await api.get(FRAMEWORKS, name)
    if (framework["metadata"].get("labels") or {}).get(JOB_LABEL) != JOB_VALUE:
        raise CommandError(f"{name} is no job of arena's; see: launcher get {name}")
    return _job(framework, now)


async def all_jobs(api: ApiClient, now: float, *, everywhere: bool) -> list[ArenaJobSummary]:
    """Every job, the newest first."""
    items, _ = await api.list(FRAMEWORKS, labels=SELECTOR, everywhere=everywhere)
    return newest_first(_job(item, now) for item in items)


def newest_first(jobs: Iterable[ArenaJobSummary]) -> list[ArenaJobSummary]:
    """The jobs by their beginning, the latest first, and before it those that have not begun."""
    return sorted(jobs, key=lambda job: (job.has_begun, -job.started, job.namespace, job.name))


def _job(framework: Json, now: float) -> ArenaJobSummary:
    return ArenaJobSummary(framework, now, tuple(_instances(framework)))


def _instances(framework: Json) -> Iterator[Instance]:
    name, spec = FrameworkName(framework["metadata"]["name"]), framework["spec"]
    record = record_of(framework)
    tasks = {(role.name, task.index): task for role in record.roles for task in role.tasks} if record else {}
    roles = spec.get("taskRoles") or ()
    chief = "chief" if any(role["name"] == "chief" for role in roles) else "worker"
    for role, count in zip(roles, tasks_of_roles(spec), strict=True):
        if role["name"] == TENSORBOARD:
            continue
        for index in range(min(count, INDEXES_END)):
            task = tasks.get((RoleName(role["name"]), index))
            attempt = task.attempt if task else None
            yield Instance(
                name=pod_name(name, RoleName(role["name"]), index),
                role=role["name"],
                index=index,
                status=_phase(task),
                node=(attempt and attempt.node) or NONE,
                node_ip=(attempt and (attempt.host_ip or attempt.node)) or NONE,
                ip=(attempt and attempt.ip) or NONE,
                gpus=_gpus(role["task"]["pod"].get("spec") or {}),
                is_chief=(role["name"], index) == (chief, 0),
                is_gone=_is_gone(task),
            )


def _phase(task: TaskStatus | None) -> str:
    if task is not None and task.state is State.COMPLETED:
        return "SUCCEEDED" if task.succeeded else "FAILED"
    return "RUNNING" if task is not None and task.state is State.RUNNING else "PENDING"


def _is_gone(task: TaskStatus | None) -> bool:
    end = task.attempt.completion if task is not None and task.state is State.COMPLETED else None
    return end is not None and end.code == Code.FRAMEWORK_ATTEMPT_COMPLETION


def _gpus(spec: Json) -> int:
    resources = (each.get("resources") or {} for each in spec.get("containers") or ())
    return int(sum(quantity((each.get("limits") or {}).get(GPU, 0)) for each in resources))
