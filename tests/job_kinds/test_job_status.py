"""The status of a job, with the conditions, messages and order of the training operator."""

from typing import Any

import pytest

from launcher.core.spec import RoleName
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.job_kinds.job_progress import NO_PROGRESS, JobEnd, Progress, ReplicaCounts
from launcher.job_kinds.job_status import (
    StatusContext,
    blocked_status,
    is_finished,
    is_same,
    running_status,
    status_events,
    suspended_status,
    with_reconcile_time,
)
from tests.job_kinds.samples import states

(TFJOB,) = [job_kind for job_kind in JOB_KINDS if job_kind.kind.kind == "TFJob"]
Json = dict[str, Any]


def at(now: int) -> StatusContext:
    return StatusContext(TFJOB, "ns", "mnist", now)


def progress(end: JobEnd | None = None, restarting: Json | None = None, **roles: ReplicaCounts) -> Progress:
    return Progress(
        {RoleName(role): count for role, count in roles.items()},
        {RoleName(role): number for role, number in (restarting or {}).items()},
        end,
    )


def condition_lines(status: Json) -> list[str]:
    return states({"status": status})


def condition(status: Json, type_: str) -> Json:
    (result,) = [c for c in status["conditions"] if c["type"] == type_]
    return dict(result)


def new_status() -> Json:
    return running_status(at(10), {}, NO_PROGRESS)


def status_while_running() -> Json:
    return running_status(at(20), new_status(), progress(worker=ReplicaCounts(active=2)))


def test_a_new_job_has_the_condition_created_and_a_start_time() -> None:
    status = new_status()

    assert condition_lines(status) == ["Created"]
    assert status["conditions"] == [
        {
            "type": "Created",
            "status": "True",
            "reason": "TFJobCreated",
            "message": "TFJob ns/mnist is created.",
            "lastUpdateTime": "1970-01-01T00:00:10Z",
            "lastTransitionTime": "1970-01-01T00:00:10Z",
        }
    ]
    assert status["startTime"] == "1970-01-01T00:00:10Z"


@pytest.mark.parametrize(
    ("roles", "is_running"),
    [
        pytest.param({"worker": ReplicaCounts(active=1)}, True, id="a worker runs without a chief"),
        pytest.param(
            {"chief": ReplicaCounts(active=1), "worker": ReplicaCounts()}, True, id="the chief runs"
        ),
        pytest.param(
            {"chief": ReplicaCounts(), "worker": ReplicaCounts(active=2)}, False, id="the chief does not run"
        ),
        pytest.param(
            {"worker": ReplicaCounts(active=2), "master": ReplicaCounts()},
            False,
            id="the master does not run",
        ),
        pytest.param({"ps": ReplicaCounts(active=2)}, False, id="parameter servers only"),
        pytest.param({"worker": ReplicaCounts(), "ps": ReplicaCounts(active=1)}, False, id="no worker runs"),
    ],
)
def test_a_job_is_running_when_its_deciding_replicas_are(
    roles: dict[str, ReplicaCounts], is_running: bool
) -> None:
    status = running_status(
        at(20), new_status(), Progress({RoleName(role): roles[role] for role in roles}, {})
    )

    assert ("Running" in condition_lines(status)) is is_running


def test_running_and_restarting_are_mutually_exclusive() -> None:
    failing = progress(restarting={"worker": 1}, worker=ReplicaCounts(active=1, failed=1))

    restarting = running_status(at(30), status_while_running(), failing)
    running = running_status(at(40), restarting, progress(worker=ReplicaCounts(active=2)))

    assert condition_lines(restarting) == ["Created", "Restarting"]
    assert condition(restarting, "Restarting")["message"] == (
        "TFJob ns/mnist is restarting because 1 Worker replica(s) failed."
    )
    assert condition_lines(running) == ["Created", "Running"]


def test_an_unchanged_condition_keeps_its_times() -> None:
    status = running_status(at(30), status_while_running(), progress(worker=ReplicaCounts(active=1)))

    assert condition(status, "Running")["lastUpdateTime"] == "1970-01-01T00:00:20Z"


def test_a_succeeded_job_is_not_running_and_counts_running_replicas_as_succeeded() -> None:
    end = JobEnd(True, "Role worker: all tasks in succeededIndexes succeeded.", RoleName("worker"))

    status = running_status(
        at(50), status_while_running(), progress(end, worker=ReplicaCounts(1, 1), ps=ReplicaCounts(active=1))
    )

    assert condition_lines(status) == ["Created", "Running=False", "Succeeded"]
    assert condition(status, "Running")["lastTransitionTime"] == "1970-01-01T00:00:50Z"
    assert condition(status, "Succeeded")["message"] == "TFJob ns/mnist successfully completed."
    assert status["completionTime"] == "1970-01-01T00:00:50Z"
    assert status["replicaStatuses"]["Worker"]["succeeded"] == 2
    assert status["replicaStatuses"]["PS"]["succeeded"] == 1
    assert "active" not in status["replicaStatuses"]["PS"]


