"""Container logs: written in the CRI's format, rotated by size, and decoded for readers."""

import asyncio
import errno
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import launcher
from launcher.core.errors import BadRequest, NotFound
from launcher.core.pods.log_options import PodLogOptions
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.logs.log_reader import LogLineDecoder, LogReader
from launcher.node.runtime.process_runtime import ShimOptions
from launcher.node.shim.log_limits import MIN_FILE_BYTES, LogLimits
from launcher.node.shim.log_writer import LogWriter, records
from tests.node.runtimes import LIMIT

#: 2024-05-01T12:00:00Z, in nanoseconds.
NOON = 1_714_564_800_000_000_000
SECOND = 1_000_000_000
ALL = PodLogOptions()
RECORD = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) [FP] .{0,16384}", re.DOTALL)


@pytest.fixture
def logs(tmp_path: Path) -> ContainerLogs:
    return ContainerLogs(tmp_path)


def a_writer(
    logs: ContainerLogs, restart: int = 0, *, most: int = 1 << 20, keep: int = 3, uid: str = "uid"
) -> LogWriter:
    path = logs.path("ns", "pod", uid, "main", restart)
    return LogWriter(str(path), LogLimits(log_options(log_bytes=most, log_files=keep), 0.0))


def log_options(**changed: Any) -> dict[str, Any]:
    """The default options of the shim, with changes."""
    return asdict(replace(ShimOptions(), **changed))


async def read(logs: ContainerLogs, view: PodLogOptions = ALL, uid: str | None = "uid") -> bytes:
    async with asyncio.timeout(LIMIT):
        return b"".join([piece async for piece in logs.read("ns", "pod", uid, "main", view)])


def test_the_last_write_of_a_pod_is_that_of_its_newest_log(logs: ContainerLogs) -> None:
    for restart, at in ((0, 1000), (1, 2000)):
        path = logs.path("ns", "pod", "uid", "main", restart)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (at, at))

    assert logs.last_written("ns", "pod", "uid") == 2000
    assert logs.last_written("ns", "pod", "other") is None
    assert logs.last_written("ns", "..", "uid") is None


def test_a_line_is_a_record_with_its_time_and_stream() -> None:
    assert records(b"stdout", b"one\n\ntwo\n", NOON + 7) == (
        b"2024-05-01T12:00:00.000000007Z stdout F one\n"
        b"2024-05-01T12:00:00.000000007Z stdout F \n"
        b"2024-05-01T12:00:00.000000007Z stdout F two\n"
    )


def test_an_incomplete_line_is_written_as_a_partial_record() -> None:
    assert (
        records(b"stderr", b"one\n> ", NOON).splitlines()[1] == b"2024-05-01T12:00:00.000000000Z stderr P > "
    )


@given(
    st.lists(st.binary(max_size=100) | st.integers(15_000, 50_000).map(lambda size: b"x" * size), max_size=8)
)
def test_written_output_is_read_back(pieces: list[bytes]) -> None:
    text = b"".join(records(b"stdout", piece, NOON) for piece in pieces if piece)

    lines = text.split(b"\n")[:-1]
    assert all(RECORD.fullmatch(line) for line in lines)
    assert LogLineDecoder().decode(lines) == b"".join(pieces)


