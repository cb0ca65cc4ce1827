"""TFJobs on a real control plane: run where their definition is ours, left alone where it is not."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from launcher.cli.main import main as command
from launcher.job_kinds.job_kind import WRITTEN_AS
from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.cluster.users import User
from tests.core.manifests import Json
from tests.job_kinds.samples import a_tfjob, counts, states
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.rights import Right, beyond, launcher_rights, of_launcher, refused
from tests.kubernetes.webhook import REGISTRATION, WebhookServer, configurations, until_called
from tests.kubernetes.world import NOW_AND_THEN, World
from tests.local.server import PROJECT, until

COMPONENT = PROJECT / "deploy" / "kubernetes" / "components" / "tfjob"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org"
#: Not seen in any request: kube-apiserver asks for it when a Framework says that it holds up the deletion of its job.
UNSEEN = Right("update", "kubeflow.org", "tfjobs/finalizers")

pytestmark = pytest.mark.timeout(400)
_numbers = itertools.count()


def a_plane(directory: Path, programs: Path) -> ControlPlane:
    plane = ControlPlane(directory, programs, nodes=3)
    # As in OpenShift: who lets an object hold up the deletion of its owner must have a right to that.
    plane.tell(Part.APISERVER, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    return plane


def define_tfjobs(plane: ControlPlane) -> None:
    """Apply the component, and return when the API server serves TFJobs."""
    plane.kubectl("apply", "--server-side", "-f", str(COMPONENT / "crd.yaml"))
    plane.kubectl("apply", "-f", str(COMPONENT / "rbac.yaml"))
    _served(plane)


def _served(plane: ControlPlane) -> None:
    path = "/apis/kubeflow.org/v1/tfjobs"
    until(lambda: plane.admin.ask("GET", path).status == 200 or None, "TFJobs are served")


class Jobs(World):
    """A user's view of one namespace with TFJobs in it."""

    @property
    def tfjobs(self) -> str:
        return f"/apis/kubeflow.org/v1/namespaces/{self.namespace}/tfjobs"

    def job(self, name: str = "dist") -> Json:
        """The job as it is now, ``{}`` when it is gone."""
        answer = self.cluster.admin.ask("GET", f"{self.tfjobs}/{name}")
        return answer.body if answer.status == 200 else {}

    def told(self, *conditions: str) -> Json:
        """The job, as soon as these are its conditions."""

        def look() -> Json | None:
            job = self.job()
            return job if states(job) == list(conditions) else None

        try:
            return self.until(look, f"dist is {conditions}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.job().get('status')}") from None

    def gone(self) -> None:
        """Return when neither the job nor anything of it is there."""

        def look() -> bool | None:
            return not (self.job() or self.framework("dist") or self.pods()) or None

        self.until(look, "all is gone", NOW_AND_THEN)


