"""Frameworks as jobs of Arena: the status in one word, and the instances."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.cli.client.api_client import ApiClient
from launcher.cli.client.api_path import FRAMEWORKS
from launcher.cli.errors import CommandError
from launcher.cli.output.framework_summary import has_condition, is_completed, succeeded
from launcher.cli.output.task_entries import role_entries
from launcher.converters.arena.flag_parsers import GPU
from launcher.converters.arena.labels import GPUS, JOB_LABEL, JOB_VALUE
from launcher.converters.arena.tensorboard import ROLE as TENSORBOARD
from launcher.core.names import pod_name
from launcher.core.quantity import quantity
from launcher.core.replicas import tasks_of_roles
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.spec import FrameworkName, RoleName
from launcher.core.timestamps import format_short, parse_rfc3339

Json = dict[str, Any]

TRAINER = "TFJOB"
NONE = "N/A"
#: Selects the Frameworks that are jobs of Arena.
SELECTOR = f"{JOB_LABEL}={JOB_VALUE}"
#: The completion code of a task whose pod was deleted because the attempt completed.
FRAMEWORK_ATTEMPT_COMPLETION = -220
_TYPES = ("tfjob", "tensorflow", "tf")


@dataclass(frozen=True, slots=True)
class Instance:
    """One pod of a job, which may not exist yet."""

    name: str
    role: str
    index: int
    #: The phase of the pod, in capitals.
    status: str
    node: str
    node_ip: str
    ip: str
    gpus: int
    is_chief: bool
    #: The pod was deleted because the job completed.
    is_gone: bool


@dataclass(frozen=True, slots=True)
class ArenaJobSummary:
    """A job of Arena, and the time at which it was read."""

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
        """SUCCEEDED, FAILED, RUNNING (all instances have started), QUEUING or PENDING."""
        if is_completed(self.framework):
            return "SUCCEEDED" if succeeded(self.framework) else "FAILED"
        if self.framework["spec"].get("executionType") == "Create":
            return "QUEUING"
        waiting = any(instance.status == "PENDING" for instance in self.instances)
        return "RUNNING" if has_condition(self.framework, "Running") and not waiting else "PENDING"

    @property
    def has_started(self) -> bool:
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
        """The time between the start and the completion, or until now."""
        return max(0, int((self.ended or self.now) - self.started))

    @property
    def age(self) -> str:
        return format_short(self.seconds)

    @property
    def shown(self) -> list[Instance]:
        """The instances whose pods exist or will be created, by name; all instances of a stopped job."""
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
        """The requested GPUs: those of the annotation, or else of the pods."""
        annotation = (self.framework["metadata"].get("annotations") or {}).get(GPUS, "")
        return (int(annotation) if annotation.isdecimal() else 0) or sum(each.gpus for each in self.instances)

    @property
    def allocated_gpus(self) -> int | None:
        """The GPUs of running instances; None for a job that has completed or is queued."""
        if self.status not in ("PENDING", "RUNNING"):
            return None
        return sum(each.gpus for each in self.instances if each.status == "RUNNING")


def check_type(type_: str | None) -> None:
    """Raise CommandError for a type of job that is not supported."""
    if type_ is not None and type_.lower() not in _TYPES:
        raise CommandError(f"--type: unknown type {type_}; supported: tfjob (tf)")


def job_named(api: ApiClient, name: str, now: float) -> ArenaJobSummary:
    """The job of that name. Raises NotFound, CommandError when it is not a job of Arena."""
    framework = api.get(FRAMEWORKS, name)
    if (framework["metadata"].get("labels") or {}).get(JOB_LABEL) != JOB_VALUE:
        raise CommandError(f"{name} is not a job of Arena; see: launcher get {name}")
    return _job(framework, now)


def all_jobs(api: ApiClient, now: float, *, all_namespaces: bool) -> list[ArenaJobSummary]:
    """All jobs, the newest first."""
    items = api.list(FRAMEWORKS, labels=SELECTOR, all_namespaces=all_namespaces)
    return newest_first(_job(item, now) for item in items)


def newest_first(jobs: Iterable[ArenaJobSummary]) -> list[ArenaJobSummary]:
    """The jobs by their start, the latest first, after those that have not started."""
    return sorted(jobs, key=lambda job: (job.has_started, -job.started, job.namespace, job.name))


def _job(framework: Json, now: float) -> ArenaJobSummary:
    return ArenaJobSummary(framework, now, tuple(_instances(framework)))


def _instances(framework: Json) -> Iterator[Instance]:
    name, spec = FrameworkName(framework["metadata"]["name"]), framework["spec"]
    tasks = {(role.name, task["index"]): task for role in role_entries(framework) for task in role.tasks}
    roles = spec.get("taskRoles") or ()
    chief = "chief" if any(role["name"] == "chief" for role in roles) else "worker"
    for role, count in zip(roles, tasks_of_roles(spec), strict=True):
        if role["name"] == TENSORBOARD:
            continue
        for index in range(min(count, INDEXES_END)):
            task = tasks.get((role["name"], index)) or {}
            attempt = task.get("attemptStatus") or {}
            node = attempt.get("podNodeName")
            yield Instance(
                name=pod_name(name, RoleName(role["name"]), index),
                role=role["name"],
                index=index,
                status=_phase(task),
                node=node or NONE,
                node_ip=attempt.get("podHostIP") or node or NONE,
                ip=attempt.get("podIP") or NONE,
                gpus=_gpus(role["task"]["pod"].get("spec") or {}),
                is_chief=(role["name"], index) == (chief, 0),
                is_gone=_is_gone(task),
            )


def _phase(task: Json) -> str:
    match task.get("state"):
        case "Completed":
            return "SUCCEEDED" if _completion(task).get("type", {}).get("name") == "Succeeded" else "FAILED"
        case "AttemptRunning":
            return "RUNNING"
        case _:
            return "PENDING"


def _is_gone(task: Json) -> bool:
    return task.get("state") == "Completed" and _completion(task).get("code") == FRAMEWORK_ATTEMPT_COMPLETION


def _completion(task: Json) -> Json:
    return task["attemptStatus"].get("completionStatus") or {}


def _gpus(spec: Json) -> int:
    resources = (each.get("resources") or {} for each in spec.get("containers") or ())
    return int(sum(quantity((each.get("limits") or {}).get(GPU, 0)) for each in resources))
