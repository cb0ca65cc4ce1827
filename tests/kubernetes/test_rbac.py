"""The launcher's RBAC rules: each is used, and no other is needed."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from tests.builders import Json, a_framework, a_role
from tests.cluster.audit import AuditedRequest
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User, kubeconfig
from tests.eventually import until
from tests.kubernetes.account import BASE, LAUNCHER_NAMESPACE
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.lossy_proxy import LossyProxy
from tests.kubernetes.namespace_client import SLOW_CONTROLLER_SECONDS, NamespaceClient, a_task_pod
from tests.kubernetes.permissions import (
    FINALIZERS_PERMISSION,
    GANG_BACKEND_GROUPS,
    Permission,
    launcher_permissions,
    launcher_requests,
    rejected,
    unpermitted,
)

_SECRET = f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/secrets/framework-launcher-tls"
_KEY = f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/secrets/framework-launcher-discovery"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LAUNCHER_NAMESPACE}/leases/framework-launcher"


@pytest.fixture
def webhook(cluster: ControlPlane) -> Iterator[None]:
    """Registers the webhook, which is unreachable here and has failurePolicy Ignore."""
    cluster.kubectl("apply", "-f", str(BASE / "webhook.yaml"))
    yield
    cluster.kubectl("delete", "-f", str(BASE / "webhook.yaml"))


@pytest.fixture
def without_own_objects(cluster: ControlPlane, account: User) -> None:
    """Deletes the launcher's own objects, so that the next launcher creates them."""
    for path in (_SECRET, _KEY, _LEASE):
        assert cluster.admin.request("DELETE", path).status in {200, 404}


@pytest.mark.timeout(2 * SLOW_CONTROLLER_SECONDS)
def test_every_rbac_rule_is_used_and_no_other_is_needed(
    cluster: ControlPlane,
    account: User,
    ns: NamespaceClient,
    webhook: None,
    without_own_objects: None,
    tmp_path: Path,
) -> None:
    mark = cluster.audit.mark()

    with LossyProxy(cluster, "PUT", "/status") as proxy:
        launcher = KubeLauncher(
            tmp_path, _kubeconfig_through(proxy, cluster, account), "--tls-secret=framework-launcher-tls"
        )
        try:
            _cause_all_requests(cluster, ns)
            _read_node_failures(cluster, launcher)
            _use_another_replica(ns, account, tmp_path / "another")
        finally:
            launcher.end()

    requests = launcher_requests(cluster.audit.since(mark))
    unused = {
        str(permission)
        for permission in launcher_permissions()
        if permission.group not in GANG_BACKEND_GROUPS
        and not any(permission.covers(request) and _succeeded(request) for request in requests)
    }
    assert proxy.lost.is_set()
    assert unused == {str(FINALIZERS_PERMISSION)}
    assert unpermitted(launcher_permissions(), requests) == set()
    assert rejected(requests) == set()


def test_block_owner_deletion_needs_one_rbac_rule(
    cluster: ControlPlane, account: User, ns: NamespaceClient
) -> None:
    ns.submit(a_framework(a_role(pod=a_task_pod()), executionType="Create"))
    other = cluster.service_account(LAUNCHER_NAMESPACE, "without-finalizers")
    (role, *_) = yaml.safe_load_all((BASE / "rbac.yaml").read_text())
    rules = [rule for rule in role["rules"] if rule["resources"] != [FINALIZERS_PERMISSION.resource]]
    cluster.grant(other, rules)
    pod = _owned_pod(ns)

    responses = [
        cluster.client(user).request("POST", f"{ns.path('pods')}?dryRun=All", pod)
        for user in (account, other)
    ]

    assert [response.status for response in responses] == [201, 403]
    assert "cannot set blockOwnerDeletion" in responses[1].body["message"]


@pytest.mark.parametrize(
    "permission",
    [
        pytest.param(Permission("create", "launcher.microsoft.com", "frameworks"), id="create a Framework"),
        pytest.param(Permission("update", "launcher.microsoft.com", "frameworks"), id="change a Framework"),
        pytest.param(Permission("update", "", "pods"), id="replace a pod"),
        pytest.param(Permission("create", "", "pods/exec"), id="run a command in a pod"),
        pytest.param(Permission("update", "", "services"), id="change a Service"),
        pytest.param(Permission("get", "", "secrets", "default"), id="read Secrets of other namespaces"),
        pytest.param(
            Permission("get", "", "secrets", LAUNCHER_NAMESPACE, "another"),
            id="read another Secret of its namespace",
        ),
        pytest.param(Permission("list", "", "secrets", LAUNCHER_NAMESPACE), id="list Secrets"),
        pytest.param(Permission("patch", "", "nodes"), id="change a node"),
        pytest.param(
            Permission("update", "coordination.k8s.io", "leases", LAUNCHER_NAMESPACE, "another"),
            id="update another Lease",
        ),
        pytest.param(
            Permission(
                "update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another"
            ),
            id="change other webhooks",
        ),
        pytest.param(Permission("impersonate", "", "users"), id="impersonate users"),
        pytest.param(Permission("bind", "rbac.authorization.k8s.io", "clusterroles"), id="bind roles"),
    ],
)
def test_the_launcher_has_no_permission_to(
    cluster: ControlPlane, account: User, permission: Permission
) -> None:
    assert not _is_allowed(cluster, account, permission)