async def test_a_log_is_read_as_the_container_wrote_it(logs: ContainerLogs) -> None:
    writer = a_writer(logs)
    writer.write(b"stdout", b"one\ntw", NOON)
    writer.write(b"stdout", b"o\n", NOON)
    writer.write(b"stderr", b"three", NOON)
    writer.close(NOON)

    assert await read(logs) == b"one\ntwo\nthree"


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(PodLogOptions(tail_lines=2), b"line 8\nline 9\n", id="the last lines"),
        pytest.param(PodLogOptions(tail_lines=0), b"", id="no line"),
        pytest.param(
            PodLogOptions(tail_lines=10), b"".join(b"line %d\n" % n for n in range(10)), id="just as many"
        ),
        pytest.param(
            PodLogOptions(tail_lines=99),
            b"".join(b"line %d\n" % n for n in range(10)),
            id="more than there are",
        ),
        pytest.param(
            PodLogOptions(since=(NOON / SECOND) + 7), b"line 7\nline 8\nline 9\n", id="since a time"
        ),
        pytest.param(
            PodLogOptions(since=(NOON / SECOND) + 7, tail_lines=2), b"line 8\nline 9\n", id="the last since"
        ),
        pytest.param(
            PodLogOptions(since=(NOON / SECOND) + 9, tail_lines=2), b"line 9\n", id="fewer since than last"
        ),
        pytest.param(
            PodLogOptions(tail_lines=2, limit_bytes=9), b"line 8\nli", id="the first bytes of the last lines"
        ),
        pytest.param(
            PodLogOptions(tail_lines=1, timestamps=True),
            b"2024-05-01T12:00:09.000000000Z line 9\n",
            id="with times",
        ),
    ],
)
async def test_options_select_a_part_of_the_log(
    logs: ContainerLogs, view: PodLogOptions, expected: bytes
) -> None:
    # Small files, so that the lines are in several.
    writer = a_writer(logs, most=120, keep=9)
    for number in range(10):
        writer.write(b"stdout", b"line %d\n" % number, NOON + number * SECOND)
    writer.close(NOON)

    assert await read(logs, view) == expected


@given(
    lines=st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"")), max_size=60),
    run_to_end=st.booleans(),
    tail=st.integers(0, 70),
)
def test_tail_lines_selects_the_last_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], run_to_end: bool, tail: int
) -> None:
    logs = ContainerLogs(tmp_path_factory.mktemp("logs"))
    writer = a_writer(logs, most=700, keep=99)
    text = b"\n".join(lines) + (b"\n" if run_to_end and lines else b"")
    for offset in range(0, len(text), 17):
        writer.write(b"stdout", text[offset : offset + 17], NOON)
    writer.close(NOON)

    shown = asyncio.run(read(logs, PodLogOptions(tail_lines=tail)))

    assert shown == b"".join(text.splitlines(keepends=True)[-tail:] if tail else []) or b"\r" in text


async def test_a_line_in_several_records_has_one_timestamp(logs: ContainerLogs) -> None:
    writer = a_writer(logs)
    for part in (b"a", b"b", b"c\nd\n"):
        writer.write(b"stdout", part, NOON)
    writer.close(NOON)

    stamp = b"2024-05-01T12:00:00.000000000Z "
    assert await read(logs, PodLogOptions(timestamps=True)) == stamp + b"abc\n" + stamp + b"d\n"


async def test_a_long_log_is_rotated_and_the_oldest_file_removed(logs: ContainerLogs) -> None:
    path = logs.path("ns", "pod", "uid", "main", 0)
    writer = a_writer(logs, most=1000, keep=2)
    for number in range(200):
        writer.write(b"stdout", b"line %d\n" % number, NOON)
    writer.close(NOON)

    files = sorted(entry.name for entry in os.scandir(path.parent))
    assert files == ["0.log", "0.log.1", "0.log.2"]
    assert sum(entry.stat().st_size for entry in os.scandir(path.parent)) <= 3000
    shown = (await read(logs)).splitlines()
    assert shown == [b"line %d" % number for number in range(200 - len(shown), 200)]
    assert len(shown) > 40


async def test_a_log_is_followed_to_the_end_of_its_run(logs: ContainerLogs) -> None:
    writer = a_writer(logs)
    writer.write(b"stdout", b"before\n", NOON)
    pieces = logs.read("ns", "pod", "uid", "main", PodLogOptions(follow=True))

    async with asyncio.timeout(LIMIT):
        first = await anext(pieces)
        writer.write(b"stdout", b"prompt> ", NOON)
        second = await anext(pieces)
        writer.write(b"stdout", b"last\n", NOON)
        writer.close(NOON)
        rest = b"".join([piece async for piece in pieces])

    assert (first, second, rest) == (b"before\n", b"prompt> ", b"last\n")


