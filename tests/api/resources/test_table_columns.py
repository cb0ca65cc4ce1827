"""What kubectl prints of each kind."""

from typing import Any

import pytest

from launcher.api.api_resources import STORED_API_RESOURCES, ApiResource
from launcher.api.resources.table_columns import table_shape
from launcher.core.timestamps import format_rfc3339, parse_rfc3339
from launcher.store.interface import EVENTS, FRAMEWORKS, NODES, PODS, SERVICES, ResourceKind
from tests.api.samples import framework

NOW = 1_700_000_000.0
CREATED = "2023-11-14T22:12:20Z"


def row(kind: ResourceKind, obj: dict[str, Any]) -> dict[str, Any]:
    shape = table_shape(kind)
    metadata = {"name": "a", "creationTimestamp": CREATED, **obj.get("metadata", {})}
    cells = shape.cells({**obj, "metadata": metadata}, NOW)
    return dict(zip((column.name for column in shape.columns), cells, strict=True))


@pytest.mark.parametrize("served", STORED_API_RESOURCES, ids=lambda served: served.kind.plural)
def test_every_kind_has_a_row_for_an_empty_object(served: ApiResource) -> None:
    cells = row(served.kind, {})

    assert cells["Name"] == "a"
    assert all(cell is None or isinstance(cell, str | int) for cell in cells.values())


@pytest.mark.parametrize("served", STORED_API_RESOURCES, ids=lambda served: served.kind.plural)
def test_every_kind_has_a_row_for_a_malformed_object(served: ApiResource) -> None:
    malformed: dict[str, Any] = {
        name: [1, "x", None] for name in ("spec", "status", "data", "involvedObject")
    }

    assert row(served.kind, malformed)["Name"] == "a"


def test_a_framework_shows_its_completed_tasks() -> None:
    status = {
        "state": "AttemptRunning",
        "message": "all is well",
        "taskCounts": {"AttemptRunning": 5, "Completed": 3},
        "retryPolicyStatus": {"totalRetriedCount": 2},
    }

    assert row(FRAMEWORKS, {**framework(), "status": status}) == {
        "Name": "a",
        "State": "AttemptRunning",
        "Tasks": "3/8",
        "Age": "60s",
        "Retries": 2,
        "Execution": None,
        "Message": "all is well",
        "Task States": '{"AttemptRunning":5,"Completed":3}',
    } | {"Execution": ""}


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_completed_framework_shows_its_result(end: str) -> None:
    conditions = [{"type": "Started", "status": "True"}, {"type": end, "status": "True"}]

    assert row(FRAMEWORKS, {"status": {"state": "Completed", "conditions": conditions}})["State"] == end


def test_a_framework_that_its_user_stopped_shows_stopped() -> None:
    status = {
        "state": "Completed",
        "conditions": [{"type": "Failed", "status": "True"}],
        "attemptStatus": {"completionStatus": {"code": -210}},
    }

    assert row(FRAMEWORKS, {"status": status})["State"] == "Stopped"


@pytest.mark.parametrize(
    ("completed", "delay", "state"),
    [
        pytest.param(53, 60, "Retrying in 53s", id="a retry is scheduled"),
        pytest.param(0, 10, "Retrying", id="a retry is due"),
        pytest.param(0, None, "AttemptCompleted", id="no retry is scheduled"),
    ],
)
def test_a_framework_that_waits_for_its_retry_shows_when(
    completed: int, delay: int | None, state: str
) -> None:
    status = {
        "state": "AttemptCompleted",
        "retryPolicyStatus": {"retryDelaySec": delay},
        "attemptStatus": {"completionTime": format_rfc3339(parse_rfc3339(CREATED) + completed)},
    }

    assert row(FRAMEWORKS, {"status": status})["State"] == state


