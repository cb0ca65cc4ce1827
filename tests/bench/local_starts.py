"""
Task starts in local mode, compared with the sandbox alone: the same steps in the same order, from a plain loop.

The sandbox is that of the launcher on this machine: its own (unshare), else bubblewrap's (bwrap). Launcher and loop run
in turns, so that the conditions are the same. The launcher does more than the loop (planning, storing, logging), and
may use more than one CPU.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, Server
from tests.rig.measured_launcher import (
    ApiConnection,
    a_framework,
    connected,
    directory,
    processor_seconds,
    running_launcher,
    seconds_since,
    shim_of,
)
from tests.rig.sandbox_baseline import BareSandbox

ROUNDS = 5
TASKS = 100
MANY = 10
SUBMITS = 15
#: The allowance in addition to three times the start of the sandbox.
ALLOWED_SECONDS = 0.05


def rows() -> list[Row]:
    """Measures many tasks at once, and one task alone."""
    with directory() as data, running_launcher(data) as server, connected(server) as api:
        sandbox = BareSandbox(server)
        _warm_up(api, sandbox)
        return [*_start_rows(server, api, sandbox), _submit_row(server, api, sandbox)]


def _warm_up(api: ApiConnection, sandbox: BareSandbox) -> None:
    api.object("POST", FRAMEWORKS, a_framework("first", 20))
    api.wait_completed("first")
    sandbox.times(20, ("true",))


def _start_rows(server: Server, api: ApiConnection, sandbox: BareSandbox) -> Iterator[Row]:
    pids = {"launcher": server.pid, "shim, with sandbox and program": shim_of(server)}
    for frameworks in (1, MANY):
        rates, ratios = [], []
        costs: dict[str, list[float]] = {process: [] for process in pids}
        for number in range(ROUNDS):
            before = {process: processor_seconds(pid) for process, pid in pids.items()}
            rate = _rate(api, f"starts-{frameworks}-{number}", frameworks)
            for process, pid in pids.items():
                costs[process].append((processor_seconds(pid) - before[process]) / TASKS)
            rates.append(rate)
            ratios.append(rate * sum(sandbox.times(TASKS, ("true",)).to_end) / TASKS)
        name = f"{sandbox.isolation}, {TASKS} tasks in {frameworks} {'Framework' if frameworks == 1 else 'Frameworks'}"
        yield row(f"{name}: task starts, from POST until completed", statistics.median(rates), "tasks/s")
        ratio_name = f"{name}: task starts, from POST until completed / sandbox in a loop"
        yield row(ratio_name, statistics.median(ratios), "ratio", at_least=0.5)
        for process, spent in costs.items():
            cost = statistics.median(spent) * 1e3
            yield row(f"{name}: CPU time of the {process} per task", cost, "ms")


def _rate(api: ApiConnection, prefix: str, frameworks: int) -> float:
    """Tasks per second, from the first POST until all are completed."""
    names = [f"{prefix}-{number}" for number in range(frameworks)]
    start = time.perf_counter()
    for name in names:
        api.object("POST", FRAMEWORKS, a_framework(name, TASKS // frameworks))
    for name in names:
        api.wait_completed(name)
    return TASKS / seconds_since(start)


def _submit_row(server: Server, api: ApiConnection, sandbox: BareSandbox) -> Row:
    """Measures the time from POST to the first line of output, with an idle launcher."""
    launcher_seconds, sandbox_seconds = [], []
    for number in range(SUBMITS):
        framework = f"submit-{number}"
        start = time.perf_counter()
        api.object("POST", FRAMEWORKS, a_framework(framework, command=("echo", "hello")))
        _wait_for_output(server.data, framework)
        launcher_seconds.append(seconds_since(start))
        api.wait_completed(framework)
        sandbox_seconds += sandbox.times(1, ("echo", "hello")).to_output
    share = statistics.median(launcher_seconds) / (3 * statistics.median(sandbox_seconds) + ALLOWED_SECONDS)
    return row(
        f"{sandbox.isolation}: POST to first line of output / (3 x sandbox + 50 ms)",
        share,
        "ratio",
        at_most=1,
    )


def _wait_for_output(data: Path, framework: str) -> None:
    deadline = time.monotonic() + 60
    folder = data / "logs" / "default" / f"{framework}-worker-0"
    while not any(log.stat().st_size for log in folder.rglob("*.log")):
        assert time.monotonic() < deadline, f"{framework} has no output"
        time.sleep(0.001)
