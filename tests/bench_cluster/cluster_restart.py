"""A launcher that comes back to 2,000 Frameworks whose tasks run: how long it takes, and what it asks for."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import orjson

from tests.bench import Row, row
from tests.bench_cluster.parts.field import Field, Way, field, place_of
from tests.bench_cluster.parts.loads import Load
from tests.bench_cluster.parts.trail import Trail
from tests.cluster.audit import Request
from tests.kubernetes.launcher import USER_AGENT
from tests.rig.launching import directory

_FRAMEWORKS = 2_000
#: What changes something; all of it was done before the restart.
_WRITES = frozenset({"create", "update", "patch", "delete"})
#: Of what the launcher does for itself when it starts, and while it leads.
_ITS_OWN = frozenset({"leases", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "secrets"})
#: Seconds in which everything that a start leads to has happened.
_SETTLED = 10.0


def rows() -> list[Row]:
    """After a stop, and after a crash."""
    with directory() as place:
        return asyncio.run(_rows(place))


async def _rows(place: Path) -> list[Row]:
    async with field(place) as here:
        await _fill(here)
        return [*await _restart(here, "stopped"), *await _restart(here, "killed")]


async def _fill(here: Field) -> None:
    load = Load("restart", _FRAMEWORKS, 1, 1, ends=False)
    namespace = here.bed.new_namespace()
    trail = Trail(here.bed.audit_log, namespace, USER_AGENT)
    path = place_of(Way.LAUNCHER, namespace)
    await here.submit.post_all(path, map(orjson.dumps, load.frameworks(namespace)))
    await here.over(load, Way.LAUNCHER, trail)


async def _restart(here: Field, how: str) -> list[Row]:
    if how == "killed":
        here.launcher.kill()
    else:
        here.launcher.stop()
    mark = here.bed.audit.mark()
    before = here.launcher.log().count("leading")
    began = time.monotonic()
    here.launcher.start()
    here.launcher.ready()
    ready = time.monotonic() - began
    while here.launcher.log().count("leading") == before:
        assert time.monotonic() < began + 120, here.launcher.errors()
        await asyncio.sleep(0.05)
    leads = time.monotonic() - began
    await asyncio.sleep(_SETTLED)
    asked = here.bed.audit.since(mark, user_agent=USER_AGENT)
    print(f"  {how}: {Counter((one.verb, one.resource) for one in asked).most_common()}", flush=True)
    name = f"{how} and started again with {_FRAMEWORKS:,} Frameworks"
    return [
        row(f"{name}: until it is ready", ready, "s"),
        row(f"{name}: until it leads", leads, "s"),
        row(
            f"{name}: requests, but for its lease", sum(one.resource != "leases" for one in asked), "requests"
        ),
        row(f"{name}: writes, none of which there is a reason for", _needless(asked), "requests", at_most=0),
    ]


def _needless(asked: list[Request]) -> int:
    return sum(one.verb in _WRITES and one.resource not in _ITS_OWN for one in asked)
