"""Services of Frameworks on a real control plane, and their endpoints, from which cluster DNS serves names of tasks."""

from typing import Any

import pytest

from launcher.core.pods.services import SERVICES_ANNOTATION
from tests.builders import Json, a_framework, a_role
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import SLOW_CONTROLLER_SECONDS, NamespaceClient, a_task_pod
from tests.local.server import ended


def a_pod_with_services(mode: str, *ports: Json, **options: Any) -> Json:
    pod = a_task_pod(**options)
    pod["metadata"]["annotations"][SERVICES_ANNOTATION] = mode
    pod["spec"]["containers"][0]["ports"] = list(ports)
    return pod


def services(ns: NamespaceClient) -> dict[str, Any]:
    found = ns.cluster.admin.get(ns.path("services"))["items"]
    return {service["metadata"]["name"]: service for service in found}


def endpoint_addresses(ns: NamespaceClient, service: str) -> dict[str, str]:
    """The address of each ready endpoint of the Service by its hostname."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{ns.namespace}/endpointslices"
    slices = ns.cluster.admin.get(f"{path}?labelSelector=kubernetes.io/service-name={service}")["items"]
    endpoints = [
        endpoint
        for endpoint_slice in slices
        for endpoint in endpoint_slice["endpoints"] or ()
        if endpoint["conditions"]["ready"]
    ]
    return {endpoint.get("hostname", ""): endpoint["addresses"][0] for endpoint in endpoints}


def pod_ip(ns: NamespaceClient, pod: str) -> str:
    return str(ns.pods()[pod]["status"]["podIP"])


def test_each_pod_has_a_name_in_the_frameworks_service(
    ns: NamespaceClient, shared_launcher: KubeLauncher
) -> None:
    roles = [a_role("ps", 1, pod=a_task_pod()), a_role("worker", 2, pod=a_task_pod())]
    names = ("mnist-ps-0", "mnist-worker-0", "mnist-worker-1")

    ns.submit(a_framework(*roles, discovery={"ports": {"worker": 46866}}))
    ns.wait_running(*names)

    expected = {name: pod_ip(ns, name) for name in names}
    ns.until(lambda: endpoint_addresses(ns, "mnist") == expected or None, "every pod is an endpoint")
    (spec,) = [service["spec"] for service in services(ns).values()]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    env = ns.pods()["mnist-worker-1"]["spec"]["containers"][0]["env"]
    variables = {each["name"]: each.get("value") for each in env}
    assert variables["MASTER_ADDR"] == f"mnist-ps-0.mnist.{ns.namespace}.svc"
    assert variables["RANK"] == "2"
    assert '"task":{"type":"worker","index":1}' in str(variables["TF_CONFIG"])


def test_a_retried_task_keeps_its_name_with_a_new_address(
    ns: NamespaceClient, shared_launcher: KubeLauncher
) -> None:
    role = a_role(tasks=1, pod=a_pod_with_services("PerTask"))
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0")
    pod = ns.pods()["mnist-worker-0"]
    name = services(ns)["mnist-worker-0"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-0", "failed")
    ns.wait_replaced("mnist-worker-0", pod["metadata"]["uid"])

    new_address = pod_ip(ns, "mnist-worker-0")
    ns.until(
        lambda: endpoint_addresses(ns, "mnist-worker-0") == {"": new_address} or None,
        "the new pod is the endpoint",
    )
    assert services(ns)["mnist-worker-0"]["metadata"]["uid"] == name
    assert len(ns.launcher_requests("create", "services")) == 1


def test_services_are_created_before_pods_with_one_request_each(
    ns: NamespaceClient, shared_launcher: KubeLauncher
) -> None:
    ns.submit(a_framework(a_role(tasks=5, pod=a_task_pod("succeeded")), discovery={}))

    assert ended(ns.wait_completed()) == "Succeeded"
    ns.until(lambda: not services(ns) or None, "the Services of completed Frameworks are deleted")
    requests = {
        verb: len(ns.launcher_requests(verb, "services")) for verb in ("create", "get", "list", "delete")
    }
    # The store reads the object before its deletion, because the response need not contain it.
    assert requests == {"create": 1, "get": 1, "list": 2, "delete": 1}


def test_a_framework_without_discovery_creates_no_services(
    ns: NamespaceClient, shared_launcher: KubeLauncher
) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod("succeeded"))))

    ns.wait_completed()

    assert services(ns) == {}
    assert [ns.launcher_requests(verb, "services") for verb in ("create", "get", "list", "delete")] == [
        []
    ] * 4


def test_a_role_can_have_a_node_port_service(ns: NamespaceClient, shared_launcher: KubeLauncher) -> None:
    ns.submit(a_framework(a_role("board", 1, pod=a_pod_with_services("NodePort", {"containerPort": 6006}))))
    ns.wait_running("mnist-board-0")

    (port,) = services(ns)["mnist-board"]["spec"]["ports"]

    assert (port["port"], port["targetPort"]) == (6006, 6006)
    assert port["nodePort"] >= 30000
    ns.until(lambda: endpoint_addresses(ns, "mnist-board") or None, "the pod is an endpoint")


def test_services_follow_a_rescale(ns: NamespaceClient, shared_launcher: KubeLauncher) -> None:
    pod = a_pod_with_services("PerTask", {"name": "tfjob-port", "containerPort": 2222})
    ns.submit(a_framework(a_role(tasks=3, pod=pod)))
    ns.wait_running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")
    uid = services(ns)["mnist-worker-0"]["metadata"]["uid"]

    _scale(ns, 1, pod)
    ns.until(
        lambda: list(services(ns)) == ["mnist-worker-0"] or None, "the Services of removed tasks are deleted"
    )
    ns.wait_running("mnist-worker-0")
    _scale(ns, 2, pod)
    ns.wait_running("mnist-worker-0", "mnist-worker-1")

    assert sorted(services(ns)) == ["mnist-worker-0", "mnist-worker-1"]
    assert services(ns)["mnist-worker-0"]["metadata"]["uid"] == uid


def _scale(ns: NamespaceClient, tasks: int, pod: Json) -> None:
    change = {"spec": {"taskRoles": [a_role(tasks=tasks, pod=pod)]}}
    ns.cluster.admin.patch(f"{ns.frameworks}/mnist", change)


def test_a_service_of_another_owner_is_not_changed(
    ns: NamespaceClient, shared_launcher: KubeLauncher
) -> None:
    ns.kubectl("create", "service", "clusterip", "mnist", "--tcp=80:80")
    uid = services(ns)["mnist"]["metadata"]["uid"]
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), discovery={}))

    def reason() -> str | None:
        found = ns.events("FailedCreate")
        return found[0] if found else None

    message = ns.until(reason, "the reason is recorded")
    unchanged = services(ns)["mnist"]["metadata"]["uid"] == uid
    without_pods = ns.pods() == {}
    ns.delete_without_waiting("service", "mnist")

    assert "Service mnist already exists and is not owned by this Framework" in message
    assert unchanged
    assert without_pods
    assert ended(ns.wait_completed()) == "Succeeded"


def test_a_new_launcher_adopts_existing_services(ns: NamespaceClient, launcher: KubeLauncher) -> None:
    role = a_role(tasks=2, pod=a_pod_with_services("PerTask"))
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns.submit(a_framework(role, discovery={}))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")
    before = {name: service["metadata"]["uid"] for name, service in services(ns).items()}
    pod = ns.pods()["mnist-worker-0"]["metadata"]["uid"]

    launcher.kill()
    launcher.start()
    ns.end_pod("mnist-worker-0", "failed")
    ns.wait_replaced("mnist-worker-0", pod)

    assert {name: service["metadata"]["uid"] for name, service in services(ns).items()} == before
    assert len(ns.launcher_requests("create", "services")) == 3


@pytest.mark.timeout(2 * SLOW_CONTROLLER_SECONDS)
def test_a_deleted_framework_deletes_its_services(ns: NamespaceClient, shared_launcher: KubeLauncher) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_pod_with_services("PerTask")), discovery={}))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")
    created = sorted(services(ns))

    ns.kubectl("delete", "fw", "mnist", f"--timeout={SLOW_CONTROLLER_SECONDS:g}s")

    assert created == ["mnist", "mnist-worker-0", "mnist-worker-1"]
    ns.until(lambda: not services(ns) or None, "no Service is left", SLOW_CONTROLLER_SECONDS)
    assert len(ns.launcher_requests("create", "services")) == 3