def test_a_rule_with_a_resource_name_permits_watching_it(cluster: ControlPlane, account: User) -> None:
    client = cluster.client(account)
    secrets = f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/secrets"

    assert (
        client.request("GET", f"{secrets}?fieldSelector=metadata.name=framework-launcher-tls").status == 200
    )
    assert client.request("GET", f"{secrets}?fieldSelector=metadata.name=another").status == 403


@pytest.mark.parametrize(
    ("role", "verbs"),
    [
        pytest.param("view", {"get", "list", "watch"}, id="view"),
        pytest.param(
            "edit",
            {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
            id="edit",
        ),
        pytest.param(
            "admin",
            {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
            id="admin",
        ),
    ],
)
def test_the_default_user_roles_include_frameworks(
    cluster: ControlPlane, namespace: str, role: str, verbs: set[str]
) -> None:
    cluster.kubectl("apply", "-f", str(BASE / "rbac-users.yaml"))
    user = cluster.new_user()
    cluster.kubectl(
        "create", "rolebinding", "given", f"--clusterrole={role}", f"--user={user.name}", "-n", namespace
    )
    group = "launcher.microsoft.com"
    verbs_of_frameworks = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

    def has_exactly_these() -> bool | None:
        return {
            v
            for v in verbs_of_frameworks
            if _is_allowed(cluster, user, Permission(v, group, "frameworks", namespace))
        } == verbs or None

    # kube-controller-manager aggregates the roles with a delay.
    until(has_exactly_these, f"{role} has exactly these permissions")
    assert _is_allowed(cluster, user, Permission("get", group, "frameworks/scale", namespace))
    assert _is_allowed(cluster, user, Permission("update", group, "frameworks/scale", namespace)) is (
        role != "view"
    )
    assert not _is_allowed(cluster, user, Permission("update", group, "frameworks/status", namespace))
    assert not _is_allowed(cluster, user, Permission("list", group, "frameworks"))


def _succeeded(request: AuditedRequest) -> bool:
    """Whether a permitted request had its effect. Simulated nodes have no logs."""
    return request.status < 300 or (request.subresource == "log" and request.allowed)


def _kubeconfig_through(proxy: LossyProxy, cluster: ControlPlane, account: User) -> Path:
    """The account's kubeconfig with the proxy as its server."""
    path = account.kubeconfig.with_name("lossy.kubeconfig")
    path.write_text(kubeconfig(proxy.url, cluster.ca, account.token))
    cluster.kubectl(
        "config", "set-context", "--current", f"--namespace={LAUNCHER_NAMESPACE}", user=User("", path)
    )
    return path


def _cause_all_requests(cluster: ControlPlane, ns: NamespaceClient) -> None:
    """Runs Frameworks such that the launcher sends every kind of request at least once."""
    # Quota for one pod: reported by an event, whose count grows.
    ns.kubectl("create", "quota", "small", "--hard=pods=1")
    quota = ns.path("resourcequotas", "small")
    ns.until(lambda: cluster.admin.get(quota).get("status") or None, "the quota has a status")
    ns.submit(a_framework(a_role(pod=a_task_pod(), tasks=2), name="crowded"))
    ns.until(lambda: _is_counted_twice(ns, "FailedCreate") or None, "the event has a count of two")
    ns.kubectl("delete", "quota", "small")
    ns.wait_running("crowded-worker-0", "crowded-worker-1")
    # Stopped by the user: its pods are deleted.
    ns.kubectl("patch", "framework", "crowded", "--type=merge", '--patch={"spec":{"executionType":"Stop"}}')
    ns.wait_completed("crowded")
    # A pod of that name exists: the launcher reads its owner.
    ns.kubectl("run", "late-worker-0", "--image=busybox", "--restart=Never")
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), name="late"))
    ns.until(
        lambda: [r for r in ns.launcher_requests("get", "pods") if r.name == "late-worker-0"] or None,
        "the pod is read",
    )
    ns.delete_without_waiting("pod", "late-worker-0", "--grace-period=0", "--force")
    ns.wait_completed("late")
    # A Service of that name exists: the launcher reads its owner.
    ns.kubectl("create", "service", "clusterip", "named-worker-0", "--tcp=80:80")
    pod = a_task_pod("succeeded")
    pod["metadata"]["annotations"]["launcher.microsoft.com/services"] = "PerTask"
    ns.submit(a_framework(a_role(tasks=1, pod=pod), name="named"))
    ns.until(lambda: ns.launcher_requests("get", "services") or None, "the Service is read")
    ns.delete_without_waiting("service", "named-worker-0")
    ns.wait_completed("named")
    ns.until(lambda: ns.launcher_requests("delete", "services") or None, "its Services are deleted")
    # A gang is pending until the pod that its affinity requires exists.
    ns.submit(a_framework(a_role(tasks=2, pod=_with_affinity_to("anchor")), name="together", gang={}))
    ns.until(lambda: ns.events("GangPending") or None, "the gang is pending")
    ns.kubectl("run", "anchor", "--image=busybox", "--restart=Never", "--labels=app=anchor")
    ns.wait_completed("together")
    # A FrameworkAttempt of that name exists: the launcher reads its owner; later it deletes the oldest one.
    attempt = {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "FrameworkAttempt",
        "metadata": {"name": "flaky-1"},
    }
    ns.kubectl("create", "-f", "-", stdin=orjson.dumps(attempt).decode())
    policy = {"fancyRetryPolicy": False, "maxRetryCount": 2}
    ns.submit(
        a_framework(
            a_role(tasks=1, pod=a_task_pod("failed")),
            name="flaky",
            retryPolicy=policy,
            attemptHistoryLimit=1,
        )
    )
    ns.wait_completed("flaky")
    # Its output is read.
    watched = a_role(tasks=1, pod=a_task_pod())
    watched["task"]["progressDeadlineSeconds"] = 2
    ns.submit(a_framework(watched, name="watched"))
    ns.until(lambda: ns.launcher_requests("get", "pods", "log") or None, "the log is read")
    # Deleted after its TTL.
    ns.submit(
        a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), name="brief", ttlSecondsAfterFinished=0)
    )
    ns.until(lambda: not ns.framework("brief") or None, "brief is deleted", SLOW_CONTROLLER_SECONDS)
    # Its certificate is overwritten.
    cluster.admin.patch(_SECRET, {"data": {"tls.crt": "bm9uZQ=="}})
    until(
        lambda: cluster.admin.get(_SECRET)["data"]["tls.crt"] != "bm9uZQ==" or None,
        "the certificate is recreated",
    )


