"""Tasks on a cluster find each other, whichever replica of the launcher they ask."""

import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.rendezvous.peer_tracker import PORT
from launcher.rendezvous.tokens import SECRET
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import a_framework, a_role
from tests.kubernetes.account import HOME
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import World, a_task_pod
from tests.local.server import PATIENCE


class Task:
    """One task, which asks as its pod would: with what its environment holds."""

    def __init__(self, world: World, name: str) -> None:
        pod = world.until(lambda: world.pods().get(name), f"{name} is there")
        environment = {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}
        self.name, self.pod, self.environment = name, pod, environment
        self.task = f"{environment['taskrole']}/{environment['taskindex']}"

    def ask(self, launcher: KubeLauncher | None = None, **query: object) -> Any:
        """What the launcher says; another than the one it was told of, if that is given."""
        url = self.environment["LAUNCHER_RENDEZVOUS"]
        if launcher is not None:
            url = launcher.url + url[url.index("/rendezvous/") :]
        words = "&".join(f"{key}={value}" for key, value in ({"task": self.task} | query).items())
        return orjson.loads(_curl(f"{url}?{words}", self.environment["LAUNCHER_TOKEN"]))


def _curl(url: str, token: str, *options: str) -> str:
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE), *options, "--config", "-", url],
        input=f'header = "Authorization: Bearer {token}"',
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def addresses(told: Any) -> dict[str, list[str]]:
    return {role: [peer["ip"] for peer in peers] for role, peers in told["roles"].items()}


def ips(world: World, *names: str) -> list[str]:
    pods = world.pods()
    return [pods[name]["status"]["podIP"] for name in names]


def test_every_pod_is_told_of_all(launcher: KubeLauncher, world: World) -> None:
    world.submit(a_framework(a_role("worker", 2, pod=a_task_pod()), a_role("ps", 1, pod=a_task_pod())))

    told = Task(world, "mnist-worker-1").ask()

    assert addresses(told) == {
        "worker": ips(world, "mnist-worker-0", "mnist-worker-1"),
        "ps": ips(world, "mnist-ps-0"),
    }


