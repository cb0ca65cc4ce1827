"""The test bed is what it says: a real control plane, whose nodes do with pods as these ask for."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controlplane import ControlPlane, PartEnded
from tests.cluster.parts import Part
from tests.cluster.pods import a_pod, in_phase, path
from tests.cluster.versions import chosen
from tests.local.server import until

READ_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]


def runs(cluster: ControlPlane, namespace: str, pod: dict[str, Any]) -> Any:
    """The pod, made and running."""
    cluster.admin.post(path(namespace), pod)
    return in_phase(cluster, namespace, pod["metadata"]["name"], "Running")


def how_it_ended(pod: Any) -> tuple[int, str]:
    (container,) = pod["status"]["containerStatuses"]
    ended = container["state"]["terminated"]
    return ended["exitCode"], ended["reason"]


def lasted(pod: Any) -> timedelta:
    (container,) = pod["status"]["containerStatuses"]
    ended = container["state"]["terminated"]
    return datetime.fromisoformat(ended["finishedAt"]) - datetime.fromisoformat(ended["startedAt"])


def test_it_is_the_version_that_was_chosen(cluster: ControlPlane) -> None:
    said = cluster.kubectl("version")

    assert f"Client Version: v{chosen()}" in said
    assert f"Server Version: v{chosen()}" in said


# Pods.


def test_a_pod_runs_on_a_node_and_has_its_addresses(cluster: ControlPlane, namespace: str) -> None:
    pod = runs(cluster, namespace, a_pod("one"))

    node = cluster.admin.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    addresses = {one["type"]: one["address"] for one in node["status"]["addresses"]}
    assert pod["status"]["hostIP"] == addresses["InternalIP"]
    assert pod["status"]["podIP"].startswith("10.")
    assert [one["state"].keys() for one in pod["status"]["containerStatuses"]] == [{"running"}]


def test_a_pod_on_the_hosts_network_has_the_hosts_address(cluster: ControlPlane, namespace: str) -> None:
    pod = runs(cluster, namespace, a_pod("one", host_network=True))

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
def test_a_pod_ends_as_it_says(
    cluster: ControlPlane,
    namespace: str,
    ends: str,
    exit_code: str | None,
    phase: str,
    ended: tuple[int, str],
) -> None:
    cluster.admin.post(path(namespace), a_pod("one", ends=ends, exit_code=exit_code))

    pod = in_phase(cluster, namespace, "one", phase)

    assert how_it_ended(pod) == ended


def test_a_pod_ends_after_the_time_that_it_says(cluster: ControlPlane, namespace: str) -> None:
    runs(cluster, namespace, a_pod("one", ends="succeeded", after="8s"))

    pod = in_phase(cluster, namespace, "one", "Succeeded")

    assert lasted(pod) >= timedelta(seconds=8)


def test_a_running_pod_is_ended_by_an_annotation(cluster: ControlPlane, namespace: str) -> None:
    runs(cluster, namespace, a_pod("one"))

    cluster.admin.patch(
        path(namespace, "one"),
        {"metadata": {"annotations": {"launcher.test/ends": "failed", "launcher.test/exit-code": "42"}}},
    )

    assert how_it_ended(in_phase(cluster, namespace, "one", "Failed")) == (42, "Error")


def test_a_deleted_pod_goes(cluster: ControlPlane, namespace: str) -> None:
    runs(cluster, namespace, a_pod("one"))

    cluster.admin.delete(path(namespace, "one"))

    def look() -> Any:
        return cluster.admin.ask("GET", path(namespace, "one")).status == 404 or None

    assert until(look, "the pod is gone")


def test_the_job_controller_works_on_such_pods(cluster: ControlPlane, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = a_pod("unused", ends="succeeded")
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": template}
    cluster.admin.post(jobs, {"metadata": {"name": "three"}, "spec": spec})

    def look() -> Any:
        return cluster.admin.get(f"{jobs}/three")["status"].get("succeeded") == 3 or None

    assert until(look, "the job's pods have succeeded")


# Users.


def test_a_user_may_do_what_was_granted_and_nothing_else(cluster: ControlPlane, namespace: str) -> None:
    user = cluster.new_user()
    client = cluster.client(user)
    before = client.ask("GET", path(namespace))

    cluster.grant(user, READ_PODS, namespace=namespace)

    assert before.status == 403
    assert f'User "{user.name}" cannot list resource "pods"' in before.body["message"]
    until(lambda: client.ask("GET", path(namespace)).status == 200 or None, "the grant is known")
    assert client.ask("GET", path("default")).status == 403
    assert client.ask("POST", path(namespace), a_pod("one")).status == 403


def test_a_token_that_nobody_has_is_refused(cluster: ControlPlane) -> None:
    user = replace(cluster.new_user(), token="made-up")

    assert cluster.client(user).ask("GET", path("default")).status == 401


def test_a_service_account_asks_under_its_own_name(cluster: ControlPlane, namespace: str) -> None:
    user = cluster.service_account(namespace, "robot")

    said = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", user=user)

    assert said == user.name == f"system:serviceaccount:{namespace}:robot"


def test_a_certificate_proves_its_holder(cluster: ControlPlane) -> None:
    user = cluster.certified_user("ada", "engineers")
    question = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    said = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", user=user)
    answer = cluster.client(user).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", question)

    assert said == "ada"
    assert answer["status"]["userInfo"]["groups"] == ["engineers", "system:authenticated"]


# Counting.


def test_every_request_is_counted_once(cluster: ControlPlane, namespace: str) -> None:
    mark = cluster.audit.mark()
    for name in ("one", "two", "three"):
        cluster.admin.ask("POST", path(namespace), a_pod(name), user_agent="counted/1")
    cluster.admin.ask("POST", path(namespace), a_pod("one"), user_agent="counted/1")
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    cluster.admin.ask("GET", f"{secrets}?watch=1&timeoutSeconds=1", user_agent="counted/1")

    counted = cluster.audit.since(mark, user_agent="counted/")

    assert Counter((one.verb, one.resource, one.namespace, one.status) for one in counted) == {
        ("create", "pods", namespace, 201): 3,
        ("create", "pods", namespace, 409): 1,
        ("watch", "secrets", namespace, 200): 1,
    }


# Troubles.


@pytest.mark.parametrize("end", [ControlPlane.kill, ControlPlane.terminate], ids=["killed", "terminated"])
def test_an_apiserver_is_back_in_its_place_with_all_it_knew(
    cluster: ControlPlane, namespace: str, end: Any
) -> None:
    before = runs(cluster, namespace, a_pod("before"))
    try:
        end(cluster, Part.APISERVER)
        with pytest.raises(OSError, match="refused"):
            cluster.admin.get("/version")
    finally:
        cluster.restart(Part.APISERVER)

    assert cluster.admin.get(path(namespace, "before"))["metadata"]["uid"] == before["metadata"]["uid"]
    runs(cluster, namespace, a_pod("after"))


def test_a_write_waits_in_vain_for_a_paused_etcd(cluster: ControlPlane, namespace: str) -> None:
    def is_made(name: str) -> bool:
        try:
            return cluster.admin.ask("POST", f"{path(namespace)}?timeout=1s", a_pod(name)).status == 201
        except OSError:  # kube-apiserver may also cut the connection when its time is over
            return False

    with cluster.paused(Part.ETCD):
        made = is_made("one")

    assert not made
    runs(cluster, namespace, a_pod("two"))


def test_a_part_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in (("etcd", "sleep 60"), ("kube-apiserver", "echo no such flag; exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    with pytest.raises(PartEnded, match=r"kube-apiserver has ended(.|\n)*no such flag"):
        ControlPlane(tmp_path / "bed", programs).start()


@pytest.mark.parametrize(("ends", "asked"), [(None, 1), ("succeeded", 0)], ids=["running", "ended"])
def test_a_node_lets_go_of_a_pod_once_and_never_of_the_next_of_its_name(
    cluster: ControlPlane, namespace: str, ends: str | None, asked: int
) -> None:
    mark = cluster.audit.mark()
    for _ in range(5):
        cluster.admin.post(path(namespace), a_pod("same", ends=ends))
        in_phase(cluster, namespace, "same", "Succeeded" if ends else "Running")
        cluster.admin.delete(path(namespace, "same"))
        until(lambda: cluster.admin.ask("GET", path(namespace, "same")).status == 404 or None, "it is gone")

    requests = cluster.audit.since(mark, user_agent="kwok")
    deletions = [r for r in requests if (r.verb, r.resource, r.namespace) == ("delete", "pods", namespace)]
    assert [r.status for r in deletions] == [200] * 5 * asked