async def test_following_the_log_of_an_ended_run_ends_immediately(logs: ContainerLogs) -> None:
    writer = a_writer(logs)
    writer.write(b"stdout", b"all\n", NOON)
    writer.close(NOON)

    assert await read(logs, PodLogOptions(follow=True)) == b"all\n"


@pytest.mark.parametrize("slow", [False, True], ids=["who keeps up", "who does not"])
async def test_following_continues_across_rotations(logs: ContainerLogs, slow: bool) -> None:
    writer = a_writer(logs, most=2000, keep=50)
    writer.write(b"stdout", b"line 0\n", NOON)
    pieces = logs.read("ns", "pod", "uid", "main", PodLogOptions(follow=True))
    seen = await anext(pieces)

    async def write() -> None:
        for number in range(1, 1000):
            writer.write(b"stdout", b"line %d\n" % number, NOON)
            if not slow and number % 7 == 0:
                await asyncio.sleep(0.0005)
        writer.close(NOON)

    writing = asyncio.create_task(write())
    async with asyncio.timeout(LIMIT):
        async for piece in pieces:
            seen += piece
        await writing

    assert seen == b"".join(b"line %d\n" % number for number in range(1000))


async def test_following_a_removed_log_ends(logs: ContainerLogs) -> None:
    writer = a_writer(logs)
    writer.write(b"stdout", b"one\n", NOON)
    pieces = logs.read("ns", "pod", "uid", "main", PodLogOptions(follow=True))
    await anext(pieces)

    logs.remove("ns", "pod")

    async with asyncio.timeout(LIMIT):
        assert [piece async for piece in pieces] == []
    writer.close(NOON)


async def test_a_large_log_is_read_completely(logs: ContainerLogs) -> None:
    writer = a_writer(logs, most=10 << 20)
    text = b"".join(b"line %d\n" % number for number in range(100_000))
    for offset in range(0, len(text), 65536):
        writer.write(b"stdout", text[offset : offset + 65536], NOON)
    writer.close(NOON)

    assert await read(logs) == text
    assert await read(logs, PodLogOptions(tail_lines=3)) == b"line 99997\nline 99998\nline 99999\n"


async def test_the_previous_log_is_that_before_the_last_restart(logs: ContainerLogs) -> None:
    for restart in (0, 9, 10):
        writer = a_writer(logs, restart)
        writer.write(b"stdout", b"run %d\n" % restart, NOON)
        writer.close(NOON)

    assert await read(logs) == b"run 10\n"
    assert await read(logs, PodLogOptions(previous=True)) == b"run 9\n"


async def test_without_a_restart_there_is_no_previous_log(logs: ContainerLogs) -> None:
    a_writer(logs).close(NOON)

    with pytest.raises(BadRequest, match='previous terminated container "main" in pod "pod" not found'):
        await read(logs, PodLogOptions(previous=True))


async def test_without_a_uid_the_newest_pod_of_the_name_is_read(logs: ContainerLogs) -> None:
    for uid, age in (("a", 100), ("c", 200), ("b", 0)):
        writer = a_writer(logs, uid=uid)
        writer.write(b"stdout", uid.encode() + b"\n", NOON)
        writer.close(NOON)
        folder = logs.path("ns", "pod", uid, "main", 0).parent.parent
        os.utime(folder, (time.time() - age, time.time() - age))

    assert await read(logs, uid=None) == b"b\n"
    assert await read(logs, uid="a") == b"a\n"
    assert logs.containers("ns", "pod", None) == ["main"]


