"""
Task starts with isolated pods, compared with pods that share the network of the machine: two launchers, in turns.

An isolated pod needs a network namespace and two interfaces, which are created before its first container and removed
after its last one.
"""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, Server
from tests.pod_networks import remove_network, why_not_isolated
from tests.rig.measured_launcher import (
    ApiConnection,
    a_framework,
    connected,
    directory,
    first_output_seconds,
    processor_seconds,
    running_launcher,
    task_start_rate,
)

ROUNDS = 5
TASKS = 50
SUBMITS = 15


def rows() -> list[Row]:
    """Measures many tasks at once, and one task alone."""
    if reason := why_not_isolated():
        raise SystemExit(f"isolated_starts: pods cannot be isolated: {reason}")
    with _launcher("shared") as shared, _launcher("isolated") as isolated:
        for _, api in (shared, isolated):
            api.object("POST", FRAMEWORKS, a_framework("first", 10))
            api.wait_completed("first")
        return [*_start_rows(shared, isolated), _submit_row(shared, isolated)]


@contextmanager
def _launcher(network: str) -> Iterator[tuple[Server, ApiConnection]]:
    with directory() as data:
        with running_launcher(data, f"--pod-network={network}") as server, connected(server) as api:
            yield server, api
        if network == "isolated":
            remove_network(server.data)


def _start_rows(*launchers: tuple[Server, ApiConnection]) -> Iterator[Row]:
    rates: list[list[float]] = [[], []]
    costs: list[list[float]] = [[], []]
    for number in range(ROUNDS):
        for each, (server, api) in enumerate(launchers):
            before = processor_seconds(server.pid)
            rates[each].append(task_start_rate(api, [f"starts-{number}"], TASKS))
            costs[each].append((processor_seconds(server.pid) - before) / TASKS)
    shared, isolated = (statistics.median(each) for each in rates)
    name = f"isolated pods, {TASKS} tasks"
    yield row(f"{name}: task starts, from POST until completed", isolated, "tasks/s")
    yield row(f"{name}: task starts / those of shared networks", isolated / shared, "ratio", at_least=0.5)
    cost = statistics.median(costs[1]) - statistics.median(costs[0])
    yield row(f"{name}: additional CPU time of the launcher per task", cost * 1e3, "ms")


def _submit_row(*launchers: tuple[Server, ApiConnection]) -> Row:
    seconds: list[list[float]] = [[], []]
    for number in range(SUBMITS):
        for each, (server, api) in enumerate(launchers):
            seconds[each].append(first_output_seconds(server, api, f"submit-{number}"))
    shared, isolated = (statistics.median(each) for each in seconds)
    name = "isolated pods: POST to first line of output / that of shared networks"
    return row(name, isolated / shared, "ratio", at_most=1.5)
