"""Names of tasks on a real control plane: Services, and where they lead as a DNS server of the cluster sees it."""

from typing import Any

import pytest

from launcher.core.pods.services import ANNOTATION
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import NOW_AND_THEN, World, a_task_pod
from tests.local.server import ended


def a_named_pod(wish: str, *ports: Json, **how: Any) -> Json:
    pod = a_task_pod(**how)
    pod["metadata"]["annotations"][ANNOTATION] = wish
    pod["spec"]["containers"][0]["ports"] = list(ports)
    return pod


def services(world: World) -> dict[str, Any]:
    found = world.cluster.admin.get(world.path("services"))["items"]
    return {service["metadata"]["name"]: service for service in found}


def leads_to(world: World, service: str) -> dict[str, str]:
    """The address of each pod that the Service leads to, by the name that it has there."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{world.namespace}/endpointslices"
    slices = world.cluster.admin.get(f"{path}?labelSelector=kubernetes.io/service-name={service}")["items"]
    ends = [end for each in slices for end in each["endpoints"] or () if end["conditions"]["ready"]]
    return {end.get("hostname", ""): end["addresses"][0] for end in ends}


def address_of(world: World, pod: str) -> str:
    return str(world.pods()[pod]["status"]["podIP"])


def test_each_pod_has_a_name_in_the_frameworks_service(world: World, shared_launcher: KubeLauncher) -> None:
    roles = [a_role("ps", 1, pod=a_task_pod()), a_role("worker", 2, pod=a_task_pod())]
    names = ("mnist-ps-0", "mnist-worker-0", "mnist-worker-1")

    world.submit(a_framework(*roles, discovery={"ports": {"worker": 46866}}))
    world.running(*names)

    wanted = {name: address_of(world, name) for name in names}
    world.until(lambda: leads_to(world, "mnist") == wanted or None, "every pod is found by its name")
    (spec,) = [service["spec"] for service in services(world).values()]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    env = world.pods()["mnist-worker-1"]["spec"]["containers"][0]["env"]
    told = {each["name"]: each.get("value") for each in env}
    assert told["MASTER_ADDR"] == f"mnist-ps-0.mnist.{world.namespace}.svc"
    assert told["RANK"] == "2"
    assert '"task":{"type":"worker","index":1}' in str(told["TF_CONFIG"])


def test_a_task_that_is_retried_keeps_its_name_with_its_new_address(
    world: World, shared_launcher: KubeLauncher
) -> None:
    role = a_role(tasks=1, pod=a_named_pod("PerTask"))
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    world.submit(a_framework(role))
    world.running("mnist-worker-0")
    pod = world.pods()["mnist-worker-0"]
    name = services(world)["mnist-worker-0"]["metadata"]["uid"]

    world.end("mnist-worker-0", "failed")
    world.replaced("mnist-worker-0", pod["metadata"]["uid"])

    now = address_of(world, "mnist-worker-0")
    world.until(lambda: leads_to(world, "mnist-worker-0") == {"": now} or None, "the name leads to it")
    assert services(world)["mnist-worker-0"]["metadata"]["uid"] == name
    assert len(world.asked("create", "services")) == 1


def test_services_come_before_the_pods_and_cost_one_request_each(
    world: World, shared_launcher: KubeLauncher
) -> None:
    world.submit(a_framework(a_role(tasks=5, pod=a_task_pod("succeeded")), discovery={}))

    assert ended(world.completed()) == "Succeeded"
    world.until(lambda: not services(world) or None, "what is over has no names")
    asked = {verb: len(world.asked(verb, "services")) for verb in ("create", "get", "list", "delete")}
    # The store reads what it deletes, because the answer need not show it.
    assert asked == {"create": 1, "get": 1, "list": 2, "delete": 1}


def test_a_framework_without_names_asks_for_no_services(world: World, shared_launcher: KubeLauncher) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_task_pod("succeeded"))))

    world.completed()

    assert services(world) == {}
    assert [world.asked(verb, "services") for verb in ("create", "get", "list", "delete")] == [[]] * 4


def test_a_role_is_reached_from_outside_by_a_port_of_the_nodes(
    world: World, shared_launcher: KubeLauncher
) -> None:
    world.submit(a_framework(a_role("board", 1, pod=a_named_pod("NodePort", {"containerPort": 6006}))))
    world.running("mnist-board-0")

    (port,) = services(world)["mnist-board"]["spec"]["ports"]

    assert (port["port"], port["targetPort"]) == (6006, 6006)
    assert port["nodePort"] >= 30000
    world.until(lambda: leads_to(world, "mnist-board") or None, "it leads to the pod")


def test_services_follow_a_rescale(world: World, shared_launcher: KubeLauncher) -> None:
    pod = a_named_pod("PerTask", {"name": "tfjob-port", "containerPort": 2222})
    world.submit(a_framework(a_role(tasks=3, pod=pod)))
    world.running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")
    kept = services(world)["mnist-worker-0"]["metadata"]["uid"]

    _scale(world, 1, pod)
    world.until(lambda: list(services(world)) == ["mnist-worker-0"] or None, "names go with their tasks")
    world.running("mnist-worker-0")
    _scale(world, 2, pod)
    world.running("mnist-worker-0", "mnist-worker-1")

    assert sorted(services(world)) == ["mnist-worker-0", "mnist-worker-1"]
    assert services(world)["mnist-worker-0"]["metadata"]["uid"] == kept


def _scale(world: World, tasks: int, pod: Json) -> None:
    change = {"spec": {"taskRoles": [a_role(tasks=tasks, pod=pod)]}}
    world.cluster.admin.patch(f"{world.frameworks}/mnist", change)


def test_a_name_that_is_taken_is_left_to_whom_it_belongs(world: World, shared_launcher: KubeLauncher) -> None:
    world.kubectl("create", "service", "clusterip", "mnist", "--tcp=80:80")
    theirs = services(world)["mnist"]["metadata"]["uid"]
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), discovery={}))

    def reason() -> str | None:
        found = world.events("FailedCreate")
        return found[0] if found else None

    said = world.until(reason, "it says why it waits")
    untouched = services(world)["mnist"]["metadata"]["uid"] == theirs
    waiting = world.pods() == {}
    world.take_away("service", "mnist")

    assert "a Service named mnist is there already, and it is not this Framework's" in said
    assert untouched
    assert waiting
    assert ended(world.completed()) == "Succeeded"


def test_a_new_launcher_finds_the_services_of_the_one_before(world: World, launcher: KubeLauncher) -> None:
    role = a_role(tasks=2, pod=a_named_pod("PerTask"))
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    world.submit(a_framework(role, discovery={}))
    world.running("mnist-worker-0", "mnist-worker-1")
    before = {name: service["metadata"]["uid"] for name, service in services(world).items()}
    pod = world.pods()["mnist-worker-0"]["metadata"]["uid"]

    launcher.kill()
    launcher.start()
    world.end("mnist-worker-0", "failed")
    world.replaced("mnist-worker-0", pod)

    assert {name: service["metadata"]["uid"] for name, service in services(world).items()} == before
    assert len(world.asked("create", "services")) == 3


@pytest.mark.timeout(2 * NOW_AND_THEN)
def test_a_framework_that_is_deleted_takes_its_services_with_it(
    world: World, shared_launcher: KubeLauncher
) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_named_pod("PerTask")), discovery={}))
    world.running("mnist-worker-0", "mnist-worker-1")
    there = sorted(services(world))

    world.kubectl("delete", "fw", "mnist", f"--timeout={NOW_AND_THEN:g}s")

    assert there == ["mnist", "mnist-worker-0", "mnist-worker-1"]
    world.until(lambda: not services(world) or None, "no Service is left", NOW_AND_THEN)
    assert len(world.asked("create", "services")) == 3
