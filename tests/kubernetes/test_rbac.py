"""The launcher has the rights that it needs, uses each of them, and asks for nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User, kubeconfig
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.account import BASE, HOME
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.lossy import LossyProxy
from tests.kubernetes.rights import ELSEWHERE, UNSEEN, Right, beyond, launcher_rights, of_launcher, refused
from tests.kubernetes.world import NOW_AND_THEN, World, a_task_pod
from tests.local.server import until

_SECRET = f"/api/v1/namespaces/{HOME}/secrets/framework-launcher-tls"
_KEY = f"/api/v1/namespaces/{HOME}/secrets/framework-launcher-discovery"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/framework-launcher"


@pytest.fixture
def webhook(cluster: ControlPlane) -> Iterator[None]:
    """kube-apiserver is to ask the launcher; since it cannot reach it here, it goes on without."""
    cluster.kubectl("apply", "-f", str(BASE / "webhook.yaml"))
    yield
    cluster.kubectl("delete", "-f", str(BASE / "webhook.yaml"))


@pytest.fixture
def nothing_made(cluster: ControlPlane, account: User) -> None:
    """As before the first launcher: whoever comes has to make its things itself."""
    for path in (_SECRET, _KEY, _LEASE):
        assert cluster.admin.ask("DELETE", path).status in {200, 404}


@pytest.mark.timeout(2 * NOW_AND_THEN)
def test_every_right_is_used_and_no_other_is_asked_for(
    cluster: ControlPlane, account: User, world: World, webhook: None, nothing_made: None, tmp_path: Path
) -> None:
    mark = cluster.audit.mark()

    with LossyProxy(cluster, "PUT", "/status") as way:
        launcher = KubeLauncher(tmp_path, _by(way, cluster, account), "--tls-secret=framework-launcher-tls")
        try:
            _live_through_everything(cluster, world)
            _ask_another_replica(world, account, tmp_path / "another")
        finally:
            launcher.end()

    asked = of_launcher(cluster.audit.since(mark))
    unused = {
        str(right)
        for right in launcher_rights()
        if right.group not in ELSEWHERE
        and not any(right.covers(request) and request.status < 300 for request in asked)
    }
    assert way.lost.is_set()
    assert unused == {str(UNSEEN)}
    assert beyond(launcher_rights(), asked) == set()
    assert refused(asked) == set()


def test_a_pod_may_hold_up_the_deletion_of_its_framework_by_one_right_alone(
    cluster: ControlPlane, account: User, world: World
) -> None:
    world.submit(a_framework(a_role(pod=a_task_pod()), executionType="Create"))
    other = cluster.service_account(HOME, "without-finalizers")
    (role, *_) = yaml.safe_load_all((BASE / "rbac.yaml").read_text())
    rules = [rule for rule in role["rules"] if rule["resources"] != [UNSEEN.resource]]
    cluster.grant(other, rules)
    pod = _owned_pod(world)

    answers = [
        cluster.client(user).ask("POST", f"{world.path('pods')}?dryRun=All", pod) for user in (account, other)
    ]

    assert [answer.status for answer in answers] == [201, 403]
    assert "cannot set blockOwnerDeletion" in answers[1].body["message"]


@pytest.mark.parametrize(
    "right",
    [
        pytest.param(Right("create", "launcher.microsoft.com", "frameworks"), id="create a Framework"),
        pytest.param(Right("update", "launcher.microsoft.com", "frameworks"), id="change a Framework"),
        pytest.param(Right("update", "", "pods"), id="replace a pod"),
        pytest.param(Right("create", "", "pods/exec"), id="run something in a pod"),
        pytest.param(Right("update", "", "services"), id="change a Service"),
        pytest.param(Right("get", "", "secrets", "default"), id="read others' Secrets"),
        pytest.param(Right("get", "", "secrets", HOME, "another"), id="read another Secret beside it"),
        pytest.param(Right("list", "", "secrets", HOME), id="list Secrets"),
        pytest.param(Right("patch", "", "nodes"), id="change a node"),
        pytest.param(
            Right("update", "coordination.k8s.io", "leases", HOME, "another"), id="take another Lease"
        ),
        pytest.param(
            Right("update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another"),
            id="change others' webhooks",
        ),
        pytest.param(Right("impersonate", "", "users"), id="ask in somebody's name"),
        pytest.param(Right("bind", "rbac.authorization.k8s.io", "clusterroles"), id="give out rights"),
    ],
)
def test_the_launcher_may_not(cluster: ControlPlane, account: User, right: Right) -> None:
    assert not _may(cluster, account, right)


def test_a_right_by_name_allows_to_follow_that_name(cluster: ControlPlane, account: User) -> None:
    client = cluster.client(account)
    secrets = f"/api/v1/namespaces/{HOME}/secrets"

    assert client.ask("GET", f"{secrets}?fieldSelector=metadata.name=framework-launcher-tls").status == 200
    assert client.ask("GET", f"{secrets}?fieldSelector=metadata.name=another").status == 403


@pytest.mark.parametrize(
    ("role", "verbs"),
    [
        pytest.param("view", {"get", "list", "watch"}, id="who may view a namespace sees its Frameworks"),
        pytest.param(
            "edit",
            {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
            id="who may edit it runs them",
        ),
        pytest.param(
            "admin",
            {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
            id="so may its admin",
        ),
    ],
)
def test_users_may_do_with_frameworks_what_they_may_do_with_the_rest(
    cluster: ControlPlane, namespace: str, role: str, verbs: set[str]
) -> None:
    cluster.kubectl("apply", "-f", str(BASE / "rbac-users.yaml"))
    user = cluster.new_user()
    cluster.kubectl(
        "create", "rolebinding", "given", f"--clusterrole={role}", f"--user={user.name}", "-n", namespace
    )
    group = "launcher.microsoft.com"
    every = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

    def granted() -> bool | None:
        return {
            v for v in every if _may(cluster, user, Right(v, group, "frameworks", namespace))
        } == verbs or None

    # The roles are put together by kube-controller-manager, a moment after.
    until(granted, f"{role} has just these rights")
    assert _may(cluster, user, Right("get", group, "frameworks/scale", namespace))
    assert _may(cluster, user, Right("update", group, "frameworks/scale", namespace)) is (role != "view")
    assert not _may(cluster, user, Right("update", group, "frameworks/status", namespace))
    assert not _may(cluster, user, Right("list", group, "frameworks"))


def _by(way: LossyProxy, cluster: ControlPlane, account: User) -> Path:
    """The account's kubeconfig, that way."""
    path = account.kubeconfig.with_name("lossy.kubeconfig")
    path.write_text(kubeconfig(way.url, cluster.ca, account.token))
    cluster.kubectl("config", "set-context", "--current", f"--namespace={HOME}", user=User("", path))
    return path


