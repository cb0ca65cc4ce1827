"""Diagnosis of real situations on kubelets: images, volumes, containers and nodes, for a user."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import Json
from tests.cluster.users import User
from tests.kubernetes.diagnosis_test_bed import DiagnosisTestBed
from tests.kubernetes.launcher import KubeLauncher
from tests.realnodes.bed import RealNodes
from tests.realnodes.images import BUSYBOX
from tests.realnodes.pods import SLEEP_COMMAND, a_real_pod, node_selector
from tests.realnodes.registry import REGISTRY, UNREACHABLE, registry

#: The first test creates all situations.
pytestmark = pytest.mark.timeout(300)

POD_FIELD = "spec.taskRoles[worker].task.pod.spec"


def with_image(image: str, **container: Any) -> Json:
    return a_real_pod(SLEEP_COMMAND, container={"image": image, **container})


def with_volume(**source: Any) -> Json:
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return a_real_pod(SLEEP_COMMAND, container=mount, volumes=[{"name": "data", **source}])


def with_env(**source: Any) -> Json:
    return a_real_pod(SLEEP_COMMAND, container={"env": [{"name": "VALUE", "valueFrom": source}]})


def key_missing(bed: DiagnosisTestBed) -> None:
    ns = bed.namespace("FL-VOL-07")
    bed.plane.admin.post(ns.path("configmaps"), {"metadata": {"name": "present"}, "data": {"a": "b"}})
    bed.one("FL-VOL-07", with_env(configMapKeyRef={"name": "present", "key": "absent"}))


FILLS_A_VOLUME = a_real_pod(
    "head -c 4000000 /dev/zero > /data/file; sleep 600",
    container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    volumes=[{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}],
)
INIT = {"name": "fetch", "image": BUSYBOX, "command": ["sh", "-c", "echo no route to host; exit 4"]}
#: The output of a failed container is not copied into its status.
FILE = {"terminationMessagePolicy": "File"}

#: The pod of a situation, or what creates it; a keyword of the summary; an evidence (object, field, keyword of the
#: value); and a keyword of the next step.
Situation = tuple[Json | Callable[[DiagnosisTestBed], object], str, tuple[str, str, str], str]
IMAGES: dict[str, Situation] = {
    "FL-IMG-01": (
        with_image("Not//Valid"),
        '"Not//Valid" is not a valid image name',
        ("pod/img01-worker-0", "state.waiting", "InvalidImageName"),
        f"correct {POD_FIELD}.containers[main].image",
    ),
    "FL-IMG-02": (
        with_image(f"{REGISTRY}/missing/image:1"),
        "image registry.test/missing/image:1 does not exist in its registry",
        ("pod/img02-worker-0", "state.waiting", "not found"),
        f"correct the image in {POD_FIELD}.containers[main].image, or push it",
    ),
    "FL-IMG-03": (
        with_image(f"{REGISTRY}/private/image:1"),
        "denies access to image registry.test/private/image:1",
        ("pod/img03-worker-0", "state.waiting", "403 Forbidden"),
        f"set imagePullSecrets in {POD_FIELD}",
    ),
    "FL-IMG-04": (
        with_image(f"{UNREACHABLE}/image:1"),
        "the registry of image unreachable.test/image:1 cannot be reached",
        ("pod/img04-worker-0", "state.waiting", "connection refused"),
        "check the name of the registry",
    ),
    "FL-IMG-05": (
        with_image("localhost/absent:1", imagePullPolicy="Never"),
        "image localhost/absent:1 is not on the node and imagePullPolicy is Never",
        ("pod/img05-worker-0", "state.waiting", "ErrImageNeverPull"),
        "load the image on the node",
    ),
    "FL-IMG-06": (
        with_image(f"{REGISTRY}/limited/image:1"),
        "limits the number of pulls of image registry.test/limited/image:1",
        ("pod/img06-worker-0", "state.waiting", "429 Too Many Requests"),
        "wait, or set imagePullSecrets",
    ),
    "FL-IMG-07": (
        with_image(f"{REGISTRY}/broken/image:1"),
        "image registry.test/broken/image:1 cannot be pulled",
        ("pod/img07-worker-0", "state.waiting", "500 Internal Server Error"),
        "describe pod img07-worker-0",
    ),
    "FL-IMG-08": (
        with_image(f"{REGISTRY}/slow/image:1"),
        "image registry.test/slow/image:1 is being pulled",
        ("pod/img08-worker-0", "events", "Pulling image"),
        "wait; a large image takes some minutes",
    ),
}
VOLUMES: dict[str, Situation] = {
    "FL-VOL-01": (
        with_volume(hostPath={"path": "/none/at/all", "type": "Directory"}),
        "hostPath /none/at/all does not exist",
        ("pod/vol01-worker-0", "events[FailedMount]", "is not a directory"),
        f"DirectoryOrCreate in {POD_FIELD}.volumes",
    ),
    "FL-VOL-02": (
        with_volume(configMap={"name": "missing"}),
        'ConfigMap "missing" does not exist',
        ("pod/vol02-worker-0", "events[FailedMount]", "not found"),
        "create configmap missing --from-file=FILE",
    ),
    "FL-VOL-03": (
        with_env(secretKeyRef={"name": "missing", "key": "k"}),
        'Secret "missing" does not exist',
        ("pod/vol03-worker-0", "state.waiting", "not found"),
        "create secret generic missing --from-file=FILE",
    ),
    "FL-VOL-05": (
        with_volume(nfs={"server": "203.0.113.1", "path": "/export"}),
        "an NFS export cannot be mounted",
        ("pod/vol05-worker-0", "events[FailedMount]", "203.0.113.1:/export"),
        f"check server and path in {POD_FIELD}.volumes[].nfs",
    ),
    "FL-VOL-07": (
        key_missing,
        "key absent does not exist",
        ("pod/vol07-worker-0", "state.waiting", "couldn't find key absent"),
        f"add the key, or correct containers[].env[].valueFrom in {POD_FIELD}",
    ),
    "FL-VOL-08": (
        with_volume(csi={"driver": "csi.example.com"}),
        "driver name csi.example.com not found in the list of registered CSI drivers",
        ("pod/vol08-worker-0", "events[FailedMount]", "csi.example.com"),
        f"correct {POD_FIELD}.volumes",
    ),
}
CONTAINERS: dict[str, Situation] = {
    "FL-RUN-01": (
        a_real_pod("", container={"command": ["/no/such/program"]}),
        "a command was not found (/no/such/program)",
        ("pod/run01-worker-0", "terminated.reason", "StartError"),
        f"correct {POD_FIELD}.containers[main].command",
    ),
    "FL-RUN-02": (
        a_real_pod("", container={"command": ["/etc/passwd"]}),
        "container main may not execute /etc/passwd",
        ("pod/run02-worker-0", "terminated.message", "permission denied"),
        "make the file executable",
    ),
    "FL-RUN-03": (
        a_real_pod(SLEEP_COMMAND, securityContext={"runAsNonRoot": True}),
        "container main cannot be configured: ",
        ("pod/run03-worker-0", "state.waiting", "CreateContainerConfigError"),
        f"correct {POD_FIELD}.containers[main]",
    ),
    "FL-RUN-04": (
        a_real_pod("", container={"command": None}),
        "container main cannot be created: failed to generate container spec: ",
        ("pod/run04-worker-0", "state.waiting", "no command specified"),
        "describe pod run04-worker-0",
    ),
    "FL-RUN-05": (
        a_real_pod(SLEEP_COMMAND, initContainers=[{**INIT, **FILE}], restartPolicy="OnFailure"),
        "exit code 4; last line: no route to host",
        ("pod/run05-worker-0", "containerStatuses[fetch].lastState.terminated.exitCode", "4"),
        "-c fetch",
    ),
    "FL-RUN-07": (
        a_real_pod("echo no data; exit 3", container=FILE, restartPolicy="Always"),
        "exit code 3; last line: no data",
        ("pod/run07-worker-0", "containerStatuses[main].lastState.terminated.exitCode", "3"),
        "launcher logs run07 worker/0",
    ),
    "FL-RUN-08": (
        a_real_pod("exec tail -c 200m /dev/zero", container={"resources": {"limits": {"memory": "32Mi"}}}),
        "container main ran out of memory (limit 32Mi)",
        ("pod/run08-worker-0", "terminated.reason", "OOMKilled"),
        f"raise {POD_FIELD}.containers[main].resources.limits.memory",
    ),
    "FL-RUN-09": (
        # The kubelet replaces $$ by $; and the first process of a container cannot be killed from inside.
        a_real_pod("sh -c 'kill -SEGV $$$$'; exit $?"),
        "container main was killed by SIGSEGV (exit code 139)",
        ("pod/run09-worker-0", "terminated.exitCode", "139"),
        "launcher logs run09 worker/0",
    ),
    "FL-RUN-10": (
        a_real_pod("echo step; echo KeyError; exit 7", container=FILE),
        "container main exited with code 7; last line: KeyError",
        ("pod/run10-worker-0", "log[main]", "step\nKeyError"),
        "launcher logs run10 worker/0",
    ),
    "FL-RUN-11": (
        a_real_pod(
            SLEEP_COMMAND,
            container={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}},
        ),
        "runs but does not pass its readiness probe: Readiness probe failed",
        ("pod/run11-worker-0", "containerStatuses[main].ready", "false"),
        "launcher logs run11 worker/0",
    ),
    "FL-RUN-13": (
        a_real_pod("cat /proc/version > /dev/full"),
        "no space left on a disk of node node-",
        ("pod/run13-worker-0", "terminated.message", "No space left"),
        "free disk space on the node",
    ),
    "FL-NODE-03": (
        FILLS_A_VOLUME,
        'the node evicted the pod: Usage of EmptyDir volume "data" exceeds the limit "1Mi"',
        ("pod/node03-worker-0", "status.message", "exceeds the limit"),
        "clean up the node",
    ),
    "FL-NODE-04": (
        a_real_pod(SLEEP_COMMAND, container={"resources": {"requests": {"cpu": "500"}}}, nodeName="node-1"),
        "the node rejected the pod: insufficient resources",
        ("pod/node04-worker-0", "status.reason", "OutOfcpu"),
        "fancyRetryPolicy: true",
    ),
}
SITUATIONS = {**IMAGES, **VOLUMES, **CONTAINERS}


@pytest.fixture(scope="module")
def situations(
    bed: RealNodes, account: User, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DiagnosisTestBed]:
    """A launcher with every situation."""
    directory = tmp_path_factory.mktemp("diagnosis")
    launcher = KubeLauncher(directory / "launcher", account.kubeconfig)
    created = DiagnosisTestBed(bed.plane, launcher, directory)
    try:
        with registry(bed):
            for cause, (create, *_) in SITUATIONS.items():
                if callable(create):
                    create(created)
                else:
                    created.one(cause, create)
            yield created
            created.delete_all()
    finally:
        launcher.end()


@pytest.mark.parametrize("cause", list(SITUATIONS))
def test_the_cause_of_a_real_situation_is_found(situations: DiagnosisTestBed, cause: str) -> None:
    _, words, evidence, step = SITUATIONS[cause]

    situations.expect(cause, words, evidence, step)


def test_launcher_why_explains_one_task(situations: DiagnosisTestBed) -> None:
    finding = situations.finding("FL-IMG-03")

    shown = situations.why("FL-IMG-03", "worker/0")

    assert "FL-IMG-03  Error, waiting may help\n  worker-0: the registry denies access" in shown
    assert f"  next: {finding['nextStep']}\n" in shown


def test_a_node_that_cannot_connect_pods_is_named(bed: RealNodes, situations: DiagnosisTestBed) -> None:
    with bed.nodes["node-2"].broken_network():
        situations.one("FL-RUN-16", a_real_pod(SLEEP_COMMAND, nodeSelector=node_selector("node-2")))
        finding = situations.finding("FL-RUN-16")

    assert "no-such-plugin" in finding["summary"]
    assert finding["nextStep"] == "check the network plugin of node node-2"
    assert finding["evidence"][0]["field"] == "events[FailedCreatePodSandBox]"


def test_a_container_that_its_runtime_lost_is_named(bed: RealNodes, situations: DiagnosisTestBed) -> None:
    cause = "FL-RUN-12"
    pod = a_real_pod(SLEEP_COMMAND, nodeSelector=node_selector("node-1"), restartPolicy="Always")
    ns = situations.one(cause, pod)
    ns.wait_running(situations.pod_name(cause))
    running = ns.pods()[situations.pod_name(cause)]

    with bed.unreachable("node-1"):
        bed.remove_container(running)
    finding = situations.finding(cause)

    assert "the node does not know how container main ended" in finding["summary"]
    assert any(each["value"] == "ContainerStatusUnknown" for each in finding["evidence"])
    assert "submit the Framework again" in finding["nextStep"]


def test_a_node_that_does_not_respond_and_its_deleted_pods_are_named(
    bed: RealNodes, situations: DiagnosisTestBed
) -> None:
    unreachable, stuck = "FL-NODE-01", "FL-LIFE-09"
    pod = a_real_pod(SLEEP_COMMAND, nodeSelector=node_selector("node-1"))
    for cause in (unreachable, stuck):
        situations.one(cause, pod).wait_running(situations.pod_name(cause))

    with bed.unreachable("node-1"):
        situations.namespace(stuck).delete_without_waiting("pod", situations.pod_name(stuck))
        node, termination = situations.finding(unreachable), situations.finding(stuck)

    assert node["summary"] == "worker-0: node node-1 is not ready: Kubelet stopped posting node status."
    assert node["evidence"][0]["object"] == "node/node-1"
    assert node["nextStep"].startswith("kubectl describe node node-1")
    assert "after its grace period (node node-1)" in termination["summary"]
    assert f"delete pod {situations.pod_name(stuck)} --force" in termination["nextStep"]


def test_a_pod_that_a_critical_pod_replaced_is_named(bed: RealNodes, situations: DiagnosisTestBed) -> None:
    cause = "FL-NODE-05"
    cpus = int(bed.plane.admin.get("/api/v1/nodes/node-2")["status"]["allocatable"]["cpu"])
    most = {"resources": {"requests": {"cpu": f"{cpus * 1000 - 200}m"}}}
    ns = situations.one(
        cause, a_real_pod(SLEEP_COMMAND, container=most, nodeSelector=node_selector("node-2"))
    )
    ns.wait_running(situations.pod_name(cause))

    # The kubelet itself makes room for a pod that it has to admit.
    critical = a_real_pod(
        SLEEP_COMMAND, container=most, nodeName="node-2", priorityClassName="system-node-critical"
    )
    bed.plane.admin.post(ns.path("pods"), {"metadata": {"name": "critical"}, **critical})
    finding = situations.finding(cause)
    bed.plane.admin.delete(ns.path("pods", "critical"))

    assert "the pod was preempted for a critical pod" in finding["summary"]
    assert (finding["evidence"][0]["field"], finding["evidence"][0]["value"]) == (
        "status.reason",
        "Preempting",
    )
    assert "fancyRetryPolicy: true" in finding["nextStep"]
