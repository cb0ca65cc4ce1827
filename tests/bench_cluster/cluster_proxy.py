"""The latency that the API proxy adds to a request, compared with the same request directly to kube-apiserver."""

import asyncio
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import quantiles

import orjson

from tests.bench import Row, row
from tests.bench_cluster.parts.bench_cluster import BenchCluster, PodCreator, bench_cluster, collection_path
from tests.bench_cluster.parts.clients import PlainClient, plain_client
from tests.bench_cluster.parts.loads import Load
from tests.rig.measured_launcher import directory

#: The number of requests of each kind, sent one after the other in turns.
_REQUESTS = 300
_WARM_UP = 30


def rows() -> list[Row]:
    """POST and GET of a Framework."""
    with directory() as data:
        return asyncio.run(_rows(data))


async def _rows(data: Path) -> list[Row]:
    async with (
        bench_cluster(data) as cluster,
        plain_client(cluster.launcher.url, None, cluster.plane.admin_token, "bench") as proxy,
    ):
        return [row for figures in await _measured(cluster, proxy) for row in figures]


async def _measured(cluster: BenchCluster, proxy: PlainClient) -> list[Iterator[Row]]:
    path, numbers = collection_path(PodCreator.LAUNCHER, cluster.plane.new_namespace()), count()
    times: dict[tuple[str, PlainClient], list[float]] = {}
    for round_ in range(_WARM_UP + _REQUESTS):
        for client in (cluster.submit, proxy) if round_ % 2 else (proxy, cluster.submit):
            name = f"bench-{next(numbers)}"
            start = time.perf_counter()
            await client.post(path, _unstarted_framework(name))
            posted = time.perf_counter()
            await client.get(f"{path}/{name}")
            read = time.perf_counter()
            if round_ >= _WARM_UP:
                times.setdefault(("POST", client), []).append(posted - start)
                times.setdefault(("GET", client), []).append(read - posted)
    return [
        _comparison_rows(verb, times[verb, cluster.submit], times[verb, proxy]) for verb in ("POST", "GET")
    ]


def _unstarted_framework(name: str) -> bytes:
    """A Framework that is not started, so that the controller is idle."""
    (framework,) = Load(name, 1, 2, 1, ends=False).frameworks("")
    framework["metadata"] = {"name": name}
    framework["spec"]["executionType"] = "Create"
    return orjson.dumps(framework)


def _comparison_rows(verb: str, direct: list[float], proxy: list[float]) -> Iterator[Row]:
    for percentile, number in (("p50", 49), ("p99", 98)):
        direct_time, proxy_time = (quantiles(times, n=100)[number] * 1e3 for times in (direct, proxy))
        yield row(f"{verb} of a Framework directly to kube-apiserver, {percentile}", direct_time, "ms")
        yield row(
            f"{verb} of a Framework through the proxy: added latency, {percentile}",
            proxy_time - direct_time,
            "ms",
        )