def test_the_init_container_is_accepted_by_a_cluster_as_strict_as_can_be(
    launcher: KubeLauncher, world: World, cluster: ControlPlane
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.admin.patch(f"/api/v1/namespaces/{world.namespace}", {"metadata": {"labels": labels}})
    rights = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pod = a_task_pod(containers=[{"name": "main", "image": "busybox", "securityContext": rights}])
    world.submit(a_framework(a_role(tasks=1, pod=pod), discovery={"mountPath": "/peers"}))

    task = Task(world, "mnist-worker-0")

    (ours,) = task.pod["spec"]["initContainers"]
    assert ours["name"] == "launcher-discovery"
    assert {mount["mountPath"] for mount in task.pod["spec"]["containers"][0]["volumeMounts"]} >= {"/peers"}
    assert addresses(task.ask()) == {"worker": ips(world, "mnist-worker-0")}


def test_ports_told_to_one_replica_are_known_to_the_other(launch: Launch, world: World) -> None:
    launchers = [launch(), launch()]
    framework = a_framework(a_role(tasks=2, pod=a_task_pod()), discovery={"ports": {"worker": "auto"}})
    world.submit(framework)
    tasks = [Task(world, f"mnist-worker-{index}") for index in range(2)]

    early = tasks[0].ask(launchers[0], port=20000, wait=0)
    late = tasks[1].ask(launchers[1], port=20001)
    again = tasks[0].ask(launchers[0], port=20000)

    assert "worker/1" in early["missing"]
    assert [peer["port"] for peer in late["roles"]["worker"]] == [20000, 20001]
    assert again == late
    assert world.pods()["mnist-worker-1"]["metadata"]["annotations"][PORT] == "20001"


def test_a_task_that_is_retried_is_told_anew(launcher: KubeLauncher, world: World) -> None:
    role = a_role(tasks=2, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    world.submit(a_framework(role))
    task = Task(world, "mnist-worker-0")
    first = task.ask()
    uid = world.pods()["mnist-worker-1"]["metadata"]["uid"]

    world.end("mnist-worker-1", "failed")
    world.replaced("mnist-worker-1", uid)
    second = task.ask(after=first["generation"])

    assert second["generation"] > first["generation"]
    assert addresses(second) == {"worker": ips(world, "mnist-worker-0", "mnist-worker-1")}


def test_a_token_opens_its_own_attempt_and_nothing_else(launcher: KubeLauncher, world: World) -> None:
    for name in ("mnist", "other"):
        world.submit(a_framework(a_role(tasks=1, pod=a_task_pod()), name=name))
    mine, theirs = Task(world, "mnist-worker-0"), Task(world, "other-worker-0")
    token = mine.environment["LAUNCHER_TOKEN"]
    elsewhere = theirs.environment["LAUNCHER_RENDEZVOUS"]
    url = launcher.url

    refused = orjson.loads(_curl(elsewhere, token))
    of_cluster = orjson.loads(_curl(f"{url}/api/v1/namespaces/{world.namespace}/pods", token))

    assert (refused["code"], refused["reason"]) == (404, "NotFound")
    assert of_cluster["code"] == 401


def test_the_key_is_kept_in_a_secret_that_outlives_launchers(
    launch: Launch, world: World, cluster: ControlPlane
) -> None:
    first = launch()
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    task = Task(world, "mnist-worker-0")
    first.stop()
    second = launch()

    told = task.ask(second)

    assert addresses(told) == {"worker": ips(world, "mnist-worker-0")}
    secret = cluster.admin.get(f"/api/v1/namespaces/{HOME}/secrets/{SECRET}")
    assert task.environment["LAUNCHER_TOKEN"] not in str(secret)


def test_pods_can_tell_whether_they_speak_to_the_launcher(
    launch: Launch, world: World, tmp_path: Path
) -> None:
    launcher = launch("--tls-secret=framework-launcher-tls", "--host=127.0.0.1")
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    task = Task(world, "mnist-worker-0")
    authority = tmp_path / "ca.pem"
    authority.write_text(task.environment["LAUNCHER_CA"])

    url, token = task.environment["LAUNCHER_RENDEZVOUS"], task.environment["LAUNCHER_TOKEN"]

    assert url.startswith(launcher.url)
    assert url.startswith("https://")
    assert addresses(orjson.loads(_curl(url, token, "--cacert", str(authority)))) == {
        "worker": ips(world, "mnist-worker-0")
    }


def test_another_url_can_be_named(launch: Launch, world: World) -> None:
    launch("--discovery-url=https://launcher.example:8443/")
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))

    url = Task(world, "mnist-worker-0").environment["LAUNCHER_RENDEZVOUS"]

    assert url == (
        f"https://launcher.example:8443/rendezvous/v1/namespaces/{world.namespace}/frameworks/mnist/attempts/0"
    )


def test_who_waits_is_told_at_once_when_the_launcher_ends(launcher: KubeLauncher, world: World) -> None:
    # Its second pod has no room anywhere, so the first waits.
    far = a_task_pod(nodeSelector={"nowhere": "at-all"})
    world.submit(a_framework(a_role("worker", 1, pod=a_task_pod()), a_role("far", 1, pod=far)))
    task = Task(world, "mnist-worker-0")
    url, token = task.environment["LAUNCHER_RENDEZVOUS"], task.environment["LAUNCHER_TOKEN"]
    with subprocess.Popen(
        ["curl", "--silent", "--max-time", str(PATIENCE), "--config", "-", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(f'header = "Authorization: Bearer {token}"')
        waiting.stdin.close()
        waiting.stdin = None
        world.until(lambda: launcher.metric("launcher_rendezvous_waiters") == 1 or None, "it waits")

        code = launcher.stop()
        said = waiting.communicate(timeout=PATIENCE)[0]

    assert code == 0
    assert orjson.loads(said)["message"] == "the launcher is about to stop; ask again in a moment"


@pytest.mark.parametrize("condition", ["Running", "Succeeded"])
def test_who_starts_first_does_not_wait_for_those_who_start_after_him(
    shared_launcher: KubeLauncher, world: World, condition: str
) -> None:
    after = [{"role": "ps", "condition": condition}]
    ps, worker = a_task_pod("succeeded"), a_task_pod()
    world.submit(
        a_framework(a_role("ps", 1, pod=ps), a_role("worker", 1, pod=worker, startAfter=after), discovery={})
    )

    first = Task(world, "mnist-ps-0").ask()

    assert (list(first["roles"]), first["later"]) == (["ps"], ["worker"])
