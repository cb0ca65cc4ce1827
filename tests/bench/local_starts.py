"""
Task starts in local mode, compared with the sandbox alone: the same steps in the same order, from a plain loop.

The sandbox is that of the launcher on this machine: its own (unshare), else bubblewrap's (bwrap). Launcher and loop run
in turns, so that the conditions are the same. The launcher does more than the loop (planning, storing, logging), and
may use more than one CPU.
"""

import statistics
from collections.abc import Iterator

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, Server
from tests.rig.measured_launcher import (
    ApiConnection,
    a_framework,
    connected,
    directory,
    first_output_seconds,
    processor_seconds,
    running_launcher,
    shim_of,
    task_start_rate,
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
            names = [f"starts-{frameworks}-{number}-{each}" for each in range(frameworks)]
            rate = task_start_rate(api, names, TASKS // frameworks)
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


def _submit_row(server: Server, api: ApiConnection, sandbox: BareSandbox) -> Row:
    """Measures the time from POST to the first line of output, with an idle launcher."""
    launcher_seconds, sandbox_seconds = [], []
    for number in range(SUBMITS):
        launcher_seconds.append(first_output_seconds(server, api, f"submit-{number}"))
        sandbox_seconds += sandbox.times(1, ("echo", "hello")).to_output
    share = statistics.median(launcher_seconds) / (3 * statistics.median(sandbox_seconds) + ALLOWED_SECONDS)
    return row(
        f"{sandbox.isolation}: POST to first line of output / (3 x sandbox + 50 ms)",
        share,
        "ratio",
        at_most=1,
    )
