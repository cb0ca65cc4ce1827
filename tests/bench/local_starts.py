"""
How fast tasks start in local mode, against the bare sandbox: the same steps of the same order, from a plain loop.

The sandbox is the one that the launcher takes on this machine: its own (unshare), else bubblewrap's (bwrap). Rounds of
launcher and loop in turns, so that both meet the same weather. The launcher has more to do than the loop (to decide,
to write down, to keep logs), and may have more than one processor to do it on.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, Server
from tests.rig.bare import BareSandbox
from tests.rig.launching import (
    Asking,
    a_framework,
    connected,
    directory,
    keeper_of,
    processor_seconds,
    seconds_since,
    serving,
)

ROUNDS = 5
TASKS = 100
MANY = 10
SUBMITS = 15
#: Seconds that may be added to three times the bare start.
ALLOWED = 0.05


def rows() -> list[Row]:
    """Many at once, and one alone."""
    with directory() as place, serving(place) as server, connected(server) as ask:
        bare = BareSandbox(server)
        _warm_up(ask, bare)
        return [*_start_rows(server, ask, bare), _submit_row(server, ask, bare)]


def _warm_up(ask: Asking, bare: BareSandbox) -> None:
    ask.object("POST", FRAMEWORKS, a_framework("first", 20))
    ask.completed("first")
    bare.times(20, ("true",))


def _start_rows(server: Server, ask: Asking, bare: BareSandbox) -> Iterator[Row]:
    pids = {"launcher": server.pid, "keeper, with sandbox and program": keeper_of(server)}
    for frameworks in (1, MANY):
        rates, ratios = [], []
        costs: dict[str, list[float]] = {which: [] for which in pids}
        for number in range(ROUNDS):
            before = {which: processor_seconds(pid) for which, pid in pids.items()}
            rate = _rate(ask, f"starts-{frameworks}-{number}", frameworks)
            for which, pid in pids.items():
                costs[which].append((processor_seconds(pid) - before[which]) / TASKS)
            rates.append(rate)
            ratios.append(rate * sum(bare.times(TASKS, ("true",)).to_end) / TASKS)
        what = f"{bare.way}, {TASKS} tasks in {frameworks} {'Framework' if frameworks == 1 else 'Frameworks'}"
        yield row(f"{what}: task starts, from POST until completed", statistics.median(rates), "tasks/s")
        to_bare = f"{what}: task starts, from POST until completed / bare sandbox from a loop"
        yield row(to_bare, statistics.median(ratios), "ratio", at_least=0.5)
        for which, spent in costs.items():
            cost = statistics.median(spent) * 1e3
            yield row(f"{what}: processor time of the {which}, for each task", cost, "ms")


def _rate(ask: Asking, prefix: str, frameworks: int) -> float:
    """Tasks per second, from the first POST until all are over."""
    names = [f"{prefix}-{number}" for number in range(frameworks)]
    began = time.perf_counter()
    for name in names:
        ask.object("POST", FRAMEWORKS, a_framework(name, TASKS // frameworks))
    for name in names:
        ask.completed(name)
    return TASKS / seconds_since(began)


def _submit_row(server: Server, ask: Asking, bare: BareSandbox) -> Row:
    """From POST to the first line in the log, on a launcher that has nothing else to do."""
    ours, others = [], []
    for number in range(SUBMITS):
        framework = f"submit-{number}"
        began = time.perf_counter()
        ask.object("POST", FRAMEWORKS, a_framework(framework, command=("echo", "hello")))
        _await_output(server.data, framework)
        ours.append(seconds_since(began))
        ask.completed(framework)
        others += bare.times(1, ("echo", "hello")).to_output
    share = statistics.median(ours) / (3 * statistics.median(others) + ALLOWED)
    return row(
        f"{bare.way}: POST to first line of output / (3 x bare sandbox + 50 ms)", share, "ratio", at_most=1
    )


def _await_output(data: Path, framework: str) -> None:
    ends = time.monotonic() + 60
    folder = data / "logs" / "default" / f"{framework}-worker-0"
    while not any(log.stat().st_size for log in folder.rglob("*.log")):
        assert time.monotonic() < ends, f"{framework} says nothing"
        time.sleep(0.001)
