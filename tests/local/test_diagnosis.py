"""Diagnosis of real situations in local mode: many Frameworks on one launcher, each with one problem."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.causes import CAUSES
from launcher.core.timestamps import parse_rfc3339
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS as FRAMEWORK_KIND
from launcher.store.interface import PODS as POD_KIND
from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.malformed_objects import store_objects
from tests.local.server import FRAMEWORKS, PODS, Server

Json = dict[str, Any]

NODES = ("--node=main,purpose=main", "--node=busy,cpu=2,purpose=busy", "--node=full,pods=1,purpose=full")
#: Some findings need ten seconds of waiting, and the machine may be busy.
DIAGNOSIS_SECONDS = 120.0


class Situations:
    """The launcher, and the Frameworks that were created in it."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server, self.directory = server, directory

    def create(self, name: str, *roles: Json, **spec: Any) -> None:
        metadata = spec.pop("metadata", None)
        response = self.server.post(FRAMEWORKS, a_framework(*roles, name=name, metadata=metadata, **spec))
        assert response["kind"] == "Framework", response

    def one(self, name: str, *command: str, tasks: int = 1, role: Json | None = None, **pod: Any) -> None:
        """A Framework with one role; *pod* are fields of the pod's spec, and ``container`` those of its container."""
        container = self.container(*command, **pod.pop("container", {}))
        spec = pod.pop("framework", {})
        built = a_role(tasks=tasks, pod=a_pod_template(container, **pod), **(role or {}))
        # The situation stays until its test has found the cause.
        built["task"]["failFast"] = False
        self.create(name, built, **spec)

    def container(self, *command: str, **fields: Any) -> Json:
        """A container that is ended with the server."""
        env = [{"name": "LAUNCHER_TEST", "value": str(self.server.data)}, *fields.pop("env", ())]
        return a_container(*(command or ("sleep", "600")), env=env, **fields)

    def findings(self, name: str) -> dict[str, Json]:
        diagnosis = self.server.get(f"{FRAMEWORKS}/{name}/diagnosis")
        return {each["id"]: each for each in diagnosis.get("findings", ())}

    def finding(self, name: str, cause: str) -> Json:
        """Waits until the cause is found in the Framework."""
        return until(lambda: self.findings(name).get(cause), f"{name} has {cause}", DIAGNOSIS_SECONDS)


def shell(script: str) -> tuple[str, ...]:
    return "sh", "-c", script


def on(purpose: str) -> Json:
    return {"nodeSelector": {"purpose": purpose}}


def cpus(number: int) -> Json:
    return {"resources": {"requests": {"cpu": str(number)}}}


#: The output of a failed container is not copied into its status.
FILE = {"terminationMessagePolicy": "File"}
CONTINUE = {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -1}}
ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"FC_FRAMEWORK_NAME": "pend06"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}


def retries(number: int) -> Json:
    return {"retryPolicy": {"maxRetryCount": number}}


def taken(situations: Situations) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "adm08-worker-0"}}
    situations.server.post(PODS, {**pod, **a_pod_template(situations.container())})
    situations.one("adm08")


def scaled_to_zero(situations: Situations) -> None:
    situations.one("life03")
    situations.server.patch(f"{FRAMEWORKS}/life03", {"spec": {"taskRoles": [a_role(tasks=0)]}})


def stopped(situations: Situations) -> None:
    situations.one("life02")
    situations.server.runs("life02-worker-0")
    situations.server.patch(f"{FRAMEWORKS}/life02", {"spec": {"executionType": "Stop"}})


def deleted_slowly(situations: Situations) -> None:
    situations.one(
        "life07", *shell("trap '' TERM; sleep 600 & wait; wait"), terminationGracePeriodSeconds=300
    )
    situations.server.runs("life07-worker-0")
    situations.server.delete(f"{FRAMEWORKS}/life07")


def held_by_a_finalizer(situations: Situations) -> None:
    situations.one("life08", "true", framework={"metadata": {"finalizers": ["example.com/backup"]}})
    situations.server.delete(f"{FRAMEWORKS}/life08")


def pod_held_by_a_finalizer(situations: Situations) -> None:
    situations.one("life10")
    situations.server.runs("life10-worker-0")
    situations.server.patch(f"{PODS}/life10-worker-0", {"metadata": {"finalizers": ["example.com/hold"]}})
    situations.server.delete(f"{PODS}/life10-worker-0?gracePeriodSeconds=1")


