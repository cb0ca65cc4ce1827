"""``progressDeadlineSeconds``: a running task without output and without a heartbeat fails."""

from typing import Any

import pytest

from launcher.core.completion_codes import Code
from launcher.core.names import HEARTBEAT_ANNOTATION
from launcher.core.planning.actions import ReadOutput
from launcher.core.planning.progress import PodOutput, observed_output
from launcher.core.status import State
from launcher.core.timestamps import format_rfc3339
from tests.core.builders import START, a_role
from tests.core.planning.harness import PlannerHarness, running_harness

DEADLINE_SECONDS = 600


def a_running_harness(tasks: int = 1, **role: Any) -> PlannerHarness:
    return running_harness(a_role("w", tasks, progress_deadline_seconds=DEADLINE_SECONDS, **role))


def advance_by_half_deadlines(harness: PlannerHarness, count: int) -> None:
    for _ in range(count):
        harness.advance(DEADLINE_SECONDS // 2)


def test_the_output_is_read_twice_within_the_deadline() -> None:
    harness = a_running_harness()

    assert harness.plan().requeue_at == START + DEADLINE_SECONDS // 2
    harness.now += DEADLINE_SECONDS // 2
    assert [type(action) for action in harness.plan().actions] == [ReadOutput]


def test_a_task_without_output_fails_with_its_last_lines() -> None:
    harness = a_running_harness()
    harness.outputs["w0"] = ("epoch 1", "loss 0.3")

    advance_by_half_deadlines(harness, 3)

    assert harness.state is State.COMPLETED
    completion = harness.task("w0").attempt.completion
    assert completion is not None
    assert (completion.code, completion.phrase, completion.attributes) == (-320, "Stalled", frozenset())
    assert "no output and no heartbeat for 600s" in completion.diagnostics
    assert "epoch 1 / loss 0.3" in completion.diagnostics


def test_a_task_that_has_never_written_says_so() -> None:
    harness = a_running_harness()

    advance_by_half_deadlines(harness, 3)

    assert "it has written nothing" in harness.task("w0").message.lower()


def test_a_task_that_writes_continues() -> None:
    harness = a_running_harness()

    for number in range(20):
        harness.outputs["w0"] = (f"step {number}",)
        advance_by_half_deadlines(harness, 1)

    assert harness.task("w0").state is State.RUNNING


def test_a_stalled_task_is_retried_and_the_retry_counts() -> None:
    harness = a_running_harness(retry=(True, 1))
    harness.outputs["w0"] = ("the same",)

    advance_by_half_deadlines(harness, 3)

    assert harness.task_counters("w0") == (1, 1)
    assert harness.task("w0").history[-1].phrase == "Stalled"


def test_the_deadline_of_a_new_pod_begins_with_its_start() -> None:
    harness = a_running_harness(retry=(False, 1))
    harness.outputs["w0"] = ("the same",)
    advance_by_half_deadlines(harness, 3)
    harness.run_pods("w0")

    advance_by_half_deadlines(harness, 2)

    assert harness.task("w0").state is State.RUNNING


def test_a_heartbeat_replaces_output() -> None:
    harness = a_running_harness()

    for _ in range(20):
        advance_by_half_deadlines(harness, 1)
        pod = harness.pods[harness.pod_name("w0")]
        annotations = {
            **pod["metadata"]["annotations"],
            HEARTBEAT_ANNOTATION: format_rfc3339(int(harness.now)),
        }
        harness.store_pod({**pod, "metadata": {**pod["metadata"], "annotations": annotations}})
        harness.sync()

    assert harness.task("w0").state is State.RUNNING


def test_a_malformed_heartbeat_is_ignored() -> None:
    harness = a_running_harness()
    pod = harness.pods[harness.pod_name("w0")]
    annotations = {**pod["metadata"]["annotations"], HEARTBEAT_ANNOTATION: "now"}
    harness.store_pod({**pod, "metadata": {**pod["metadata"], "annotations": annotations}})

    advance_by_half_deadlines(harness, 3)

    assert harness.final_code == Code.STALLED


def test_the_last_output_of_the_other_tasks_is_kept_in_their_messages() -> None:
    harness = a_running_harness(tasks=2)
    harness.outputs["w0"] = ("waiting for rank 1",)
    for number in range(3):
        harness.outputs["w1"] = (f"step {number}",)
        advance_by_half_deadlines(harness, 1)

    assert harness.final_code == Code.STALLED
    assert "Last output: step 2" in harness.task("w1").message


def test_the_last_output_of_an_earlier_attempt_is_not_shown() -> None:
    harness = a_running_harness(tasks=2, retry=(False, -2), min_counts=(-1, -1))
    harness.outputs["w0"] = ("step 1",)
    advance_by_half_deadlines(harness, 1)
    harness.exit_pods({"w0": 0})
    harness.advance(60)
    assert harness.task("w0").retry.total == 1

    harness.stop()
    harness.sync(until=lambda: bool(harness.task("w0").message))

    assert "Last output" not in harness.task("w0").message


def test_without_the_field_no_output_is_read() -> None:
    harness = running_harness(a_role("w"))

    harness.now += 100_000

    assert harness.plan().actions == ()
    assert harness.plan().requeue_at is None


def test_long_output_is_shortened_in_front() -> None:
    harness = a_running_harness()
    harness.outputs["w0"] = ("x" * 1000 + "the end",)

    advance_by_half_deadlines(harness, 3)

    message = harness.task("w0").message
    assert len(message) < 500
    assert "the end" in message


@pytest.mark.parametrize(
    ("mark", "uid", "changed_at"),
    [
        pytest.param("a", "pod", 10, id="the same line"),
        pytest.param("b", "pod", 20, id="another line"),
        pytest.param("a", "other", 20, id="the same line of another pod"),
    ],
)
def test_output_changes_with_its_last_line(mark: str, uid: str, changed_at: int) -> None:
    first = observed_output(None, PodOutput("pod", "a"), 10)

    second = observed_output(first, PodOutput(uid, mark), 20)

    assert (second.read_at, second.changed_at) == (20, changed_at)
