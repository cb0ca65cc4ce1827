"""TFJobs on one machine, with the clients that their users have: kubectl, and Python as Kubeflow's SDK uses it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from kubernetes import client

from tests.job_kinds.samples import a_tfjob, counts, replicas, states
from tests.local.server import PATIENCE, Server, until

GROUP, VERSION, PLURAL = "kubeflow.org", "v1", "tfjobs"
TFJOBS = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
PODS = "/api/v1/namespaces/default/pods"
LABEL = "training.kubeflow.org/"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher that all tests here share, each with a job of its own."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A directory in which a file stands when those who wait for it may go on."""
    return tmp_path


def script(server: Server, text: str, count: int | None = None, restart: str | None = None) -> Json:
    """Replicas that run a shell script."""
    env = [{"name": "LAUNCHER_TEST", "value": str(server.data)}]
    return replicas(count, restart, command=["sh", "-c", text], env=env)


def once(file: Path) -> str:
    return f"until [ -e {file} ]; do sleep 0.05; done; "


def here(gate: Path, job: Json) -> Json:
    """The job, whose containers see the gate where it is."""
    for each in job["spec"]["tfReplicaSpecs"].values():
        spec = each["template"]["spec"]
        spec["volumes"] = [{"name": "gate", "hostPath": {"path": str(gate)}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "gate", "mountPath": str(gate)}]
    return job


def job_of(server: Server, name: str) -> Json:
    found: Json = server.get(f"{TFJOBS}/{name}")
    return found


def told(server: Server, name: str, state: str) -> Json:
    """The job, as soon as that happened last."""

    def look() -> Json | None:
        job = job_of(server, name)
        return job if states(job)[-1:] == [state] else None

    return until(look, f"{name} is {state}")


def pods_of(server: Server, name: str) -> list[str]:
    listed = server.get(f"{PODS}?labelSelector={LABEL}job-name={name}")["items"]
    return sorted(pod["metadata"]["name"] for pod in listed)


def create(server: Server, job: Json) -> str:
    return server.kubectl("create", "-f", "-", stdin=orjson.dumps(job).decode())


def test_kubectl_takes_a_job_from_its_beginning_to_its_end(server: Server, gate: Path) -> None:
    job = here(
        gate,
        a_tfjob(
            "dist",
            policy={"cleanPodPolicy": "Running"},
            Chief=script(server, once(gate / "go") + "echo $TF_CONFIG"),
            Worker=script(server, "sleep 1000", 2),
            PS=script(server, "sleep 1000", 1),
        ),
    )

    assert create(server, job) == "tfjob.kubeflow.org/dist created\n"
    until(lambda: counts_of(server, "dist") == ["1", "2", "1"] or None, "all of them run")
    assert server.kubectl("get", "tfjobs", "dist").split()[:5] == ["NAME", "STATE", "AGE", "dist", "Running"]
    (gate / "go").touch()
    server.kubectl("wait", "--for=condition=Succeeded", "tfjob/dist", f"--timeout={PATIENCE:g}s")

    ended = told(server, "dist", "Succeeded")
    assert states(ended) == ["Created", "Running=False", "Succeeded"]
    assert counts(ended) == {
        "Chief": {"succeeded": 1},
        "Worker": {"succeeded": 2},
        "PS": {"succeeded": 1},
    }
    assert json.loads(server.kubectl("logs", "dist-chief-0")) == {
        "cluster": {
            "chief": ["dist-chief-0.default.svc:2222"],
            "ps": ["dist-ps-0.default.svc:2222"],
            "worker": ["dist-worker-0.default.svc:2222", "dist-worker-1.default.svc:2222"],
        },
        "task": {"type": "chief", "index": 0},
        "environment": "cloud",
    }
    until(lambda: pods_of(server, "dist") == ["dist-chief-0"] or None, "the others are gone")
    described = server.kubectl("describe", "tfjob", "dist")
    assert [word for word in ("TFJobCreated", "TFJobRunning", "TFJobSucceeded") if word in described] == [
        "TFJobCreated",
        "TFJobRunning",
        "TFJobSucceeded",
    ]
    server.kubectl("delete", "tfjob", "dist", f"--timeout={PATIENCE:g}s")
    until(lambda: server.framework("dist")["kind"] == "Status" or None, "its Framework goes with it")
    until(lambda: pods_of(server, "dist") == [] or None, "and so do its pods")


def counts_of(server: Server, name: str) -> list[str]:
    paths = "".join(f"{{.status.replicaStatuses.{type_}.active}}," for type_ in ("Chief", "Worker", "PS"))
    return server.kubectl("get", "tfjob", name, "-o", f"jsonpath={paths}").split(",")[:-1]


class Sdk:
    """What the SDK of Kubeflow does for TFJobs, by the calls that it makes."""

    def __init__(self, connection: client.ApiClient) -> None:
        self._jobs, self._core = client.CustomObjectsApi(connection), client.CoreV1Api(connection)

    def create_job(self, job: Json) -> None:
        self._jobs.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, job)

    def get_job(self, name: str) -> Any:
        return self._jobs.get_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, name)

    def wait_for_job_conditions(self, name: str, expected: str) -> Any:
        def look() -> Any:
            job = self.get_job(name)
            true = {
                one["type"] for one in job.get("status", {}).get("conditions", ()) if one["status"] == "True"
            }
            return job if expected in true else None

        return until(look, f"{name} is {expected}")

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


