"""
Frameworks on a real control plane, compared with plain POSTs of the same pods and with the Job controller.

All three run in rounds, in changing order, on one control plane whose scheduler and simulated nodes share this machine.
Compared values are from the same round; rows contain the median of all rounds.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from tests.bench import Row, row
from tests.bench_cluster.parts.bench_cluster import BenchCluster, PodCreator, bench_cluster
from tests.bench_cluster.parts.loads import Load
from tests.bench_cluster.parts.request_trace import summary
from tests.bench_cluster.parts.run import Run
from tests.rig.measured_launcher import directory

#: One run of each creator; their order changes from round to round.
Round = dict[PodCreator, Run]

_SMALL, _LARGE, _MANY, _HUGE = "W1: 1 x 2 x 50", "W2: 1 x 1,000", "W3: 200 x 5", "W4: 1 x 10,000"
_SHAPES = {_SMALL: (1, 2, 50), _LARGE: (1, 1, 1_000), _MANY: (200, 1, 5), _HUGE: (1, 1, 10_000)}
#: With pods that succeed at once, and with pods that keep running.
_TURNS = {_SMALL: (6, 6), _LARGE: (3, 2), _MANY: (3, 2), _HUGE: (1, 1)}

#: Goals by load.
_AGAINST_JOBS = {_SMALL: 1.0, _LARGE: 1.0, _MANY: 2.0}
_REQUESTS = {_LARGE: 1.1, _MANY: 2.2}


def rows() -> list[Row]:
    """Every load, with pods that succeed at once and with pods that keep running."""
    with directory() as data:
        return asyncio.run(_rows(data))


async def _rows(data: Path) -> list[Row]:
    measured: dict[Load, list[Round]] = {}
    async with bench_cluster(data) as cluster:
        await _warm_up(cluster)
        for name, numbers in _TURNS.items():
            for ends, rounds in zip((True, False), numbers, strict=True):
                load = Load(name, *_SHAPES[name], ends)
                creators = [PodCreator.LAUNCHER] if name == _HUGE else list(PodCreator)
                measured[load] = [await _round(cluster, load, creators, number) for number in range(rounds)]
    return [
        *(row for load, rounds in measured.items() for row in _load_rows(load, rounds)),
        *_growth_rows(measured),
    ]


async def _warm_up(cluster: BenchCluster) -> None:
    for creator in PodCreator:
        await cluster.run(Load("warm-up", 5, 1, 20, ends=True), creator)


async def _round(cluster: BenchCluster, load: Load, creators: list[PodCreator], number: int) -> Round:
    shift = number % len(creators)
    round_: Round = {}
    for creator in creators[shift:] + creators[:shift]:
        gc.collect()
        round_[creator] = await cluster.run(load, creator)
        print(f"  {load}, {creator}: {_progress(round_[creator])}", flush=True)
    return round_


def _progress(run: Run) -> str:
    rates = f"{run.creation:.0f} pods/s created, {run.running:.0f} to Running"
    return f"{rates}; {run.cost:.2f} s for 1,000 tasks; {summary(run.trace.counts.most_common())}"


def _load_rows(load: Load, rounds: list[Round]) -> Iterator[Row]:
    launcher_runs = [round_[PodCreator.LAUNCHER] for round_ in rounds]
    for phase, rate in (("created", _creation), ("brought to Running", _running)):
        yield row(f"{load}: pods {phase}", median(map(rate, launcher_runs)), "pods/s")
        for other, goal in ((PodCreator.RAW, 0.8), (PodCreator.JOBS, _AGAINST_JOBS.get(load.name))):
            if other in rounds[0]:
                name = f"{load}: pods {phase} per second / {other}"
                yield row(name, _ratio(rounds, rate, other), "ratio", at_least=goal)
        if PodCreator.JOBS in rounds[0]:
            # An upper bound: pods of Frameworks are larger than those of Jobs.
            bound = median(rate(round_[PodCreator.RAW]) / rate(round_[PodCreator.JOBS]) for round_ in rounds)
            yield row(
                f"{load}: pods {phase} per second, {PodCreator.RAW} / {PodCreator.JOBS}", bound, "ratio"
            )
    yield from _request_rows(load, rounds)
    yield row(f"{load}: processor time for 1,000 tasks", median(run.cost for run in launcher_runs), "s")
    if PodCreator.JOBS in rounds[0]:
        name = f"{load}: processor time for a task / {PodCreator.JOBS}"
        yield row(name, _ratio(rounds, lambda run: run.cost, PodCreator.JOBS), "ratio", at_most=1)
    yield row(f"{load}: peak memory", max(run.memory for run in launcher_runs) / 2**20, "MiB")
    if load.ends:
        yield row(f"{load}: submitted to completed", median(run.completion for run in launcher_runs), "s")
    if load.ends and load.name in _REQUESTS:
        name = f"{load}: submitted to completed / {PodCreator.JOBS}"
        yield row(name, _ratio(rounds, lambda run: run.completion, PodCreator.JOBS), "ratio", at_most=1)


def _request_rows(load: Load, rounds: list[Round]) -> Iterator[Row]:
    launcher_runs = [round_[PodCreator.LAUNCHER] for round_ in rounds]
    goal = _REQUESTS.get(load.name) if load.ends else None
    yield row(
        f"{load}: requests for each task",
        median(run.requests for run in launcher_runs),
        "requests",
        at_most=goal,
    )
    if PodCreator.JOBS in rounds[0]:
        job_requests = median(round_[PodCreator.JOBS].requests for round_ in rounds)
        yield row(f"{load}: requests for each task, {PodCreator.JOBS}", job_requests, "requests")
    yield row(
        f"{load}: conflicts on status", sum(run.conflicts for run in launcher_runs), "responses", at_most=0
    )


def _growth_rows(measured: dict[Load, list[Round]]) -> Iterator[Row]:
    """The cost of a task in the largest Framework, compared with a Framework of a hundred tasks."""
    costs = {
        (load.name, load.ends): median(round_[PodCreator.LAUNCHER].cost for round_ in rounds)
        for load, rounds in measured.items()
    }
    for ends in (True, False):
        load = Load(_HUGE, *_SHAPES[_HUGE], ends)
        growth = costs[_HUGE, ends] / costs[_SMALL, ends]
        yield row(f"{load}: processor time for a task / {_SMALL}", growth, "ratio", at_most=1.2)


def _creation(run: Run) -> float:
    return run.creation


def _running(run: Run) -> float:
    return run.running


def _ratio(rounds: list[Round], figure: Callable[[Run], float], other: PodCreator) -> float:
    return median(figure(round_[PodCreator.LAUNCHER]) / figure(round_[other]) for round_ in rounds)