def test_a_framework_being_deleted_is_terminating() -> None:
    metadata = {"deletionTimestamp": CREATED}

    assert (
        row(FRAMEWORKS, {"metadata": metadata, "status": {"state": "AttemptRunning"}})["State"]
        == "Terminating"
    )


def test_frameworks_of_usual_names_fit_into_eighty_columns() -> None:
    widest = {"Name": 40, "State": len("AttemptCreationRequested"), "Tasks": len("10000/10000"), "Age": 6}
    shown = [column.name for column in table_shape(FRAMEWORKS).columns if not column.wide]

    # kubectl puts three spaces between columns.
    assert sum(widest[name] for name in shown) + 3 * (len(shown) - 1) <= 90
    assert widest["State"] + widest["Tasks"] + widest["Age"] + 9 <= 50


@pytest.mark.parametrize(
    ("states", "status"),
    [
        pytest.param([], "Running", id="the phase"),
        pytest.param([{"waiting": {"reason": "CrashLoopBackOff"}}], "CrashLoopBackOff", id="waiting"),
        pytest.param([{"terminated": {"reason": "OOMKilled", "exitCode": 137}}], "OOMKilled", id="a reason"),
        pytest.param([{"terminated": {"exitCode": 3}}], "ExitCode:3", id="an exit code"),
        pytest.param([{"terminated": {"signal": 9, "exitCode": 137}}], "Signal:9", id="a signal"),
        pytest.param(
            [{"terminated": {"reason": "Completed"}}, {"running": {}}], "NotReady", id="one of two is through"
        ),
    ],
)
def test_a_pod_shows_the_reasons_of_its_containers(states: list[dict[str, Any]], status: str) -> None:
    statuses = [{"name": f"c{n}", "state": state} for n, state in enumerate(states)]

    cells = row(PODS, {"status": {"phase": "Running", "containerStatuses": statuses}})

    assert cells["Status"] == status


@pytest.mark.parametrize(
    ("first", "status"),
    [
        pytest.param({"running": {}}, "Init:0/2", id="the first runs"),
        pytest.param({"terminated": {"exitCode": 0}}, "Init:1/2", id="the first is through"),
        pytest.param({"terminated": {"exitCode": 1, "reason": "Error"}}, "Init:Error", id="the first failed"),
        pytest.param({"waiting": {"reason": "PodInitializing"}}, "Init:0/2", id="the first is waiting"),
    ],
)
def test_a_pod_shows_its_completed_init_containers(first: dict[str, Any], status: str) -> None:
    statuses = [{"name": "i0", "state": first}, {"name": "i1", "state": {"waiting": {}}}]
    spec = {"initContainers": [{"name": "i0"}, {"name": "i1"}], "containers": [{"name": "main"}]}

    cells = row(PODS, {"spec": spec, "status": {"phase": "Pending", "initContainerStatuses": statuses}})

    assert (cells["Status"], cells["Ready"]) == (status, "0/1")


def test_an_event_shows_the_involved_object() -> None:
    about = {"kind": "Framework", "name": "k1"}
    event = {"involvedObject": about, "type": "Normal", "reason": "Started", "message": "go\n", "count": 3}

    cells = row(EVENTS, event | {"lastTimestamp": CREATED, "source": {"component": "framework-launcher"}})

    assert (cells["Last Seen"], cells["Object"], cells["Message"]) == ("60s", "framework/k1", "go")
    assert (cells["Count"], cells["Source"]) == (3, "framework-launcher")


def test_a_node_shows_whether_it_is_schedulable() -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.2"}],
    }

    cells = row(NODES, {"spec": {"unschedulable": True}, "status": status})

    assert (cells["Status"], cells["Internal-IP"]) == ("Ready,SchedulingDisabled", "127.0.0.2")
    assert row(NODES, {})["Status"] == "Unknown"


def test_a_service_shows_its_ports() -> None:
    cells = row(SERVICES, {"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}})

    assert (cells["Type"], cells["Port(s)"]) == ("ClusterIP", "80/TCP,53/UDP")
