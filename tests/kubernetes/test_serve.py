"""``launcher serve --kubernetes``: its log, its readiness, and its shutdown."""

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

from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.ports import free_port
from tests.cluster.users import User
from tests.eventually import TIMEOUT_SECONDS
from tests.kubernetes.account import LAUNCHER_NAMESPACE, launcher_account
from tests.kubernetes.busy_proxy import busy_proxy, kubeconfig_for
from tests.kubernetes.conftest import Launch, define_frameworks
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod
from tests.launcher_process import PROJECT
from tests.local.server import ended

#: The time limit of a graceful shutdown.
SHUTDOWN_SECONDS = 10.0
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LAUNCHER_NAMESPACE}/leases/framework-launcher"


@dataclass(frozen=True, slots=True)
class UnreachableServer:
    """A port without an API server, and the kubeconfig of the launcher for it."""

    port: int
    kubeconfig: Path


@pytest.fixture
def unreachable(account: User, tmp_path: Path) -> Iterator[UnreachableServer]:
    port = free_port()
    url = f"http://127.0.0.1:{port.number}"
    yield UnreachableServer(port.number, kubeconfig_for(url, account.kubeconfig, tmp_path))
    port.release()


def start_error(*flags: str) -> str:
    """The only line that a launcher prints when it does not start."""
    command = [sys.executable, "-m", "launcher", "serve", "--kubernetes", "--listen", "127.0.0.1:0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=PROJECT)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    return done.stderr


def lease_holder(cluster: ControlPlane) -> str:
    lease: Any = cluster.admin.get(_LEASE)
    return str(lease["spec"].get("holderIdentity") or "")


def test_settings_of_local_mode_are_rejected(tmp_path: Path) -> None:
    assert "--data: not supported with --kubernetes" in start_error("--data", str(tmp_path))
    assert "--node: not supported with --kubernetes" in start_error("--node", "gpu0")


def test_a_missing_kubeconfig_is_reported_in_one_line(tmp_path: Path) -> None:
    line = start_error("--kubeconfig", str(tmp_path / "missing"))

    assert str(tmp_path / "missing") in line
    assert "--kubeconfig" in line


def test_a_missing_context_is_reported_in_one_line(account: User) -> None:
    line = start_error("--kubeconfig", str(account.kubeconfig), "--context", "staging")

    assert "staging" in line


def test_listening_for_other_machines_requires_tls(account: User) -> None:
    line = start_error("--kubeconfig", str(account.kubeconfig), "--listen", "0.0.0.0:0")

    assert "--tls-secret" in line


def test_the_log_names_the_cluster_and_the_leadership(cluster: ControlPlane, launch: Launch) -> None:
    launcher = launch()

    launcher.ready()
    launcher.wait_for_log("leading")

    assert launcher.announced == (
        f"Framework Launcher listens on {launcher.url}, "
        f"for the cluster at {cluster.url}, its own namespace is {LAUNCHER_NAMESPACE}\n"
    )
    assert "launcher_leader 1" in launcher.curl("/metrics")
    assert launcher.errors() == ""


def test_sighup_reloads_the_policy(ns: NamespaceClient, launch: Launch, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("policy: {max-tasks: 5}\n")
    launcher = launch("--config", str(config))
    launcher.ready()
    launcher.wait_for_log("leading")

    config.write_text("policy: {max-tasks: 1}\n")
    os.kill(launcher.pid, signal.SIGHUP)
    launcher.wait_for_log("settings reloaded")
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))

    ns.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")
    assert ns.pods() == {}
    config.write_text("policy: {max-tasks: none}\n")
    os.kill(launcher.pid, signal.SIGHUP)
    assert "max-tasks must be" in launcher.wait_for_log("settings not reloaded")


def test_sighup_reloads_the_failure_rules(ns: NamespaceClient, launch: Launch, tmp_path: Path) -> None:
    def rule(phrase: str) -> str:
        return f"pod-failure-spec: [{{code: 300, phrase: {phrase}, podPatterns: [{{}}]}}]\n"

    config = tmp_path / "config.yaml"
    config.write_text(rule("Before"))
    launcher = launch("--config", str(config))
    launcher.ready()
    launcher.wait_for_log("leading")
    failing = a_framework(a_role(tasks=1, pod=a_task_pod("failed", exit_code="7")), name="first")
    ns.submit(failing)
    assert ns.wait_completed("first")["status"]["attemptStatus"]["completionStatus"]["phrase"] == "Before"

    config.write_text(rule("After"))
    os.kill(launcher.pid, signal.SIGHUP)
    launcher.wait_for_log("settings reloaded")
    failing["metadata"]["name"] = "second"
    ns.submit(failing)

    assert ns.wait_completed("second")["status"]["attemptStatus"]["completionStatus"]["phrase"] == "After"


def test_on_sigterm_the_launcher_saves_its_state_and_releases_the_lease(
    cluster: ControlPlane, ns: NamespaceClient, launch: Launch
) -> None:
    launcher = launch()
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0")
    # It may be a pod of another test.
    ns.until(lambda: launcher.metric('launcher_pods{phase="Running"}') or None, "its cache has pods")
    holder_before = lease_holder(cluster)

    start = time.monotonic()
    code = launcher.stop()

    assert code == 0
    assert time.monotonic() - start < SHUTDOWN_SECONDS, "the shutdown was graceful"
    assert launcher.errors() == ""
    assert holder_before
    assert lease_holder(cluster) == ""
    # The phase Running may not have been observed yet.
    assert ns.task()["state"] in {"AttemptPreparing", "AttemptRunning"}
    assert ns.pods()["mnist-worker-0"]["status"]["phase"] == "Running"


