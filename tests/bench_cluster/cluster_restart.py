"""Restart a launcher with 2,000 running Frameworks: the time it takes, and the requests that it sends."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import orjson

from tests.bench import Row, row
from tests.bench_cluster.parts.bench_cluster import BenchCluster, PodCreator, bench_cluster, collection_path
from tests.bench_cluster.parts.loads import Load
from tests.bench_cluster.parts.request_trace import RequestTrace
from tests.cluster.audit import AuditedRequest
from tests.kubernetes.launcher import USER_AGENT
from tests.rig.measured_launcher import directory

_FRAMEWORKS = 2_000
#: No write of these is necessary after a restart.
_WRITE_VERBS = frozenset({"create", "update", "patch", "delete"})
#: The launcher writes its own objects when it starts and while it leads.
_OWN_RESOURCES = frozenset({"leases", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "secrets"})
#: The time within which all requests after a start are sent.
_SETTLE_SECONDS = 10.0


def rows() -> list[Row]:
    """After a stop, and after a crash."""
    with directory() as data:
        return asyncio.run(_rows(data))


async def _rows(data: Path) -> list[Row]:
    async with bench_cluster(data) as cluster:
        await _fill(cluster)
        return [*await _restart(cluster, "stopped"), *await _restart(cluster, "killed")]


async def _fill(cluster: BenchCluster) -> None:
    load = Load("restart", _FRAMEWORKS, 1, 1, ends=False)
    namespace = cluster.plane.new_namespace()
    trace = RequestTrace(cluster.plane.audit_log, namespace, USER_AGENT)
    path = collection_path(PodCreator.LAUNCHER, namespace)
    await cluster.submit.post_all(path, map(orjson.dumps, load.frameworks(namespace)))
    await cluster.wait_until_complete(load, PodCreator.LAUNCHER, trace)


async def _restart(cluster: BenchCluster, end: str) -> list[Row]:
    if end == "killed":
        cluster.launcher.kill()
    else:
        cluster.launcher.stop()
    mark = cluster.plane.audit.mark()
    before = cluster.launcher.log().count("leading")
    start = time.monotonic()
    cluster.launcher.start()
    cluster.launcher.ready()
    ready = time.monotonic() - start
    while cluster.launcher.log().count("leading") == before:
        assert time.monotonic() < start + 120, cluster.launcher.errors()
        await asyncio.sleep(0.05)
    leading = time.monotonic() - start
    await asyncio.sleep(_SETTLE_SECONDS)
    requests = cluster.plane.audit.since(mark, user_agent=USER_AGENT)
    print(
        f"  {end}: {Counter((request.verb, request.resource) for request in requests).most_common()}",
        flush=True,
    )
    name = f"{end} and restarted with {_FRAMEWORKS:,} Frameworks"
    return [
        row(f"{name}: until it is ready", ready, "s"),
        row(f"{name}: until it leads", leading, "s"),
        row(
            f"{name}: requests without those for its lease",
            sum(request.resource != "leases" for request in requests),
            "requests",
        ),
        row(
            f"{name}: unnecessary writes",
            _unnecessary_writes(requests),
            "requests",
            at_most=0,
        ),
    ]


def _unnecessary_writes(requests: list[AuditedRequest]) -> int:
    return sum(
        request.verb in _WRITE_VERBS and request.resource not in _OWN_RESOURCES for request in requests
    )
