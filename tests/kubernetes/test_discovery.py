"""Rendezvous on a cluster: tasks get the addresses of their peers from any replica of the launcher."""

import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.rendezvous.peer_tracker import PORT_ANNOTATION
from launcher.rendezvous.tokens import SECRET_NAME
from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.eventually import TIMEOUT_SECONDS
from tests.kubernetes.account import LAUNCHER_NAMESPACE
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod


class TaskClient:
    """Sends the requests of one task, with the variables of its container."""

    def __init__(self, ns: NamespaceClient, name: str) -> None:
        pod = ns.until(lambda: ns.pods().get(name), f"{name} exists")
        environment = {
            variable["name"]: variable.get("value", "") for variable in pod["spec"]["containers"][0]["env"]
        }
        self.name, self.pod, self.environment = name, pod, environment
        self.task = f"{environment['taskrole']}/{environment['taskindex']}"

    def request_peers(self, launcher: KubeLauncher | None = None, **query: object) -> Any:
        """The response of the task's launcher, or of *launcher*."""
        url = self.environment["LAUNCHER_RENDEZVOUS"]
        if launcher is not None:
            url = launcher.url + url[url.index("/rendezvous/") :]
        parameters = "&".join(f"{key}={value}" for key, value in ({"task": self.task} | query).items())
        return orjson.loads(_curl(f"{url}?{parameters}", self.environment["LAUNCHER_TOKEN"]))


def _curl(url: str, token: str, *options: str) -> str:
    done = subprocess.run(
        [
            "curl",
            "--silent",
            "--show-error",
            "--max-time",
            str(TIMEOUT_SECONDS),
            *options,
            "--config",
            "-",
            url,
        ],
        input=f'header = "Authorization: Bearer {token}"',
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS * 2,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def addresses(response: Any) -> dict[str, list[str]]:
    return {role: [peer["ip"] for peer in peers] for role, peers in response["roles"].items()}


def ips(ns: NamespaceClient, *names: str) -> list[str]:
    pods = ns.pods()
    return [pods[name]["status"]["podIP"] for name in names]


def test_every_pod_gets_all_addresses(launcher: KubeLauncher, ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role("worker", 2, pod=a_task_pod()), a_role("ps", 1, pod=a_task_pod())))

    response = TaskClient(ns, "mnist-worker-1").request_peers()

    assert addresses(response) == {
        "worker": ips(ns, "mnist-worker-0", "mnist-worker-1"),
        "ps": ips(ns, "mnist-ps-0"),
    }


def test_the_init_container_is_accepted_with_restricted_pod_security(
    launcher: KubeLauncher, ns: NamespaceClient, cluster: ControlPlane
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.admin.patch(f"/api/v1/namespaces/{ns.namespace}", {"metadata": {"labels": labels}})
    security_context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pod = a_task_pod(containers=[{"name": "main", "image": "busybox", "securityContext": security_context}])
    ns.submit(a_framework(a_role(tasks=1, pod=pod), discovery={"mountPath": "/peers"}))

    task = TaskClient(ns, "mnist-worker-0")

    (init_container,) = task.pod["spec"]["initContainers"]
    assert init_container["name"] == "launcher-discovery"
    assert {mount["mountPath"] for mount in task.pod["spec"]["containers"][0]["volumeMounts"]} >= {"/peers"}
    assert addresses(task.request_peers()) == {"worker": ips(ns, "mnist-worker-0")}


def test_ports_registered_at_one_replica_are_known_to_the_other(launch: Launch, ns: NamespaceClient) -> None:
    launchers = [launch(), launch()]
    framework = a_framework(a_role(tasks=2, pod=a_task_pod()), discovery={"ports": {"worker": "auto"}})
    ns.submit(framework)
    tasks = [TaskClient(ns, f"mnist-worker-{index}") for index in range(2)]

    first = tasks[0].request_peers(launchers[0], port=20000, wait=0)
    second = tasks[1].request_peers(launchers[1], port=20001)
    again = tasks[0].request_peers(launchers[0], port=20000)

    assert "worker/1" in first["missing"]
    assert [peer["port"] for peer in second["roles"]["worker"]] == [20000, 20001]
    assert again == second
    assert ns.pods()["mnist-worker-1"]["metadata"]["annotations"][PORT_ANNOTATION] == "20001"


def test_a_retried_task_gets_new_addresses(launcher: KubeLauncher, ns: NamespaceClient) -> None:
    role = a_role(tasks=2, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    ns.submit(a_framework(role))
    task = TaskClient(ns, "mnist-worker-0")
    first = task.request_peers()
    uid = ns.pods()["mnist-worker-1"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-1", "failed")
    ns.wait_replaced("mnist-worker-1", uid)
    second = task.request_peers(after=first["generation"])

    assert second["generation"] > first["generation"]
    assert addresses(second) == {"worker": ips(ns, "mnist-worker-0", "mnist-worker-1")}


def test_a_token_is_valid_for_its_attempt_only(launcher: KubeLauncher, ns: NamespaceClient) -> None:
    for name in ("mnist", "other"):
        ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod()), name=name))
    task, other_task = TaskClient(ns, "mnist-worker-0"), TaskClient(ns, "other-worker-0")
    token = task.environment["LAUNCHER_TOKEN"]
    other_url = other_task.environment["LAUNCHER_RENDEZVOUS"]
    url = launcher.url

    of_other_framework = orjson.loads(_curl(other_url, token))
    of_cluster = orjson.loads(_curl(f"{url}/api/v1/namespaces/{ns.namespace}/pods", token))

    assert (of_other_framework["code"], of_other_framework["reason"]) == (404, "NotFound")
    assert of_cluster["code"] == 401


