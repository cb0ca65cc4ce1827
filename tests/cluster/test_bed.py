"""The test bed: a real control plane whose simulated nodes end pods as annotated."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.components import Component
from tests.cluster.controlplane import ComponentEnded, ControlPlane
from tests.cluster.pods import a_pod, path, wait_for_phase
from tests.cluster.versions import chosen
from tests.eventually import until

READ_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]


def create_running(cluster: ControlPlane, namespace: str, pod: dict[str, Any]) -> Any:
    """Create the pod, wait until it runs, and return it."""
    cluster.admin.post(path(namespace), pod)
    return wait_for_phase(cluster, namespace, pod["metadata"]["name"], "Running")


def exit_code_and_reason(pod: Any) -> tuple[int, str]:
    (container,) = pod["status"]["containerStatuses"]
    ended = container["state"]["terminated"]
    return ended["exitCode"], ended["reason"]


def duration(pod: Any) -> timedelta:
    (container,) = pod["status"]["containerStatuses"]
    ended = container["state"]["terminated"]
    return datetime.fromisoformat(ended["finishedAt"]) - datetime.fromisoformat(ended["startedAt"])


def test_the_chosen_version_runs(cluster: ControlPlane) -> None:
    output = cluster.kubectl("version")

    assert f"Client Version: v{chosen()}" in output
    assert f"Server Version: v{chosen()}" in output


# Pods.


def test_a_pod_runs_on_a_node_and_has_its_addresses(cluster: ControlPlane, namespace: str) -> None:
    pod = create_running(cluster, namespace, a_pod("one"))

    node = cluster.admin.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    addresses = {one["type"]: one["address"] for one in node["status"]["addresses"]}
    assert pod["status"]["hostIP"] == addresses["InternalIP"]
    assert pod["status"]["podIP"].startswith("10.")
    assert [one["state"].keys() for one in pod["status"]["containerStatuses"]] == [{"running"}]


def test_a_pod_on_the_host_network_has_the_address_of_its_node(cluster: ControlPlane, namespace: str) -> None:
    pod = create_running(cluster, namespace, a_pod("one", host_network=True))

    assert pod["status"]["podIP"] == pod["status"]["hostIP"]


@pytest.mark.parametrize(
    ("ends", "exit_code", "phase", "ended"),
    [
        pytest.param("succeeded", None, "Succeeded", (0, "Completed"), id="succeeds"),
        pytest.param("failed", None, "Failed", (1, "Error"), id="fails"),
        pytest.param("failed", "7", "Failed", (7, "Error"), id="fails with a code"),
        pytest.param("oom-killed", None, "Failed", (137, "OOMKilled"), id="runs out of memory"),
    ],
)
def test_a_pod_ends_as_annotated(
    cluster: ControlPlane,
    namespace: str,
    ends: str,
    exit_code: str | None,
    phase: str,
    ended: tuple[int, str],
) -> None:
    cluster.admin.post(path(namespace), a_pod("one", ends=ends, exit_code=exit_code))

    pod = wait_for_phase(cluster, namespace, "one", phase)

    assert exit_code_and_reason(pod) == ended


def test_a_pod_ends_after_the_time_of_its_annotation(cluster: ControlPlane, namespace: str) -> None:
    create_running(cluster, namespace, a_pod("one", ends="succeeded", after="8s"))

    pod = wait_for_phase(cluster, namespace, "one", "Succeeded")

    assert duration(pod) >= timedelta(seconds=8)


def test_an_annotation_ends_a_running_pod(cluster: ControlPlane, namespace: str) -> None:
    create_running(cluster, namespace, a_pod("one"))

    cluster.admin.patch(
        path(namespace, "one"),
        {"metadata": {"annotations": {"launcher.test/ends": "failed", "launcher.test/exit-code": "42"}}},
    )

    assert exit_code_and_reason(wait_for_phase(cluster, namespace, "one", "Failed")) == (42, "Error")


def test_a_deleted_pod_is_removed(cluster: ControlPlane, namespace: str) -> None:
    create_running(cluster, namespace, a_pod("one"))

    cluster.admin.delete(path(namespace, "one"))

    def probe() -> Any:
        return cluster.admin.request("GET", path(namespace, "one")).status == 404 or None

    assert until(probe, "the pod is deleted")


def test_the_job_controller_completes_a_job(cluster: ControlPlane, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = a_pod("unused", ends="succeeded")
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": template}
    cluster.admin.post(jobs, {"metadata": {"name": "three"}, "spec": spec})

    def probe() -> Any:
        return cluster.admin.get(f"{jobs}/three")["status"].get("succeeded") == 3 or None

    assert until(probe, "the job's pods have succeeded")


# Users.


def test_a_user_has_the_granted_permissions_only(cluster: ControlPlane, namespace: str) -> None:
    user = cluster.new_user()
    client = cluster.client(user)
    before = client.request("GET", path(namespace))

    cluster.grant(user, READ_PODS, namespace=namespace)

    assert before.status == 403
    assert f'User "{user.name}" cannot list resource "pods"' in before.body["message"]
    until(lambda: client.request("GET", path(namespace)).status == 200 or None, "the grant applies")
    assert client.request("GET", path("default")).status == 403
    assert client.request("POST", path(namespace), a_pod("one")).status == 403


def test_an_unknown_token_is_rejected(cluster: ControlPlane) -> None:
    user = replace(cluster.new_user(), token="made-up")

    assert cluster.client(user).request("GET", path("default")).status == 401


def test_a_service_account_is_authenticated_by_its_name(cluster: ControlPlane, namespace: str) -> None:
    user = cluster.service_account(namespace, "robot")

    output = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", user=user)

    assert output == user.name == f"system:serviceaccount:{namespace}:robot"


def test_a_client_certificate_authenticates_its_user_and_groups(cluster: ControlPlane) -> None:
    user = cluster.certified_user("ada", "engineers")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    output = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", user=user)
    response = cluster.client(user).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)

    assert output == "ada"
    assert response["status"]["userInfo"]["groups"] == ["engineers", "system:authenticated"]


# The audit log.


def test_the_audit_log_has_every_request_once(cluster: ControlPlane, namespace: str) -> None:
    mark = cluster.audit.mark()
    for name in ("one", "two", "three"):
        cluster.admin.request("POST", path(namespace), a_pod(name), user_agent="counted/1")
    cluster.admin.request("POST", path(namespace), a_pod("one"), user_agent="counted/1")
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    cluster.admin.request("GET", f"{secrets}?watch=1&timeoutSeconds=1", user_agent="counted/1")

    counted = cluster.audit.since(mark, user_agent="counted/")

    assert Counter((one.verb, one.resource, one.namespace, one.status) for one in counted) == {
        ("create", "pods", namespace, 201): 3,
        ("create", "pods", namespace, 409): 1,
        ("watch", "secrets", namespace, 200): 1,
    }


# Failures.


@pytest.mark.parametrize("end", [ControlPlane.kill, ControlPlane.terminate], ids=["killed", "terminated"])
def test_a_restarted_kube_apiserver_serves_the_same_objects_at_the_same_address(
    cluster: ControlPlane, namespace: str, end: Any
) -> None:
    before = create_running(cluster, namespace, a_pod("before"))
    try:
        end(cluster, Component.APISERVER)
        with pytest.raises(OSError, match="refused"):
            cluster.admin.get("/version")
    finally:
        cluster.restart(Component.APISERVER)

    assert cluster.admin.get(path(namespace, "before"))["metadata"]["uid"] == before["metadata"]["uid"]
    create_running(cluster, namespace, a_pod("after"))


def test_a_write_fails_while_etcd_is_paused(cluster: ControlPlane, namespace: str) -> None:
    def is_created(name: str) -> bool:
        try:
            return cluster.admin.request("POST", f"{path(namespace)}?timeout=1s", a_pod(name)).status == 201
        except OSError:  # kube-apiserver may also close the connection at the timeout
            return False

    with cluster.paused(Component.ETCD):
        created = is_created("one")

    assert not created
    create_running(cluster, namespace, a_pod("two"))


def test_a_component_that_exits_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in (("etcd", "sleep 60"), ("kube-apiserver", "echo no such flag; exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    with pytest.raises(ComponentEnded, match=r"kube-apiserver exited(.|\n)*no such flag"):
        ControlPlane(tmp_path / "bed", programs).start()


@pytest.mark.parametrize(
    ("ends", "deletions_per_pod"), [(None, 1), ("succeeded", 0)], ids=["running", "ended"]
)
def test_a_node_deletes_a_pod_once_and_never_its_successor_of_the_same_name(
    cluster: ControlPlane, namespace: str, ends: str | None, deletions_per_pod: int
) -> None:
    mark = cluster.audit.mark()
    for _ in range(5):
        cluster.admin.post(path(namespace), a_pod("same", ends=ends))
        wait_for_phase(cluster, namespace, "same", "Succeeded" if ends else "Running")
        cluster.admin.delete(path(namespace, "same"))
        until(
            lambda: cluster.admin.request("GET", path(namespace, "same")).status == 404 or None,
            "the pod is deleted",
        )

    requests = cluster.audit.since(mark, user_agent="kwok")
    deletions = [
        request
        for request in requests
        if (request.verb, request.resource, request.namespace) == ("delete", "pods", namespace)
    ]
    assert [request.status for request in deletions] == [200] * 5 * deletions_per_pod