@pytest.mark.parametrize("name", ["", ".", "..", "../ns", "a/b", "gone", "a\0b"])
async def test_names_cannot_lead_out_of_the_log_directory(
    logs: ContainerLogs, tmp_path: Path, name: str
) -> None:
    a_writer(logs).close(NOON)
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "0.log").write_text("secret")

    for namespace, pod, uid, container in (
        (name, "pod", "uid", "main"),
        ("ns", name, "uid", "main"),
        ("ns", "pod", name, "main"),
        ("ns", "pod", "uid", name),
    ):
        with pytest.raises(NotFound):
            await anext(logs.read(namespace, pod, uid, container, PodLogOptions()))
    assert logs.containers(name, "pod", None) == ()
    logs.remove("ns", name)
    assert logs.containers("ns", "pod", "uid") == ["main"]


def test_the_tail_is_the_last_lines_and_of_those_the_last_bytes(logs: ContainerLogs) -> None:
    path = logs.path("ns", "pod", "uid", "main", 0)
    writer = a_writer(logs, most=500, keep=9)
    for number in range(50):
        writer.write(b"stdout", b"line %d \xff\n" % number, NOON)
    writer.close(NOON)

    assert logs.tail(path, 2, 2048) == "line 48 \ufffd\nline 49 \ufffd\n"
    assert logs.tail(path, 80, 9) == "ine 49 \ufffd\n"
    assert logs.tail(path.with_name("7.log"), 80, 2048) == ""


def test_remove_deletes_the_logs_of_a_pod(logs: ContainerLogs, tmp_path: Path) -> None:
    a_writer(logs).close(NOON)

    logs.remove("ns", "pod")

    assert not list(tmp_path.rglob("*.log"))
    logs.remove("ns", "pod")