def test_after_a_restart_frameworks_continue_without_duplicate_pods(
    ns: NamespaceClient, launch: Launch
) -> None:
    launcher = launch()
    ns.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    launcher.stop()
    ns.end_pod("mnist-worker-0", "succeeded")
    launcher.start()
    ns.end_pod("mnist-worker-1", "succeeded")
    ns.end_pod("mnist-worker-2", "succeeded")

    assert ended(ns.wait_completed()) == "Succeeded"
    assert len(ns.launcher_requests("create", "pods")) == 3


def test_an_unreachable_cluster_is_logged_once_and_retried(
    cluster: ControlPlane, unreachable: UnreachableServer, launch: Launch
) -> None:
    launcher = launch(kubeconfig=unreachable.kubeconfig)

    message = launcher.wait_for_log("cluster unreachable")
    responses = [launcher.curl("/readyz") for _ in range(3)]
    alive = launcher.curl("/livez")
    with busy_proxy(cluster, unreachable.port):
        launcher.ready()
        launcher.wait_for_log("leading")
        launcher.end()

    assert f"http://127.0.0.1:{unreachable.port}" in message
    assert all("[-]cluster failed" in response for response in responses)
    assert alive == "ok"
    assert launcher.log().count("cluster unreachable, retrying") == 1


def test_a_missing_crd_is_reported_and_retried(programs: Path, launch: Launch, tmp_path: Path) -> None:
    with ControlPlane(tmp_path / "plane", programs, nodes=1) as plane:
        launcher = launch(kubeconfig=launcher_account(plane).kubeconfig)
        message = launcher.wait_for_log("CRD of Frameworks not installed")
        response = launcher.curl("/readyz")
        define_frameworks(plane)

        launcher.ready()
        ns = NamespaceClient(plane, plane.new_namespace())
        ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded"))))
        assert ended(ns.wait_completed()) == "Succeeded"
        launcher.end()

    assert "kubectl apply --server-side -f deploy/kubernetes/base/crd.yaml" in message
    assert "[-]frameworks failed" in response
    assert "[+]cluster ok" in response


def test_missing_permissions_are_named_and_retried(cluster: ControlPlane, launch: Launch) -> None:
    user = cluster.new_user()

    launcher = launch(kubeconfig=user.kubeconfig)
    message = launcher.wait_for_log("missing permissions")
    cluster.grant(user, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])

    launcher.ready()
    launcher.wait_for_log("leading")
    assert f'User "{user.name}" cannot list resource "frameworks"' in message
    assert "deploy/kubernetes/base/rbac.yaml" in message


def test_the_policy_applies_to_objects_created_directly(
    ns: NamespaceClient, launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("policy: {max-tasks: 2}\n")
    launch("--config", str(tmp_path / "config.yaml"))

    ns.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))
    ns.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")

    assert "(max-tasks: 2)" in ns.kubectl("get", "fw", "mnist", "-o", "yaml")
    assert ns.pods() == {}


def test_a_managed_certificate_is_stored_in_a_secret(cluster: ControlPlane, launch: Launch) -> None:
    launcher = launch("--tls-secret", "framework-launcher-tls")

    launcher.ready()

    assert launcher.url.startswith("https://")
    secret = cluster.admin.get(f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/secrets/framework-launcher-tls")
    assert {"tls.crt", "tls.key", "ca.crt", "ca.key"} <= secret["data"].keys()


def test_probes_are_answered_before_there_is_a_certificate(
    cluster: ControlPlane, unreachable: UnreachableServer, launch: Launch
) -> None:
    launcher = launch("--tls-secret", "framework-launcher-tls", kubeconfig=unreachable.kubeconfig)

    alive, response = launcher.curl("/livez"), launcher.curl("/readyz")
    with busy_proxy(cluster, unreachable.port):
        launcher.ready()
        launcher.end()

    assert alive == "ok"
    assert "[-]certificate failed" in response


def test_the_launcher_stops_while_the_cluster_is_unreachable(
    unreachable: UnreachableServer, launch: Launch
) -> None:
    launcher = launch(kubeconfig=unreachable.kubeconfig)
    launcher.wait_for_log("cluster unreachable")

    assert launcher.stop() == 0


def test_certificate_files_are_read_again_when_they_change(launch: Launch, tmp_path: Path) -> None:
    old, new = (Authority(tmp_path / name).server() for name in ("old", "new"))
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    key.touch(mode=0o600)
    certificate.write_bytes(old.certificate.read_bytes())
    key.write_bytes(old.key.read_bytes())

    launcher = launch("--tls-cert", str(certificate), "--tls-key", str(key))
    before = served_certificate(launcher.url)
    certificate.write_bytes(new.certificate.read_bytes())
    launcher.wait_for_log("new certificate not loaded")
    between = served_certificate(launcher.url)
    key.write_bytes(new.key.read_bytes())
    launcher.wait_for_log("new certificate loaded")

    assert before == between == old.certificate.read_text()
    assert served_certificate(launcher.url) == new.certificate.read_text()


def served_certificate(url: str) -> str:
    """The certificate of the server as PEM."""
    host, _, port = url.removeprefix("https://").partition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=TIMEOUT_SECONDS)
