"""No count is expanded before it is compared with its limit, wherever the object that names it comes from."""

import resource
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.cli.main import main
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.validation.admission_policy import Policy
from launcher.job_kinds.job_kind import FOREIGN
from launcher.job_kinds.schema import crd_of
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.conftest import Api, memory_store, parts_of, serving
from tests.api.proxy.doors import door_to
from tests.api.proxy.upstream import api_server
from tests.api.webhook.conftest import Caller, calling
from tests.api.webhook.reviews import a_review
from tests.controller.mirrored import mirrored
from tests.converters.kubeflow import a_job
from tests.job_kinds.samples import a_tfjob, replicas

Json = dict[str, Any]
HUGE = 2**31 - 1
#: What one request may add to the memory of the process; an address for each replica would take 23 GiB.
MAX_BYTES = 2 * 1024**3

KINDS = {foreign.kind.kind: foreign.kind for foreign in FOREIGN}
JOBS = {
    "TFJob": ("spec.tfReplicaSpecs.Worker.replicas", a_tfjob(Worker=replicas(HUGE), PS=replicas(1))),
    "MPIJob": ("spec.mpiReplicaSpecs.Worker.replicas", a_job("MPIJob", {"Launcher": 1, "Worker": HUGE})),
    "XGBoostJob": (
        "spec.xgbReplicaSpecs.Worker.replicas",
        a_job("XGBoostJob", {"Master": 1, "Worker": HUGE}),
    ),
    "PyTorchJob": (
        "spec.pytorchReplicaSpecs.Worker.replicas",
        a_job("PyTorchJob", {"Master": 1, "Worker": HUGE}),
    ),
    "JAXJob": ("spec.jaxReplicaSpecs.Worker.replicas", a_job("JAXJob", {"Worker": HUGE})),
}
EACH_KIND = pytest.mark.parametrize(
    ("kind", "field", "job"), [(kind, *row) for kind, row in JOBS.items()], ids=JOBS
)


@pytest.fixture(autouse=True)
def _bounded_memory() -> Iterator[None]:
    """A count that is expanded after all ends in a MemoryError instead of using up the machine."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving(parts_of(memory_store())) as running:
        yield running


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    async with calling(Policy()) as calling_it:
        yield calling_it


def collection(kind: str, namespace: str = "default") -> str:
    found = KINDS[kind]
    return f"/apis/{found.api_version}/namespaces/{namespace}/{found.plural}"


def placed(job: Json) -> Json:
    return {**job, "metadata": {"name": "dist"}}


def names_the_limit(text: str, field: str) -> bool:
    return field in text and str(HUGE) in text and str(INDEXES_END) in text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("query", ["", "?dryRun=All"])
@EACH_KIND
async def test_the_api_refuses_it_with_field_value_and_limit(
    api: Api, kind: str, field: str, job: Json, query: str
) -> None:
    answer = await api.post(collection(kind) + query, placed(job))

    assert answer.status == 422
    assert names_the_limit(answer.json()["message"], field)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["", "/scale"])
async def test_a_job_cannot_be_scaled_beyond_it(api: Api, part: str) -> None:
    await api.post(collection("TFJob"), a_tfjob("dist", Worker=replicas(1), PS=replicas(1)))
    spec: Json = {"replicas": HUGE}
    if not part:
        spec = {"tfReplicaSpecs": {"Worker": spec}}

    answer = await api.patch(f"{collection('TFJob')}/dist{part}", {"spec": spec})

    assert answer.status == 422
    assert names_the_limit(answer.json()["message"], "spec.tfReplicaSpecs.Worker.replicas")


@pytest.mark.timeout(60)
@EACH_KIND
async def test_the_admission_webhook_refuses_it(caller: Caller, kind: str, field: str, job: Json) -> None:
    found = KINDS[kind]
    resource_ = {"group": found.group, "version": found.version, "resource": found.plural}
    review = a_review(placed(job), resource=resource_)

    verdict = await caller.validate(review)
    changed = await caller.mutate(review)

    assert verdict["allowed"] is False
    assert names_the_limit(verdict["status"]["message"], field)
    assert changed["allowed"] is True


@pytest.mark.timeout(60)
@EACH_KIND
async def test_the_webhook_survives_it_as_the_old_object(
    caller: Caller, kind: str, field: str, job: Json
) -> None:
    found = KINDS[kind]
    resource_ = {"group": found.group, "version": found.version, "resource": found.plural}
    new = orjson.loads(orjson.dumps(placed(job)).replace(str(HUGE).encode(), b"2"))

    verdict = await caller.validate(a_review(new, placed(job), resource=resource_))

    assert verdict["allowed"] is True, (field, verdict)


@pytest.mark.timeout(60)
@EACH_KIND
async def test_the_proxy_refuses_it_before_the_cluster_gets_it(kind: str, field: str, job: Json) -> None:
    async with (
        api_server() as cluster,
        door_to(ClusterConfig(cluster.url, FixedHeader("Bearer x")), serves_kind=lambda _: True) as door,
    ):
        answer = await door.post(collection(kind), placed(job))

        assert answer.status == 422
        assert names_the_limit(answer.json()["message"], field)
        assert not cluster.asked


@pytest.mark.timeout(60)
async def test_a_stored_job_costs_one_key_and_its_status_says_why() -> None:
    async with mirrored() as place:
        await place.submit(a_tfjob("huge", Worker=replicas(HUGE), PS=replicas(1)))
        await place.submit(a_tfjob("dist", Worker=replicas(1)))

        await place.told("Created")
        huge = await place.told("Created", "Blocked", name="huge")

    message = huge["status"]["conditions"][-1]["message"]
    assert names_the_limit(message, "spec.tfReplicaSpecs.Worker.replicas")


@pytest.mark.parametrize(("kind", "field", "job"), [(kind, *row) for kind, row in JOBS.items()], ids=JOBS)
def test_launcher_convert_refuses_it(
    kind: str, field: str, job: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{kind}.json"
    path.write_bytes(orjson.dumps(placed(job)))

    assert main(["convert", str(path)]) == 2
    assert names_the_limit(capsys.readouterr().err, field)


def test_the_definitions_for_a_cluster_carry_the_maximum() -> None:
    for foreign in FOREIGN:
        for version in crd_of(foreign)["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            replica = spec[foreign.family.field]["additionalProperties"]["properties"]

            assert replica["replicas"]["maximum"] == INDEXES_END
