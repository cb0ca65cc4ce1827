"""FrameworkController's name for Frameworks, through the front door to a cluster that does not have it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from tests.clients.kubectl import HOW_TO_GET_IT
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.users import User, kubeconfig
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import World, a_task_pod
from tests.local.server import PATIENCE

SECOND = "frameworks.frameworkcontroller.microsoft.com"
VERSION = "frameworkcontroller.microsoft.com/v1"
PROGRAM = shutil.which("kubectl") or ""


@dataclass(frozen=True, slots=True)
class Served:
    """A launcher that serves the second name over TLS, without which kubectl sends no token."""

    launcher: KubeLauncher
    authority: Path


@pytest.fixture(scope="module")
def served(account: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("launcher")
    authority = Authority(directory / "pki")
    proof = authority.server()
    tls = ("--tls-cert", str(proof.certificate), "--tls-key", str(proof.key))
    launcher = KubeLauncher(directory, account.kubeconfig, *tls, "--serve-frameworkcontroller")
    yield Served(launcher, authority.certificate)
    launcher.end()


class Door:
    """kubectl and curl at the front door, as the admin in one namespace."""

    def __init__(self, served: Served, token: str, namespace: str, home: Path) -> None:
        self._url, self._namespace, self._authority = served.launcher.url, namespace, served.authority
        self._headers = ("-H", f"Authorization: Bearer {token}")
        (home / "config").write_text(kubeconfig(self._url, served.authority, token))
        self._environment = {
            "HOME": str(home),
            "KUBECONFIG": str(home / "config"),
            "PATH": os.environ["PATH"],
        }

    def kubectl(self, *words: str, given: Json | None = None, ok: bool = True) -> str:
        done = subprocess.run(
            [PROGRAM, "--namespace", self._namespace, *words],
            input=orjson.dumps(given).decode() if given else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            env=self._environment,
        )
        assert (done.returncode == 0) is ok, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout if ok else done.stderr

    def curl(self, path: str, *options: str) -> str:
        place = f"{self._url}/apis/{VERSION}/namespaces/{self._namespace}/frameworks{path}"
        manners = ("--silent", "--show-error", "--max-time", str(PATIENCE), "--cacert", str(self._authority))
        command = ["curl", *manners, *self._headers, *options, place]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PATIENCE * 2
        ).stdout


@pytest.fixture
def client(served: Served, cluster: ControlPlane, namespace: str, tmp_path: Path) -> Door:
    if not PROGRAM:
        pytest.skip(HOW_TO_GET_IT)
    served.launcher.ready()
    return Door(served, cluster.admin_token, namespace, tmp_path)


def second(ends: str | None = "succeeded") -> Json:
    return {**a_framework(a_role(tasks=2, pod=a_task_pod(ends))), "apiVersion": VERSION}


def test_their_file_runs_to_its_end_and_is_read_under_both_names(client: Door, world: World) -> None:
    created = client.kubectl("create", "-f", "-", given=second())
    client.kubectl("wait", f"{SECOND}/mnist", "--for=jsonpath={.status.state}=Completed", "--timeout=60s")
    theirs = orjson.loads(client.curl("/mnist"))

    assert created == "framework.frameworkcontroller.microsoft.com/mnist created\n"
    ours = world.framework()
    assert theirs == {**ours, "apiVersion": VERSION}
    assert ours["spec"]["cleanPodPolicy"] == "All"
    world.until(
        lambda: True if world.pods() == {} else None, "its pods are deleted, as FrameworkController does"
    )


def test_it_is_listed_explained_changed_and_deleted_with_kubectl(client: Door, world: World) -> None:
    client.kubectl("apply", "-f", "-", given=second(None))
    listed = client.kubectl("get", SECOND)
    plain = [client.kubectl("get", word, "-o", "name") for word in ("frameworks", "fw")]
    explained = client.kubectl("explain", f"{SECOND}.spec.retryPolicy")
    patched = client.kubectl(
        "patch", SECOND, "mnist", "--type=merge", "-p", '{"spec": {"description": "changed"}}'
    )
    misspelt = second(None)
    misspelt["metadata"] = {"name": "other"}
    misspelt["spec"] = {**misspelt["spec"], "taskRole": []}
    refused = client.kubectl("create", "-f", "-", given=misspelt, ok=False)
    client.kubectl("delete", SECOND, "mnist")

    assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "mnist"]
    assert plain == ["framework.launcher.microsoft.com/mnist\n"] * 2
    assert "fancyRetryPolicy" in explained
    assert patched == "framework.frameworkcontroller.microsoft.com/mnist patched\n"
    assert 'unknown field "spec.taskRole"' in refused
    assert world.framework() == {}


def test_a_watch_and_a_patch_of_their_manual_go_through_with_curl(client: Door, world: World) -> None:
    client.kubectl("create", "-f", "-", given=second(None))
    stop = '[{"op": "replace", "path": "/spec/executionType", "value": "Stop"}]'

    patched = client.curl(
        "/mnist", "-X", "PATCH", "-H", "Content-Type: application/json-patch+json", "--data", stop
    )
    stopped = world.until(
        lambda: f if (f := world.framework()).get("status", {}).get("state") == "Completed" else None,
        "it ends",
    )
    events = client.curl("?watch=1&timeoutSeconds=2&resourceVersion=0").splitlines()

    assert orjson.loads(patched)["apiVersion"] == VERSION
    assert stopped["status"]["attemptStatus"]["completionStatus"]["code"] == -210
    seen = [orjson.loads(line)["object"] for line in events]
    assert [each["apiVersion"] for each in seen] == [VERSION] * len(seen) != []


def test_without_the_switch_the_name_is_not_there(
    cluster: ControlPlane, shared_launcher: KubeLauncher, namespace: str
) -> None:
    path = f"/apis/{VERSION}/namespaces/{namespace}/frameworks"

    told = shared_launcher.curl(
        path, "-H", f"Authorization: Bearer {cluster.admin_token}", "-o", "/dev/null", "-w", "%{http_code}"
    )

    assert told == "404"
