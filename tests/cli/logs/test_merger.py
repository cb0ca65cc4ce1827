"""The merge of logs by time."""

import re
from collections.abc import Mapping

import pytest

from launcher.cli.logs import merger
from launcher.cli.logs.log_sources import LogSource, WriteLine, matching_lines
from launcher.cli.logs.merger import merge_logs


def a_source(task: str) -> LogSource:
    return LogSource(task, f"mnist-{task}", "main", task)


async def merged(logs: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """The task and the text of each line, after the merge of the logs of these tasks."""
    written: list[tuple[str, str]] = []

    async def copy(source: LogSource, write: WriteLine) -> None:
        for line in logs[source.task]:
            write(source, line.encode())

    def write(source: LogSource, line: bytes) -> None:
        written.append((source.task, line.decode().split(" ", 1)[1]))

    await merge_logs([a_source(task) for task in logs], copy, write)
    return written


def at(second: str, text: str) -> str:
    return f"2026-01-01T00:00:{second} {text}"


async def test_lines_are_written_in_the_order_of_their_times() -> None:
    lines = await merged(
        {
            "worker-0": [at("01.000000000Z", "a"), at("03.000000001Z", "d")],
            "worker-1": [at("02.000000000Z", "b"), at("03.000000000Z", "c e f")],
        }
    )

    assert lines == [("worker-0", "a"), ("worker-1", "b"), ("worker-1", "c e f"), ("worker-0", "d")]


async def test_lines_of_the_same_time_stay_in_the_order_of_tasks_and_of_their_logs() -> None:
    same = "01.000000000Z"

    lines = await merged(
        {"worker-0": [at(same, "z"), at(same, "a")], "worker-1": [at(same, "b"), at(same, "")]}
    )

    assert lines == [("worker-0", "z"), ("worker-0", "a"), ("worker-1", "b"), ("worker-1", "")]


async def test_times_of_other_zones_and_precisions_are_compared_as_times() -> None:
    lines = await merged(
        {
            "worker-0": ["2026-01-01T02:00:01.5+02:00 first", "2026-01-01T00:00:03Z third"],
            "worker-1": [at("02.000000000Z", "second")],
        }
    )

    assert [text for _, text in lines] == ["first", "second", "third"]


async def test_more_logs_than_files_may_be_open_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merger, "_MAX_FILES", 2)
    logs = {f"worker-{index}": [at(f"{59 - index:02}.000000000Z", str(index))] for index in range(7)}

    lines = await merged(logs)

    assert [text for _, text in lines] == ["6", "5", "4", "3", "2", "1", "0"]


@pytest.mark.parametrize(
    ("timestamps", "expected"), [(False, ["2026 loss 1", "loss 2"]), (True, ["2026 loss 1"])]
)
def test_the_pattern_is_compared_with_the_text_and_not_with_the_time(
    timestamps: bool, expected: list[str]
) -> None:
    written: list[str] = []
    pattern = re.compile(rb"loss 1|loss.2$" if not timestamps else rb"^loss 1")
    write = matching_lines(lambda _, line: written.append(line.decode()), pattern, timestamps=timestamps)

    for line in (b"2026 loss 1", b"loss 2", b"accuracy"):
        write(a_source("worker-0"), line)

    assert written == expected