def test_scripts_with_the_sdk_go_on_working(server: Server) -> None:
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
        until(lambda: sdk.get_job_pod_names("scripted") == [] or None, "its pods are gone")

    assert ended["status"]["replicaStatuses"]["Worker"]["succeeded"] == 2
    assert logs == {
        f"scripted-worker-{index}": f'"task":{{"type":"worker","index":{index}\n' for index in (0, 1)
    }
    assert second == ["scripted-worker-1"]


def test_a_job_is_suspended_resumed_and_scaled(server: Server) -> None:
    create(
        server, a_tfjob("elastic", spec={"enableDynamicWorker": True}, Worker=script(server, "sleep 1000", 1))
    )
    told(server, "elastic", "Running")

    server.kubectl("scale", "tfjob", "elastic", "--replicas=2")
    both = ["elastic-worker-0", "elastic-worker-1"]
    until(lambda: pods_of(server, "elastic") == both or None, "there are two")
    patch = '{"spec":{"runPolicy":{"suspend":true}}}'
    server.kubectl("patch", "tfjob", "elastic", "--type=merge", f"--patch={patch}")
    held = told(server, "elastic", "Suspended")
    until(lambda: pods_of(server, "elastic") == [] or None, "they are gone")
    server.kubectl("patch", "tfjob", "elastic", "--type=merge", f"--patch={patch.replace('true', 'false')}")
    again = told(server, "elastic", "Running")
    server.kubectl("delete", "tfjob", "elastic", "--cascade=foreground", f"--timeout={PATIENCE:g}s")

    assert "replicaStatuses" not in held["status"]
    assert again["status"]["startTime"] >= held["status"]["startTime"]
    assert pods_of(server, "elastic") == []


def test_a_job_can_be_created_again_as_soon_as_it_is_deleted(server: Server, gate: Path) -> None:
    stubborn = f"echo $$ >> {gate}/started; trap '' TERM; while :; do sleep 0.05; done"
    second = f"kill -0 $(cat {gate}/started) 2>/dev/null && touch {gate}/both; exit 0"

    def job(text: str) -> Json:
        made = here(gate, a_tfjob("again", Worker=script(server, text)))
        made["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["terminationGracePeriodSeconds"] = 2
        return made

    api = client.CustomObjectsApi(client.ApiClient(client.Configuration(host=server.url)))
    create(server, job(stubborn))
    until(lambda: (gate / "started").exists() or None, "the first runs")

    api.delete_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, "again")
    api.create_namespaced_custom_object(GROUP, VERSION, "default", PLURAL, job(second))

    ended = told(server, "again", "Succeeded")
    assert "Blocked" not in states(ended)
    assert not (gate / "both").exists()


def test_a_job_is_applied_again_and_again(server: Server) -> None:
    job = a_tfjob("applied", policy={"suspend": True}, Worker=script(server, "true"))
    text = orjson.dumps(job).decode()

    first = server.kubectl("apply", "-f", "-", stdin=text)
    same = server.kubectl("apply", "-f", "-", stdin=text)
    other = server.kubectl("apply", "-f", "-", stdin=text.replace('"suspend":true', '"suspend":false'))

    assert (first, same, other) == (
        "tfjob.kubeflow.org/applied created\n",
        "tfjob.kubeflow.org/applied unchanged\n",
        "tfjob.kubeflow.org/applied configured\n",
    )
    told(server, "applied", "Succeeded")


def test_the_shape_of_the_first_version_is_run(server: Server, gate: Path) -> None:
    def entry(type_: str, text: str, count: int = 1) -> Json:
        job = here(gate, a_tfjob(Any=script(server, text)))
        template = job["spec"]["tfReplicaSpecs"]["Any"]["template"]
        return {"TfReplicaType": type_, "Replicas": count, "Template": template}

    job = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "TFJob",
        "metadata": {"name": "first"},
        "spec": {
            "ReplicaSpecs": [
                entry("Chief", once(gate / "go") + "echo $TF_CONFIG"),
                entry("Ps", "sleep 1000"),
                entry("Worker", "sleep 1000", 2),
            ]
        },
    }

    create(server, job)
    until(lambda: counts_of(server, "first") == ["1", "2", "1"] or None, "all of them run")
    (gate / "go").touch()
    ended = told(server, "first", "Succeeded")

    config = json.loads(server.kubectl("logs", "first-chief-0"))
    assert sorted(config["cluster"]) == ["chief", "ps", "worker"]
    assert counts(ended) == {"Chief": {"succeeded": 1}, "PS": {"succeeded": 1}, "Worker": {"succeeded": 2}}
    # As the operators of its time did it, what still runs goes with the job.
    until(lambda: pods_of(server, "first") == ["first-chief-0"] or None, "the others are gone")


def test_what_cannot_be_done_is_refused_with_the_field(server: Server) -> None:
    job = a_tfjob("wrong", spec={"terminationPolicy": {"chief": {}}})

    said = server.kubectl("create", "-f", "-", stdin=orjson.dumps(job).decode(), ok=False)

    assert "spec.terminationPolicy: Forbidden: a Framework has nothing that does the same" in said


def test_fields_are_explained(server: Server) -> None:
    explained = server.kubectl("explain", "tfjob.spec.runPolicy.cleanPodPolicy")

    assert "Which pods go when the job is over" in explained


def test_a_job_goes_on_when_the_launcher_comes_back(server: Server, gate: Path) -> None:
    create(server, here(gate, a_tfjob("lasting", Worker=script(server, once(gate / "go"), 1))))
    told(server, "lasting", "Running")

    server.kill()
    (gate / "go").touch()
    server.start()

    told(server, "lasting", "Succeeded")
