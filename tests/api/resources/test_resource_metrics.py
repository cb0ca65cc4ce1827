"""``metrics.k8s.io``: the use of CPU and memory by pods and nodes."""

from collections.abc import AsyncIterator

import pytest

from launcher.core.errors import Unavailable
from launcher.core.pods.resource_usage import ContainerUsage, UsageReport
from launcher.store.interface import NODES, PODS
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.builders import a_pod
from tests.store.builders import an_object

GROUP = "/apis/metrics.k8s.io/v1beta1"


class FakeUsage:
    """What the containers of pods use."""

    def __init__(self) -> None:
        self.containers: dict[tuple[str, str], ContainerUsage] = {}
        self.is_available = True

    async def read(self) -> UsageReport:
        if not self.is_available:
            raise Unavailable("no measurement")
        return UsageReport(1_700_000_000.5, 2.0, self.containers)


@pytest.fixture
def usage() -> FakeUsage:
    return FakeUsage()


@pytest.fixture
async def api(usage: FakeUsage) -> AsyncIterator[Api]:
    """A server with two nodes, two running pods on the first one, and a pod that does not run."""
    async with serving(api_dependencies(memory_store(), read_usage=usage.read)) as running:
        for node in ("one", "two"):
            await running.store.create(
                NODES, {**an_object(NODES, node), "metadata": {"name": node, "labels": {"zone": node}}}
            )
        for name in ("a", "b", "pending"):
            pod = a_pod(name, {"name": "main"}, {"name": "side"}, nodeName="one")
            pod["metadata"]["labels"] = {"app": name}
            uid = (await running.store.create(PODS, pod))["metadata"]["uid"]
            if name != "pending":
                usage.containers[uid, "main"] = ContainerUsage(0.25, 3 * 2**20)
            if name == "b":
                usage.containers[uid, "side"] = ContainerUsage(1.5, 2**20)
        yield running


async def test_pods_are_listed_with_their_running_containers(api: Api) -> None:
    listed = (await api.get(f"{GROUP}/namespaces/default/pods")).json()

    assert (listed["kind"], listed["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    first, second = listed["items"]
    assert first["containers"] == [{"name": "main", "usage": {"cpu": "250000000n", "memory": "3072Ki"}}]
    assert [each["name"] for each in second["containers"]] == ["main", "side"]
    assert (first["kind"], first["metadata"]["namespace"]) == ("PodMetrics", "default")
    assert (first["timestamp"], first["window"]) == ("2023-11-14T22:13:20Z", "2.000s")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("pods", ["a", "b"]),
        ("namespaces/other/pods", []),
        ("pods?labelSelector=app=b", ["b"]),
        ("pods?fieldSelector=metadata.name=a", ["a"]),
        ("nodes", ["one", "two"]),
        ("nodes?labelSelector=zone=two", ["two"]),
    ],
)
async def test_lists_are_selected(api: Api, path: str, names: list[str]) -> None:
    listed = (await api.get(f"{GROUP}/{path}")).json()

    assert [each["metadata"]["name"] for each in listed["items"]] == names


async def test_a_node_uses_the_sum_of_its_pods(api: Api) -> None:
    one = (await api.get(f"{GROUP}/nodes/one")).json()
    two = (await api.get(f"{GROUP}/nodes/two")).json()

    assert (one["kind"], one["usage"]) == ("NodeMetrics", {"cpu": "2000000000n", "memory": "7168Ki"})
    assert two["usage"] == {"cpu": "0n", "memory": "0Ki"}


async def test_one_pod_is_returned(api: Api) -> None:
    pod = (await api.get(f"{GROUP}/namespaces/default/pods/a")).json()

    assert (pod["kind"], pod["metadata"]["name"], pod["metadata"]["labels"]) == (
        "PodMetrics",
        "a",
        {"app": "a"},
    )


@pytest.mark.parametrize("path", ["namespaces/default/pods/pending", "namespaces/default/pods/x", "nodes/x"])
async def test_what_does_not_run_is_not_found(api: Api, path: str) -> None:
    (await api.get(f"{GROUP}/{path}")).failure(404, "NotFound")


async def test_a_write_is_not_allowed(api: Api) -> None:
    (await api.call("DELETE", f"{GROUP}/nodes/one", None)).failure(405, "MethodNotAllowed")


async def test_a_measurement_that_fails_is_reported(api: Api, usage: FakeUsage) -> None:
    usage.is_available = False

    (await api.get(f"{GROUP}/pods")).failure(503, "ServiceUnavailable")


async def test_the_group_is_discovered(api: Api) -> None:
    groups = (await api.get("/apis")).json()["groups"]
    resources = (await api.get(GROUP)).json()["resources"]

    assert "metrics.k8s.io" in [group["name"] for group in groups]
    assert [(each["name"], each["kind"], each["namespaced"]) for each in resources] == [
        ("nodes", "NodeMetrics", False),
        ("pods", "PodMetrics", True),
    ]
