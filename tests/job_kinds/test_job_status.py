"""The status of a job: conditions in the order and in the words of the training operator."""

from typing import Any

import pytest

from launcher.core.spec import RoleName
from launcher.job_kinds.job_kind import FOREIGN
from launcher.job_kinds.job_progress import NOTHING_YET, JobEnd, Progress, ReplicaCounts
from launcher.job_kinds.job_status import (
    StatusContext,
    blocked,
    is_finished,
    looked,
    running,
    same,
    status_events,
    suspended,
)
from tests.job_kinds.samples import states

(TFJOB,) = [foreign for foreign in FOREIGN if foreign.kind.kind == "TFJob"]
Json = dict[str, Any]


def at(now: int) -> StatusContext:
    return StatusContext(TFJOB, "ns", "mnist", now)


def progress(end: JobEnd | None = None, restarting: Json | None = None, **roles: ReplicaCounts) -> Progress:
    return Progress(
        {RoleName(role): count for role, count in roles.items()},
        {RoleName(role): number for role, number in (restarting or {}).items()},
        end,
    )


def told(status: Json) -> list[str]:
    return states({"status": status})


def condition(status: Json, type_: str) -> Json:
    (found,) = [each for each in status["conditions"] if each["type"] == type_]
    return dict(found)


def begun() -> Json:
    return running(at(10), {}, NOTHING_YET)


def ran() -> Json:
    return running(at(20), begun(), progress(worker=ReplicaCounts(active=2)))


def test_a_new_job_is_created_and_its_time_begins() -> None:
    status = begun()

    assert told(status) == ["Created"]
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
        pytest.param({"worker": ReplicaCounts(active=1)}, True, id="a worker runs, and there is no chief"),
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
        pytest.param({"ps": ReplicaCounts(active=2)}, False, id="there are parameter servers alone"),
        pytest.param({"worker": ReplicaCounts(), "ps": ReplicaCounts(active=1)}, False, id="no worker runs"),
    ],
)
def test_it_runs_when_those_run_who_decide_about_it(
    roles: dict[str, ReplicaCounts], is_running: bool
) -> None:
    status = running(at(20), begun(), Progress({RoleName(role): roles[role] for role in roles}, {}))

    assert ("Running" in told(status)) is is_running


def test_running_and_restarting_take_each_others_place() -> None:
    failing = progress(restarting={"worker": 1}, worker=ReplicaCounts(active=1, failed=1))

    restarting = running(at(30), ran(), failing)
    again = running(at(40), restarting, progress(worker=ReplicaCounts(active=2)))

    assert told(restarting) == ["Created", "Restarting"]
    assert condition(restarting, "Restarting")["message"] == (
        "TFJob ns/mnist is restarting because 1 Worker replica(s) failed."
    )
    assert told(again) == ["Created", "Running"]


def test_a_condition_that_says_the_same_stays_as_it_was() -> None:
    status = running(at(30), ran(), progress(worker=ReplicaCounts(active=1)))

    assert condition(status, "Running")["lastUpdateTime"] == "1970-01-01T00:00:20Z"


def test_success_ends_the_running_and_counts_those_that_still_run_as_succeeded() -> None:
    end = JobEnd(True, "every task named in succeededIndexes has succeeded", RoleName("worker"))

    status = running(at(50), ran(), progress(end, worker=ReplicaCounts(1, 1), ps=ReplicaCounts(active=1)))

    assert told(status) == ["Created", "Running=False", "Succeeded"]
    assert condition(status, "Running")["lastTransitionTime"] == "1970-01-01T00:00:50Z"
    assert condition(status, "Succeeded")["message"] == "TFJob ns/mnist successfully completed."
    assert status["completionTime"] == "1970-01-01T00:00:50Z"
    assert status["replicaStatuses"]["Worker"]["succeeded"] == 2
    assert status["replicaStatuses"]["PS"]["succeeded"] == 1
    assert "active" not in status["replicaStatuses"]["PS"]


