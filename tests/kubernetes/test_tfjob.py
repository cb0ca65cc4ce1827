"""TFJobs on a real control plane: handled with the CRD of deploy/, ignored with that of another operator."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from launcher.cli.main import main as command
from launcher.job_kinds.job_kind import WRITTEN_AS_ANNOTATION
from tests.builders import Json
from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pods import end_annotations
from tests.cluster.users import User
from tests.eventually import until
from tests.job_kinds.samples import a_tfjob, counts, states
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import SLOW_CONTROLLER_SECONDS, NamespaceClient
from tests.kubernetes.permissions import (
    Permission,
    launcher_permissions,
    launcher_requests,
    rejected,
    unpermitted,
)
from tests.kubernetes.webhook_server import REGISTRATION, WebhookServer, until_called, webhook_configurations
from tests.launcher_process import PROJECT

COMPONENT = PROJECT / "deploy" / "kubernetes" / "components" / "tfjob"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org"
#: Not visible in requests: kube-apiserver checks it for blockOwnerDeletion.
FINALIZERS_PERMISSION = Permission("update", "kubeflow.org", "tfjobs/finalizers")

pytestmark = pytest.mark.timeout(400)
_numbers = itertools.count()


def a_plane(directory: Path, programs: Path) -> ControlPlane:
    plane = ControlPlane(directory, programs, nodes=3)
    # As in OpenShift: blockOwnerDeletion requires a permission.
    plane.add_flags(Component.APISERVER, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    return plane


def define_tfjobs(plane: ControlPlane) -> None:
    """Applies the component and waits until TFJobs are served."""
    plane.kubectl("apply", "--server-side", "-f", str(COMPONENT / "crd.yaml"))
    plane.kubectl("apply", "-f", str(COMPONENT / "rbac.yaml"))
    _wait_until_served(plane)


def _wait_until_served(plane: ControlPlane) -> None:
    path = "/apis/kubeflow.org/v1/tfjobs"
    until(lambda: plane.admin.request("GET", path).status == 200 or None, "TFJobs are served")


class JobNamespaceClient(NamespaceClient):
    """A user's view of one namespace with TFJobs in it."""

    @property
    def tfjobs(self) -> str:
        return f"/apis/kubeflow.org/v1/namespaces/{self.namespace}/tfjobs"

    def job(self, name: str = "dist") -> Json:
        """The current job, ``{}`` if it was deleted."""
        response = self.cluster.admin.request("GET", f"{self.tfjobs}/{name}")
        return response.body if response.status == 200 else {}

    def wait_for_conditions(self, *conditions: str) -> Json:
        """Waits until the job has these conditions, and returns it."""

        def probe() -> Json | None:
            job = self.job()
            return job if states(job) == list(conditions) else None

        try:
            return self.until(probe, f"dist is {conditions}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.job().get('status')}") from None

    def wait_deleted(self) -> None:
        """Waits until the job, its Framework and its pods are deleted."""

        def probe() -> bool | None:
            return not (self.job() or self.framework("dist") or self.pods()) or None

        self.until(probe, "the job and its dependents are deleted", SLOW_CONTROLLER_SECONDS)


def replicas(count: int, ends: str | None = None, restart: str = "Never") -> Json:
    """Replicas whose pods end on simulated nodes as specified, or run until annotated."""
    container = {"name": "tensorflow", "image": "tf"}
    template = {"metadata": {"annotations": end_annotations(ends)}, "spec": {"containers": [container]}}
    return {"replicas": count, "restartPolicy": restart, "template": template}


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane for this module, because a CRD applies to all namespaces."""
    with a_plane(tmp_path_factory.mktemp("plane"), programs) as plane:
        define_frameworks(plane)
        define_tfjobs(plane)
        yield plane


@pytest.fixture(scope="module")
def account(plane: ControlPlane) -> Iterator[User]:
    """The launcher's service account; finally checks that its permissions sufficed in every test."""
    mark = plane.audit.mark()
    yield launcher_account(plane)
    requests = launcher_requests(plane.audit.since(mark))
    assert rejected(requests) == set()
    assert unpermitted(launcher_permissions() | job_permissions(), requests) == set()


@pytest.fixture(scope="module")
def launcher(account: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeLauncher]:
    launcher = KubeLauncher(tmp_path_factory.mktemp("launcher"), account.kubeconfig)
    launcher.wait_for_log("jobs of this kind are run as Frameworks", within=SLOW_CONTROLLER_SECONDS)
    yield launcher
    launcher.end()


@pytest.fixture
def jobs(plane: ControlPlane, launcher: KubeLauncher) -> Iterator[JobNamespaceClient]:
    """An empty namespace."""
    name = f"jobs-{next(_numbers)}"
    plane.kubectl("create", "namespace", name)
    yield JobNamespaceClient(plane, name)
    plane.admin.delete(f"/api/v1/namespaces/{name}")