def replicas(count: int, ends: str | None = None, restart: str = "Never") -> Json:
    """Replicas whose pods end on simulated nodes as it says, or run until somebody annotates them."""
    annotations = {} if ends is None else {"launcher.test/ends": ends}
    container = {"name": "tensorflow", "image": "tf"}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    return {"replicas": count, "restartPolicy": restart, "template": template}


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own, for what TFJobs are is the same in all namespaces."""
    with a_plane(tmp_path_factory.mktemp("plane"), programs) as plane:
        define_frameworks(plane)
        define_tfjobs(plane)
        yield plane


@pytest.fixture(scope="module")
def account(plane: ControlPlane) -> Iterator[User]:
    """Whom launchers run as, whose rights were enough in every test, in the end."""
    mark = plane.audit.mark()
    yield launcher_account(plane)
    asked = of_launcher(plane.audit.since(mark))
    assert refused(asked) == set()
    assert beyond(launcher_rights() | job_rights(), asked) == set()


@pytest.fixture(scope="module")
def launcher(account: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeLauncher]:
    launcher = KubeLauncher(tmp_path_factory.mktemp("launcher"), account.kubeconfig)
    launcher.told("jobs are run as Frameworks", within=NOW_AND_THEN)
    yield launcher
    launcher.end()


@pytest.fixture
def jobs(plane: ControlPlane, launcher: KubeLauncher) -> Iterator[Jobs]:
    """An empty namespace."""
    name = f"jobs-{next(_numbers)}"
    plane.kubectl("create", "namespace", name)
    yield Jobs(plane, name)
    plane.admin.delete(f"/api/v1/namespaces/{name}")


def job_rights() -> frozenset[Right]:
    """All that the launcher has by the component."""
    (role, *_) = yaml.safe_load_all((COMPONENT / "rbac.yaml").read_text())
    return frozenset(
        Right(verb, group, resource, "", name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    )


def test_a_job_runs_to_its_end_as_with_its_own_operator(jobs: Jobs) -> None:
    jobs.submit(a_tfjob(Chief=replicas(1), Worker=replicas(2), PS=replicas(1)))
    jobs.running("dist-chief-0", "dist-ps-0", "dist-worker-0", "dist-worker-1")
    running = jobs.told("Created", "Running")
    jobs.until(lambda: counts(jobs.job())["Worker"] == {"active": 2} or None, "both workers are counted")
    jobs.end("dist-chief-0", "succeeded")

    ended = jobs.told("Created", "Running=False", "Succeeded")

    assert running["status"]["startTime"]
    assert counts(ended) == {"Chief": {"succeeded": 1}, "PS": {"succeeded": 1}, "Worker": {"succeeded": 2}}
    assert jobs.kubectl("get", "tfjobs").split()[:5] == ["NAME", "STATE", "AGE", "dist", "Succeeded"]
    jobs.until(lambda: "TFJobSucceeded" in jobs.kubectl("describe", "tfjob", "dist") or None, "it is told")
    (config,) = [
        each["value"]
        for each in jobs.pods()["dist-worker-1"]["spec"]["containers"][0]["env"]
        if each["name"] == "TF_CONFIG"
    ]
    assert orjson.loads(config)["task"] == {"type": "worker", "index": 1}


def test_a_job_takes_all_that_belongs_to_it_along(jobs: Jobs) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.told("Created", "Running")
    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist")
    jobs.gone()  # so the garbage collector knows of these kinds now; before, it lets a job go without what it owns

    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.told("Created", "Running")
    (owner,) = jobs.framework("dist")["metadata"]["ownerReferences"]

    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist?propagationPolicy=Foreground")
    jobs.until(lambda: not jobs.job() or None, "the job is gone", NOW_AND_THEN)

    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("TFJob", True, True)
    assert jobs.pods() == {}
    jobs.gone()


def test_a_job_that_is_created_again_at_once_runs_when_its_predecessor_is_gone(jobs: Jobs) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.told("Created", "Running")
    before = jobs.framework("dist")["metadata"]["uid"]

    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist")
    jobs.submit(a_tfjob(Worker=replicas(1)))

    def another() -> bool | None:
        framework = jobs.framework("dist")
        return (bool(framework) and framework["metadata"]["uid"] != before) or None

    jobs.until(another, "there is another Framework", NOW_AND_THEN)
    jobs.told("Created", "Running")
    jobs.cluster.admin.delete(f"{jobs.tfjobs}/dist")
    jobs.gone()


def test_a_job_is_scaled_suspended_and_resumed(jobs: Jobs) -> None:
    jobs.submit(a_tfjob(spec={"enableDynamicWorker": True}, Worker=replicas(1), PS=replicas(1)))
    jobs.running("dist-worker-0", "dist-ps-0")
    jobs.told("Created", "Running")

    jobs.kubectl("scale", "tfjob", "dist", "--replicas=2")
    jobs.running("dist-worker-0", "dist-worker-1", "dist-ps-0")
    suspend(jobs, True)
    jobs.told("Created", "Running=False", "Suspended")
    jobs.until(lambda: not (jobs.pods() or jobs.framework("dist")) or None, "nothing is left", NOW_AND_THEN)
    suspend(jobs, False)
    jobs.running("dist-worker-0", "dist-worker-1", "dist-ps-0")

    jobs.told("Created", "Suspended=False", "Running")


def suspend(jobs: Jobs, wish: bool) -> None:
    patch = orjson.dumps({"spec": {"runPolicy": {"suspend": wish}}}).decode()
    jobs.kubectl("patch", "tfjob", "dist", "--type=merge", f"--patch={patch}")


def test_an_exit_code_decides_about_another_try(jobs: Jobs) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1, restart="ExitCode")))
    jobs.running("dist-worker-0")
    jobs.told("Created", "Running")
    uid = jobs.pods()["dist-worker-0"]["metadata"]["uid"]

    jobs.end("dist-worker-0", "failed", "137")
    jobs.replaced("dist-worker-0", uid)
    jobs.until(lambda: jobs.task(name="dist")["state"] == "AttemptRunning" or None, "that is stored")
    jobs.told("Created", "Running")
    jobs.end("dist-worker-0", "failed", "1")

    job = jobs.told("Created", "Running=False", "Failed")
    assert counts(job) == {"Worker": {"failed": 1}}


def test_a_framework_that_is_somebody_elses_is_never_taken_over(jobs: Jobs) -> None:
    role = {"name": "a", "taskNumber": 1, "task": {"pod": replicas(1)["template"]}}
    theirs = {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "dist"},
        "spec": {"executionType": "Create", "taskRoles": [role]},
    }
    jobs.submit(theirs)
    jobs.submit(a_tfjob(Worker=replicas(1)))

    job = jobs.told("Created", "Blocked")
    untouched = jobs.framework("dist")
    jobs.take_away("framework", "dist")

    assert job["status"]["conditions"][-1]["reason"] == "TFJobNameTaken"
    assert "ownerReferences" not in untouched["metadata"]
    jobs.told("Created", "Running")


def test_what_got_past_every_check_is_told_in_its_status(jobs: Jobs) -> None:
    jobs.submit(a_tfjob(spec={"tfImage": "x"}, Worker=replicas(1)))

    job = jobs.told("Created", "Blocked")

    assert "spec.tfImage: Forbidden" in job["status"]["conditions"][-1]["message"]
    assert jobs.framework("dist") == {}


def test_the_front_door_refuses_it_with_the_field(jobs: Jobs, launcher: KubeLauncher) -> None:
    wrong, old = a_tfjob("wrong", spec={"tfImage": "x"}), a_tfjob("old", version="v1beta2")

    refusal = _posted(jobs, launcher, wrong)
    accepted = _posted(jobs, launcher, old, "v1beta2")

    assert (refusal["code"], refusal["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in refusal["details"]["causes"]] == ["spec.tfImage"]
    assert jobs.job("wrong") == {}
    assert accepted["metadata"]["annotations"] == {WRITTEN_AS: "kubeflow.org/v1beta2"}


def _posted(jobs: Jobs, launcher: KubeLauncher, job: Json, version: str = "v1") -> Any:
    token = jobs.cluster.admin_user.token
    return launcher.get(
        jobs.tfjobs.replace("/v1/", f"/{version}/"),
        *("-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json"),
        *("--data-binary", orjson.dumps(job).decode()),
    )


def test_the_command_line_deletes_the_job_of_a_framework_with_the_rights_of_its_user(
    jobs: Jobs, launcher: KubeLauncher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.submit(a_tfjob(Worker=replicas(1)))
    jobs.told("Created", "Running")
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
    jobs.gone()


def test_the_webhook_refuses_it_and_notes_the_version(jobs: Jobs, account: User) -> None:
    server = WebhookServer(account.kubeconfig)
    try:
        for plural, configuration in configurations(server.port, policy="Fail"):
            for step in yaml.safe_load((COMPONENT / "webhook.yaml").read_text()):
                assert (step["op"], step["path"]) == ("add", "/webhooks/0/rules/-")
                configuration["webhooks"][0]["rules"].append(step["value"])
            jobs.cluster.admin.post(f"{REGISTRATION}/{plural}", configuration)
        probe, wrong = f"{jobs.tfjobs}?dryRun=All", a_tfjob(spec={"tfImage": "x"})
        until_called(jobs.cluster, lambda: jobs.cluster.admin.ask("POST", probe, wrong).status == 422)

        answer = jobs.cluster.admin.ask("POST", jobs.tfjobs, wrong)
        old = jobs.cluster.admin.post(
            jobs.tfjobs.replace("/v1/", "/v1beta2/"), a_tfjob("old", version="v1beta2")
        )

        assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["spec.tfImage"]
        assert old["metadata"]["annotations"] == {WRITTEN_AS: "kubeflow.org/v1beta2"}
    finally:
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            jobs.cluster.admin.ask("DELETE", f"{REGISTRATION}/{plural}/framework-launcher")
        server.end()


def test_every_right_is_used(jobs: Jobs, account: User, tmp_path: Path) -> None:
    mark = jobs.cluster.audit.mark()
    another = KubeLauncher(tmp_path, account.kubeconfig)
    another.told("jobs are run as Frameworks", within=NOW_AND_THEN)
    try:
        jobs.submit(a_tfjob(policy={"ttlSecondsAfterFinished": 0}, Worker=replicas(1)))
        jobs.told("Created", "Running")
        jobs.kubectl("label", "framework", "dist", "launcher.microsoft.com/job-kind-")
        mended = "launcher.microsoft.com/job-kind"
        jobs.until(
            lambda: mended in jobs.framework("dist")["metadata"].get("labels", ()) or None,
            "its label is back",
        )
        jobs.kubectl("scale", "tfjob", "dist", "--replicas=2")
        jobs.running("dist-worker-0", "dist-worker-1")
        jobs.end("dist-worker-0", "succeeded")
        jobs.gone()
    finally:
        another.end()

    asked = of_launcher(jobs.cluster.audit.since(mark))
    unused = {right for right in job_rights() if not any(right.covers(each) for each in asked)}
    # Who follows jobs has begun to before this test did.
    unused -= {Right(verb, "kubeflow.org", "tfjobs") for verb in ("list", "watch")}
    assert unused == {UNSEEN}


def test_jobs_of_another_operator_are_left_alone(programs: Path, tmp_path: Path) -> None:
    with a_plane(tmp_path / "plane", programs) as plane:
        define_frameworks(plane)
        kubeconfig = launcher_account(plane).kubeconfig
        _without_any(plane, kubeconfig, tmp_path / "first")
        define_tfjobs(plane)
        plane.admin.patch(
            DEFINITION, {"metadata": {"labels": {"app.kubernetes.io/name": "training-operator"}}}
        )

        launcher = KubeLauncher(tmp_path / "second", kubeconfig)
        try:
            told = launcher.told("jobs are left alone: another operator serves their kind")
            jobs = Jobs(plane, "default")
            wrong = _posted(jobs, launcher, a_tfjob("theirs", spec={"tfImage": "x"}))
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
            jobs.until(lambda: jobs.framework("ours").get("status"), "the launcher is at work")
        finally:
            launcher.end()

        assert "tfjobs.kubeflow.org" in told
        assert wrong["kind"] == "TFJob"  # its own operator says what is wrong with it
        assert "status" not in jobs.job()
        assert jobs.framework("dist") == {}
        assert launcher.log().count("jobs are left alone") == 1


def _without_any(plane: ControlPlane, kubeconfig: Path, directory: Path) -> None:
    """Where nobody knows TFJobs, nobody asks for them, and that is nothing to complain of."""
    mark = plane.audit.mark()
    launcher = KubeLauncher(directory, kubeconfig)
    try:
        launcher.told("leading")
        launcher.ready()
    finally:
        launcher.end()
    assert "jobs" not in launcher.log()
    asked = of_launcher(plane.audit.since(mark))
    assert [each for each in asked if each.group in ("kubeflow.org", "apiextensions.k8s.io")] == []
