"""Tests of the invariants: a violation is reported."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from launcher.core.planning.planner import plan
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.pods.pod_template import compile_templates
from launcher.core.serialization.framework_json import framework_from_json
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import RoleName
from launcher.store.interface import FRAMEWORKS, PODS
from tests.builders import Json
from tests.chaos.history import Write
from tests.chaos.invariants import violations
from tests.chaos.workloads import Job, RecordedTaskAttempt, short_tasks

NOW = 1_800_000_000.0
JOB = short_tasks("f")


class RecordedHistory:
    """A Framework as run by a launcher, recorded as in etcd."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.pods: dict[str, Json] = {}
        self._revision = 0
        meta = {"name": "f", "namespace": "default", "uid": "u", "generation": 1}
        self.framework: Json = {**JOB.framework, "metadata": meta}
        self.write(FRAMEWORKS, self.framework)

    def write(self, kind: Any, obj: Json, *, deleted: bool = False) -> None:
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        self.writes.append(Write(kind, deleted, {**obj, "metadata": dict(obj["metadata"])}))

    def reconcile(self) -> None:
        """Saves the result of a reconcile."""
        framework = framework_from_json(self.framework)
        result = plan(framework, [pod_from_json(pod) for pod in self.pods.values()], NOW)
        self.framework["status"] = status_to_json(result.status, framework.name, framework.uid)
        self.write(FRAMEWORKS, self.framework)

    def create(self, index: int, uid: str, number: int = 0) -> None:
        template = compile_templates(framework_from_json(self.framework), 0)[RoleName("short")]
        pod = template.pod(index, 0, number)
        pod["metadata"] |= {"uid": uid, "creationTimestamp": "2027-01-15T08:00:00Z"}
        self.pods[pod["metadata"]["name"]] = pod
        self.write(PODS, pod)

    def delete(self, index: int) -> None:
        self.write(PODS, self.pods.pop(f"f-short-{index}"), deleted=True)

    def succeed(self, index: int) -> None:
        pod = self.pods[f"f-short-{index}"]
        state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": state}]}
        self.write(PODS, pod)

    def violations(self, jobs: Sequence[Job] = (JOB,), deleted: frozenset[str] = frozenset()) -> str:
        frameworks = {"f": self.framework}
        return "\n".join(violations(jobs, self.writes, frameworks, self.pods, deleted, two_leaders=False))


@pytest.fixture
def started() -> RecordedHistory:
    """Creates the pod of every task."""
    history = RecordedHistory()
    history.reconcile()
    for index in range(6):
        history.create(index, f"pod-{index}")
    return history


@pytest.fixture
def completed(started: RecordedHistory) -> RecordedHistory:
    """Completes every task with success."""
    for index in range(6):
        started.succeed(index)
    started.reconcile()
    return started


def test_a_correct_history_violates_nothing(completed: RecordedHistory) -> None:
    assert completed.violations() == ""


def test_a_pod_created_twice_is_reported(started: RecordedHistory) -> None:
    started.delete(3)
    started.create(3, "another")
    for index in range(6):
        started.succeed(index)
    started.reconcile()

    assert "several pods for one attempt" in started.violations()
    assert started.violations(deleted=frozenset({"pod-3"})) == "", "another client deleted the first pod"


def test_a_task_that_runs_after_its_success_is_reported(completed: RecordedHistory) -> None:
    completed.delete(2)
    completed.create(2, "another", number=1)
    completed.succeed(2)

    text = completed.violations()
    assert "ran again after it had succeeded" in text
    assert "ran again" not in completed.violations(deleted=frozenset({"pod-2"})), (
        "another client deleted the first pod"
    )
    assert "not saved, were completed" in text
    assert "unexpected pods for [RecordedTaskAttempt(attempt=0, role='short', index=2, number=1)]" in text


def test_a_pod_created_before_its_status_is_reported() -> None:
    history = RecordedHistory()
    history.create(0, "early")

    assert "attempts that were not saved" in history.violations()


def test_a_framework_that_does_not_complete_is_reported(started: RecordedHistory) -> None:
    started.reconcile()

    assert "not completed: AttemptPreparing" in started.violations()


@pytest.mark.parametrize(
    ("job", "message"),
    [
        pytest.param(replace(JOB, result="Failed"), "completed as", id="another result"),
        pytest.param(replace(JOB, retries=1), "0 retries counted", id="more retries"),
        pytest.param(replace(JOB, task_retries=1), "task retries counted", id="more retries of tasks"),
        pytest.param(
            replace(JOB, expected=JOB.expected | {RecordedTaskAttempt(0, "ps", 0)}),
            "no pods for",
            id="more tasks",
        ),
    ],
)
def test_an_unexpected_completion_is_reported(completed: RecordedHistory, job: Job, message: str) -> None:
    assert message in completed.violations([job])


def test_an_orphaned_pod_is_reported(completed: RecordedHistory) -> None:
    completed.create(0, "orphan")
    completed.pods["orphan"] = completed.pods.pop("f-short-0")
    completed.pods["orphan"]["metadata"]["ownerReferences"][0]["uid"] = "another"

    assert "has no owner" in completed.violations()
