"""
Frameworks on a real control plane, against bare POSTs of the same pods and against Kubernetes' own Job controller.

All three in turns, in another order each time, on one control plane whose scheduler and simulated nodes share this
machine. What is compared was measured in the same turn; rows tell the middle of all turns.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from tests.bench import Row, row
from tests.bench_cluster.parts.field import Field, Way, field
from tests.bench_cluster.parts.loads import Load
from tests.bench_cluster.parts.run import Run
from tests.bench_cluster.parts.trail import told
from tests.rig.launching import directory

#: One run of each way, whose order changes from turn to turn.
Turn = dict[Way, Run]

_SMALL, _LARGE, _MANY, _HUGE = "W1: 1 x 2 x 50", "W2: 1 x 1,000", "W3: 200 x 5", "W4: 1 x 10,000"
_SHAPES = {_SMALL: (1, 2, 50), _LARGE: (1, 1, 1_000), _MANY: (200, 1, 5), _HUGE: (1, 1, 10_000)}
#: With pods that succeed at once, and with pods that keep running.
_TURNS = {_SMALL: (6, 6), _LARGE: (3, 2), _MANY: (3, 2), _HUGE: (1, 1)}

#: Goals by load.
_AGAINST_JOBS = {_SMALL: 1.0, _LARGE: 1.0, _MANY: 2.0}
_REQUESTS = {_LARGE: 1.1, _MANY: 2.2}


def rows() -> list[Row]:
    """Every load, with pods that succeed at once and with pods that keep running."""
    with directory() as place:
        return asyncio.run(_rows(place))


async def _rows(place: Path) -> list[Row]:
    measured: dict[Load, list[Turn]] = {}
    async with field(place) as here:
        await _warm_up(here)
        for name, numbers in _TURNS.items():
            for ends, turns in zip((True, False), numbers, strict=True):
                load = Load(name, *_SHAPES[name], ends)
                ways = [Way.LAUNCHER] if name == _HUGE else list(Way)
                measured[load] = [await _turn(here, load, ways, number) for number in range(turns)]
    return [
        *(row for load, turns in measured.items() for row in _load_rows(load, turns)),
        *_growth_rows(measured),
    ]


async def _warm_up(here: Field) -> None:
    for way in Way:
        await here.run(Load("warm-up", 5, 1, 20, ends=True), way)


async def _turn(here: Field, load: Load, ways: list[Way], number: int) -> Turn:
    shift = number % len(ways)
    turn: Turn = {}
    for way in ways[shift:] + ways[:shift]:
        gc.collect()
        turn[way] = await here.run(load, way)
        print(f"  {load}, {way}: {_told(turn[way])}", flush=True)
    return turn


def _told(run: Run) -> str:
    rates = f"{run.creation:.0f} pods/s created, {run.running:.0f} to Running"
    return f"{rates}; {run.cost:.2f} s for 1,000 tasks; {told(run.trail.asked.most_common())}"


def _load_rows(load: Load, turns: list[Turn]) -> Iterator[Row]:
    ours = [turn[Way.LAUNCHER] for turn in turns]
    for what, rate in (("created", _creation), ("brought to Running", _running)):
        yield row(f"{load}: pods {what}", median(map(rate, ours)), "pods/s")
        for other, goal in ((Way.RAW, 0.8), (Way.JOBS, _AGAINST_JOBS.get(load.name))):
            if other in turns[0]:
                name = f"{load}: pods {what} per second / {other}"
                yield row(name, _ratio(turns, rate, other), "ratio", at_least=goal)
        if Way.JOBS in turns[0]:
            # Pods of Frameworks are larger than those of Jobs: whoever creates them cannot be faster than this.
            bound = median(rate(turn[Way.RAW]) / rate(turn[Way.JOBS]) for turn in turns)
            yield row(f"{load}: pods {what} per second, {Way.RAW} / {Way.JOBS}", bound, "ratio")
    yield from _request_rows(load, turns)
    yield row(f"{load}: processor time for 1,000 tasks", median(run.cost for run in ours), "s")
    if Way.JOBS in turns[0]:
        name = f"{load}: processor time for a task / {Way.JOBS}"
        yield row(name, _ratio(turns, lambda run: run.cost, Way.JOBS), "ratio", at_most=1)
    yield row(f"{load}: peak of memory", max(run.memory for run in ours) / 2**20, "MiB")
    if load.ends:
        yield row(f"{load}: submitted to completed", median(run.completion for run in ours), "s")
    if load.ends and load.name in _REQUESTS:
        name = f"{load}: submitted to completed / {Way.JOBS}"
        yield row(name, _ratio(turns, lambda run: run.completion, Way.JOBS), "ratio", at_most=1)


def _request_rows(load: Load, turns: list[Turn]) -> Iterator[Row]:
    ours = [turn[Way.LAUNCHER] for turn in turns]
    goal = _REQUESTS.get(load.name) if load.ends else None
    yield row(
        f"{load}: requests for each task", median(run.requests for run in ours), "requests", at_most=goal
    )
    if Way.JOBS in turns[0]:
        theirs = median(turn[Way.JOBS].requests for turn in turns)
        yield row(f"{load}: requests for each task, {Way.JOBS}", theirs, "requests")
    yield row(f"{load}: conflicts on status", sum(run.conflicts for run in ours), "answers", at_most=0)


def _growth_rows(measured: dict[Load, list[Turn]]) -> Iterator[Row]:
    """What a task costs in the largest Framework, against one of a hundred tasks."""
    costs = {
        (load.name, load.ends): median(turn[Way.LAUNCHER].cost for turn in turns)
        for load, turns in measured.items()
    }
    for ends in (True, False):
        load = Load(_HUGE, *_SHAPES[_HUGE], ends)
        growth = costs[_HUGE, ends] / costs[_SMALL, ends]
        yield row(f"{load}: processor time for a task / {_SMALL}", growth, "ratio", at_most=1.2)


def _creation(run: Run) -> float:
    return run.creation


def _running(run: Run) -> float:
    return run.running


def _ratio(turns: list[Turn], figure: Callable[[Run], float], other: Way) -> float:
    return median(figure(turn[Way.LAUNCHER]) / figure(turn[other]) for turn in turns)
