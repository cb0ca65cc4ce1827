"""kubectl and the Python client with the API proxy as server."""

import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson
import pytest
import yaml
from kubernetes import client, watch

from tests.builders import a_framework
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User, kubeconfig
from tests.eventually import TIMEOUT_SECONDS
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import GROUP, frameworks_path
from tests.kubernetes.running_proxy import RunningProxy

#: The client has no type stubs.
Watch: Any = watch.Watch


class RunKubectl(Protocol):
    def __call__(
        self,
        *arguments: str,
        stdin: str | None = None,
        ok: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> str: ...


@pytest.fixture
def kubectl(
    cluster: ControlPlane, proxy: RunningProxy, user: User, namespace: str, tmp_path: Path
) -> RunKubectl:
    """Kubectl in the namespace, with the proxy as its server."""
    config = tmp_path / "config"
    config.write_text(kubeconfig(proxy.url, proxy.ca, user.token))
    config.chmod(0o600)
    return partial(cluster.kubectl, f"--namespace={namespace}", user=User(user.name, config))


def unstarted_framework(name: str) -> str:
    """A Framework that is not started, as YAML."""
    return yaml.safe_dump(a_framework(name=name, executionType="Create"))


def test_kubectl_discovers_the_api(kubectl: RunKubectl) -> None:
    assert "frameworks" in kubectl("api-resources", f"--api-group={GROUP}")
    assert "taskRoles" in kubectl("explain", "framework.spec")
    assert "Server Version" in kubectl("version")
    assert kubectl("auth", "can-i", "create", "frameworks").strip() == "yes"
    assert "no" in kubectl("auth", "can-i", "list", "nodes", ok=False)


def test_kubectl_applies_edits_and_deletes(kubectl: RunKubectl, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/description: .*/description: edited/' \"$1\"\n")
    editor.chmod(0o700)
    described = unstarted_framework("mnist").replace("spec:\n", "spec:\n  description: first\n", 1)

    assert "created" in kubectl("apply", "-f", "-", stdin=described)
    second = described.replace("description: first", "description: second")
    assert "configured" in kubectl("apply", "-f", "-", stdin=second)
    assert "edited" in kubectl("edit", "framework", "mnist", environment={"KUBE_EDITOR": str(editor)})
    description = kubectl("get", "fw", "mnist", "-o", "jsonpath={.spec.description}")
    assert description == "edited"
    assert "STATE" in kubectl("get", "fw")
    assert "edited" in kubectl("describe", "fw", "mnist").lower()
    kubectl("wait", "fw/mnist", "--for=jsonpath={.spec.executionType}=Create", "--timeout=5s")
    assert "deleted" in kubectl("delete", "fw", "mnist", "--timeout=20s")


def test_kubectl_applies_on_the_server_and_scales(kubectl: RunKubectl) -> None:
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", "-f", "-", stdin=unstarted_framework("mnist")
    )
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", "-f", "-", stdin=unstarted_framework("mnist")
    )
    assert "scaled" in kubectl("scale", "framework", "mnist", "--replicas=3")
    assert kubectl("get", "fw", "mnist", "-o", "jsonpath={.spec.replicas}") == "3"


def test_kubectl_gets_the_same_errors_as_in_local_mode(kubectl: RunKubectl) -> None:
    misspelled = unstarted_framework("mnist").replace("executionType", "executionTipe")

    failure = kubectl("create", "-f", "-", stdin=misspelled, ok=False)
    warned = kubectl(
        "create", "--validate=warn", "--warnings-as-errors", "-f", "-", stdin=misspelled, ok=False
    )

    assert "executionTipe" in failure
    assert 'did you mean "executionType"?' in failure
    assert 'Warning: unknown field "spec.executionTipe"' in warned
    assert warned.count("executionTipe") == 1


def test_kubectl_works_with_pods_as_without_the_proxy(
    kubectl: RunKubectl, cluster: ControlPlane, namespace: str, user: User
) -> None:
    cluster.kubectl("run", "pod", "--image=none", "--restart=Never", f"--namespace={namespace}")
    cluster.kubectl("wait", "pod/pod", "--for=condition=Ready", f"--namespace={namespace}", "--timeout=20s")

    assert "pod" in kubectl("get", "pods")
    assert "Events" in kubectl("describe", "pod", "pod")
    # Simulated nodes have no logs and run no commands: the error is that of the cluster.
    for arguments in (("logs", "pod"), ("exec", "pod", "--", "true"), ("port-forward", "pod/pod", ":80")):
        by_cluster = cluster.kubectl(f"--namespace={namespace}", *arguments, ok=False, user=user)
        assert "node-" in by_cluster
        assert kubectl(*arguments, ok=False) == by_cluster


def test_the_launcher_process_serves_the_proxy(
    shared_launcher: KubeLauncher, user: User, namespace: str
) -> None:
    shared_launcher.ready()
    token = ("-H", f"Authorization: Bearer {user.token}")
    body_options = ("-H", "Content-Type: application/yaml", "--data-binary", unstarted_framework("mine"))

    created = shared_launcher.get(frameworks_path(namespace), *token, *body_options)
    listed = shared_launcher.get(frameworks_path(namespace), *token)
    failure = shared_launcher.get(frameworks_path("default"), *token)
    anonymous = shared_launcher.get(frameworks_path(namespace))

    assert created["metadata"]["uid"] == listed["items"][0]["metadata"]["uid"]
    assert (failure["code"], anonymous["code"]) == (403, 401)


def test_the_cluster_serves_the_same_objects_at_the_same_path(
    proxy: RunningProxy, user: User, namespace: str, programs: Path
) -> None:
    proxy.client(user).request("POST", frameworks_path(namespace), a_framework(name="mine"))
    expected = proxy.client(user).request("GET", frameworks_path(namespace, "mine"))
    with subprocess.Popen(
        [str(programs / "kubectl"), f"--kubeconfig={user.kubeconfig}", "proxy", "--port=0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as kubectl_proxy:
        try:
            assert kubectl_proxy.stdout is not None
            address = kubectl_proxy.stdout.readline().rsplit(" ", 1)[-1].strip()
            url = f"http://{address}{frameworks_path(namespace, 'mine')}"
            done = subprocess.run(
                ["curl", "--silent", "--max-time", str(TIMEOUT_SECONDS), url],
                capture_output=True,
                timeout=TIMEOUT_SECONDS * 2,
            )
        finally:
            kubectl_proxy.kill()

    assert orjson.loads(done.stdout)["metadata"]["uid"] == expected.json()["metadata"]["uid"]


def test_the_python_client_works(proxy: RunningProxy, user: User, namespace: str) -> None:
    configuration = client.Configuration()
    configuration.host, configuration.ssl_ca_cert = proxy.url, str(proxy.ca)
    configuration.api_key = {"authorization": f"Bearer {user.token}"}
    with client.ApiClient(configuration) as connection:
        custom = client.CustomObjectsApi(connection)
        resource = (GROUP, "v1", namespace, "frameworks")
        custom.create_namespaced_custom_object(*resource, yaml.safe_load(unstarted_framework("mine")))
        listed: Any = custom.list_namespaced_custom_object(*resource)
        events = Watch().stream(
            custom.list_namespaced_custom_object,
            *resource,
            timeout_seconds=5,
            _request_timeout=TIMEOUT_SECONDS,
        )
        first = next(iter(events))
        pods = client.CoreV1Api(connection).list_namespaced_pod(namespace)
        connection.rest_client.pool_manager.clear()

    assert [item["metadata"]["name"] for item in listed["items"]] == ["mine"]
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "mine")
    assert pods.items == []