def test_the_key_is_stored_in_a_secret(launch: Launch, ns: NamespaceClient, cluster: ControlPlane) -> None:
    first = launch()
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    task = TaskClient(ns, "mnist-worker-0")
    first.stop()
    second = launch()

    response = task.request_peers(second)

    assert addresses(response) == {"worker": ips(ns, "mnist-worker-0")}
    secret = cluster.admin.get(f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/secrets/{SECRET_NAME}")
    assert task.environment["LAUNCHER_TOKEN"] not in str(secret)


def test_pods_verify_the_certificate_of_the_launcher(
    launch: Launch, ns: NamespaceClient, tmp_path: Path
) -> None:
    launcher = launch("--tls-secret=framework-launcher-tls", "--host=127.0.0.1")
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    task = TaskClient(ns, "mnist-worker-0")
    authority = tmp_path / "ca.pem"
    authority.write_text(task.environment["LAUNCHER_CA"])

    url, token = task.environment["LAUNCHER_RENDEZVOUS"], task.environment["LAUNCHER_TOKEN"]

    assert url.startswith(launcher.url)
    assert url.startswith("https://")
    assert addresses(orjson.loads(_curl(url, token, "--cacert", str(authority)))) == {
        "worker": ips(ns, "mnist-worker-0")
    }


def test_another_url_can_be_configured(launch: Launch, ns: NamespaceClient) -> None:
    launch("--discovery-url=https://launcher.example:8443/")
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))

    url = TaskClient(ns, "mnist-worker-0").environment["LAUNCHER_RENDEZVOUS"]

    assert url == (
        f"https://launcher.example:8443/rendezvous/v1/namespaces/{ns.namespace}/frameworks/mnist/attempts/0"
    )


def test_waiting_requests_end_when_the_launcher_stops(launcher: KubeLauncher, ns: NamespaceClient) -> None:
    # The second pod fits on no node, so the first waits for its address.
    unschedulable = a_task_pod(nodeSelector={"no-such": "label"})
    ns.submit(a_framework(a_role("worker", 1, pod=a_task_pod()), a_role("far", 1, pod=unschedulable)))
    task = TaskClient(ns, "mnist-worker-0")
    url, token = task.environment["LAUNCHER_RENDEZVOUS"], task.environment["LAUNCHER_TOKEN"]
    with subprocess.Popen(
        ["curl", "--silent", "--max-time", str(TIMEOUT_SECONDS), "--config", "-", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(f'header = "Authorization: Bearer {token}"')
        waiting.stdin.close()
        waiting.stdin = None
        ns.until(lambda: launcher.metric("launcher_rendezvous_waiters") == 1 or None, "the request waits")

        code = launcher.stop()
        output = waiting.communicate(timeout=TIMEOUT_SECONDS)[0]

    assert code == 0
    assert orjson.loads(output)["message"] == "the launcher is shutting down; retry"


@pytest.mark.parametrize("condition", ["Running", "Succeeded"])
def test_a_role_does_not_wait_for_roles_that_start_later(
    shared_launcher: KubeLauncher, ns: NamespaceClient, condition: str
) -> None:
    after = [{"role": "ps", "condition": condition}]
    ps, worker = a_task_pod("succeeded"), a_task_pod()
    ns.submit(
        a_framework(a_role("ps", 1, pod=ps), a_role("worker", 1, pod=worker, startAfter=after), discovery={})
    )

    first = TaskClient(ns, "mnist-ps-0").request_peers()

    assert (list(first["roles"]), first["later"]) == (["ps"], ["worker"])