def job_permissions() -> frozenset[Permission]:
    """The launcher's permissions from the component."""
    (role, *_) = yaml.safe_load_all((COMPONENT / "rbac.yaml").read_text())
    return frozenset(
        Permission(verb, group, resource, "", name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    )


def test_a_job_completes_as_with_its_own_operator(jobs: JobNamespaceClient) -> None:
    jobs.submit(a_tfjob(Chief=replicas(1), Worker=replicas(2), PS=replicas(1)))
    jobs.wait_running("dist-chief-0", "dist-ps-0", "dist-worker-0", "dist-worker-1")
    running = jobs.wait_for_conditions("Created", "Running")
    jobs.until(lambda: counts(jobs.job())["Worker"] == {"active": 2} or None, "both workers are counted")
    jobs.end_pod("dist-chief-0", "succeeded")

    ended = jobs.wait_for_conditions("Created", "Running=False", "Succeeded")

    assert running["status"]["startTime"]
    assert counts(ended) == {"Chief": {"succeeded": 1}, "PS": {"succeeded": 1}, "Worker": {"succeeded": 2}}
    assert jobs.kubectl("get", "tfjobs").split()[:5] == ["NAME", "STATE", "AGE", "dist", "Succeeded"]
    jobs.until(
        lambda: "TFJobSucceeded" in jobs.kubectl("describe", "tfjob", "dist") or None, "the event is recorded"
    )
    (config,) = [
        item["value"]
        for item in jobs.pods()["dist-worker-1"]["spec"]["containers"][0]["env"]
        if item["name"] == "TF_CONFIG"
    ]
    assert orjson.loads(config)["task"] == {"type": "worker", "index": 1}


def test_a_deleted_job_deletes_its_objects(jobs: JobNamespaceClient) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.wait_for_conditions("Created", "Running")
    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist")
    # Afterwards the garbage collector knows the kinds; before, it deletes a job without its dependents.
    jobs.wait_deleted()

    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.wait_for_conditions("Created", "Running")
    (owner,) = jobs.framework("dist")["metadata"]["ownerReferences"]

    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist?propagationPolicy=Foreground")
    jobs.until(lambda: not jobs.job() or None, "the job is deleted", SLOW_CONTROLLER_SECONDS)

    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("TFJob", True, True)
    assert jobs.pods() == {}
    jobs.wait_deleted()


def test_a_recreated_job_runs_after_its_predecessor_is_deleted(jobs: JobNamespaceClient) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.wait_for_conditions("Created", "Running")
    before = jobs.framework("dist")["metadata"]["uid"]

    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist")
    jobs.submit(a_tfjob(Worker=replicas(1)))

    def has_new_framework() -> bool | None:
        framework = jobs.framework("dist")
        return (bool(framework) and framework["metadata"]["uid"] != before) or None

    jobs.until(has_new_framework, "a new Framework exists", SLOW_CONTROLLER_SECONDS)
    jobs.wait_for_conditions("Created", "Running")
    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist")
    jobs.wait_deleted()


def test_a_job_is_scaled_suspended_and_resumed(jobs: JobNamespaceClient) -> None:
    jobs.submit(a_tfjob(spec={"enableDynamicWorker": True}, Worker=replicas(1), PS=replicas(1)))
    jobs.wait_running("dist-worker-0", "dist-ps-0")
    jobs.wait_for_conditions("Created", "Running")

    jobs.kubectl("scale", "tfjob", "dist", "--replicas=2")
    jobs.wait_running("dist-worker-0", "dist-worker-1", "dist-ps-0")
    set_suspended(jobs, True)
    jobs.wait_for_conditions("Created", "Running=False", "Suspended")
    jobs.until(
        lambda: not (jobs.pods() or jobs.framework("dist")) or None,
        "its Framework and pods are deleted",
        SLOW_CONTROLLER_SECONDS,
    )
    set_suspended(jobs, False)
    jobs.wait_running("dist-worker-0", "dist-worker-1", "dist-ps-0")

    jobs.wait_for_conditions("Created", "Suspended=False", "Running")


def set_suspended(jobs: JobNamespaceClient, suspended: bool) -> None:
    patch = orjson.dumps({"spec": {"runPolicy": {"suspend": suspended}}}).decode()
    jobs.kubectl("patch", "tfjob", "dist", "--type=merge", f"--patch={patch}")


def test_an_exit_code_decides_about_a_retry(jobs: JobNamespaceClient) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1, restart="ExitCode")))
    jobs.wait_running("dist-worker-0")
    jobs.wait_for_conditions("Created", "Running")
    uid = jobs.pods()["dist-worker-0"]["metadata"]["uid"]

    jobs.end_pod("dist-worker-0", "failed", "137")
    jobs.wait_replaced("dist-worker-0", uid)
    jobs.until(lambda: jobs.task(name="dist")["state"] == "AttemptRunning" or None, "the task runs")
    jobs.wait_for_conditions("Created", "Running")
    jobs.end_pod("dist-worker-0", "failed", "1")

    job = jobs.wait_for_conditions("Created", "Running=False", "Failed")
    assert counts(job) == {"Worker": {"failed": 1}}