def deleted_pod(situations: Situations) -> None:
    situations.one("life11")
    situations.server.runs("life11-worker-0")
    situations.server.delete(f"{PODS}/life11-worker-0?gracePeriodSeconds=1")


def not_executable(situations: Situations) -> None:
    program = situations.directory / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)
    situations.one("run02", str(program))


def a_volume(**source: Any) -> Json:
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return {"volumes": [{"name": "data", **source}], "container": mount}


def key_missing(situations: Situations) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "present"}, "data": {"a": "b"}}
    situations.server.post(path, config)
    reference = {"configMap": {"name": "present", "items": [{"key": "absent", "path": "x"}]}}
    situations.one("vol07", **a_volume(**reference))


def waiting_for_a_role(situations: Situations) -> None:
    template = a_pod_template(situations.container(), **on("nowhere"))
    after = {"startAfter": [{"role": "ps", "condition": "Running"}]}
    worker = a_role("worker", 1, pod=a_pod_template(situations.container()), **after)
    situations.create("ord01", a_role("ps", 2, pod=template), worker)


def waiting_for_the_sequence(situations: Situations) -> None:
    pod = a_pod_template(situations.container())
    after = {"startAfter": [{"role": "a", "condition": "Succeeded"}]}
    roles = [a_role("a", 1, pod=pod), a_role("b", 1, pod=pod, **after), a_role("c", 1, pod=pod)]
    situations.create("ord02", *roles, roleSequence=["a", "b", "c"])


def start_unreachable(situations: Situations) -> None:
    failing = a_pod_template(situations.container("false"))
    after = {"startAfter": [{"role": "a", "condition": "Succeeded"}]}
    waiting = a_pod_template(situations.container())
    situations.create(
        "ord03", a_role("a", 1, pod=failing, **CONTINUE), a_role("b", 1, pod=waiting, **after, **CONTINUE)
    )


def waiting_for_peers(situations: Situations) -> None:
    pods = [a_pod_template(situations.container(), **on(purpose)) for purpose in ("main", "nowhere")]
    situations.create(
        "ord04", *(a_role(name, 1, pod=pod) for name, pod in zip("ab", pods, strict=True)), discovery={}
    )


def peers_too_late(situations: Situations) -> None:
    pods = [a_pod_template(situations.container(), **on(purpose)) for purpose in ("main", "nowhere")]
    roles = [a_role(name, 1, pod=pod, **CONTINUE) for name, pod in zip("ab", pods, strict=True)]
    situations.create("ord05", *roles, discovery={"timeoutSeconds": 1})


def previous_pod(situations: Situations) -> None:
    """The second role ends slowly after the first has failed."""
    slow = situations.container(*shell("trap '' TERM; touch /data/traps; sleep 600 & wait; wait"))
    waits = situations.container(*shell("until [ -e /data/traps ]; do sleep 0.1; done; exit 1"))
    shared = {"hostPath": {"path": str(situations.directory / "retry05"), "type": "DirectoryOrCreate"}}
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pods = [
        a_pod_template(
            {**each, **mount}, volumes=[{"name": "data", **shared}], terminationGracePeriodSeconds=300
        )
        for each in (waits, slow)
    ]
    roles = [a_role(name, 1, pod=pod) for name, pod in zip(("a", "b"), pods, strict=True)]
    situations.create("retry05", *roles, **retries(3))


def several_failures(situations: Situations) -> None:
    """Task 2 fails first; the others notice and fail some seconds later."""
    failed = situations.directory / "failed"
    first = f'if [ $taskindex = 2 ]; then echo "CUDA error"; touch {failed}; exit 9; fi'
    others = f'until [ -e {failed} ]; do sleep 0.2; done; sleep 3; echo "connection reset"; exit 1'
    situations.one("run14", *shell(f"{first}; {others}"), tasks=4, role=CONTINUE)


