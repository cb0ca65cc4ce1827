"""No count is expanded before it is compared with its limit, whatever the source of the object is."""

import resource
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.generate.job_crd import job_crd
from launcher.cli.main import main
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.proxy.fake_api_server import run_fake_api_server
from tests.api.proxy.proxies import run_proxy
from tests.api.webhook.conftest import WebhookClient, run_webhook
from tests.api.webhook.reviews import a_review
from tests.converters.kubeflow.jobs import a_job
from tests.job_kinds.harness import run_job_controller
from tests.job_kinds.samples import a_tfjob, replicas

Json = dict[str, Any]
HUGE = 2**31 - 1
#: The memory that one request may allocate; an address for each replica would need 23 GiB.
MAX_BYTES = 2 * 1024**3

KINDS = {foreign.kind.kind: foreign.kind for foreign in JOB_KINDS}
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
    """Limits the memory, so that an expanded count causes a MemoryError."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving(api_dependencies(memory_store())) as running:
        yield running


@pytest.fixture
async def caller() -> AsyncIterator[WebhookClient]:
    async with run_webhook(AdmissionPolicy()) as client:
        yield client


def collection(kind: str, namespace: str = "default") -> str:
    resource_kind = KINDS[kind]
    return f"/apis/{resource_kind.api_version}/namespaces/{namespace}/{resource_kind.plural}"


def named(job: Json) -> Json:
    return {**job, "metadata": {"name": "dist"}}


def names_the_limit(text: str, field: str) -> bool:
    return field in text and str(HUGE) in text and str(INDEXES_END) in text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("query", ["", "?dryRun=All"])
@EACH_KIND
async def test_the_api_rejects_a_too_large_count_with_field_value_and_limit(
    api: Api, kind: str, field: str, job: Json, query: str
) -> None:
    response = await api.post(collection(kind) + query, named(job))

    assert response.status == 422
    assert names_the_limit(response.json()["message"], field)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["", "/scale"])
async def test_a_job_cannot_be_scaled_beyond_the_limit(api: Api, part: str) -> None:
    await api.post(collection("TFJob"), a_tfjob("dist", Worker=replicas(1), PS=replicas(1)))
    spec: Json = {"replicas": HUGE}
    if not part:
        spec = {"tfReplicaSpecs": {"Worker": spec}}

    response = await api.patch(f"{collection('TFJob')}/dist{part}", {"spec": spec})

    assert response.status == 422
    assert names_the_limit(response.json()["message"], "spec.tfReplicaSpecs.Worker.replicas")


@pytest.mark.timeout(60)
@EACH_KIND
async def test_the_admission_webhook_rejects_a_too_large_count(
    caller: WebhookClient, kind: str, field: str, job: Json
) -> None:
    resource_kind = KINDS[kind]
    group_resource = {
        "group": resource_kind.group,
        "version": resource_kind.version,
        "resource": resource_kind.plural,
    }
    review = a_review(named(job), resource=group_resource)

    response = await caller.validate(review)
    changed = await caller.mutate(review)

    assert response["allowed"] is False
    assert names_the_limit(response["status"]["message"], field)
    assert changed["allowed"] is True


@pytest.mark.timeout(60)
@EACH_KIND
async def test_the_webhook_accepts_a_too_large_count_in_the_old_object(
    caller: WebhookClient, kind: str, field: str, job: Json
) -> None:
    resource_kind = KINDS[kind]
    group_resource = {
        "group": resource_kind.group,
        "version": resource_kind.version,
        "resource": resource_kind.plural,
    }
    new = orjson.loads(orjson.dumps(named(job)).replace(str(HUGE).encode(), b"2"))

    response = await caller.validate(a_review(new, named(job), resource=group_resource))

    assert response["allowed"] is True, (field, response)


@pytest.mark.timeout(60)
@EACH_KIND
async def test_the_proxy_rejects_a_too_large_count_before_the_cluster(
    kind: str, field: str, job: Json
) -> None:
    async with (
        run_fake_api_server() as cluster,
        run_proxy(ClusterConfig(cluster.url, FixedHeader("Bearer x")), serves_kind=lambda _: True) as proxy,
    ):
        response = await proxy.post(collection(kind), named(job))

        assert response.status == 422
        assert names_the_limit(response.json()["message"], field)
        assert not cluster.requests


@pytest.mark.timeout(60)
async def test_a_stored_job_with_a_too_large_count_affects_only_its_own_key() -> None:
    async with run_job_controller() as harness:
        await harness.submit(a_tfjob("huge", Worker=replicas(HUGE), PS=replicas(1)))
        await harness.submit(a_tfjob("dist", Worker=replicas(1)))

        await harness.wait_for_conditions("Created")
        huge = await harness.wait_for_conditions("Created", "Blocked", name="huge")

    message = huge["status"]["conditions"][-1]["message"]
    assert names_the_limit(message, "spec.tfReplicaSpecs.Worker.replicas")


@pytest.mark.parametrize(("kind", "field", "job"), [(kind, *row) for kind, row in JOBS.items()], ids=JOBS)
def test_launcher_convert_rejects_a_too_large_count(
    kind: str, field: str, job: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{kind}.json"
    path.write_bytes(orjson.dumps(named(job)))

    assert main(["convert", str(path)]) == 2
    assert names_the_limit(capsys.readouterr().err, field)


def test_the_custom_resource_definitions_contain_the_maximum() -> None:
    for foreign in JOB_KINDS:
        for version in job_crd(foreign)["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            replica = spec[foreign.family.field]["additionalProperties"]["properties"]

            assert replica["replicas"]["maximum"] == INDEXES_END
