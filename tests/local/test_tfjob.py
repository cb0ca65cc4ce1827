"""TFJobs in local mode, with kubectl and with the calls of Kubeflow's Python SDK."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from tests.clients.kubectl import Kubectl
from tests.eventually import TIMEOUT_SECONDS, until
from tests.job_kinds.samples import a_tfjob, counts, replicas, states
from tests.local.server import Server

GROUP, VERSION, PLURAL = "kubeflow.org", "v1", "tfjobs"
TFJOBS = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
PODS = "/api/v1/namespaces/default/pods"
LABEL = "training.kubeflow.org/"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher that the tests of this module share, each with its own job."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A directory; jobs wait until a file is created in it."""
    return tmp_path


def script(server: Server, text: str, count: int | None = None, restart: str | None = None) -> Json:
    """Replicas that run a shell script."""
    env = [{"name": "LAUNCHER_TEST", "value": str(server.data)}]
    return replicas(count, restart, command=["sh", "-c", text], env=env)


def wait_for_file(file: Path) -> str:
    return f"until [ -e {file} ]; do sleep 0.05; done; "


def with_gate(gate: Path, job: Json) -> Json:
    """The job, with *gate* mounted in its containers at the same path."""
    for each in job["spec"]["tfReplicaSpecs"].values():
        spec = each["template"]["spec"]
        spec["volumes"] = [{"name": "gate", "hostPath": {"path": str(gate)}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "gate", "mountPath": str(gate)}]
    return job


def job_of(server: Server, name: str) -> Json:
    found: Json = server.get(f"{TFJOBS}/{name}")
    return found


def wait_for_condition(server: Server, name: str, state: str) -> Json:
    """Waits until *state* is the job's last condition, and returns the job."""

    def probe() -> Json | None:
        job = job_of(server, name)
        return job if states(job)[-1:] == [state] else None

    return until(probe, f"{name} is {state}")


def pods_of(server: Server, name: str) -> list[str]:
    listed = server.get(f"{PODS}?labelSelector={LABEL}job-name={name}")["items"]
    return sorted(pod["metadata"]["name"] for pod in listed)


def create(server: Server, job: Json) -> None:
    created = server.post(f"/apis/{job['apiVersion']}/namespaces/default/{PLURAL}", job)
    assert created["kind"] == "TFJob", created


def test_kubectl_manages_a_job_from_creation_to_deletion(
    server: Server, kubectl: Kubectl, gate: Path
) -> None:
    job = with_gate(
        gate,
        a_tfjob(
            "dist",
            policy={"cleanPodPolicy": "Running"},
            Chief=script(server, wait_for_file(gate / "go") + "echo $TF_CONFIG"),
            Worker=script(server, "sleep 1000", 2),
            PS=script(server, "sleep 1000", 1),
        ),
    )

    assert kubectl("create", "-f", "-", stdin=job) == "tfjob.kubeflow.org/dist created\n"
    until(lambda: counts_of(server, "dist") == [1, 2, 1] or None, "all pods run")
    assert kubectl("get", "tfjobs", "dist").split()[:5] == ["NAME", "STATE", "AGE", "dist", "Running"]
    (gate / "go").touch()
    kubectl("wait", "--for=condition=Succeeded", "tfjob/dist", f"--timeout={TIMEOUT_SECONDS:g}s")

    ended = wait_for_condition(server, "dist", "Succeeded")
    assert states(ended) == ["Created", "Running=False", "Succeeded"]
    assert counts(ended) == {
        "Chief": {"succeeded": 1},
        "Worker": {"succeeded": 2},
        "PS": {"succeeded": 1},
    }
    assert json.loads(kubectl("logs", "dist-chief-0")) == {
        "cluster": {
            "chief": ["dist-chief-0.default.svc:2222"],
            "ps": ["dist-ps-0.default.svc:2222"],
            "worker": ["dist-worker-0.default.svc:2222", "dist-worker-1.default.svc:2222"],
        },
        "task": {"type": "chief", "index": 0},
        "environment": "cloud",
    }
    until(lambda: pods_of(server, "dist") == ["dist-chief-0"] or None, "the other pods are deleted")
    described = kubectl("describe", "tfjob", "dist")
    assert [word for word in ("TFJobCreated", "TFJobRunning", "TFJobSucceeded") if word in described] == [
        "TFJobCreated",
        "TFJobRunning",
        "TFJobSucceeded",
    ]
    kubectl("delete", "tfjob", "dist", f"--timeout={TIMEOUT_SECONDS:g}s")
    until(lambda: server.framework("dist")["kind"] == "Status" or None, "its Framework is deleted")
    until(lambda: pods_of(server, "dist") == [] or None, "its pods are deleted")


