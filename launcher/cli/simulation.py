"""
A Framework's story: the real plan on a cluster of the mind, told step by step.

Every pod is accepted at once, starts a second later and ends ten seconds after that. The first pod of the first
role's last task is killed, so that there is a retry to see.
"""

import heapq
from collections.abc import Iterator
from itertools import count
from textwrap import fill
from typing import Any

from launcher.cli.manifest_file import framework_of
from launcher.core.framework import Framework
from launcher.core.names import pod_name
from launcher.core.planning.actions import Action, CreatePod, DeletePod, ListPodsLive, StateTransition
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.pods.pod_template import PodTemplate, compile_templates
from launcher.core.spec import PodName, RoleName
from launcher.core.timestamps import format_rfc3339

_BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z
_STARTS_AFTER, _RUNS_FOR = 1, 10
_KILLED = 137
#: A story that is not over by then will never be: tasks that run again for ever.
_LONGEST = 3600

#: Reasons stand below what they explain, so that a line fits a terminal of 80 columns.
_INDENT = " " * 10

Json = dict[str, Any]


def simulate(obj: Json) -> Iterator[str]:
    """The story of the Framework *obj*, line by line."""
    framework = framework_of(obj)
    roles = ", ".join(f"{role.tasks} x {role.name}" for role in framework.spec.roles)
    yield f"{framework.name}: {roles or 'no roles'}, in virtual time"
    yield from _Rehearsal(framework).play()


class _Rehearsal:
    """A planner, the pods it has asked for, and what will happen to them when."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._planner = Planner(framework, PlannerOptions())
        self._now = _BEGIN
        self._numbers = count(1)
        self._pods: dict[PodName, Json] = {}
        #: Of the current attempt.
        self._templates: dict[int, dict[RoleName, PodTemplate]] = {}
        #: When, in which order, which pod, and its status from then on.
        self._future: list[tuple[int, int, PodName, Json]] = []
        victims = [
            pod_name(framework.name, role.name, role.tasks - 1) for role in framework.spec.roles if role.tasks
        ]
        self._victim: PodName | None = victims[0] if victims else None

    def play(self) -> Iterator[str]:
        while True:
            look = self._planner.plan(self._now)
            actions = list(look.actions)
            yield from map(self._line, look.steps)
            while ListPodsLive() in actions:
                look = self._planner.plan(self._now, fresh=True)
                actions = list(look.actions)
                yield from map(self._line, look.steps)
            if self._planner.is_completed:
                return
            for action in actions:
                self._take(action)
            if not actions and not self._pass_time(look.requeue_at):
                yield f"{self._clock()}  {self._framework.name} goes on from here: {self._planner.status().state}"
                return

    def _line(self, step: StateTransition) -> str:
        who = self._framework.name if step.role is None else f"  {step.role}[{step.index}]"
        what = f"{self._clock()}  {who:<16} {step.after}"
        return f"{what}\n{fill(step.reason, 80, initial_indent=_INDENT, subsequent_indent=_INDENT)}".rstrip()

    def _clock(self) -> str:
        passed = self._now - _BEGIN
        return f"{passed // 60:>3}:{passed % 60:02}"

    def _take(self, action: Action) -> None:
        match action:
            case CreatePod():
                self._create(action)
            case DeletePod(name):
                del self._pods[name]
                self._planner.attempt_state.pod_deleted(name)
            case _:
                pass  # a question to a store that there is none of, or the end of a Framework long after its story

    def _create(self, action: CreatePod) -> None:
        attempt = self._planner.attempt
        if attempt not in self._templates:
            self._templates = {attempt: compile_templates(self._framework, attempt)}
        pod = self._templates[attempt][action.role].pod(action.index, action.incarnation, action.attempt)
        name = PodName(pod["metadata"]["name"])
        killed, self._victim = name == self._victim, None if name == self._victim else self._victim
        self._pods[name] = pod
        pod["metadata"] |= {
            "uid": f"pod-{next(self._numbers)}",
            "creationTimestamp": format_rfc3339(self._now),
        }
        self._report(name, {"phase": "Pending"})
        self._later(_STARTS_AFTER, name, {"phase": "Running"})
        self._later(_STARTS_AFTER + _RUNS_FOR, name, _ended(pod, _KILLED if killed else 0))

    def _later(self, seconds: int, name: PodName, status: Json) -> None:
        heapq.heappush(self._future, (self._now + seconds, next(self._numbers), name, status))

    def _report(self, name: PodName, status: Json) -> None:
        pod = self._pods[name]
        pod["status"] = status
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        self._planner.attempt_state.observe_pod(pod_from_json(pod))

    def _pass_time(self, look_again: int | None) -> bool:
        """Go on to whatever comes next; False when nothing does."""
        times = [time for time, *_ in self._future[:1]] + ([look_again] if look_again is not None else [])
        if not times or min(times) > _BEGIN + _LONGEST:
            return False
        self._now = max(self._now, min(times))
        while self._future and self._future[0][0] <= self._now:
            _, _, name, status = heapq.heappop(self._future)
            if name in self._pods and self._pods[name]["status"]["phase"] not in ("Succeeded", "Failed"):
                self._report(name, status)
        return True


def _ended(pod: Json, code: int) -> Json:
    names = [container["name"] for container in pod["spec"]["containers"]]
    reason = "Error" if code else "Completed"
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [
            {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}} for name in names
        ],
    }
