"""Containers that write as fast as they can are throttled, lose nothing and do not delay others."""

import time
from pathlib import Path

from launcher.node.container_runtime import RunId
from tests.eventually import eventually
from tests.node.runtimes import a_runtime, log_path, log_text, run_to_end, shell, wait_until_ended

MIB = 1024 * 1024


async def test_a_flood_is_throttled_to_the_rate_and_loses_nothing(tmp_path: Path) -> None:
    lines = 60_000
    # 48 bytes of each line are the record's prefix: about 4 MiB of log, of which 1 MiB is the burst.
    script = f"seq -f '%020.0f' 1 {lines}"
    async with a_runtime(tmp_path, log_rate=4 * MIB, log_burst=2 * MIB) as runtime:
        before = time.monotonic()
        code = await run_to_end(runtime, shell(tmp_path, script))
        took = time.monotonic() - before

    assert code == 0
    assert log_text(tmp_path).splitlines() == [f"{number:020}" for number in range(1, lines + 1)]
    assert took > 1.0


async def test_containers_start_write_and_end_during_a_flood(tmp_path: Path) -> None:
    async with a_runtime(tmp_path, log_rate=2 * MIB, log_burst=MIB, log_bytes=MIB) as runtime:
        floods = [RunId(f"flood{number}.main.0") for number in range(3)]
        for run in floods:
            await runtime.start_container(shell(tmp_path, "exec yes", run=run))
        await eventually(lambda: log_path(tmp_path, f"{floods[0]}").with_suffix(".log.1").exists())

        for number in range(5):
            quiet = f"quiet{number}.main.0"
            assert await run_to_end(runtime, shell(tmp_path, "echo hello", run=quiet)) == 0
            assert log_text(tmp_path, quiet) == "hello\n"

        for run in floods:
            assert (known := runtime.list_containers()[run]).ended is None, known
            await runtime.signal(run, 9)
            await wait_until_ended(runtime, run)


async def test_the_limits_of_a_shim_are_those_of_the_newest_launcher(tmp_path: Path) -> None:
    async with a_runtime(tmp_path, log_bytes=64 * MIB) as first:
        await first.start_container(shell(tmp_path, "sleep 0.5; exec yes", run="pod.main.0"))
        async with a_runtime(tmp_path, log_bytes=64 * 1024) as second:
            await eventually(lambda: log_path(tmp_path).with_suffix(".log.3").exists())
            await second.signal(RunId("pod.main.0"), 9)
            await wait_until_ended(second)

    assert all(path.stat().st_size <= 2 * MIB for path in log_path(tmp_path).parent.iterdir())
