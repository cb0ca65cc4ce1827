"""``launcher serve --kubernetes`` as an admin starts it: what it says, what it waits for, and how it ends."""

import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.ports import free_port
from tests.cluster.users import User
from tests.core.manifests import a_framework, a_role
from tests.kubernetes.account import HOME, launcher_account
from tests.kubernetes.busy import busy_proxy, kubeconfig_for
from tests.kubernetes.conftest import Launch, define_frameworks
from tests.kubernetes.world import World, a_task_pod
from tests.local.server import PATIENCE, PROJECT, ended

#: Seconds after which a controller that is still busy is cut off.
GIVES_UP = 10.0
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/framework-launcher"


@dataclass(frozen=True, slots=True)
class Nobody:
    """A place where an API server should be and nobody listens, and the kubeconfig of the launcher for it."""

    port: int
    kubeconfig: Path


@pytest.fixture
def nobody(account: User, tmp_path: Path) -> Iterator[Nobody]:
    port = free_port()
    url = f"http://127.0.0.1:{port.number}"
    yield Nobody(port.number, kubeconfig_for(url, account.kubeconfig, tmp_path))
    port.give_back()


def refused(*flags: str) -> str:
    """The one line of a launcher that does not start."""
    command = [sys.executable, "-m", "launcher", "serve", "--kubernetes", "--listen", "127.0.0.1:0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=PROJECT)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    return done.stderr


def holder(cluster: ControlPlane) -> str:
    lease: Any = cluster.admin.get(_LEASE)
    return str(lease["spec"].get("holderIdentity") or "")


def test_what_only_local_mode_knows_is_refused(tmp_path: Path) -> None:
    assert "data: not with --kubernetes" in refused("--data", str(tmp_path))
    assert "node: not with --kubernetes" in refused("--node", "gpu0")


def test_a_kubeconfig_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    line = refused("--kubeconfig", str(tmp_path / "nowhere"))

    assert str(tmp_path / "nowhere") in line
    assert "--kubeconfig" in line


def test_a_context_that_is_not_there_is_one_clear_line(account: User) -> None:
    line = refused("--kubeconfig", str(account.kubeconfig), "--context", "staging")

    assert "staging" in line


def test_other_machines_may_call_only_with_tls(account: User) -> None:
    line = refused("--kubeconfig", str(account.kubeconfig), "--listen", "0.0.0.0:0")

    assert "--tls-secret" in line


def test_it_says_which_cluster_it_works_for_and_that_it_leads(cluster: ControlPlane, launch: Launch) -> None:
    launcher = launch()

    launcher.ready()
    launcher.told("leading")

    assert launcher.announced == (
        f"Framework Launcher listens on {launcher.url}, "
        f"for the cluster at {cluster.url}, its own namespace is {HOME}\n"
    )
    assert "launcher_leader 1" in launcher.curl("/metrics")
    assert launcher.errors() == ""


def test_sighup_reloads_the_policy(world: World, launch: Launch, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("policy: {max-tasks: 5}\n")
    launcher = launch("--config", str(config))
    launcher.ready()
    launcher.told("leading")

    config.write_text("policy: {max-tasks: 1}\n")
    os.kill(launcher.pid, signal.SIGHUP)
    launcher.told("settings reloaded")
    world.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))

    world.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")
    assert world.pods() == {}
    config.write_text("policy: {max-tasks: none}\n")
    os.kill(launcher.pid, signal.SIGHUP)
    assert "max-tasks has to be" in launcher.told("settings not reloaded")


def test_asked_to_end_it_saves_what_it_knows_and_lets_another_lead(
    cluster: ControlPlane, world: World, launch: Launch
) -> None:
    launcher = launch()
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    world.running("mnist-worker-0")
    # A pod of another test would do, and do no harm.
    world.until(lambda: launcher.metric('launcher_pods{phase="Running"}') or None, "it has heard of pods")
    led = holder(cluster)

    began = time.monotonic()
    code = launcher.stop()

    assert code == 0
    assert time.monotonic() - began < GIVES_UP, "it has finished, and not been cut off"
    assert launcher.errors() == ""
    assert led
    assert holder(cluster) == ""
    # Before, it said that the pod was asked for. That the pod runs may not have been heard of yet.
    assert world.task()["state"] in {"AttemptPreparing", "AttemptRunning"}
    assert world.pods()["mnist-worker-0"]["status"]["phase"] == "Running"


def test_started_again_it_goes_on_where_it_was_and_makes_nothing_twice(world: World, launch: Launch) -> None:
    launcher = launch()
    world.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))
    world.running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    launcher.stop()
    world.end("mnist-worker-0", "succeeded")
    launcher.start()
    world.end("mnist-worker-1", "succeeded")
    world.end("mnist-worker-2", "succeeded")

    assert ended(world.completed()) == "Succeeded"
    assert len(world.asked("create", "pods")) == 3


