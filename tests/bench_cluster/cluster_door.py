"""What the front door adds to a request, against the same one straight to kube-apiserver."""

import asyncio
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import quantiles

import orjson

from tests.bench import Row, row
from tests.bench_cluster.parts.clients import Bare, bare
from tests.bench_cluster.parts.field import Field, Way, field, place_of
from tests.bench_cluster.parts.loads import Load
from tests.rig.launching import directory

#: Of each kind, by turns, one after the other.
_REQUESTS = 300
_WARM_UP = 30


def rows() -> list[Row]:
    """A Framework posted, and read."""
    with directory() as place:
        return asyncio.run(_rows(place))


async def _rows(place: Path) -> list[Row]:
    async with (
        field(place) as here,
        bare(here.launcher.url, None, here.bed.admin_token, "bench") as door,
    ):
        return [row for figures in await _measured(here, door) for row in figures]


async def _measured(here: Field, door: Bare) -> list[Iterator[Row]]:
    path, numbers = place_of(Way.LAUNCHER, here.bed.new_namespace()), count()
    times: dict[tuple[str, Bare], list[float]] = {}
    for turn in range(_WARM_UP + _REQUESTS):
        for client in (here.submit, door) if turn % 2 else (door, here.submit):
            name = f"bench-{next(numbers)}"
            began = time.perf_counter()
            await client.post(path, _held(name))
            posted = time.perf_counter()
            await client.get(f"{path}/{name}")
            read = time.perf_counter()
            if turn >= _WARM_UP:
                times.setdefault(("POST", client), []).append(posted - began)
                times.setdefault(("GET", client), []).append(read - posted)
    return [_compared(verb, times[verb, here.submit], times[verb, door]) for verb in ("POST", "GET")]


def _held(name: str) -> bytes:
    """A Framework that nothing becomes of, so that nobody else is at work."""
    (framework,) = Load(name, 1, 2, 1, ends=False).frameworks("")
    framework["metadata"] = {"name": name}
    framework["spec"]["executionType"] = "Create"
    return orjson.dumps(framework)


def _compared(verb: str, straight: list[float], door: list[float]) -> Iterator[Row]:
    for what, number in (("p50", 49), ("p99", 98)):
        bare_time, whole = (quantiles(times, n=100)[number] * 1e3 for times in (straight, door))
        yield row(f"{verb} of a Framework straight to kube-apiserver, {what}", bare_time, "ms")
        yield row(f"{verb} of a Framework by the front door: added to that, {what}", whole - bare_time, "ms")
