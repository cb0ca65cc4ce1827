"""Tasks that find each other by name in local mode: real processes, real resolvers, several nodes."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from launcher.converters.kubeflow.tfjob import framework_of
from launcher.core.pods.services import ANNOTATION
from tests.core.manifests import Json, a_framework, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server, ended, until

SERVICES = "/api/v1/namespaces/default/services"
#: Prints what a name leads to as soon as it leads anywhere, or to where it is to lead.
_LOOK_UP = (
    'until found=$(getent hosts "$1") && case "$found" in "$2"*) ;; *) false ;; esac; do sleep 0.1; done; '
    "echo $1 is ${found%% *}"
)


def a_template(
    server: Server, script: str, *words: str, annotations: Json | None = None, **spec: Any
) -> Json:
    container: Json = {"name": "main", "image": "none", "command": ["sh", "-c", script, "sh", *words]}
    container["env"] = [ended_with(server)]
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def ended_with(server: Server) -> Json:
    """A variable by which what is left of a pod is found when the test is over."""
    return {"name": "LAUNCHER_TEST", "value": str(server.data)}


def on(node: str) -> Json:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def services(server: Server) -> list[str]:
    return sorted(service["metadata"]["name"] for service in server.get(SERVICES)["items"])


def says(server: Server, pod: str, words: Iterable[str]) -> None:
    """Return when the pod has printed all of that."""
    until(lambda: all(each in server.log(pod) for each in words) or None, f"{pod} says {words}")


def test_tasks_on_different_nodes_find_each_other_by_the_names_that_they_are_told(serve: Serve) -> None:
    server = serve("--node=a,ip=127.0.0.2", "--node=b,ip=127.0.0.3")
    # The names are those of the environment that every task has.
    look = f'set -- "${{PS_HOSTS%%:*}}" ""; {_LOOK_UP}; set -- "$MASTER_ADDR" ""; {_LOOK_UP}; echo rank $RANK'
    stays = f"{look}; exec sleep 1000"
    roles = [
        a_role("ps", 1, pod=a_template(server, stays, **on("a"))),
        a_role("worker", 1, pod=a_template(server, stays, **on("b"))),
    ]

    server.post(FRAMEWORKS, a_framework(*roles, discovery={"ports": {"ps": 7777}}))

    name = "mnist-ps-0.mnist.default.svc"
    for pod, rank in (("mnist-ps-0", 0), ("mnist-worker-0", 1)):
        says(server, pod, [f"rank {rank}\n"])
        assert server.log(pod) == f"{name} is 127.0.0.2\n{name} is 127.0.0.2\nrank {rank}\n"


def test_the_names_of_tasks_that_tfjobs_know_are_there_and_go_with_the_framework(serve: Serve) -> None:
    server = serve("--node=a,ip=127.0.0.2")
    annotations = {ANNOTATION: "PerTask"}
    roles = [
        a_role("ps", 1, pod=a_template(server, "sleep 1000", annotations=annotations)),
        a_role(
            "worker",
            2,
            pod=a_template(server, f"{_LOOK_UP}; sleep 1000", "mnist-ps-0", "", annotations=annotations),
        ),
    ]

    server.post(FRAMEWORKS, a_framework(*roles))
    says(server, "mnist-worker-1", ["mnist-ps-0 is 127.0.0.2"])
    there = services(server)
    table = server.kubectl("get", "svc")
    server.curl(f"{FRAMEWORKS}/mnist", "-X", "DELETE")

    assert there == ["mnist-ps-0", "mnist-worker-0", "mnist-worker-1"]
    assert "mnist-worker-1" in table
    until(lambda: not services(server) or None, "the Services are gone")
    until(lambda: not list(server.data.glob("hosts/*/*")) or None, "the names are gone")


def test_tasks_of_a_tfjob_find_each_other_by_tf_config(serve: Serve) -> None:
    server = serve("--node=a,ip=127.0.0.2")
    peer = "import json, os; print(json.loads(os.environ['TF_CONFIG'])['cluster']['ps'][0].split(':')[0])"
    script = f'set -- "$(python3 -c "{peer}")" ""; {_LOOK_UP}'

    def replicas(script: str) -> Json:
        container = {"name": "tensorflow", "image": "none", "command": ["sh", "-c", script]}
        containers = [{**container, "env": [ended_with(server)]}]
        return {"replicas": 1, "template": {"spec": {"containers": containers}}}

    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "dist"},
        "spec": {"tfReplicaSpecs": {"PS": replicas("exec sleep 1000"), "Worker": replicas(script)}},
    }

    server.post(FRAMEWORKS, framework_of(job).framework)

    assert ended(server.completed("dist")) == "Succeeded"
    assert server.log("dist-worker-0") == "dist-ps-0.default.svc is 127.0.0.2\n"


@pytest.mark.parametrize("restart", [False, True], ids=["all along", "with a new launcher in between"])
def test_a_program_that_runs_hears_of_the_new_address_of_a_task_that_has_moved(
    serve: Serve, restart: bool
) -> None:
    server = serve("--node=a,ip=127.0.0.2", "--node=b,ip=127.0.0.3")
    name = "mnist-ps-0.mnist"
    wait = f'until [ -e "{server.data.parent}/%s" ]; do sleep 0.1; done'
    watcher = f"{_LOOK_UP}; set -- {name} 127.0.0.3; {_LOOK_UP}; {wait % 'end'}; echo done"

    def roles(node: str) -> list[Json]:
        # It fails once, when it is told to.
        script = f"[ $FC_TASK_ATTEMPT_ID = 0 ] || exec sleep 1000; {wait % 'fail'}; exit 1"
        ps = a_role("ps", 1, pod=a_template(server, script, **on(node)))
        ps["task"]["retryPolicy"] = {"maxRetryCount": 1}
        worker = a_role("worker", 1, pod=a_template(server, watcher, name, "127.0.0.2", **on("b")))
        return [ps, {**worker, "frameworkAttemptCompletionPolicy": {"minSucceededTaskCount": 1}}]

    server.post(FRAMEWORKS, a_framework(*roles("a"), discovery={}))
    says(server, "mnist-worker-0", [f"{name} is 127.0.0.2"])
    service = server.get(f"{SERVICES}/mnist")["metadata"]["uid"]
    patch = orjson.dumps({"spec": {"taskRoles": roles("b")}}).decode()
    server.kubectl("patch", "framework", "mnist", "--type=merge", f"--patch={patch}")
    until(lambda: _is_observed(server.framework("mnist")) or None, "the launcher knows where it is to go")

    if restart:
        server.kill()
        server.start()
    (server.data.parent / "fail").write_text("")
    says(server, "mnist-worker-0", [f"{name} is 127.0.0.3"])

    assert server.get(f"{SERVICES}/mnist")["metadata"]["uid"] == service
    (server.data.parent / "end").write_text("")
    assert ended(server.completed("mnist")) == "Succeeded"
    assert server.log("mnist-worker-0") == f"{name} is 127.0.0.2\n{name} is 127.0.0.3\ndone\n"
    until(lambda: not services(server) or None, "a Framework that is over has no names")


def _is_observed(framework: Any) -> bool:
    observed: bool = framework["status"].get("observedGeneration") == framework["metadata"]["generation"]
    return observed


def test_somebody_elses_service_keeps_its_name_and_the_framework_waits_with_a_reason(serve: Serve) -> None:
    server = serve()
    theirs = server.kubectl("create", "service", "clusterip", "mnist", "--tcp=80:80")
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_template(server, "true")), discovery={}))

    def reason() -> str | None:
        status = server.framework("mnist").get("status") or {}
        roles = (status.get("attemptStatus") or {}).get("taskRoleStatuses") or [{}]
        tasks = roles[0].get("taskStatuses") or [{}]
        return tasks[0].get("message") or None

    said = until(reason, "it says why it waits")
    server.kubectl("delete", "service", "mnist", "--wait=false")  # another takes the name

    assert "created" in theirs
    assert "a Service named mnist is there already, and it is not this Framework's" in said
    assert ended(server.completed("mnist")) == "Succeeded"