def test_a_failure_names_the_failed_replicas_and_keeps_the_counts_of_others() -> None:
    end = JobEnd(False, "Role ps: 1 failed task reached minFailedTaskCount 1.", RoleName("ps"))

    status = running_status(
        at(50),
        status_while_running(),
        progress(end, worker=ReplicaCounts(active=2), ps=ReplicaCounts(failed=1)),
    )

    assert condition_lines(status) == ["Created", "Running=False", "Failed"]
    assert condition(status, "Failed")["reason"] == "TFJobFailed"
    assert condition(status, "Failed")["message"] == (
        "TFJob ns/mnist has failed because 1 PS replica(s) failed: Role ps: 1 failed task reached minFailedTaskCount 1."
    )
    assert status["replicaStatuses"]["Worker"]["active"] == 2
    assert status["replicaStatuses"]["PS"]["failed"] == 1


def test_a_failure_without_failed_replicas_has_a_reason() -> None:
    status = running_status(
        at(50),
        status_while_running(),
        progress(JobEnd(False, "activeDeadlineSeconds (60) exceeded."), worker=ReplicaCounts(2)),
    )

    assert condition(status, "Failed")["message"] == (
        "TFJob ns/mnist has failed: activeDeadlineSeconds (60) exceeded."
    )


@pytest.mark.parametrize("succeeded", [True, False])
def test_65_the_status_of_a_finished_job_does_not_change(succeeded: bool) -> None:
    finished = running_status(
        at(50), status_while_running(), progress(JobEnd(succeeded, "message"), worker=ReplicaCounts(1, 1))
    )

    assert is_finished(finished)
    assert running_status(at(60), finished, progress(worker=ReplicaCounts(succeeded=2))) == finished
    assert suspended_status(at(60), finished) == finished
    assert blocked_status(at(60), finished, "NameTaken", "message") == finished


def test_64_a_suspended_job_is_not_running_and_a_resumed_job_has_a_new_start_time() -> None:
    suspended = suspended_status(at(30), status_while_running())
    resumed = running_status(at(40), suspended, NO_PROGRESS)
    running = running_status(at(50), resumed, progress(worker=ReplicaCounts(active=2)))

    assert condition_lines(suspended) == ["Created", "Running=False", "Suspended"]
    assert (
        condition(suspended, "Running")["reason"]
        == condition(suspended, "Suspended")["reason"]
        == "TFJobSuspended"
    )
    assert "replicaStatuses" not in suspended
    assert suspended_status(at(35), suspended) == suspended
    assert condition_lines(resumed) == ["Created", "Running=False", "Suspended=False"]
    assert condition(resumed, "Suspended")["reason"] == "TFJobResumed"
    assert resumed["startTime"] == "1970-01-01T00:00:40Z"
    assert condition_lines(running) == ["Created", "Suspended=False", "Running"]


def test_64_a_job_that_is_created_suspended_has_no_start_time() -> None:
    suspended = suspended_status(at(10), {})

    assert condition_lines(suspended) == ["Created", "Suspended"]
    assert "startTime" not in suspended
    assert running_status(at(40), suspended, NO_PROGRESS)["startTime"] == "1970-01-01T00:00:40Z"


def test_the_blocked_condition_is_last_and_removed_when_the_job_runs() -> None:
    blocked = blocked_status(at(20), {}, "NameTaken", "the name is taken")
    other = blocked_status(at(30), blocked, "NameTaken", "for another reason")
    free = running_status(at(40), other, NO_PROGRESS)

    assert condition_lines(blocked) == ["Created", "Blocked"]
    assert condition(blocked, "Blocked")["message"] == "TFJob ns/mnist cannot run: the name is taken"
    assert condition(other, "Blocked")["message"] == "TFJob ns/mnist cannot run: for another reason"
    assert condition(other, "Blocked")["lastTransitionTime"] == "1970-01-01T00:00:20Z"
    assert condition_lines(free) == ["Created"]


def test_each_changed_condition_is_one_event() -> None:
    finished = running_status(
        at(50), status_while_running(), progress(JobEnd(False, "message"), worker=ReplicaCounts(failed=1))
    )

    assert [event.reason for event in status_events({}, status_while_running())] == [
        "TFJobCreated",
        "TFJobRunning",
    ]
    assert [(event.reason, event.warning) for event in status_events(status_while_running(), finished)] == [
        ("TFJobFailed", True)
    ]
    assert status_events(finished, finished) == ()


def test_the_reconcile_time_is_ignored_in_comparisons() -> None:
    assert is_same(with_reconcile_time(new_status(), 10), with_reconcile_time(new_status(), 20))
    assert not is_same(new_status(), status_while_running())