def test_a_framework_of_another_owner_is_never_adopted(jobs: JobNamespaceClient) -> None:
    role = {"name": "a", "taskNumber": 1, "task": {"pod": replicas(1)["template"]}}
    other = {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "dist"},
        "spec": {"executionType": "Create", "taskRoles": [role]},
    }
    jobs.submit(other)
    jobs.submit(a_tfjob(Worker=replicas(1)))

    job = jobs.wait_for_conditions("Created", "Blocked")
    unchanged = jobs.framework("dist")
    jobs.delete_without_waiting("framework", "dist")

    assert job["status"]["conditions"][-1]["reason"] == "TFJobNameTaken"
    assert "ownerReferences" not in unchanged["metadata"]
    jobs.wait_for_conditions("Created", "Running")


def test_an_invalid_stored_job_is_reported_in_its_status(jobs: JobNamespaceClient) -> None:
    jobs.submit(a_tfjob(spec={"tfImage": "x"}, Worker=replicas(1)))

    job = jobs.wait_for_conditions("Created", "Blocked")

    assert "spec.tfImage: Forbidden" in job["status"]["conditions"][-1]["message"]
    assert jobs.framework("dist") == {}


def test_the_proxy_rejects_an_invalid_job_with_the_field(
    jobs: JobNamespaceClient, launcher: KubeLauncher
) -> None:
    invalid, old = a_tfjob("wrong", spec={"tfImage": "x"}), a_tfjob("old", version="v1beta2")

    rejected = _post(jobs, launcher, invalid)
    accepted = _post(jobs, launcher, old, "v1beta2")

    assert (rejected["code"], rejected["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in rejected["details"]["causes"]] == ["spec.tfImage"]
    assert jobs.job("wrong") == {}
    assert accepted["metadata"]["annotations"] == {WRITTEN_AS_ANNOTATION: "kubeflow.org/v1beta2"}


def _post(jobs: JobNamespaceClient, launcher: KubeLauncher, job: Json, version: str = "v1") -> Any:
    token = jobs.cluster.admin_user.token
    return launcher.get(
        jobs.tfjobs.replace("/v1/", f"/{version}/"),
        *("-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json"),
        *("--data-binary", orjson.dumps(job).decode()),
    )


def test_the_cli_deletes_the_job_of_a_framework_with_the_users_permissions(
    jobs: JobNamespaceClient, launcher: KubeLauncher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.wait_for_conditions("Created", "Running")
    verbs, account = "get,list,watch,delete", f"{jobs.namespace}:clerk"
    jobs.kubectl("create", "serviceaccount", "clerk")
    resource = "--resource=frameworks.launcher.microsoft.com"
    jobs.kubectl("create", "role", "clerk", f"--verb={verbs}", resource)
    jobs.kubectl("create", "rolebinding", "clerk", "--role=clerk", f"--serviceaccount={account}")
    clerk = jobs.kubectl("create", "token", "clerk").strip()

    def delete(token: str) -> int:
        (tmp_path / "token").write_text(token)
        server = ("--server", launcher.url, "--token-file", str(tmp_path / "token"))
        return command(["delete", "--all", "--wait", "-n", jobs.namespace, *server])

    assert delete(clerk) == 1
    assert "tfjob/dist owns framework/dist and cannot be deleted: " in capsys.readouterr().err
    assert "deletionTimestamp" not in jobs.job()["metadata"]
    assert delete(jobs.cluster.admin_user.token) == 0
    assert capsys.readouterr().out == "tfjob/dist deleting\ntfjob/dist deleted\n"
    jobs.wait_deleted()


def test_the_webhook_rejects_an_invalid_job_and_records_the_version(
    jobs: JobNamespaceClient, account: User
) -> None:
    server = WebhookServer(account.kubeconfig)
    try:
        for plural, configuration in webhook_configurations(server.port, policy="Fail"):
            for step in yaml.safe_load((COMPONENT / "webhook.yaml").read_text()):
                assert (step["op"], step["path"]) == ("add", "/webhooks/0/rules/-")
                configuration["webhooks"][0]["rules"].append(step["value"])
            jobs.cluster.admin.post(f"{REGISTRATION}/{plural}", configuration)
        probe, invalid = f"{jobs.tfjobs}?dryRun=All", a_tfjob(spec={"tfImage": "x"})
        until_called(jobs.cluster, lambda: jobs.cluster.admin.request("POST", probe, invalid).status == 422)

        response = jobs.cluster.admin.request("POST", jobs.tfjobs, invalid)
        old = jobs.cluster.admin.post(
            jobs.tfjobs.replace("/v1/", "/v1beta2/"), a_tfjob("old", version="v1beta2")
        )

        assert [cause["field"] for cause in response.body["details"]["causes"]] == ["spec.tfImage"]
        assert old["metadata"]["annotations"] == {WRITTEN_AS_ANNOTATION: "kubeflow.org/v1beta2"}
    finally:
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            jobs.cluster.admin.request("DELETE", f"{REGISTRATION}/{plural}/framework-launcher")
        server.end()


def test_every_permission_of_the_component_is_used(
    jobs: JobNamespaceClient, account: User, tmp_path: Path
) -> None:
    mark = jobs.cluster.audit.mark()
    has_new_framework = KubeLauncher(tmp_path, account.kubeconfig)
    has_new_framework.wait_for_log("jobs of this kind are run as Frameworks", within=SLOW_CONTROLLER_SECONDS)
    try:
        jobs.submit(a_tfjob(policy={"ttlSecondsAfterFinished": 0}, Worker=replicas(1)))
        jobs.wait_for_conditions("Created", "Running")
        jobs.kubectl("label", "framework", "dist", "launcher.microsoft.com/job-kind-")
        label = "launcher.microsoft.com/job-kind"
        jobs.until(
            lambda: label in jobs.framework("dist")["metadata"].get("labels", ()) or None,
            "the label is restored",
        )
        jobs.kubectl("scale", "tfjob", "dist", "--replicas=2")
        jobs.wait_running("dist-worker-0", "dist-worker-1")
        jobs.end_pod("dist-worker-0", "succeeded")
        jobs.wait_deleted()
    finally:
        has_new_framework.end()

    requests = launcher_requests(jobs.cluster.audit.since(mark))
    unused = {
        permission
        for permission in job_permissions()
        if not any(permission.covers(item) for item in requests)
    }
    # The launchers started these watches before this test.
    unused -= {Permission(verb, "kubeflow.org", "tfjobs") for verb in ("list", "watch")}
    assert unused == {FINALIZERS_PERMISSION}


def test_jobs_of_another_operator_are_not_handled(programs: Path, tmp_path: Path) -> None:
    with a_plane(tmp_path / "plane", programs) as plane:
        define_frameworks(plane)
        kubeconfig = launcher_account(plane).kubeconfig
        _check_without_the_crd(plane, kubeconfig, tmp_path / "first")
        define_tfjobs(plane)
        plane.admin.patch(CRD_PATH, {"metadata": {"labels": {"app.kubernetes.io/name": "training-operator"}}})

        launcher = KubeLauncher(tmp_path / "second", kubeconfig)
        try:
            message = launcher.wait_for_log("job kind is served by another operator, not handled")
            jobs = JobNamespaceClient(plane, "default")
            invalid = _post(jobs, launcher, a_tfjob("theirs", spec={"tfImage": "x"}))
            jobs.submit(a_tfjob(Worker=replicas(1)))
            framework = {
                "apiVersion": "launcher.microsoft.com/v1",
                "kind": "Framework",
                "metadata": {"name": "ours"},
                "spec": {
                    "taskRoles": [{"name": "a", "taskNumber": 1, "task": {"pod": replicas(1)["template"]}}]
                },
            }
            jobs.submit(framework)
            jobs.until(lambda: jobs.framework("ours").get("status"), "the launcher has reconciled it")
        finally:
            launcher.end()

        assert "tfjobs.kubeflow.org" in message
        assert invalid["kind"] == "TFJob"  # not validated: that is left to its operator
        assert "status" not in jobs.job()
        assert jobs.framework("dist") == {}
        assert launcher.log().count("job kind is served by another operator") == 1


def _check_without_the_crd(plane: ControlPlane, kubeconfig: Path, directory: Path) -> None:
    """Checks that without the CRD of TFJobs there are no requests for them and no errors."""
    mark = plane.audit.mark()
    launcher = KubeLauncher(directory, kubeconfig)
    try:
        launcher.wait_for_log("leading")
        launcher.ready()
    finally:
        launcher.end()
    assert "jobs" not in launcher.log()
    requests = launcher_requests(plane.audit.since(mark))
    assert [item for item in requests if item.group in ("kubeflow.org", "apiextensions.k8s.io")] == []