def _read_node_failures(cluster: ControlPlane, launcher: KubeLauncher) -> None:
    """Reads the failures of nodes, for which the launcher watches Frameworks and FrameworkAttempts."""
    token = f"Authorization: Bearer {cluster.admin_token}"
    path = "/apis/launcher.microsoft.com/v1/nodefailures"
    nodes = until(lambda: launcher.get(path, "-H", token).get("items"), "failures")
    assert "flaky" in {failure["framework"] for node in nodes for failure in node["latest"]}


def _use_another_replica(ns: NamespaceClient, account: User, directory: Path) -> None:
    """A task reports its port to a launcher that has not created the key of its token."""
    discovery = {"ports": {"worker": "auto"}}
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod()), name="found", discovery=discovery))
    pod = ns.until(lambda: ns.pods().get("found-worker-0"), "the pod exists")
    environment = {
        variable["name"]: variable.get("value", "") for variable in pod["spec"]["containers"][0]["env"]
    }
    path = environment["LAUNCHER_RENDEZVOUS"].partition("/rendezvous/")[2]
    second_launcher = KubeLauncher(directory, account.kubeconfig)
    try:
        token = f"Authorization: Bearer {environment['LAUNCHER_TOKEN']}"
        response = second_launcher.get(f"/rendezvous/{path}?task=worker/0&port=20000", "-H", token)
        assert response["roles"]["worker"][0]["port"] == 20000
    finally:
        second_launcher.end()


def _is_counted_twice(ns: NamespaceClient, reason: str) -> bool:
    events = ns.cluster.admin.get(ns.path("events"))["items"]
    return any(event["reason"] == reason and (event.get("count") or 1) > 1 for event in events)


def _with_affinity_to(app: str) -> Json:
    """A pod with required affinity to pods of that *app*."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return a_task_pod("succeeded", affinity=affinity)


def _owned_pod(ns: NamespaceClient) -> Json:
    owner = ns.framework()
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    pod = a_task_pod()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "held", "ownerReferences": [reference]},
        "spec": pod["spec"],
    }


def _is_allowed(cluster: ControlPlane, user: User, permission: Permission) -> bool:
    resource, _, subresource = permission.resource.partition("/")
    attributes = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": permission.namespace,
        "name": permission.name,
    }
    review = {"spec": {"user": user.name, "resourceAttributes": attributes}}
    response = cluster.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(response["status"]["allowed"])
