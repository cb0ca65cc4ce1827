"""Where loads are run: one control plane with a launcher, asked by bare clients."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import orjson

from tests.bench_cluster.parts.bed import Bed
from tests.bench_cluster.parts.clients import Bare, bare
from tests.bench_cluster.parts.loads import Load, Object
from tests.bench_cluster.parts.run import Run
from tests.bench_cluster.parts.trail import Trail
from tests.bench_cluster.parts.usage import forget_peak, peak
from tests.cluster.parts import Part
from tests.cluster.users import User
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import USER_AGENT, KubeLauncher
from tests.local.server import GROUP, PROJECT
from tests.rig.launching import processor_seconds

#: Who submits, by the name that the audit log has.
SUBMITTER = "bench"
#: Seconds that a load may take, for each of its tasks and in any case.
_EACH, _ANYWAY = 0.1, 60.0
#: Seconds without a request after which a controller has nothing more to do.
_QUIET = 1.5
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Way(StrEnum):
    """Who makes the pods of a load."""

    LAUNCHER = "launcher"
    JOBS = "Job controller"
    RAW = "raw POST"


@dataclass(frozen=True, slots=True)
class Field:
    """Everything that a run needs."""

    bed: Bed
    launcher: KubeLauncher
    #: As admin, and as the launcher's own service account.
    submit: Bare
    raw: Bare

    async def run(self, load: Load, way: Way) -> Run:
        """How *load* went; nothing of it is left."""
        namespace = self.bed.new_namespace()
        bodies = [orjson.dumps(obj) for obj in _objects(load, way, namespace)]
        pid, agent = self._controller(way)
        forget_peak(pid)
        trail = Trail(self.bed.audit_log, namespace, agent)
        before = processor_seconds(pid)
        await (self.raw if way is Way.RAW else self.submit).post_all(place_of(way, namespace), bodies)
        await self.over(load, way, trail)
        spent = processor_seconds(pid) - before
        await self._clear(namespace)
        return Run(load, trail, spent, peak(pid))

    def _controller(self, way: Way) -> tuple[int, str]:
        """The process that is measured, and how the audit log knows it."""
        match way:
            case Way.LAUNCHER:
                return self.launcher.pid, USER_AGENT
            case Way.JOBS:
                return self.bed.job_controller, "/job-controller"
            case Way.RAW:
                # The one that makes these pods is this very process, and of no interest.
                return self.launcher.pid, "raw"

    async def over(self, load: Load, way: Way, trail: Trail) -> None:
        """Return when every pod is where it is to get to, that is told of, and the controller has no more to do."""
        phase = trail.ended if load.ends else trail.running
        limit = asyncio.timeout(_ANYWAY + _EACH * load.tasks)
        try:
            async with limit:
                while len(phase) < load.tasks:
                    await asyncio.sleep(0.1)
                    trail.read()
                if way is not Way.RAW:
                    if load.ends:
                        await self._told(way, trail.namespace)
                    await _quiet(trail)
        except TimeoutError as error:
            so_far = f"{len(trail.created)} pods made, {len(trail.running)} run, {len(trail.ended)} ended"
            error.add_note(f"{load} by {way}: {so_far}; {self.launcher.errors()[-2000:]}")
            raise

    async def _told(self, way: Way, namespace: str) -> None:
        """Return when every object says that it is over."""
        while True:
            table = await self.submit.get(f"{place_of(way, namespace)}?includeObject=None", accept=_TABLE)
            if all(row["cells"][1] in {"Completed", "Complete"} for row in table["rows"]):
                return
            await asyncio.sleep(0.1)

    async def _clear(self, namespace: str) -> None:
        background = {"propagationPolicy": "Background"}
        await self.submit.delete(place_of(Way.LAUNCHER, namespace), background)
        await self.submit.delete(place_of(Way.JOBS, namespace), background)
        pods = place_of(Way.RAW, namespace)
        ends = time.monotonic() + 300
        while True:
            # By the handful: kube-apiserver gives up on what takes it more than a minute.
            await self.submit.delete(f"{pods}?limit=500", {"gracePeriodSeconds": 0})
            left = await self.submit.get(f"{pods}?limit=1")
            if not left["items"]:
                break
            assert time.monotonic() < ends, "the pods of a run do not go"
        await self.submit.delete(f"/api/v1/namespaces/{namespace}", {})
        await self._rest()

    async def _rest(self) -> None:
        """Return when the control plane has as good as nothing to do, or would not come to that."""
        for _ in range(20):
            before = self._busy()
            await asyncio.sleep(0.5)
            if self._busy() - before < 0.15:
                return

    def _busy(self) -> float:
        pids = [*map(self.bed.pid, Part), self.bed.job_controller, self.launcher.pid]
        return sum(map(processor_seconds, pids))


@asynccontextmanager
async def field(directory: Path) -> AsyncGenerator[Field]:
    """A control plane below *directory*, and a launcher that leads."""
    with Bed(directory / "cluster") as bed:
        define_frameworks(bed)
        account = launcher_account(bed)
        with launching(directory, account) as launcher:
            async with (
                bare(bed.url, bed.ca, bed.admin_token, SUBMITTER) as submit,
                bare(bed.url, bed.ca, account.token, "raw") as raw,
            ):
                yield Field(bed, launcher, submit, raw)


@contextmanager
def launching(directory: Path, account: User) -> Iterator[KubeLauncher]:
    """A launcher that leads, as it is where it is installed."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(PROJECT / "build" / "bytecode")}
    launcher = KubeLauncher(directory / "launcher", account.kubeconfig, environment=compiled)
    try:
        launcher.ready()
        launcher.told("leading")
        yield launcher
    finally:
        launcher.end()


async def _quiet(trail: Trail) -> None:
    """Return when the controller has asked for nothing for a while."""
    asked, since = trail.requests, time.monotonic()
    while time.monotonic() < since + _QUIET:
        await asyncio.sleep(0.1)
        trail.read()
        if asked != trail.requests:
            asked, since = trail.requests, time.monotonic()


def _objects(load: Load, way: Way, namespace: str) -> Iterable[Object]:
    match way:
        case Way.LAUNCHER:
            return load.frameworks(namespace)
        case Way.JOBS:
            return load.jobs(namespace)
        case Way.RAW:
            return load.pods(namespace)


def place_of(way: Way, namespace: str) -> str:
    """Where the objects of a load are posted."""
    match way:
        case Way.LAUNCHER:
            return f"{GROUP}/namespaces/{namespace}/frameworks"
        case Way.JOBS:
            return f"/apis/batch/v1/namespaces/{namespace}/jobs"
        case Way.RAW:
            return f"/api/v1/namespaces/{namespace}/pods"
