"""One control plane with a launcher, and clients that submit loads."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import orjson

from tests.bench_cluster.parts.clients import PlainClient, plain_client
from tests.bench_cluster.parts.control_plane import BenchControlPlane
from tests.bench_cluster.parts.loads import Load, Object
from tests.bench_cluster.parts.request_trace import RequestTrace
from tests.bench_cluster.parts.run import Run
from tests.bench_cluster.parts.usage import peak_memory, reset_peak_memory
from tests.cluster.components import Component
from tests.cluster.users import User
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import USER_AGENT, KubeLauncher
from tests.launcher_process import PROJECT
from tests.local.server import GROUP
from tests.rig.measured_launcher import processor_seconds

#: The user agent of the submitting client in the audit log.
SUBMITTER = "bench"
#: The time limit of a load: a part for each task, and a constant part.
_SECONDS_PER_TASK, _MIN_SECONDS = 0.1, 60.0
#: A controller is idle after this time without a request.
_IDLE_SECONDS = 1.5
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class PodCreator(StrEnum):
    """What creates the pods of a load."""

    LAUNCHER = "launcher"
    JOBS = "Job controller"
    RAW = "raw POST"


@dataclass(frozen=True, slots=True)
class BenchCluster:
    """Everything that a run needs."""

    plane: BenchControlPlane
    launcher: KubeLauncher
    #: As admin, and as the launcher's own service account.
    submit: PlainClient
    raw: PlainClient

    async def run(self, load: Load, creator: PodCreator) -> Run:
        """Runs *load*, deletes its objects, and returns the measurements."""
        namespace = self.plane.new_namespace()
        bodies = [orjson.dumps(obj) for obj in _objects(load, creator, namespace)]
        pid, agent = self._controller(creator)
        reset_peak_memory(pid)
        trace = RequestTrace(self.plane.audit_log, namespace, agent)
        before = processor_seconds(pid)
        await (self.raw if creator is PodCreator.RAW else self.submit).post_all(
            collection_path(creator, namespace), bodies
        )
        await self.wait_until_complete(load, creator, trace)
        spent = processor_seconds(pid) - before
        await self._delete_all(namespace)
        return Run(load, trace, spent, peak_memory(pid))

    def _controller(self, creator: PodCreator) -> tuple[int, str]:
        """The pid and the user agent of the measured controller."""
        match creator:
            case PodCreator.LAUNCHER:
                return self.launcher.pid, USER_AGENT
            case PodCreator.JOBS:
                return self.plane.job_controller, "/job-controller"
            case PodCreator.RAW:
                # This process creates these pods; its cost is not measured.
                return self.launcher.pid, "raw"

    async def wait_until_complete(self, load: Load, creator: PodCreator, trace: RequestTrace) -> None:
        """Return when every pod is in its last phase, the status is complete, and the controller is idle."""
        phase = trace.ended if load.ends else trace.running
        limit = asyncio.timeout(_MIN_SECONDS + _SECONDS_PER_TASK * load.tasks)
        try:
            async with limit:
                while len(phase) < load.tasks:
                    await asyncio.sleep(0.1)
                    trace.read()
                if creator is not PodCreator.RAW:
                    if load.ends:
                        await self._wait_for_status(creator, trace.namespace)
                    await _wait_until_idle(trace)
        except TimeoutError as error:
            progress = (
                f"{len(trace.created)} pods created, {len(trace.running)} running, {len(trace.ended)} ended"
            )
            error.add_note(f"{load} by {creator}: {progress}; {self.launcher.errors()[-2000:]}")
            raise

    async def _wait_for_status(self, creator: PodCreator, namespace: str) -> None:
        """Return when the status of every object is complete."""
        while True:
            table = await self.submit.get(
                f"{collection_path(creator, namespace)}?includeObject=None", accept=_TABLE
            )
            if all(row["cells"][1] in {"Completed", "Complete"} for row in table["rows"]):
                return
            await asyncio.sleep(0.1)

    async def _delete_all(self, namespace: str) -> None:
        background = {"propagationPolicy": "Background"}
        await self.submit.delete(collection_path(PodCreator.LAUNCHER, namespace), background)
        await self.submit.delete(collection_path(PodCreator.JOBS, namespace), background)
        pods = collection_path(PodCreator.RAW, namespace)
        deadline = time.monotonic() + 300
        while True:
            # In batches: kube-apiserver ends requests after a minute.
            await self.submit.delete(f"{pods}?limit=500", {"gracePeriodSeconds": 0})
            remaining = await self.submit.get(f"{pods}?limit=1")
            if not remaining["items"]:
                break
            assert time.monotonic() < deadline, "the pods of a run are not deleted"
        await self.submit.delete(f"/api/v1/namespaces/{namespace}", {})
        await self._wait_until_control_plane_is_idle()

    async def _wait_until_control_plane_is_idle(self) -> None:
        """Return when the control plane is almost idle, or after ten seconds."""
        for _ in range(20):
            before = self._processor_seconds()
            await asyncio.sleep(0.5)
            if self._processor_seconds() - before < 0.15:
                return

    def _processor_seconds(self) -> float:
        pids = [*map(self.plane.pid, Component), self.plane.job_controller, self.launcher.pid]
        return sum(map(processor_seconds, pids))


@asynccontextmanager
async def bench_cluster(directory: Path) -> AsyncGenerator[BenchCluster]:
    """A control plane below *directory*, and a launcher that leads."""
    with BenchControlPlane(directory / "cluster") as plane:
        define_frameworks(plane)
        account = launcher_account(plane)
        with leading_launcher(directory, account) as launcher:
            async with (
                plain_client(plane.url, plane.ca, plane.admin_token, SUBMITTER) as submit,
                plain_client(plane.url, plane.ca, account.token, "raw") as raw,
            ):
                yield BenchCluster(plane, launcher, submit, raw)


@contextmanager
def leading_launcher(directory: Path, account: User) -> Iterator[KubeLauncher]:
    """A launcher that leads, with compiled bytecode as in an installation."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(PROJECT / "build" / "bytecode")}
    launcher = KubeLauncher(directory / "launcher", account.kubeconfig, environment=compiled)
    try:
        launcher.ready()
        launcher.wait_for_log("leading")
        yield launcher
    finally:
        launcher.end()


async def _wait_until_idle(trace: RequestTrace) -> None:
    """Return when the controller has sent no request for some time."""
    count, since = trace.requests, time.monotonic()
    while time.monotonic() < since + _IDLE_SECONDS:
        await asyncio.sleep(0.1)
        trace.read()
        if count != trace.requests:
            count, since = trace.requests, time.monotonic()


def _objects(load: Load, creator: PodCreator, namespace: str) -> Iterable[Object]:
    match creator:
        case PodCreator.LAUNCHER:
            return load.frameworks(namespace)
        case PodCreator.JOBS:
            return load.jobs(namespace)
        case PodCreator.RAW:
            return load.pods(namespace)


def collection_path(creator: PodCreator, namespace: str) -> str:
    """The API path to which the objects of a load are posted."""
    match creator:
        case PodCreator.LAUNCHER:
            return f"{GROUP}/namespaces/{namespace}/frameworks"
        case PodCreator.JOBS:
            return f"/apis/batch/v1/namespaces/{namespace}/jobs"
        case PodCreator.RAW:
            return f"/api/v1/namespaces/{namespace}/pods"
