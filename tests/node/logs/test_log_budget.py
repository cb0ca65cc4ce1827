"""Logs on disk stay within the budget of their Framework and of all logs."""

import os
from pathlib import Path

import pytest

from launcher.core.pods.log_options import PodLogOptions
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.logs.log_budget import (
    LogBudget,
    LogBudgets,
    LogFile,
    Removal,
    log_files,
    log_group,
    removals,
    remove,
)
from launcher.node.shim.log_limits import LogLimits
from launcher.node.shim.log_writer import LogWriter
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import EVENTS, FRAMEWORKS
from tests.builders import a_framework
from tests.eventually import eventually
from tests.node.clusters import a_store, running
from tests.node.logs.test_container_logs import NOON, SECOND, log_options

KIB = 1024


def a_file(
    name: str,
    size: int = 10 * KIB,
    *,
    age: int = 0,
    group: str = "ns/f",
    finished: bool = True,
    rotated: bool = True,
) -> LogFile:
    return LogFile(Path(name), 1, size, 1000 - age, group, finished, rotated)


def names(found: list[Removal]) -> list[str]:
    return [str(removal.file.path) for removal in found]


@pytest.mark.parametrize(
    ("pod", "group"),
    [("mnist-worker-0", "ns/mnist"), ("a-b-ps-11", "ns/a-b"), ("plain", "ns/plain"), ("web-0", "ns/web-0")],
)
def test_the_logs_of_a_pod_share_the_budget_of_its_framework(pod: str, group: str) -> None:
    assert log_group("ns", pod) == group


def test_nothing_is_removed_within_the_budget() -> None:
    assert removals([a_file("a"), a_file("b")], LogBudgets(total=20 * KIB, framework=20 * KIB)) == []


def test_rotated_files_of_ended_containers_are_removed_first_from_the_oldest() -> None:
    files = [
        a_file("ended", rotated=False, age=9),
        a_file("running", rotated=False, finished=False, age=9),
        a_file("rotated-of-running", finished=False, age=9),
        a_file("newer", age=1),
        a_file("older", age=2),
    ]

    def removed(budget: int) -> list[str]:
        return names(removals(files, LogBudgets(total=10**9, framework=budget * KIB)))

    assert removed(45) == ["older"]
    assert removed(1) == ["older", "newer", "rotated-of-running", "ended"]


def test_a_framework_over_its_budget_does_not_affect_the_logs_of_another() -> None:
    files = [a_file("big", 90 * KIB, group="ns/big", age=1), a_file("small", group="ns/small", age=5)]

    found = removals(files, LogBudgets(total=1000 * KIB, framework=50 * KIB))

    assert [(removal.file.group, removal.setting) for removal in found] == [
        ("ns/big", "log-budget-framework")
    ]


def test_all_logs_are_limited_to_the_total_budget() -> None:
    files = [a_file(f"f{number}", group=f"ns/{number}", age=number) for number in range(10)]

    found = removals(files, LogBudgets(total=50 * KIB, framework=50 * KIB))

    assert names(found) == ["f9", "f8", "f7", "f6", "f5", "f4"]
    assert {removal.setting for removal in found} == {"log-budget"}


def write_log(logs: ContainerLogs, pod: str, lines: int, *, ended: bool) -> None:
    limits = LogLimits(log_options(log_bytes=16 * KIB), 0.0)
    writer = LogWriter(str(logs.path("ns", pod, "uid", "main", 0)), limits)
    for number in range(lines):
        writer.write(b"stdout", b"%099d\n" % number, NOON + number * SECOND)
    if ended:
        writer.close(NOON)


async def read(logs: ContainerLogs, pod: str) -> list[str]:
    text = b"".join([piece async for piece in logs.read("ns", pod, "uid", "main", PodLogOptions())])
    return text.decode().splitlines()


async def test_a_marker_replaces_removed_logs_and_the_newest_lines_stay(tmp_path: Path) -> None:
    logs = ContainerLogs(tmp_path)
    write_log(logs, "f-w-0", 400, ended=True)
    write_log(logs, "f-w-1", 400, ended=False)
    budget = LogBudget(
        a_store(), tmp_path, LogBudgets(10**9, 40 * KIB), EventRecorder(a_store(), lambda: 0.0)
    )
    before = sum(file.size for file in log_files(tmp_path))

    exceeded = budget.enforce()

    after = sum(file.size for file in log_files(tmp_path))
    running_log = await read(logs, "f-w-1")
    assert exceeded == {"ns/f": {"log-budget-framework"}}
    assert before > 100 * KIB
    assert after <= 40 * KIB
    assert before - budget.removed_bytes == budget.used_bytes
    assert (
        "bytes of the log were removed here: its budget is exceeded (log-budget-framework)" in running_log[0]
    )
    assert running_log[-1] == f"{399:099}"
    ended_log = await read(logs, "f-w-0")
    assert ["bytes of the log were removed here" in line for line in ended_log[:4]] == [True] * 3 + [False]
    assert ended_log[-1] == f"{399:099}"
    assert budget.enforce() == {}


def test_a_file_rotated_after_the_scan_is_not_removed(tmp_path: Path) -> None:
    logs = ContainerLogs(tmp_path)
    write_log(logs, "f-w-0", 400, ended=False)
    found = {file.path.name: file for file in log_files(tmp_path)}
    path = found["0.log.1"].path
    path.rename(path.with_name("0.log.2"))
    path.write_bytes(b"another")

    assert remove(Removal(found["0.log.1"], "log-budget")) == 0
    assert path.read_bytes() == b"another"
    os.link(path, path.with_name("0.log.9"))
    facts = path.stat()
    twice = LogFile(path, facts.st_ino, 7, 0, "ns/f", finished=False, rotated=True)
    assert remove(Removal(twice, "log-budget")) == 0


async def test_a_framework_whose_logs_were_removed_has_an_event(tmp_path: Path) -> None:
    store = a_store()
    await store.create(FRAMEWORKS, {**a_framework(name="f"), "metadata": {"name": "f", "namespace": "ns"}})
    write_log(ContainerLogs(tmp_path), "f-w-0", 400, ended=True)
    events = EventRecorder(store, lambda: 0.0)
    budget = LogBudget(store, tmp_path, LogBudgets(10**9, 40 * KIB), events, interval=0.01)

    async def reported() -> bool:
        return bool((await store.list(EVENTS)).items)

    async with running(events, budget):
        await eventually(reported)

    (event,) = (await store.list(EVENTS)).items
    assert (event["type"], event["reason"]) == ("Warning", "LogsRemoved")
    assert "log-budget-framework" in event["message"]
