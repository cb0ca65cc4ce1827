"""The launcher itself: its leader, its queue, and Frameworks that it has not processed."""

from typing import Any

import pytest

from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.launcher_state import LauncherState, Leadership
from launcher.core.status import State
from launcher.core.timestamps import format_rfc3339
from tests.core.diagnosis.situations import NOW, Json, a_situation, a_status, a_task, an_exit


def found(status: Any, **situation: Any) -> list[str]:
    return [finding.cause.id for finding in diagnose(a_situation(status, **situation))]


def lease(holder: str = "pod-1", unrenewed_seconds: int = 1) -> LauncherState:
    return LauncherState(leadership=Leadership("launchers", holder, unrenewed_seconds, 15))


def changed(seconds_ago: int) -> Json:
    entry = {"manager": "kubectl", "operation": "Update", "time": format_rfc3339(NOW - seconds_ago)}
    status = {"manager": "launcher", "subresource": "status", "time": format_rfc3339(NOW)}
    return {"managedFields": [entry, status]}


@pytest.mark.parametrize(
    ("state", "causes"),
    [
        pytest.param(lease(), [], id="a leader that renews its lease"),
        pytest.param(lease(unrenewed_seconds=9), [], id="a late renewal"),
        pytest.param(lease(unrenewed_seconds=10), ["FL-SYS-09"], id="no renewal"),
        pytest.param(lease(holder=""), ["FL-SYS-09"], id="no holder"),
        pytest.param(LauncherState(queued=5000, queued_seconds=0.4), [], id="a short burst"),
        pytest.param(LauncherState(queued=1, queued_seconds=60), ["FL-SYS-10"], id="a backlog"),
    ],
)
def test_the_state_of_the_launcher_is_explained(state: LauncherState, causes: list[str]) -> None:
    assert found(a_status([a_task(0, State.RUNNING)]), launcher=state) == causes


def test_a_completed_framework_does_not_depend_on_the_launcher() -> None:
    status = a_status(completion=an_exit(0), state=State.COMPLETED, completion_time=NOW)

    assert "FL-SYS-09" not in found(status, launcher=lease(holder=""))
    assert "FL-SYS-09" in found(status, launcher=lease(holder=""), generation=2)


@pytest.mark.parametrize(("seconds_ago", "causes"), [(2, []), (30, ["FL-SYS-02"])])
def test_a_change_is_processed_within_some_seconds(seconds_ago: int, causes: list[str]) -> None:
    assert found(a_status(), generation=2, metadata=changed(seconds_ago)) == causes


def test_a_framework_without_a_status_names_the_leader() -> None:
    (finding,) = diagnose(a_situation(None, launcher=lease("pod-7", 3)))

    assert finding.cause.id == "FL-SYS-01"
    assert finding.evidence[1].value == "pod-7, renewed 3s ago"
    assert finding.next_step.endswith("kubectl -n launchers get pods,lease")