def test_a_failure_names_who_failed_and_leaves_the_others_as_they_were() -> None:
    end = JobEnd(False, "1 task failed, and minFailedTaskCount is 1", RoleName("ps"))

    status = running(at(50), ran(), progress(end, worker=ReplicaCounts(active=2), ps=ReplicaCounts(failed=1)))

    assert told(status) == ["Created", "Running=False", "Failed"]
    assert condition(status, "Failed")["reason"] == "TFJobFailed"
    assert condition(status, "Failed")["message"] == (
        "TFJob ns/mnist has failed because 1 PS replica(s) failed: 1 task failed, and minFailedTaskCount is 1"
    )
    assert status["replicaStatuses"]["Worker"]["active"] == 2
    assert status["replicaStatuses"]["PS"]["failed"] == 1


def test_a_failure_that_is_nobodys_says_why() -> None:
    status = running(
        at(50), ran(), progress(JobEnd(False, "activeDeadlineSeconds is over"), worker=ReplicaCounts(2))
    )

    assert condition(status, "Failed")["message"] == (
        "TFJob ns/mnist has failed: activeDeadlineSeconds is over"
    )


@pytest.mark.parametrize("succeeded", [True, False])
def test_65_once_it_has_ended_nothing_changes_any_more(succeeded: bool) -> None:
    ended = running(at(50), ran(), progress(JobEnd(succeeded, "so it is"), worker=ReplicaCounts(1, 1)))

    assert is_finished(ended)
    assert running(at(60), ended, progress(worker=ReplicaCounts(succeeded=2))) == ended
    assert suspended(at(60), ended) == ended
    assert blocked(at(60), ended, "NameTaken", "why") == ended


def test_64_suspended_it_does_not_run_and_resumed_its_time_begins_anew() -> None:
    held = suspended(at(30), ran())
    resumed = running(at(40), held, NOTHING_YET)
    again = running(at(50), resumed, progress(worker=ReplicaCounts(active=2)))

    assert told(held) == ["Created", "Running=False", "Suspended"]
    assert condition(held, "Running")["reason"] == condition(held, "Suspended")["reason"] == "TFJobSuspended"
    assert "replicaStatuses" not in held
    assert suspended(at(35), held) == held
    assert told(resumed) == ["Created", "Running=False", "Suspended=False"]
    assert condition(resumed, "Suspended")["reason"] == "TFJobResumed"
    assert resumed["startTime"] == "1970-01-01T00:00:40Z"
    assert told(again) == ["Created", "Suspended=False", "Running"]


def test_64_who_is_suspended_from_the_beginning_has_no_time_yet() -> None:
    held = suspended(at(10), {})

    assert told(held) == ["Created", "Suspended"]
    assert "startTime" not in held
    assert running(at(40), held, NOTHING_YET)["startTime"] == "1970-01-01T00:00:40Z"


def test_what_keeps_it_from_running_is_told_last_and_gone_when_it_is_over() -> None:
    waits = blocked(at(20), {}, "NameTaken", "the name is taken")
    other = blocked(at(30), waits, "NameTaken", "for another reason")
    free = running(at(40), other, NOTHING_YET)

    assert told(waits) == ["Created", "Blocked"]
    assert condition(waits, "Blocked")["message"] == "TFJob ns/mnist is not run: the name is taken"
    assert condition(other, "Blocked")["message"] == "TFJob ns/mnist is not run: for another reason"
    assert condition(other, "Blocked")["lastTransitionTime"] == "1970-01-01T00:00:20Z"
    assert told(free) == ["Created"]


def test_each_turn_is_news_once() -> None:
    ended = running(at(50), ran(), progress(JobEnd(False, "so it is"), worker=ReplicaCounts(failed=1)))

    assert [notice.reason for notice in status_events({}, ran())] == ["TFJobCreated", "TFJobRunning"]
    assert [(notice.reason, notice.warning) for notice in status_events(ran(), ended)] == [
        ("TFJobFailed", True)
    ]
    assert status_events(ended, ended) == ()


def test_when_it_was_looked_at_is_no_difference() -> None:
    assert same(looked(begun(), 10), looked(begun(), 20))
    assert not same(begun(), ran())
