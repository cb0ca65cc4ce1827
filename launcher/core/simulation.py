"""
The simulation of a Framework: the planner of the launcher with pods that exist in memory only.

Every pod is scheduled at once, starts a second later and succeeds ten seconds after that. The first pod of the first
role's last task is killed, to show a retry.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from launcher.core.framework import Framework
from launcher.core.names import pod_name
from launcher.core.planning.actions import Action, CreatePod, DeletePod, ListPodsLive, StateTransition
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner
from launcher.core.pods.observed_pod import has_terminated, pod_from_json
from launcher.core.pods.pod_template import PodTemplate, compile_templates
from launcher.core.spec import PodName, RoleName
from launcher.core.timestamps import format_rfc3339

_START_TIME = 1_767_225_600  # 2026-01-01T00:00:00Z
_START_DELAY_SECONDS, _RUN_SECONDS = 1, 10
_SIGKILL_CODE = 137
#: A Framework that runs longer has tasks that are retried without end.
_MAX_SECONDS = 3600

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """A change of state after so many seconds; in the last one of a Framework that waits forever, no state changes."""

    seconds: int
    transition: StateTransition

    @property
    def is_stuck(self) -> bool:
        """Whether nothing changes from now on, although the Framework is not completed."""
        return self.transition.before is self.transition.after


def simulate(framework: Framework) -> Iterator[SimulatedStep]:
    """Yields each state change of the Framework and of its tasks."""
    return _Simulation(framework).run()


class _Simulation:
    """A planner, the pods that it has created, and their future states."""

    def __init__(self, framework: Framework) -> None:
        # There is no store for the records of attempts.
        self._framework = replace(framework, spec=replace(framework.spec, attempt_history_limit=0))
        self._planner = Planner(self._framework, PlannerOptions())
        self._now = _START_TIME
        self._numbers = count(1)
        self._pods: dict[PodName, Json] = {}
        #: Of the current attempt.
        self._templates: dict[int, dict[RoleName, PodTemplate]] = {}
        #: The time, a number to sort by, the pod and its status from then on.
        self._future: list[tuple[int, int, PodName, Json]] = []
        candidates = [
            pod_name(framework.name, role.name, role.tasks - 1) for role in framework.spec.roles if role.tasks
        ]
        #: The pod to kill; None once it has been created.
        self._killed_pod: PodName | None = candidates[0] if candidates else None

    def run(self) -> Iterator[SimulatedStep]:
        while True:
            plan = self._planner.plan(self._now)
            actions = list(plan.actions)
            yield from map(self._step, plan.transitions)
            while ListPodsLive() in actions:
                plan = self._planner.plan(self._now, pods_are_live=True)
                actions = list(plan.actions)
                yield from map(self._step, plan.transitions)
            if self._planner.is_completed:
                return
            for action in actions:
                self._execute(action)
            if not actions and not self._advance_time(plan.requeue_at):
                state = self._planner.status().state
                yield self._step(StateTransition(state, state, ""))
                return

    def _step(self, transition: StateTransition) -> SimulatedStep:
        return SimulatedStep(self._now - _START_TIME, transition)

    def _execute(self, action: Action) -> None:
        match action:
            case CreatePod():
                self._create(action)
            case DeletePod(name):
                del self._pods[name]
                self._planner.pod_deleted(name)
            case _:
                pass  # there is no store to read from, and no Framework to delete

    def _create(self, action: CreatePod) -> None:
        attempt = self._planner.attempt
        if attempt not in self._templates:
            self._templates = {attempt: compile_templates(self._framework, attempt)}
        pod = self._templates[attempt][action.role].pod(action.index, action.incarnation, action.attempt)
        name = PodName(pod["metadata"]["name"])
        is_killed = name == self._killed_pod
        if is_killed:
            self._killed_pod = None
        self._pods[name] = pod
        pod["metadata"] |= {
            "uid": f"pod-{next(self._numbers)}",
            "creationTimestamp": format_rfc3339(self._now),
        }
        self._set_status(name, {"phase": "Pending"})
        self._schedule(_START_DELAY_SECONDS, name, {"phase": "Running"})
        self._schedule(
            _START_DELAY_SECONDS + _RUN_SECONDS, name, _terminated(pod, _SIGKILL_CODE if is_killed else 0)
        )

    def _schedule(self, seconds: int, name: PodName, status: Json) -> None:
        heapq.heappush(self._future, (self._now + seconds, next(self._numbers), name, status))

    def _set_status(self, name: PodName, status: Json) -> None:
        pod = self._pods[name]
        pod["status"] = status
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        self._planner.observe_pod(pod_from_json(pod))

    def _advance_time(self, requeue_at: int | None) -> bool:
        """Advance to the next change of a pod or to *requeue_at*. Returns False when there is neither."""
        times = [time for time, *_ in self._future[:1]] + ([requeue_at] if requeue_at is not None else [])
        if not times or min(times) > _START_TIME + _MAX_SECONDS:
            return False
        self._now = max(self._now, min(times))
        while self._future and self._future[0][0] <= self._now:
            _, _, name, status = heapq.heappop(self._future)
            if name in self._pods and not has_terminated(self._pods[name]):
                self._set_status(name, status)
        return True


def _terminated(pod: Json, code: int) -> Json:
    names = [container["name"] for container in pod["spec"]["containers"]]
    reason = "Error" if code else "Completed"
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [
            {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}} for name in names
        ],
    }