#: What creates the situation of a cause.
SITUATIONS: dict[str, Callable[[Situations], None]] = {
    "FL-PEND-01": lambda each: each.one("pend01", **on("busy"), container=cpus(1)),
    "FL-PEND-02": lambda each: each.one("pend02", container=cpus(100_000), tasks=3),
    "FL-PEND-03": lambda each: each.one("pend03", nodeSelector={"disk": "ssd"}),
    "FL-PEND-05": lambda each: each.one(
        "pend05", tasks=2, **on("main"), container={"ports": [{"containerPort": 80, "hostPort": 47123}]}
    ),
    "FL-PEND-06": lambda each: each.one("pend06", tasks=2, **on("main"), affinity=ANTI_AFFINITY),
    "FL-PEND-07": lambda each: each.one(
        "pend07", tasks=2, **on("busy"), container=cpus(1), framework={"gang": {}}
    ),
    "FL-PEND-08": lambda each: each.one(
        "pend08", tasks=4, **on("busy"), container=cpus(1), framework={"gang": {}}
    ),
    "FL-PEND-11": lambda each: each.one("pend11", tasks=2, **on("full")),
    "FL-PEND-12": lambda each: each.one("pend12", schedulingGates=[{"name": "example.com/gate"}]),
    "FL-VOL-01": lambda each: each.one(
        "vol01", **a_volume(hostPath={"path": "/none/at/all", "type": "Directory"})
    ),
    "FL-VOL-02": lambda each: each.one("vol02", **a_volume(configMap={"name": "missing"})),
    "FL-VOL-03": lambda each: each.one(
        "vol03",
        container={"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "missing", "key": "k"}}}]},
    ),
    "FL-VOL-04": lambda each: each.one("vol04", **a_volume(persistentVolumeClaim={"claimName": "missing"})),
    "FL-VOL-05": lambda each: each.one("vol05", **a_volume(nfs={"server": "127.0.0.1", "path": "/none"})),
    "FL-VOL-07": key_missing,
    "FL-ADM-08": taken,
    "FL-RUN-01": lambda each: each.one("run01", "no-such-program"),
    "FL-RUN-02": not_executable,
    "FL-RUN-03": lambda each: each.one("run03", securityContext={"runAsNonRoot": True, "runAsUser": 0}),
    "FL-RUN-05": lambda each: each.one(
        "run05", initContainers=[each.container("false", name="fetch")], restartPolicy="OnFailure"
    ),
    "FL-RUN-07": lambda each: each.one(
        "run07", *shell("echo no data; exit 3"), restartPolicy="Always", container=FILE
    ),
    "FL-RUN-09": lambda each: each.one("run09", *shell("kill -SEGV $$$$")),
    "FL-RUN-10": lambda each: each.one("run10", *shell("echo step; echo KeyError; exit 7"), container=FILE),
    "FL-RUN-11": lambda each: each.one(
        "run11", container={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}
    ),
    "FL-RUN-13": lambda each: each.one("run13", *shell("cat /proc/version > /dev/full")),
    "FL-RUN-19": lambda each: each.one(
        "run19", *shell("echo Address already in use; exit 1"), container=FILE
    ),
    "FL-RUN-14": several_failures,
    "FL-RUN-15": lambda each: each.one("run15", activeDeadlineSeconds=1),
    "FL-RUN-18": lambda each: each.create(
        "run18",
        {
            "name": "worker",
            "taskNumber": 1,
            "task": {"pod": a_pod_template(each.container()), "progressDeadlineSeconds": 1},
        },
    ),
    "FL-NODE-03": lambda each: each.one(
        "node03",
        *shell("head -c 4000000 /dev/zero > /data/file; sleep 600"),
        **a_volume(emptyDir={"sizeLimit": "1Mi"}),
    ),
    "FL-ORD-01": waiting_for_a_role,
    "FL-ORD-02": waiting_for_the_sequence,
    "FL-ORD-03": start_unreachable,
    "FL-ORD-04": waiting_for_peers,
    "FL-ORD-05": peers_too_late,
    "FL-RETRY-01": lambda each: each.one("retry01", "false", framework=retries(50)),
    "FL-RETRY-02": lambda each: each.create(
        "retry02",
        {
            "name": "worker",
            "taskNumber": 1,
            "task": {"pod": a_pod_template(each.container("false")), **retries(50)},
        },
    ),
    "FL-RETRY-03": lambda each: each.one("retry03", "false", framework=retries(1)),
    "FL-RETRY-04": lambda each: each.one("retry04", "false"),
    "FL-RETRY-05": previous_pod,
    "FL-LIFE-01": lambda each: each.one("life01", framework={"executionType": "Create"}),
    "FL-LIFE-02": stopped,
    "FL-LIFE-03": scaled_to_zero,
    "FL-LIFE-04": lambda each: each.one("life04", framework={"activeDeadlineSeconds": 1}),
    "FL-LIFE-05": lambda each: each.create(
        "life05",
        {
            "name": "worker",
            "taskNumber": 1,
            "task": {"pod": a_pod_template(each.container(), **on("nowhere")), "pendingDeadlineSeconds": 1},
        },
    ),
    "FL-LIFE-06": lambda each: each.one("life06", **on("nowhere"), framework={"gang": {"timeoutSeconds": 1}}),
    "FL-LIFE-07": deleted_slowly,
    "FL-LIFE-08": held_by_a_finalizer,
    "FL-LIFE-10": pod_held_by_a_finalizer,
    "FL-LIFE-11": deleted_pod,
    # The last one, because it is found only after ten seconds.
    "FL-RUN-06": lambda each: each.one("run06", initContainers=[each.container(name="fetch")]),
}


@pytest.fixture(scope="module")
def situations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Situations]:
    """A launcher in which every situation was created."""
    directory = tmp_path_factory.mktemp("diagnosis")
    server = Server(directory, *NODES)
    created = Situations(server, directory)
    try:
        created.one("hog", **on("busy"), container=cpus(2))
        server.runs("hog-worker-0")
        for create in SITUATIONS.values():
            create(created)
        yield created
    finally:
        server.end()


