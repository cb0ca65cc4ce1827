"""One gang: the tasks of one attempt that are to be placed together, and what every way of placing them is told."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from launcher.core.errors import FieldError, InvalidObject
from launcher.core.framework import Framework
from launcher.core.names import API_VERSION, KIND, PodIdentityKey
from launcher.core.owner_references import controller_of, controller_reference
from launcher.core.planning.gang import members, min_members
from launcher.core.quantity import quantity
from launcher.core.spec import Gang, TaskRole
from launcher.store.interface import Object

#: On every pod of a gang: who places it.
BACKEND_LABEL: Final = "launcher.microsoft.com/gang-backend"
#: The scheduler of a pod that names none.
DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class GangRequest:
    """The gang of one attempt. Background roles are no part of it: nothing waits for them, nor they for anything."""

    framework: Framework
    attempt: int
    #: Tasks of it that are over. Their pods count for nothing to schedulers that do not look at such pods.
    ended: int = 0

    @property
    def name(self) -> str:
        """Of its group: another with each attempt, so that nothing of an earlier one counts."""
        return f"{self.framework.name}-{self.attempt}"

    @property
    def gang(self) -> Gang:
        return self.framework.spec.gang or Gang()

    @property
    def roles(self) -> tuple[TaskRole, ...]:
        return tuple(role for role in self.framework.spec.roles if not role.background and role.tasks)

    @property
    def total(self) -> int:
        """How many tasks belong to it."""
        return members(self.framework.spec)

    @property
    def remaining_tasks(self) -> int:
        """How many of them are not over."""
        return self.total - self.ended

    @property
    def least(self) -> int:
        """How many of them are placed together, or none is."""
        return max(1, min(min_members(self.framework.spec), self.remaining_tasks))

    def scheduler(self, default: str) -> str:
        """Who gives its pods their nodes: whom their templates name, or *default*. Raises InvalidObject for two."""
        named = self.schedulers()
        if len(named) > 1:
            raise InvalidObject(
                (
                    FieldError(
                        "spec.taskRoles",
                        f"the tasks of a gang have one scheduler, and these name {' and '.join(sorted(named))}: "
                        "let all pods have the same schedulerName",
                    ),
                )
            )
        return next(iter(named), default)

    def schedulers(self) -> frozenset[str]:
        """Those that its pods' templates name."""
        return frozenset(filter(None, (spec.get("schedulerName") for spec in self._pod_specs())))

    def priority_class(self) -> str:
        """That of all its pods; empty when they have none, or not the same."""
        named = {spec.get("priorityClassName") or "" for spec in self._pod_specs()}
        return named.pop() if len(named) == 1 else ""

    def labels(self) -> Iterator[Mapping[str, str]]:
        """Those of the pods of each role, as their templates have them."""
        return ((role.pod.get("metadata") or {}).get("labels") or {} for role in self.roles)

    def resources(self) -> dict[str, str]:
        """What as many tasks as have to be placed together ask for, in the order of the spec."""
        total: dict[str, Decimal] = {}
        left = self.least
        for role in self.roles:
            count = min(role.tasks, left)
            left -= count
            for name, amount in _asked(role.pod.get("spec") or {}).items():
                total[name] = total.get(name, Decimal()) + amount * count
        return {name: _text(amount) for name, amount in sorted(total.items()) if amount}

    def metadata(self) -> Object:
        """Of whatever stands for its group: owned by the Framework, which takes it along."""
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


def reference(framework: Framework) -> Object:
    """The Framework as events refer to it."""
    meta = {"namespace": framework.namespace, "name": framework.name, "uid": framework.uid}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta}


def is_of(obj: Object, framework: Framework) -> bool:
    """Whether that Framework controls it."""
    return controller_of(obj["metadata"]).get("uid") == framework.uid


def _asked(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    """All containers together, or the greediest init container, whichever is more."""
    total: dict[str, Decimal] = {}
    for name, amount in _requests(spec.get("containers") or ()):
        total[name] = total.get(name, Decimal()) + amount
    for name, amount in _requests(spec.get("initContainers") or ()):
        total[name] = max(total.get(name, Decimal()), amount)
    return total


def _requests(containers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Decimal]]:
    """A limit stands in for a request that is not there, as the API server has it."""
    for container in containers:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, text in asked.items():
            yield name, quantity(text)


def _text(amount: Decimal) -> str:
    """As Kubernetes reads it, in thousandths where there is a fraction."""
    whole = int(amount)
    return str(whole) if whole == amount else f"{int((amount * 1000).to_integral_value(ROUND_CEILING))}m"
