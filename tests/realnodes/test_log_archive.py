"""Logs of deleted pods of real nodes, from an archive on an S3 server."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from tests.builders import Json, a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.eventually import TIMEOUT_SECONDS
from tests.kubernetes.conftest import ALL_ON_FRAMEWORKS
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient
from tests.log_archive.s3_server import S3Server, run_s3_server
from tests.realnodes.pods import SLEEP_COMMAND, a_real_pod

POD = "mnist-worker-0"
#: A container that reports the signal that ends it.
UNTIL_TERMINATED = (
    "trap 'echo got SIGTERM; exit 0' TERM; echo started; touch /tmp/started; while :; do sleep 0.1; done"
)
#: The pod runs when the trap is set.
STARTED_PROBE = {"startupProbe": {"exec": {"command": ["test", "-e", "/tmp/started"]}, "periodSeconds": 1}}

Stored = Callable[[], dict[str, bytes]]


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with run_s3_server(tmp_path_factory.mktemp("s3") / "log") as server:
        server.create_bucket("logs")
        yield server


@pytest.fixture
def launcher(account: User, s3_server: S3Server, tmp_path: Path) -> Iterator[KubeLauncher]:
    """A launcher with an archive of 64 KiB per container."""
    flags = ("--log-archive=s3://logs/launcher", "--log-archive-tail=64Ki")
    running = KubeLauncher(
        tmp_path / "launcher", account.kubeconfig, *flags, environment=s3_server.environment
    )
    yield running
    running.end()


@pytest.fixture
def stored(s3_server: S3Server, ns: NamespaceClient, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Returns the content of the archived logs of the namespace by path: ``POD/UID/CONTAINER/RESTART.log``."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = from_url(f"s3://logs/launcher/{ns.namespace}")

    def read() -> dict[str, bytes]:
        paths = [entry["path"] for entry in obstore.list(bucket).collect()]
        return {path: bytes(obstore.get(bucket, path).bytes()) for path in paths}

    return read


@pytest.fixture
def user(cluster: ControlPlane, namespace: str) -> User:
    """A user who may run Frameworks and read logs in the namespace."""
    user = cluster.new_user()
    resources = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
    cluster.grant(user, [*ALL_ON_FRAMEWORKS, resources], namespace=namespace)
    cluster.until_allowed(user, verb="get", group="", resource="pods", subresource="log", namespace=namespace)
    return user


def a_failing_framework(retries: int) -> Json:
    role = a_role(tasks=1, pod=a_real_pod("echo attempt $FC_TASK_ATTEMPT_ID; exit 1"))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": retries}
    return a_framework(role)


def log_of(launcher: KubeLauncher, ns: NamespaceClient, user: User, uid: str, query: str = "") -> str:
    """The archived log as that user gets it; a Status if there is none."""
    path = ns.path("pods", f"{POD}/log?uid={uid}&container=main{query}")
    return launcher.curl(path, "-H", f"Authorization: Bearer {user.token}")


def command(launcher: KubeLauncher, user: User, directory: Path, *words: str) -> str:
    """The output of a command of the launcher, for that user."""
    token = directory / "token"
    token.write_text(user.token)
    environment = {**os.environ, "LAUNCHER_SERVER": launcher.url, "LAUNCHER_TOKEN_FILE": str(token)}
    done = subprocess.run(
        [sys.executable, "-m", "launcher", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_log_of_a_retried_task_is_read_by_its_attempt_with_the_rights_of_the_caller(
    launcher: KubeLauncher, cluster: ControlPlane, ns: NamespaceClient, user: User, tmp_path: Path
) -> None:
    ns.submit(a_failing_framework(retries=1))
    ns.wait_completed()
    (first,) = ns.task()["attemptHistory"]
    other = cluster.new_user()
    cluster.grant(
        other, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}], namespace=ns.namespace
    )
    cluster.until_allowed(other, verb="get", group="", resource="pods", namespace=ns.namespace)

    assert log_of(launcher, ns, user, first["podUID"]) == "attempt 0\n"
    assert '"code":403' in log_of(launcher, ns, other, first["podUID"]).replace(" ", "")
    assert command(launcher, user, tmp_path, "logs", "-n", ns.namespace, "mnist", "--attempt", "1") == (
        "attempt 0\n"
    )
    # The pod of the last attempt exists.
    assert log_of(launcher, ns, user, ns.pods()[POD]["metadata"]["uid"]) == "attempt 1\n"
    assert ns.events("LogArchiveFailed") == []


def test_each_log_is_requested_once_and_only_as_many_as_there_are_containers(
    launcher: KubeLauncher, ns: NamespaceClient, stored: Stored
) -> None:
    pod = a_real_pod("echo $FC_TASK_ATTEMPT_ID; exit 1")
    pod["spec"]["initContainers"] = [{**pod["spec"]["containers"][0], "name": "init", "command": ["true"]}]
    role = a_role(tasks=2, pod=pod)
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    ns.submit(a_framework(role, cleanPodPolicy="None"))
    ns.wait_completed()
    pods = len(ns.launcher_requests("create", "pods"))

    ns.until(lambda: len(stored()) == 2 * pods or None, "everything is archived")

    assert launcher.metric("launcher_log_archive_stored_total") >= 2 * pods
    assert len(ns.launcher_requests("get", "pods", "log")) == 2 * pods


def test_the_log_of_a_stopped_task_includes_what_it_wrote_when_it_was_terminated(
    launcher: KubeLauncher, ns: NamespaceClient, user: User, tmp_path: Path
) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(UNTIL_TERMINATED, container=STARTED_PROBE))))
    uid = started(ns)

    ns.kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec":{"executionType":"Stop"}}')
    ns.wait_completed()

    expected = "started\ngot SIGTERM\n"
    ns.until(lambda: log_of(launcher, ns, user, uid) == expected or None, "the log is archived")
    assert command(launcher, user, tmp_path, "logs", "-n", ns.namespace, "mnist") == expected


def test_the_logs_of_tasks_that_are_stopped_together_are_all_archived(
    launcher: KubeLauncher, ns: NamespaceClient, stored: Stored
) -> None:
    tasks = 16
    ns.submit(a_framework(a_role(tasks=tasks, pod=a_real_pod(UNTIL_TERMINATED, container=STARTED_PROBE))))
    ns.until(lambda: sum(has_started(pod) for pod in ns.pods().values()) == tasks or None, "all have started")

    ns.kubectl("delete", "fw", "mnist", "--cascade=foreground", "--timeout=60s")

    ns.until(lambda: len(stored()) == tasks or None, "all logs are archived")
    assert {text.endswith(b" got SIGTERM\n") for text in stored().values()} == {True}


def test_the_log_of_a_pod_that_kubectl_deletes_is_archived(
    launcher: KubeLauncher, ns: NamespaceClient, user: User
) -> None:
    role = a_role(tasks=1, pod=a_real_pod(UNTIL_TERMINATED, container=STARTED_PROBE))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    ns.submit(a_framework(role))
    uid = started(ns)

    ns.kubectl("delete", "pod", POD, "--wait=false")
    ns.wait_replaced(POD, uid)

    expected = "started\ngot SIGTERM\n"
    ns.until(lambda: log_of(launcher, ns, user, uid) == expected or None, "the log is archived")


def test_the_log_of_a_silent_container_is_archived_as_an_empty_one(
    launcher: KubeLauncher, ns: NamespaceClient, stored: Stored, user: User
) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(SLEEP_COMMAND))))
    ns.wait_running(POD)
    uid = ns.pods()[POD]["metadata"]["uid"]

    ns.kubectl("delete", "fw", "mnist", "--cascade=foreground", "--timeout=60s")

    ns.until(lambda: stored() or None, "it is archived")
    assert stored() == {f"{POD}/{uid}/main/0.log": b""}
    assert log_of(launcher, ns, user, uid) == ""


def test_a_launcher_that_is_killed_after_it_stored_a_log_does_not_store_it_again(
    launcher: KubeLauncher, ns: NamespaceClient, stored: Stored
) -> None:
    # Before the second retry there is a delay of ten seconds, in which the pod exists.
    ns.submit(a_failing_framework(retries=2))

    def second_attempt() -> str | None:
        pod = ns.pods().get(POD)
        is_second = pod is not None and pod["metadata"]["labels"]["FC_TASK_ATTEMPT_ID"] == "1"
        return str(pod["metadata"]["uid"]) if pod is not None and is_second else None

    uid = ns.until(second_attempt, "the task is retried")
    path = f"{POD}/{uid}/main/0.log"
    first_content = ns.until(lambda: stored().get(path), "its log is archived")
    launcher.kill()
    assert ns.pods()[POD]["metadata"]["uid"] == uid, "the pod is not deleted yet"
    launcher.start()
    ns.wait_completed()

    ns.until(lambda: len(stored()) == 3 or None, "the log of the last pod is archived")
    assert stored()[path] == first_content
    assert first_content.endswith(b" attempt 1\n")
    # One request for each of the three pods: the log of the second one was not read again.
    assert len(ns.launcher_requests("get", "pods", "log")) == 3


def test_each_restart_of_a_container_is_archived(
    launcher: KubeLauncher, ns: NamespaceClient, user: User
) -> None:
    # The kubelet restarts a container at once after its first failure, and after ten seconds after its second.
    script = "echo x >>/state/runs; runs=$(wc -l </state/runs); echo run $runs; [ $runs = 3 ]"
    pod = a_real_pod(
        script,
        container={"volumeMounts": [{"name": "state", "mountPath": "/state"}]},
        restartPolicy="OnFailure",
        volumes=[{"name": "state", "emptyDir": {}}],
    )
    ns.submit(a_framework(a_role(tasks=1, pod=pod), cleanPodPolicy="All"))
    uid = ns.until(lambda: (ns.pods().get(POD) or {}).get("metadata", {}).get("uid"), "the pod exists")
    ns.wait_completed()

    assert log_of(launcher, ns, user, uid) == "run 3\n"
    assert log_of(launcher, ns, user, uid, "&previous=true") == "run 2\n"


def test_of_a_long_log_the_end_is_archived_and_the_missing_bytes_are_named(
    launcher: KubeLauncher, ns: NamespaceClient, user: User
) -> None:
    script = "i=0; while [ $i -lt 5000 ]; do echo line $i of a long log; i=$((i+1)); done"
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(script)), cleanPodPolicy="All"))
    uid = ns.until(lambda: (ns.pods().get(POD) or {}).get("metadata", {}).get("uid"), "the pod exists")
    ns.wait_completed()

    note, *lines = log_of(launcher, ns, user, uid).splitlines()

    assert note.startswith("launcher: ")
    assert note.endswith("bytes of the log before this line were not archived")
    assert lines[-1] == "line 4999 of a long log"
    assert 500 < len(lines) < 2000


def started(ns: NamespaceClient) -> str:
    """Waits until the container has started, and returns the uid of its pod."""

    def probe() -> str | None:
        pod = ns.pods().get(POD)
        return str(pod["metadata"]["uid"]) if pod is not None and has_started(pod) else None

    return ns.until(probe, "the container has started")


def has_started(pod: Json) -> bool:
    return any(each.get("started") for each in pod["status"].get("containerStatuses", ()))