@pytest.mark.parametrize("cause", list(SITUATIONS))
def test_the_cause_of_a_real_situation_is_found(situations: Situations, cause: str) -> None:
    finding = situations.finding(cause.removeprefix("FL-").replace("-", "").lower(), cause)

    assert (finding["severity"], finding["waiting"]) == (CAUSES[cause].severity, CAUSES[cause].waiting)
    assert finding["nextStep"]


def test_a_request_that_no_node_can_satisfy_names_the_largest_node(situations: Situations) -> None:
    finding = situations.finding("pend02", "FL-PEND-02")

    assert finding["summary"].startswith("3 of 3 tasks: no node has 100000 cpu; the largest (")
    assert finding["taskNames"] == ["worker-0", "worker-1", "worker-2"]


def test_a_crash_loop_shows_the_last_line_of_the_output(situations: Situations) -> None:
    finding = situations.finding("run07", "FL-RUN-07")

    assert "exit code 3; last line: no data" in finding["summary"]


def test_a_failure_shows_the_last_lines_of_the_log(situations: Situations) -> None:
    situations.server.completed("run10")

    finding = situations.finding("run10", "FL-RUN-10")

    assert finding["summary"].endswith("exited with code 7; last line: KeyError")
    (log,) = [each for each in finding["evidence"] if each["field"] == "log[main]"]
    assert (log["object"], log["value"]) == ("pod/run10-worker-0", "step\nKeyError")


def test_a_task_without_retries_left_lists_its_attempts(situations: Situations) -> None:
    role = {
        "name": "worker",
        "taskNumber": 1,
        "task": {"pod": a_pod_template(situations.container("false")), **retries(1)},
    }
    situations.create("retries", role)
    situations.server.completed("retries")

    finding = situations.finding("retries", "FL-RETRY-03")

    assert finding["summary"] == "worker-0: attempt 2 was its last: 1 of 1 retries used"
    assert [each["value"] for each in finding["evidence"]] == ["container main exited with code 1; counted"]


def test_a_running_task_that_writes_nothing_is_named(situations: Situations) -> None:
    situations.one("run17", *shell("echo begun; sleep 600"))
    situations.server.runs("run17-worker-0")
    (log,) = until(
        lambda: [
            path
            for path in situations.server.data.glob("logs/default/run17-worker-0/*/main/0.log")
            if b"begun" in path.read_bytes()
        ],
        "the log is written",
    )

    assert situations.findings("run17") == {}
    os.utime(log, (time.time() - 7200, time.time() - 7200))
    finding = situations.finding("run17", "FL-RUN-17")

    assert finding["summary"] == "worker-0: runs, and has written nothing for 120m"
    assert finding["nextStep"].startswith("launcher logs run17 worker/0 --tail 20")


def test_the_first_of_several_failures_comes_first(situations: Situations) -> None:
    situations.server.completed("run14")

    diagnosis = situations.server.get(f"{FRAMEWORKS}/run14/diagnosis")
    first, *others = diagnosis["findings"]

    assert first["summary"] == "worker-2: container main exited with code 9; last line: CUDA error"
    assert "FL-RUN-14" in [finding["id"] for finding in others]


def test_a_task_that_waits_for_a_role_names_the_tasks_of_it(situations: Situations) -> None:
    finding = situations.finding("ord01", "FL-ORD-01")

    assert "ps-0 (AttemptPreparing), ps-1 (AttemptPreparing)" in finding["summary"]
    assert finding["nextStep"] == "launcher why ord01 ps"