def _live_through_everything(cluster: ControlPlane, world: World) -> None:
    """The life of Frameworks with everything that the launcher asks kube-apiserver for on the way."""
    # Room for one pod only: told by an event, which is counted when it happens again.
    world.kubectl("create", "quota", "small", "--hard=pods=1")
    quota = world.path("resourcequotas", "small")
    world.until(lambda: cluster.admin.get(quota).get("status") or None, "it counts")
    world.submit(a_framework(a_role(pod=a_task_pod(), tasks=2), name="crowded"))
    world.until(lambda: _counted(world, "FailedCreate") or None, "a refusal is told twice")
    world.kubectl("delete", "quota", "small")
    world.running("crowded-worker-0", "crowded-worker-1")
    # Ended by its user, so its pods are deleted.
    world.kubectl(
        "patch", "framework", "crowded", "--type=merge", '--patch={"spec":{"executionType":"Stop"}}'
    )
    world.completed("crowded")
    # Another has the name of its pod: who, it looks up.
    world.kubectl("run", "late-worker-0", "--image=busybox", "--restart=Never")
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), name="late"))
    world.until(
        lambda: [r for r in world.asked("get", "pods") if r.name == "late-worker-0"] or None, "it asks"
    )
    world.take_away("pod", "late-worker-0", "--grace-period=0", "--force")
    world.completed("late")
    # Its tasks have names, of which one is somebody's already: whose, it looks up.
    world.kubectl("create", "service", "clusterip", "named-worker-0", "--tcp=80:80")
    pod = a_task_pod("succeeded")
    pod["metadata"]["annotations"]["launcher.microsoft.com/services"] = "PerTask"
    world.submit(a_framework(a_role(tasks=1, pod=pod), name="named"))
    world.until(lambda: world.asked("get", "services") or None, "it asks")
    world.take_away("service", "named-worker-0")
    world.completed("named")
    world.until(lambda: world.asked("delete", "services") or None, "what is over has no names")
    # A gang waits for room, which it has once somebody is there whom it wants to be near.
    world.submit(a_framework(a_role(tasks=2, pod=_near("anchor")), name="together", gang={}))
    world.until(lambda: world.events("GangWaits") or None, "it waits")
    world.kubectl("run", "anchor", "--image=busybox", "--restart=Never", "--labels=app=anchor")
    world.completed("together")
    # Deleted when its time is over.
    world.submit(
        a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), name="brief", ttlSecondsAfterFinished=0)
    )
    world.until(lambda: not world.framework("brief") or None, "brief is gone", NOW_AND_THEN)
    # Its certificate is spoilt by somebody.
    cluster.admin.patch(_SECRET, {"data": {"tls.crt": "bm9uZQ=="}})
    until(lambda: cluster.admin.get(_SECRET)["data"]["tls.crt"] != "bm9uZQ==" or None, "it is made anew")


def _ask_another_replica(world: World, account: User, directory: Path) -> None:
    """A task tells its port to a launcher that has not made the key by which it knows the task."""
    discovery = {"ports": {"worker": "auto"}}
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod()), name="found", discovery=discovery))
    pod = world.until(lambda: world.pods().get("found-worker-0"), "it is there")
    given = {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}
    path = given["LAUNCHER_RENDEZVOUS"].partition("/rendezvous/")[2]
    another = KubeLauncher(directory, account.kubeconfig)
    try:
        token = f"Authorization: Bearer {given['LAUNCHER_TOKEN']}"
        told = another.get(f"/rendezvous/{path}?task=worker/0&port=20000", "-H", token)
        assert told["roles"]["worker"][0]["port"] == 20000
    finally:
        another.end()


def _counted(world: World, reason: str) -> bool:
    events = world.cluster.admin.get(world.path("events"))["items"]
    return any(event["reason"] == reason and (event.get("count") or 1) > 1 for event in events)


def _near(app: str) -> Json:
    """A pod that goes only where one of that *app* is."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return a_task_pod("succeeded", affinity=near)


def _owned_pod(world: World) -> Json:
    owner = world.framework()
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


def _may(cluster: ControlPlane, user: User, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    review = {"spec": {"user": user.name, "resourceAttributes": attributes}}
    answer = cluster.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
