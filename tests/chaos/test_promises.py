"""What the other tests here rely on: a promise that is broken is told."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from launcher.controller.framework_state import framework_from_json
from launcher.core.planning.planner import plan
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.pods.pod_template import compile_templates
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import RoleName
from launcher.store.interface import FRAMEWORKS, PODS
from tests.chaos.history import Write
from tests.chaos.load import Job, Try, short
from tests.chaos.promises import broken_promises
from tests.core.manifests import Json

NOW = 1_800_000_000.0
JOB = short("f")


class Story:
    """A Framework as a launcher runs it, written down as etcd would."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.pods: dict[str, Json] = {}
        self._revision = 0
        meta = {"name": "f", "namespace": "default", "uid": "u", "generation": 1}
        self.framework: Json = {**JOB.framework, "metadata": meta}
        self.write(FRAMEWORKS, self.framework)

    def write(self, kind: Any, obj: Json, *, gone: bool = False) -> None:
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        self.writes.append(Write(kind, gone, {**obj, "metadata": dict(obj["metadata"])}))

    def look(self) -> None:
        """Save what a look finds."""
        framework = framework_from_json(self.framework)
        found = plan(framework, [pod_from_json(pod) for pod in self.pods.values()], NOW)
        self.framework["status"] = status_to_json(found.status, framework.name, framework.uid)
        self.write(FRAMEWORKS, self.framework)

    def create(self, index: int, uid: str, number: int = 0) -> None:
        template = compile_templates(framework_from_json(self.framework), 0)[RoleName("short")]
        pod = template.pod(index, 0, number)
        pod["metadata"] |= {"uid": uid, "creationTimestamp": "2027-01-15T08:00:00Z"}
        self.pods[pod["metadata"]["name"]] = pod
        self.write(PODS, pod)

    def delete(self, index: int) -> None:
        self.write(PODS, self.pods.pop(f"f-short-{index}"), gone=True)

    def succeed(self, index: int) -> None:
        pod = self.pods[f"f-short-{index}"]
        state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": state}]}
        self.write(PODS, pod)

    def broken(self, jobs: Sequence[Job] = (JOB,), deleted: frozenset[str] = frozenset()) -> str:
        frameworks = {"f": self.framework}
        return "\n".join(broken_promises(jobs, self.writes, frameworks, self.pods, deleted, two_lead=False))


@pytest.fixture
def begun() -> Story:
    """Every task has its pod."""
    story = Story()
    story.look()
    for index in range(6):
        story.create(index, f"pod-{index}")
    return story


@pytest.fixture
def done(begun: Story) -> Story:
    """Every task has succeeded."""
    for index in range(6):
        begun.succeed(index)
    begun.look()
    return begun


def test_what_went_well_breaks_none(done: Story) -> None:
    assert done.broken() == ""


def test_a_pod_that_is_made_twice_is_told(begun: Story) -> None:
    begun.delete(3)
    begun.create(3, "another")
    for index in range(6):
        begun.succeed(index)
    begun.look()

    assert "made twice" in begun.broken()
    assert begun.broken(deleted=frozenset({"pod-3"})) == "", "somebody else had deleted the first"


def test_a_task_that_runs_after_its_success_is_told(done: Story) -> None:
    done.delete(2)
    done.create(2, "another", number=1)
    done.succeed(2)

    broken = done.broken()
    assert "ran again after it had succeeded" in broken
    assert "ran again" not in done.broken(deleted=frozenset({"pod-2"})), "somebody else had deleted the first"
    assert "not saved, or over" in broken
    assert "it had pods for [Try(attempt=0, role='short', index=2, number=1)]" in broken


def test_a_pod_before_its_status_is_told() -> None:
    story = Story()
    story.create(0, "early")

    assert "tries that were not saved" in story.broken()


def test_a_framework_that_does_not_end_is_told(begun: Story) -> None:
    begun.look()

    assert "it has not ended: AttemptPreparing" in begun.broken()


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        pytest.param(replace(JOB, result="Failed"), "it ended as", id="another end"),
        pytest.param(replace(JOB, retries=1), "0 of its retries count", id="more retries"),
        pytest.param(replace(JOB, task_retries=1), "retries of its tasks count", id="more retries of tasks"),
        pytest.param(replace(JOB, certain=JOB.certain | {Try(0, "ps", 0)}), "none for", id="more tasks"),
    ],
)
def test_an_end_that_is_not_the_one_it_must_reach_is_told(done: Story, wanted: Job, told: str) -> None:
    assert told in done.broken([wanted])


def test_a_pod_that_belongs_to_nothing_is_told(done: Story) -> None:
    done.create(0, "orphan")
    done.pods["orphan"] = done.pods.pop("f-short-0")
    done.pods["orphan"]["metadata"]["ownerReferences"][0]["uid"] = "somebody"

    assert "has no owner any more" in done.broken()
