"""FrameworkController's API group through the API proxy, on a cluster without its CRD."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from tests.builders import Json, a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.users import User, kubeconfig
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod

ALIAS_RESOURCE = "frameworks.frameworkcontroller.microsoft.com"
ALIAS_VERSION = "frameworkcontroller.microsoft.com/v1"


@dataclass(frozen=True, slots=True)
class AliasLauncher:
    """A launcher that serves the alias over TLS, without which kubectl sends no token."""

    launcher: KubeLauncher
    authority: Path


@pytest.fixture(scope="module")
def alias_launcher(account: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AliasLauncher]:
    directory = tmp_path_factory.mktemp("launcher")
    authority = Authority(directory / "pki")
    certificate = authority.server()
    tls = ("--tls-cert", str(certificate.certificate), "--tls-key", str(certificate.key))
    launcher = KubeLauncher(directory, account.kubeconfig, *tls, "--serve-frameworkcontroller")
    yield AliasLauncher(launcher, authority.certificate)
    launcher.end()


class AliasClient:
    """kubectl and curl with the API proxy as server, as the admin in one namespace."""

    def __init__(
        self, cluster: ControlPlane, alias_launcher: AliasLauncher, namespace: str, directory: Path
    ) -> None:
        self._cluster, self._launcher, self._namespace = cluster, alias_launcher.launcher, namespace
        config = directory / "config"
        config.write_text(kubeconfig(self._launcher.url, alias_launcher.authority, cluster.admin_token))
        self._user = User("admin", config)

    def kubectl(self, *arguments: str, obj: Json | None = None, ok: bool = True) -> str:
        stdin = orjson.dumps(obj).decode() if obj else None
        return self._cluster.kubectl(
            "--namespace", self._namespace, *arguments, stdin=stdin, ok=ok, user=self._user
        )

    def curl(self, path: str, *options: str) -> str:
        """The body of the response for a path below the Frameworks of the namespace."""
        token = f"Authorization: Bearer {self._cluster.admin_token}"
        frameworks = f"/apis/{ALIAS_VERSION}/namespaces/{self._namespace}/frameworks"
        return self._launcher.curl(frameworks + path, "-H", token, *options)


@pytest.fixture
def client(
    cluster: ControlPlane, alias_launcher: AliasLauncher, namespace: str, tmp_path: Path
) -> AliasClient:
    alias_launcher.launcher.ready()
    return AliasClient(cluster, alias_launcher, namespace, tmp_path)


def an_alias_framework(ends: str | None = "succeeded") -> Json:
    return {**a_framework(a_role(tasks=2, pod=a_task_pod(ends))), "apiVersion": ALIAS_VERSION}


def test_a_frameworkcontroller_file_runs_and_is_served_in_both_groups(
    client: AliasClient, ns: NamespaceClient
) -> None:
    created = client.kubectl("create", "-f", "-", obj=an_alias_framework())
    client.kubectl(
        "wait", f"{ALIAS_RESOURCE}/mnist", "--for=jsonpath={.status.state}=Completed", "--timeout=60s"
    )
    by_alias = orjson.loads(client.curl("/mnist"))

    assert created == "framework.frameworkcontroller.microsoft.com/mnist created\n"
    stored = ns.framework()
    assert by_alias == {**stored, "apiVersion": ALIAS_VERSION}
    assert stored["spec"]["cleanPodPolicy"] == "All"
    ns.until(lambda: True if ns.pods() == {} else None, "its pods are deleted, as FrameworkController does")


def test_kubectl_lists_explains_changes_and_deletes_in_the_second_group(
    client: AliasClient, ns: NamespaceClient
) -> None:
    client.kubectl("apply", "-f", "-", obj=an_alias_framework(None))
    listed = client.kubectl("get", ALIAS_RESOURCE)
    plain = [client.kubectl("get", word, "-o", "name") for word in ("frameworks", "fw")]
    explained = client.kubectl("explain", f"{ALIAS_RESOURCE}.spec.retryPolicy")
    patched = client.kubectl(
        "patch", ALIAS_RESOURCE, "mnist", "--type=merge", "-p", '{"spec": {"description": "changed"}}'
    )
    misspelled = an_alias_framework(None)
    misspelled["metadata"] = {"name": "other"}
    misspelled["spec"] = {**misspelled["spec"], "taskRole": []}
    error = client.kubectl("create", "-f", "-", obj=misspelled, ok=False)
    client.kubectl("delete", ALIAS_RESOURCE, "mnist")

    assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "mnist"]
    assert plain == ["framework.launcher.microsoft.com/mnist\n"] * 2
    assert "fancyRetryPolicy" in explained
    assert patched == "framework.frameworkcontroller.microsoft.com/mnist patched\n"
    assert 'unknown field "spec.taskRole"' in error
    assert ns.framework() == {}


def test_curl_patches_and_watches_as_in_the_manual_of_frameworkcontroller(
    client: AliasClient, ns: NamespaceClient
) -> None:
    client.kubectl("create", "-f", "-", obj=an_alias_framework(None))
    stop = '[{"op": "replace", "path": "/spec/executionType", "value": "Stop"}]'

    patched = client.curl(
        "/mnist", "-X", "PATCH", "-H", "Content-Type: application/json-patch+json", "--data", stop
    )
    stopped = ns.until(
        lambda: f if (f := ns.framework()).get("status", {}).get("state") == "Completed" else None,
        "it completes",
    )
    events = client.curl("?watch=1&timeoutSeconds=2&resourceVersion=0").splitlines()

    assert orjson.loads(patched)["apiVersion"] == ALIAS_VERSION
    assert stopped["status"]["attemptStatus"]["completionStatus"]["code"] == -210
    objects = [orjson.loads(line)["object"] for line in events]
    assert [obj["apiVersion"] for obj in objects] == [ALIAS_VERSION] * len(objects) != []


def test_without_the_setting_the_second_group_is_not_served(
    cluster: ControlPlane, shared_launcher: KubeLauncher, namespace: str
) -> None:
    path = f"/apis/{ALIAS_VERSION}/namespaces/{namespace}/frameworks"

    status = shared_launcher.curl(
        path, "-H", f"Authorization: Bearer {cluster.admin_token}", "-o", "/dev/null", "-w", "%{http_code}"
    )

    assert status == "404"
