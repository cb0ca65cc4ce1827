"""The runs of containers in the status of a pod."""

from typing import Any

import pytest

from launcher.core.pods.container_runs import ObservedRun, container_runs

ENDED = {"terminated": {"exitCode": 1}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("state", "last", "restarts", "expected"),
    [
        pytest.param(RUNNING, {}, 0, [("main", 0, False)], id="the first run"),
        pytest.param(ENDED, {}, 0, [("main", 0, True)], id="its end"),
        pytest.param(RUNNING, ENDED, 3, [("main", 3, False), ("main", 2, True)], id="a restart"),
        pytest.param(ENDED, ENDED, 1, [("main", 1, True), ("main", 0, True)], id="the end of a restart"),
        pytest.param(WAITING, ENDED, 2, [("main", 2, True)], id="before the next restart"),
        pytest.param({"waiting": {}}, {}, 0, [], id="not started"),
        pytest.param({}, {}, 0, [], id="no state"),
        pytest.param(RUNNING, ENDED, 0, [("main", 0, False)], id="an unknown number of restarts"),
    ],
)
def test_started_runs_are_numbered_by_restart(
    state: Any, last: Any, restarts: int, expected: list[tuple[str, int, bool]]
) -> None:
    status = {"name": "main", "state": state, "lastState": last, "restartCount": restarts}

    runs = container_runs({"status": {"containerStatuses": [status]}})

    assert [(run.container, run.restart, run.terminated) for run in runs] == expected


@pytest.mark.parametrize(
    ("state", "last", "expected"),
    [
        pytest.param(RUNNING, "08", ["", "08"], id="a restart"),
        pytest.param("09", "08", ["09", "08"], id="the end of a restart"),
        pytest.param(WAITING, "08", ["08"], id="before the next restart"),
        pytest.param(ENDED, "08", ["", "08"], id="an end without a time"),
    ],
)
def test_ended_runs_have_the_time_of_their_end(state: Any, last: str, expected: list[str]) -> None:
    def ended(second: Any) -> Any:
        return {"terminated": {"finishedAt": second}} if isinstance(second, str) else second

    status = {"name": "main", "state": ended(state), "lastState": ended(last), "restartCount": 1}

    runs = container_runs({"status": {"containerStatuses": [status]}})

    assert [run.finished_at for run in runs] == expected


def test_init_and_ephemeral_containers_are_included() -> None:
    kinds = ("ephemeralContainerStatuses", "containerStatuses", "initContainerStatuses")
    status = {kind: [{"name": kind[:4], "state": ENDED, "restartCount": 0}] for kind in kinds}

    runs = list(container_runs({"status": status}))

    assert runs == [ObservedRun(name, 0, True) for name in ("init", "cont", "ephe")]


@pytest.mark.parametrize("pod", [{}, {"status": None}, {"status": {"containerStatuses": [None, {}]}}])
def test_a_pod_without_status_has_no_runs(pod: Any) -> None:
    assert list(container_runs(pod)) == []
