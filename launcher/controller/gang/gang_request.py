"""One gang: the tasks of one attempt that are scheduled together, with the values that backends need."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from launcher.core.errors import FieldError, InvalidObject
from launcher.core.framework import Framework
from launcher.core.names import API_VERSION, KIND, PodIdentityKey
from launcher.core.owner_references import controller_reference, controller_uid
from launcher.core.planning.gang import members, min_members
from launcher.core.pods.resource_requests import PODS_RESOURCE
from launcher.core.spec import Gang, TaskRole
from launcher.scheduling.pod_requirements import pod_requirements
from launcher.store.interface import Object

#: The scheduler of a pod without schedulerName.
DEFAULT_SCHEDULER: Final = "default-scheduler"
#: Fields of a pod spec that determine its requests.
_RESOURCE_FIELDS: Final = ("containers", "initContainers", "resources", "overhead")


@dataclass(frozen=True, slots=True)
class GangRequest:
    """The gang of one attempt, without background roles."""

    framework: Framework
    attempt: int
    #: The number of completed tasks. Some schedulers do not count their pods.
    completed_tasks: int = 0

    @property
    def name(self) -> str:
        """The name of its pod group, which differs for each attempt."""
        return f"{self.framework.name}-{self.attempt}"

    @property
    def gang(self) -> Gang:
        return self.framework.spec.gang or Gang()

    @property
    def roles(self) -> tuple[TaskRole, ...]:
        return tuple(role for role in self.framework.spec.roles if not role.background and role.tasks)

    @property
    def total(self) -> int:
        """The number of tasks."""
        return members(self.framework.spec)

    @property
    def remaining_tasks(self) -> int:
        """The number of tasks that have not completed."""
        return self.total - self.completed_tasks

    @property
    def minimum(self) -> int:
        """The number of tasks that are scheduled together."""
        return max(1, min(min_members(self.framework.spec), self.remaining_tasks))

    def scheduler(self, default: str) -> str:
        """Returns the schedulerName of the pod templates, or *default*. Raises InvalidObject if they differ."""
        schedulers = self.schedulers()
        if len(schedulers) > 1:
            names = " and ".join(sorted(schedulers))
            message = f"all tasks of a gang must have the same schedulerName; found {names}"
            raise InvalidObject((FieldError("spec.taskRoles", message),))
        return next(iter(schedulers), default)

    def schedulers(self) -> frozenset[str]:
        """Returns all schedulerNames of the pod templates."""
        return frozenset(filter(None, (spec.get("schedulerName") for spec in self._pod_specs())))

    def priority_class(self) -> str:
        """Returns the common priorityClassName of the pods; empty if they differ."""
        names = {spec.get("priorityClassName") or "" for spec in self._pod_specs()}
        return names.pop() if len(names) == 1 else ""

    def labels(self) -> Iterator[Mapping[str, str]]:
        """Returns the labels of each role's pod template."""
        return ((role.pod.get("metadata") or {}).get("labels") or {} for role in self.roles)

    def resources(self) -> dict[str, str]:
        """Returns the sum of the requests of the first ``minimum`` tasks, in the order of the spec."""
        total: dict[str, int] = {}
        remaining = self.minimum
        for role in self.roles:
            count = min(role.tasks, remaining)
            remaining -= count
            for name, amount in _requests(role.pod.get("spec") or {}).items():
                total[name] = total.get(name, 0) + amount * count
        return {name: _quantity(amount) for name, amount in sorted(total.items()) if amount}

    def metadata(self) -> Object:
        """Returns the metadata of the pod group, which is deleted with the Framework."""
        framework = self.framework
        return {
            "name": self.name,
            "namespace": framework.namespace,
            "labels": {
                PodIdentityKey.FRAMEWORK_NAME.value: framework.name,
                PodIdentityKey.FRAMEWORK_ATTEMPT_ID.value: str(self.attempt),
            },
            "ownerReferences": [controller_reference(API_VERSION, KIND, framework.name, framework.uid)],
        }

    def _pod_specs(self) -> Iterator[Mapping[str, Any]]:
        return (role.pod.get("spec") or {} for role in self.roles)


def is_controlled_by(obj: Object, framework: Framework) -> bool:
    """Whether the Framework controls *obj*."""
    return controller_uid(obj) == framework.uid


def _requests(pod_spec: Mapping[str, Any]) -> Mapping[str, int]:
    """Returns the requests of one pod in thousandths, with sidecars, pod-level resources and overhead."""
    relevant = {field: pod_spec[field] for field in _RESOURCE_FIELDS if pod_spec.get(field)}
    requests = pod_requirements({"spec": relevant}).requests
    return {name: amount for name, amount in requests.items() if name != PODS_RESOURCE}


def _quantity(amount: int) -> str:
    """Returns a Kubernetes quantity, in thousandths if *amount* is not whole."""
    return f"{amount}m" if amount % 1000 else str(amount // 1000)