def test_a_cluster_that_cannot_be_reached_is_told_once_and_waited_for(
    cluster: ControlPlane, nobody: Nobody, launch: Launch
) -> None:
    launcher = launch(kubeconfig=nobody.kubeconfig)

    told = launcher.told("cannot be reached")
    answers = [launcher.curl("/readyz") for _ in range(3)]
    alive = launcher.curl("/livez")
    with busy_proxy(cluster, nobody.port):
        launcher.ready()
        launcher.told("leading")
        launcher.end()

    assert f"http://127.0.0.1:{nobody.port}" in told
    assert all("[-]cluster failed" in answer for answer in answers)
    assert alive == "ok"
    assert launcher.log().count("the cluster cannot be reached") == 1


def test_a_cluster_without_the_crd_is_told_how_to_get_it_and_waited_for(
    programs: Path, launch: Launch, tmp_path: Path
) -> None:
    with ControlPlane(tmp_path / "plane", programs, nodes=1) as plane:
        launcher = launch(kubeconfig=launcher_account(plane).kubeconfig)
        told = launcher.told("does not know Frameworks")
        answer = launcher.curl("/readyz")
        define_frameworks(plane)

        launcher.ready()
        world = World(plane, plane.new_namespace())
        world.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded"))))
        assert ended(world.completed()) == "Succeeded"
        launcher.end()

    assert "kubectl apply --server-side -f deploy/kubernetes/base/crd.yaml" in told
    assert "[-]frameworks failed" in answer
    assert "[+]cluster ok" in answer


def test_a_launcher_without_rights_says_which_and_goes_on_when_it_has_them(
    cluster: ControlPlane, launch: Launch
) -> None:
    user = cluster.new_user()

    launcher = launch(kubeconfig=user.kubeconfig)
    told = launcher.told("lacks rights")
    cluster.grant(user, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])

    launcher.ready()
    launcher.told("leading")
    assert f'User "{user.name}" cannot list resource "frameworks"' in told
    assert "deploy/kubernetes/base/rbac.yaml" in told


def test_its_policy_holds_also_for_what_comes_past_it(world: World, launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("policy: {max-tasks: 2}\n")
    launch("--config", str(tmp_path / "config.yaml"))

    world.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))
    world.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")

    assert "a Framework may have 2 here" in world.kubectl("get", "fw", "mnist", "-o", "yaml")
    assert world.pods() == {}


def test_a_certificate_of_its_own_making_is_kept_in_the_cluster(
    cluster: ControlPlane, launch: Launch
) -> None:
    launcher = launch("--tls-secret", "framework-launcher-tls")

    launcher.ready()

    assert launcher.url.startswith("https://")
    secret = cluster.admin.get(f"/api/v1/namespaces/{HOME}/secrets/framework-launcher-tls")
    assert {"tls.crt", "tls.key", "ca.crt", "ca.key"} <= secret["data"].keys()


def test_without_its_cluster_it_has_no_certificate_yet_and_answers_probes(
    cluster: ControlPlane, nobody: Nobody, launch: Launch
) -> None:
    launcher = launch("--tls-secret", "framework-launcher-tls", kubeconfig=nobody.kubeconfig)

    alive, answer = launcher.curl("/livez"), launcher.curl("/readyz")
    with busy_proxy(cluster, nobody.port):
        launcher.ready()
        launcher.end()

    assert alive == "ok"
    assert "[-]certificate failed" in answer


def test_asked_to_end_while_its_cluster_cannot_be_reached_it_ends(nobody: Nobody, launch: Launch) -> None:
    launcher = launch(kubeconfig=nobody.kubeconfig)
    launcher.told("cannot be reached")

    assert launcher.stop() == 0


def test_certificate_files_are_read_again_when_they_change(launch: Launch, tmp_path: Path) -> None:
    old, new = (Authority(tmp_path / name).server() for name in ("old", "new"))
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    key.touch(mode=0o600)
    certificate.write_bytes(old.certificate.read_bytes())
    key.write_bytes(old.key.read_bytes())

    launcher = launch("--tls-cert", str(certificate), "--tls-key", str(key))
    before = presented(launcher.url)
    certificate.write_bytes(new.certificate.read_bytes())
    launcher.told("new certificate not read")
    between = presented(launcher.url)
    key.write_bytes(new.key.read_bytes())
    launcher.told("new certificate read")

    assert before == between == old.certificate.read_text()
    assert presented(launcher.url) == new.certificate.read_text()


def presented(url: str) -> str:
    """The certificate of the server there, as PEM."""
    host, _, port = url.removeprefix("https://").partition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=PATIENCE)
