"""``spec.replicas`` where the launcher's webhook sees to it: written down, in step, and a surprise to nobody."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.test_crd import frameworks
from tests.kubernetes.test_scale import numbers
from tests.kubernetes.webhook import WebhookServer, configured

#: The Framework that the file describes, as stored once it is applied.
Apply = Callable[[Json], Json]
WAYS = [
    pytest.param((), id="kubectl by itself"),
    pytest.param(("--server-side",), id="kubectl with the server's help"),
]


@pytest.fixture(scope="module", autouse=True)
def webhook(cluster: ControlPlane, account: User) -> Iterator[None]:
    """One that kube-apiserver calls, for all tests here. No launcher runs: nobody else writes."""
    server = WebhookServer(account.kubeconfig)
    try:
        with configured(cluster, server):
            yield
    finally:
        server.end()


@pytest.fixture
def way(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """How a file is applied."""
    flags: tuple[str, ...] = request.param
    return flags


@pytest.fixture
def apply(cluster: ControlPlane, namespace: str, way: tuple[str, ...]) -> Apply:
    def applied(framework: Json) -> Json:
        words = ("apply", *way, "-n", namespace, "-f", "-", "-o", "json")
        stored: Json = json.loads(cluster.kubectl(*words, stdin=json.dumps(framework)))
        return stored

    return applied


def version(framework: Json) -> str:
    text: str = framework["metadata"]["resourceVersion"]
    return text


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_file_applied_twice_changes_nothing_nor_does_it_differ(
    cluster: ControlPlane, namespace: str, way: tuple[str, ...], apply: Apply
) -> None:
    first = apply(a_framework())

    again = apply(a_framework())
    diff = cluster.kubectl("diff", *way, "-n", namespace, "-f", "-", stdin=json.dumps(a_framework()))

    assert numbers(first["spec"]) == (2, 2)
    assert version(again) == version(first)
    assert diff == ""


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_scale_stays_until_the_file_says_another_number(
    cluster: ControlPlane, namespace: str, apply: Apply
) -> None:
    apply(a_framework())
    cluster.kubectl("scale", "fw/mnist", "--replicas=5", "-n", namespace)
    scaled = cluster.admin.get(frameworks(namespace, "mnist"))

    again = apply(a_framework())
    more = apply(a_framework(a_role(tasks=3)))

    assert numbers(scaled["spec"]) == (2, 5)
    assert version(again) == version(scaled)
    assert numbers(more["spec"]) == (3, 3)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_second_role_takes_the_scale_away_and_its_end_brings_it_back(
    cluster: ControlPlane, namespace: str, apply: Apply
) -> None:
    apply(a_framework())
    cluster.kubectl("scale", "fw/mnist", "--replicas=5", "-n", namespace)

    two = apply(a_framework(a_role(), a_role("ps", 1)))
    one = apply(a_framework())

    assert numbers(two["spec"]) == (2, None)
    assert numbers(one["spec"]) == (2, 2)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_file_that_says_replicas_undoes_every_scale(
    cluster: ControlPlane, namespace: str, way: tuple[str, ...], apply: Apply
) -> None:
    wanted = a_framework(replicas=3)
    first = apply(wanted)
    again = apply(wanted)
    cluster.admin.patch(frameworks(namespace, "mnist/scale"), {"spec": {"replicas": 5}})

    words = (
        "apply",
        *way,
        *(("--force-conflicts",) if way else ()),
        "-n",
        namespace,
        "-f",
        "-",
        "-o",
        "json",
    )
    undone = json.loads(cluster.kubectl(*words, stdin=json.dumps(wanted)))

    assert version(again) == version(first)
    assert [numbers(each["spec"]) for each in (first, undone)] == [(2, 3), (2, 3)]


def test_an_autoscaler_can_read_the_scale_of_what_was_just_created(
    cluster: ControlPlane, namespace: str
) -> None:
    cluster.admin.post(frameworks(namespace), a_framework())

    scale = cluster.admin.get(frameworks(namespace, "mnist/scale"))

    assert scale["spec"] == {"replicas": 2}