def counts_of(server: Server, name: str) -> list[int]:
    statuses = job_of(server, name).get("status", {}).get("replicaStatuses", {})
    return [statuses.get(type_, {}).get("active", 0) for type_ in ("Chief", "Worker", "PS")]


class Sdk:
    """The API calls of Kubeflow's SDK for TFJobs."""

    def __init__(self, connection: client.ApiClient) -> None:
        self._jobs, self._core = client.CustomObjectsApi(connection), client.CoreV1Api(connection)

    def create_job(self, job: Json) -> None:
        self._jobs.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, job)

    def get_job(self, name: str) -> Any:
        return self._jobs.get_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, name)

    def wait_for_job_conditions(self, name: str, expected: str) -> Any:
        def probe() -> Any:
            job = self.get_job(name)
            true = {
                one["type"] for one in job.get("status", {}).get("conditions", ()) if one["status"] == "True"
            }
            return job if expected in true else None

        return until(probe, f"{name} is {expected}")

    def get_job_pod_names(
        self, name: str, replica_type: str | None = None, index: int | None = None
    ) -> list[str]:
        marks = {"job-name": name, "replica-type": replica_type, "replica-index": index}
        selector = ",".join(f"{LABEL}{mark}={value}" for mark, value in marks.items() if value is not None)
        listed = self._core.list_namespaced_pod("default", label_selector=selector)
        return sorted(str(pod.metadata.name) for pod in listed.items if pod.metadata is not None)

    def get_job_logs(self, name: str) -> dict[str, str]:
        return {
            pod: self._core.read_namespaced_pod_log(pod, "default", container="tensorflow")
            for pod in self.get_job_pod_names(name)
        }

    def delete_job(self, name: str) -> None:
        self._jobs.delete_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, name)


def test_the_calls_of_kubeflows_sdk_work(server: Server) -> None:
    job = a_tfjob(
        "scripted",
        spec={"successPolicy": "AllWorkers"},
        Worker=script(server, 'echo "$TF_CONFIG" | grep -o \'"task".*index":.\'', 2),
    )
    with client.ApiClient(client.Configuration(host=server.url)) as connection:
        sdk = Sdk(connection)

        sdk.create_job(job)
        ended = sdk.wait_for_job_conditions("scripted", "Succeeded")
        logs = sdk.get_job_logs("scripted")
        second = sdk.get_job_pod_names("scripted", "worker", 1)
        sdk.delete_job("scripted")
        until(lambda: sdk.get_job_pod_names("scripted") == [] or None, "its pods are deleted")

    assert ended["status"]["replicaStatuses"]["Worker"]["succeeded"] == 2
    assert logs == {
        f"scripted-worker-{index}": f'"task":{{"type":"worker","index":{index}\n' for index in (0, 1)
    }
    assert second == ["scripted-worker-1"]


def test_a_job_is_suspended_resumed_and_scaled(server: Server, kubectl: Kubectl) -> None:
    create(
        server, a_tfjob("elastic", spec={"enableDynamicWorker": True}, Worker=script(server, "sleep 1000", 1))
    )
    wait_for_condition(server, "elastic", "Running")

    kubectl("scale", "tfjob", "elastic", "--replicas=2")
    both = ["elastic-worker-0", "elastic-worker-1"]
    until(lambda: pods_of(server, "elastic") == both or None, "two pods exist")
    patch = '{"spec":{"runPolicy":{"suspend": true}}}'
    kubectl("patch", "tfjob", "elastic", "--type=merge", f"--patch={patch}")
    suspended = wait_for_condition(server, "elastic", "Suspended")
    until(lambda: pods_of(server, "elastic") == [] or None, "the pods are deleted")
    kubectl("patch", "tfjob", "elastic", "--type=merge", f"--patch={patch.replace('true', 'false')}")
    resumed = wait_for_condition(server, "elastic", "Running")
    kubectl("delete", "tfjob", "elastic", "--cascade=foreground", f"--timeout={TIMEOUT_SECONDS:g}s")

    assert "replicaStatuses" not in suspended["status"]
    assert resumed["status"]["startTime"] >= suspended["status"]["startTime"]
    assert pods_of(server, "elastic") == []