def test_a_framework_that_runs_has_no_findings(situations: Situations) -> None:
    situations.server.runs("hog-worker-0")

    assert situations.findings("hog") == {}


def test_a_task_on_a_removed_node_is_explained(serve: Serve, tmp_path: Path) -> None:
    server = serve("--node=main", "--node=gone", at=tmp_path)
    created = Situations(server, tmp_path)
    created.one("node02", nodeSelector={"kubernetes.io/hostname": "gone"})
    server.runs("node02-worker-0")
    server.stop()

    finding = Situations(serve("--node=main", at=tmp_path), tmp_path).finding("node02", "FL-NODE-02")

    assert finding["summary"].startswith("worker-0: ")


def test_a_framework_that_was_stored_without_validation_is_explained(serve: Serve, tmp_path: Path) -> None:
    invalid = a_framework(a_role("Not_A_Role"), name="adm09", metadata={"generation": 1})
    store_objects(tmp_path / "data", [(FRAMEWORK_KIND, invalid)])
    server = serve(at=tmp_path)
    (name,) = [each["metadata"]["name"] for each in server.get(FRAMEWORKS)["items"]]

    finding = Situations(server, tmp_path).finding(name, "FL-ADM-09")

    assert "taskRoles[0].name" in finding["summary"]


def test_capacity_that_is_reserved_for_a_larger_pod_is_explained(serve: Serve, tmp_path: Path) -> None:
    server = serve("--node=main,cpu=2", module="tests.local.serve_with_early_reservations", at=tmp_path)
    created = Situations(server, tmp_path)
    created.one("half", container=cpus(1))
    server.runs("half-worker-0")
    created.one("whole", container=cpus(2))
    until(lambda: created.findings("whole").get("FL-PEND-01"), "the larger pod waits")
    pending = server.get(f"{PODS}/whole-worker-0")["metadata"]["creationTimestamp"]
    until(lambda: time.time() - parse_rfc3339(pending) > 3 or None, "the larger pod has waited")

    created.one("pend13", container=cpus(1))
    finding = created.finding("pend13", "FL-PEND-13")

    assert finding["summary"] == "worker-0: free capacity is reserved for pods that have waited longer"


def test_a_host_path_that_is_no_longer_allowed_is_explained(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"policy: {{host-path-prefixes: [{tmp_path}]}}\n")
    server = serve("--verbose", "--config", str(config), at=tmp_path)
    created = Situations(server, tmp_path)
    volume = a_volume(hostPath={"path": str(tmp_path / "shared"), "type": "DirectoryOrCreate"})
    waits = shell("until [ -e /data/end ]; do sleep 0.1; done; exit 1")
    created.one("vol06", *waits, **volume, framework=retries(1))
    server.runs("vol06-worker-0")

    config.write_text("policy: {host-path-prefixes: [/none]}\n")
    os.kill(server.pid, signal.SIGHUP)
    until(lambda: "settings reloaded" in server.errors() or None, "the policy is reloaded")
    (tmp_path / "shared" / "end").touch()
    finding = created.finding("vol06", "FL-VOL-06")

    assert "outside the allowed host paths" in finding["evidence"][0]["value"]


def test_a_pod_that_cannot_be_parsed_is_explained(serve: Serve, tmp_path: Path) -> None:
    server = serve("--node=main", at=tmp_path)
    Situations(server, tmp_path).one("sys08")
    server.runs("sys08-worker-0")
    server.stop()
    asyncio.run(store_malformed_pod(tmp_path / "data" / "store.db", "sys08-worker-0"))

    created = Situations(serve("--node=main", at=tmp_path), tmp_path)
    pod, error = created.finding("sys08", "FL-SYS-08"), created.finding("sys08", "FL-SYS-04")

    assert pod["nextStep"].endswith("delete pod sys08-worker-0")
    assert "pods default/sys08-worker-0" in error["summary"]
    assert error["evidence"][0]["field"] == "/readyz?verbose"


async def store_malformed_pod(database: Path, name: str) -> None:
    """Changes the pod's node to a list, as only a program that writes to the store can."""
    store = await SqliteStore.open(database, clock=time.time, new_uid=lambda: "unused")
    pod = await store.get(POD_KIND, "default", name)
    await store.update(POD_KIND, {**pod, "spec": {**pod["spec"], "nodeName": ["a"]}})
    await store.close()