def test_lines_lost_on_a_full_disk_are_counted(logs: ContainerLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, written = a_writer(logs), os.write
    writer.write(b"stdout", b"before\n", NOON)

    def full(file: int, data: bytes) -> int:
        # The kernel writes what fits before it fails.
        if data.startswith(b"2024"):
            return written(file, data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        writer.write(b"stdout", b"lost\nlost\n", NOON)
        writer.write(b"stdout", b"lost\n", NOON)
    writer.write(b"stdout", b"after\n", NOON)
    writer.close(NOON)

    path = logs.path("ns", "pod", "uid", "main", 0)
    assert logs.tail(path, 80, 2048) == (
        "before\nlauncher: 3 lines of the log were lost here: no space left on device\nafter\n"
    )


def test_a_full_disk_only_loses_lines(tmp_path: Path) -> None:
    """On a tmpfs of 256 KiB in its own mount namespace."""
    program = f"""
import os, sys
sys.path.append({str(Path(launcher.__file__).parent.parent)!r})
from launcher.node.shim.log_limits import LogLimits
from launcher.node.shim.log_writer import LogWriter
writer = LogWriter("disk/0.log", LogLimits({log_options(log_reserve=0)!r}, 0.0))
for _ in range(1000):
    writer.write(b"stdout", b"x" * 999 + b"\\n", {NOON})
assert writer.lost
os.unlink("disk/filler")
writer.write(b"stdout", b"after\\n", {NOON})
writer.close({NOON})
print(open("disk/0.log").read()[-200:], end="")
"""
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=256k none disk && head -c 65536 /dev/zero >disk/filler && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", sys.executable]

    done = subprocess.run(
        [*command, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT
    )

    assert done.returncode == 0, done.stderr
    assert re.search(
        r"launcher: \d+ lines of the log were lost here: no space left on device\n.*F after\n$", done.stdout
    )


def test_log_writes_stop_with_a_marker_before_the_disk_is_full(tmp_path: Path) -> None:
    """On a tmpfs of 2 MiB, of which a tenth is reserved."""
    program = f"""
import os, sys, time
sys.path.append({str(Path(launcher.__file__).parent.parent)!r})
from launcher.node.shim.log_limits import LogLimits
from launcher.node.shim.log_writer import LogWriter
writer = LogWriter("disk/0.log", LogLimits({log_options()!r}, 0.0))
for _ in range(4000):
    writer.write(b"stdout", b"x" * 999 + b"\\n", {NOON})
    writer._limits.record_write(1000, writer.bucket, time.monotonic())
disk = os.statvfs("disk")
assert writer.lost
assert disk.f_bavail * disk.f_frsize >= 64 * 1024, disk
print(open("disk/0.log").read()[-150:], end="")
os.unlink("disk/filler")
writer.write(b"stdout", b"after\\n", {NOON})
writer.close({NOON})
print(open("disk/0.log").read()[-250:], end="")
"""
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=2m none disk && head -c 1048576 /dev/zero >disk/filler && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", sys.executable]

    done = subprocess.run(
        [*command, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT
    )

    assert done.returncode == 0, done.stderr
    assert re.search(r"stderr F launcher: the log stops here: the disk has less free space .*\n", done.stdout)
    assert re.search(r"launcher: \d+ lines of the log were lost here: the disk .*\n.*F after\n$", done.stdout)


async def test_without_hard_links_a_log_is_rotated_and_no_descriptor_is_left_open(
    logs: ContainerLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    writer = a_writer(logs, most=1000)
    before = len(os.listdir("/proc/self/fd"))

    for number in range(100):
        writer.write(b"stdout", b"%08d\n" % number * 10, NOON)

    assert len(os.listdir("/proc/self/fd")) == before
    writer.close(NOON)
    path = logs.path("ns", "pod", "uid", "main", 0)
    assert sorted(one.name for one in path.parent.iterdir()) == ["0.log", "0.log.1", "0.log.2", "0.log.3"]
    assert (await read(logs)).endswith(b"00000099\n")


def test_a_log_during_rotation_without_hard_links_is_not_finished(logs: ContainerLogs) -> None:
    path = logs.path("ns", "pod", "uid", "main", 0)
    a_writer(logs)
    log = LogReader(path)
    path.rename(path.with_name("0.log.1"))
    path.with_name("0.log.new").touch()

    assert not log.finished()
    path.with_name("0.log.new").unlink()
    assert log.finished()
    log.close()


def test_running_containers_share_the_budget_of_their_framework_and_of_all_logs() -> None:
    limits = LogLimits(
        log_options(log_bytes=1 << 20, log_files=3, log_budget=16 << 20, log_budget_framework=4 << 20), 0.0
    )
    limits.join("a")
    alone = limits.file_bytes("a")
    for _ in range(3):
        limits.join("a")
    shared = limits.file_bytes("a")
    for _ in range(28):
        limits.join("b")
    divided = limits.file_bytes("a")
    for _ in range(1000):
        limits.join("c")

    assert (alone, shared, divided) == (1 << 20, 1 << 18, 1 << 17)
    assert limits.file_bytes("a") == MIN_FILE_BYTES


def test_a_run_that_exceeds_its_rate_waits_and_a_quiet_one_does_not() -> None:
    limits = LogLimits(log_options(log_rate=1000, log_burst=2000), 0.0)
    flood, quiet = limits.run_bucket(0.0), limits.run_bucket(0.0)

    assert limits.record_write(1000, flood, 0.0) == 0
    assert limits.record_write(500, flood, 0.0) == 1.0
    assert limits.record_write(5000, flood, 0.0) > 5
    assert limits.record_write(10, quiet, 0.0) == 0
    assert limits.record_write(100, flood, 60.0) == 0


def test_a_chunk_that_is_longer_than_a_file_is_divided_between_records(logs: ContainerLogs) -> None:
    writer = a_writer(logs, most=1000)

    writer.write(b"stdout", b"y\n" * 60, NOON)
    writer.close(NOON)

    path = logs.path("ns", "pod", "uid", "main", 0)
    files = [one.read_bytes() for one in path.parent.iterdir()]
    assert len(files) == 3
    assert all(len(text) <= 1000 and text.endswith(b" y\n") for text in files)