def test_a_job_can_be_created_again_as_soon_as_it_is_deleted(server: Server, gate: Path) -> None:
    ignoring_sigterm = f"echo $$ >> {gate}/started; trap '' TERM; while :; do sleep 0.05; done"
    second = f"kill -0 $(cat {gate}/started) 2>/dev/null && touch {gate}/both; exit 0"

    def job(text: str) -> Json:
        tfjob = with_gate(gate, a_tfjob("again", Worker=script(server, text)))
        tfjob["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["terminationGracePeriodSeconds"] = 2
        return tfjob

    api = client.CustomObjectsApi(client.ApiClient(client.Configuration(host=server.url)))
    create(server, job(ignoring_sigterm))
    until(lambda: (gate / "started").exists() or None, "the first job runs")

    api.delete_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "again")
    api.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, job(second))

    ended = wait_for_condition(server, "again", "Succeeded")
    assert "Blocked" not in states(ended)
    assert not (gate / "both").exists()


def test_a_job_can_be_applied_repeatedly(server: Server, kubectl: Kubectl) -> None:
    job = a_tfjob("applied", policy={"suspend": True}, Worker=script(server, "true"))
    text = json.dumps(job)

    first = kubectl("apply", "-f", "-", stdin=text)
    same = kubectl("apply", "-f", "-", stdin=text)
    other = kubectl("apply", "-f", "-", stdin=text.replace('"suspend": true', '"suspend":false'))

    assert (first, same, other) == (
        "tfjob.kubeflow.org/applied created\n",
        "tfjob.kubeflow.org/applied unchanged\n",
        "tfjob.kubeflow.org/applied configured\n",
    )
    wait_for_condition(server, "applied", "Succeeded")


def test_a_job_of_the_first_version_is_run(server: Server, gate: Path) -> None:
    def entry(type_: str, text: str, count: int = 1) -> Json:
        job = with_gate(gate, a_tfjob(Any=script(server, text)))
        template = job["spec"]["tfReplicaSpecs"]["Any"]["template"]
        return {"TfReplicaType": type_, "Replicas": count, "Template": template}

    job = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "TFJob",
        "metadata": {"name": "first"},
        "spec": {
            "ReplicaSpecs": [
                entry("Chief", wait_for_file(gate / "go") + "echo $TF_CONFIG"),
                entry("Ps", "sleep 1000"),
                entry("Worker", "sleep 1000", 2),
            ]
        },
    }

    create(server, job)
    until(lambda: counts_of(server, "first") == [1, 2, 1] or None, "all pods run")
    (gate / "go").touch()
    ended = wait_for_condition(server, "first", "Succeeded")

    config = json.loads(server.log("first-chief-0"))
    assert sorted(config["cluster"]) == ["chief", "ps", "worker"]
    assert counts(ended) == {"Chief": {"succeeded": 1}, "PS": {"succeeded": 1}, "Worker": {"succeeded": 2}}
    # The default of that version: running pods are deleted when the job finishes.
    until(lambda: pods_of(server, "first") == ["first-chief-0"] or None, "the other pods are deleted")


def test_an_unsupported_field_is_rejected_by_name(server: Server) -> None:
    job = a_tfjob("wrong", spec={"terminationPolicy": {"chief": {}}})

    response = server.post(TFJOBS, job)

    assert "spec.terminationPolicy: Forbidden: not supported by Frameworks" in response["message"]


def test_kubectl_explain_describes_the_fields(server: Server, kubectl: Kubectl) -> None:
    explained = kubectl("explain", "tfjob.spec.runPolicy.cleanPodPolicy")

    assert "Which pods are deleted when the job finishes" in explained


def test_a_job_continues_after_a_restart_of_the_launcher(server: Server, gate: Path) -> None:
    create(server, with_gate(gate, a_tfjob("lasting", Worker=script(server, wait_for_file(gate / "go"), 1))))
    wait_for_condition(server, "lasting", "Running")

    server.kill()
    (gate / "go").touch()
    server.start()

    wait_for_condition(server, "lasting", "Succeeded")
