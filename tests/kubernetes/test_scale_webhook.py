"""``spec.replicas`` with the launcher's webhook: it is defaulted and follows taskNumber."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.builders import Json, a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.namespace_client import frameworks_path
from tests.kubernetes.test_scale import task_number_and_replicas
from tests.kubernetes.webhook_server import WebhookServer, registered_webhook

#: Applies a Framework with kubectl, and returns it as stored.
Apply = Callable[[Json], Json]
APPLY_MODES = [
    pytest.param((), id="client-side apply"),
    pytest.param(("--server-side",), id="server-side apply"),
]


@pytest.fixture(scope="module", autouse=True)
def webhook(cluster: ControlPlane, webhook_server: WebhookServer) -> Iterator[None]:
    """Registers the webhook. No launcher runs, so only tests write."""
    with registered_webhook(cluster, webhook_server):
        yield


@pytest.fixture
def apply_flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The flags of kubectl apply."""
    flags: tuple[str, ...] = request.param
    return flags


@pytest.fixture
def apply(cluster: ControlPlane, namespace: str, apply_flags: tuple[str, ...]) -> Apply:
    def apply_framework(framework: Json) -> Json:
        arguments = ("apply", *apply_flags, "-n", namespace, "-f", "-", "-o", "json")
        stored: Json = json.loads(cluster.kubectl(*arguments, stdin=json.dumps(framework)))
        return stored

    return apply_framework


def resource_version(framework: Json) -> str:
    text: str = framework["metadata"]["resourceVersion"]
    return text


@pytest.mark.parametrize("apply_flags", APPLY_MODES, indirect=True)
def test_a_file_applied_twice_changes_nothing_and_has_no_diff(
    cluster: ControlPlane, namespace: str, apply_flags: tuple[str, ...], apply: Apply
) -> None:
    first = apply(a_framework())

    applied_again = apply(a_framework())
    diff = cluster.kubectl("diff", *apply_flags, "-n", namespace, "-f", "-", stdin=json.dumps(a_framework()))

    assert task_number_and_replicas(first["spec"]) == (2, 2)
    assert resource_version(applied_again) == resource_version(first)
    assert diff == ""


@pytest.mark.parametrize("apply_flags", APPLY_MODES, indirect=True)
def test_a_scale_persists_until_the_file_changes_the_number(
    cluster: ControlPlane, namespace: str, apply: Apply
) -> None:
    apply(a_framework())
    cluster.kubectl("scale", "fw/mnist", "--replicas=5", "-n", namespace)
    scaled = cluster.admin.get(frameworks_path(namespace, "mnist"))

    applied_again = apply(a_framework())
    more = apply(a_framework(a_role(tasks=3)))

    assert task_number_and_replicas(scaled["spec"]) == (2, 5)
    assert resource_version(applied_again) == resource_version(scaled)
    assert task_number_and_replicas(more["spec"]) == (3, 3)


@pytest.mark.parametrize("apply_flags", APPLY_MODES, indirect=True)
def test_a_second_role_removes_replicas_and_its_removal_restores_them(
    cluster: ControlPlane, namespace: str, apply: Apply
) -> None:
    apply(a_framework())
    cluster.kubectl("scale", "fw/mnist", "--replicas=5", "-n", namespace)

    two = apply(a_framework(a_role(), a_role("ps", 1)))
    one = apply(a_framework())

    assert task_number_and_replicas(two["spec"]) == (2, None)
    assert task_number_and_replicas(one["spec"]) == (2, 2)


@pytest.mark.parametrize("apply_flags", APPLY_MODES, indirect=True)
def test_applying_a_file_with_replicas_reverts_a_scale(
    cluster: ControlPlane, namespace: str, apply_flags: tuple[str, ...], apply: Apply
) -> None:
    framework = a_framework(replicas=3)
    first = apply(framework)
    applied_again = apply(framework)
    cluster.admin.patch(frameworks_path(namespace, "mnist/scale"), {"spec": {"replicas": 5}})

    arguments = (
        "apply",
        *apply_flags,
        *(("--force-conflicts",) if apply_flags else ()),
        "-n",
        namespace,
        "-f",
        "-",
        "-o",
        "json",
    )
    applied = json.loads(cluster.kubectl(*arguments, stdin=json.dumps(framework)))

    assert resource_version(applied_again) == resource_version(first)
    assert [
        task_number_and_replicas(applied_framework["spec"]) for applied_framework in (first, applied)
    ] == [(2, 3), (2, 3)]


def test_the_scale_of_a_new_framework_has_replicas(cluster: ControlPlane, namespace: str) -> None:
    cluster.admin.post(frameworks_path(namespace), a_framework())

    scale = cluster.admin.get(frameworks_path(namespace, "mnist/scale"))

    assert scale["spec"] == {"replicas": 2}
