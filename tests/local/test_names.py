"""DNS names of tasks in local mode, on several nodes."""

from collections.abc import Iterable
from typing import Any

import pytest

from launcher.converters.kubeflow.tfjob import convert
from launcher.core.pods.services import SERVICES_ANNOTATION
from tests.builders import Json, a_framework, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server, ended

SERVICES = "/api/v1/namespaces/default/services"
#: Prints the address of a name once it resolves, optionally to a given address.
_RESOLVE = (
    'until found=$(getent hosts "$1") && case "$found" in "$2"*) ;; *) false ;; esac; do sleep 0.1; done; '
    "echo $1 is ${found%% *}"
)


def a_template(
    server: Server, script: str, *lines: str, annotations: Json | None = None, **spec: Any
) -> Json:
    container: Json = {"name": "main", "image": "none", "command": ["sh", "-c", script, "sh", *lines]}
    container["env"] = [ended_with(server)]
    return {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def ended_with(server: Server) -> Json:
    """A variable that identifies the processes of a pod at the end of the test."""
    return {"name": "LAUNCHER_TEST", "value": str(server.data)}


def on(node: str) -> Json:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def services(server: Server) -> list[str]:
    return sorted(service["metadata"]["name"] for service in server.get(SERVICES)["items"])


def wait_for_output(server: Server, pod: str, lines: Iterable[str]) -> None:
    """Waits until the pod has printed all *lines*."""
    until(lambda: all(each in server.log(pod) for each in lines) or None, f"{pod} has printed {lines}")


def test_tasks_on_different_nodes_resolve_the_names_in_their_environment(serve: Serve) -> None:
    server = serve("--node=a,ip=127.0.0.2", "--node=b,ip=127.0.0.3")
    # The names are those of the environment that every task has.
    script = (
        f'set -- "${{PS_HOSTS%%:*}}" ""; {_RESOLVE}; set -- "$MASTER_ADDR" ""; {_RESOLVE}; echo rank $RANK'
    )
    stays = f"{script}; exec sleep 1000"
    roles = [
        a_role("ps", 1, pod=a_template(server, stays, **on("a"))),
        a_role("worker", 1, pod=a_template(server, stays, **on("b"))),
    ]

    server.post(FRAMEWORKS, a_framework(*roles, discovery={"ports": {"ps": 7777}}))

    name = "mnist-ps-0.mnist.default.svc"
    for pod, rank in (("mnist-ps-0", 0), ("mnist-worker-0", 1)):
        wait_for_output(server, pod, [f"rank {rank}\n"])
        assert server.log(pod) == f"{name} is 127.0.0.2\n{name} is 127.0.0.2\nrank {rank}\n"


def test_services_per_task_exist_until_the_framework_is_deleted(serve: Serve) -> None:
    server = serve("--node=a,ip=127.0.0.2")
    annotations = {SERVICES_ANNOTATION: "PerTask"}
    roles = [
        a_role("ps", 1, pod=a_template(server, "sleep 1000", annotations=annotations)),
        a_role(
            "worker",
            2,
            pod=a_template(server, f"{_RESOLVE}; sleep 1000", "mnist-ps-0", "", annotations=annotations),
        ),
    ]

    server.post(FRAMEWORKS, a_framework(*roles))
    wait_for_output(server, "mnist-worker-1", ["mnist-ps-0 is 127.0.0.2"])
    created = services(server)
    server.curl(f"{FRAMEWORKS}/mnist", "-X", "DELETE")

    assert created == ["mnist-ps-0", "mnist-worker-0", "mnist-worker-1"]
    until(lambda: not services(server) or None, "the Services are deleted")
    until(lambda: not list(server.data.glob("hosts/*/*")) or None, "the hosts files are deleted")


def test_tasks_of_a_tfjob_resolve_the_names_in_tf_config(serve: Serve) -> None:
    server = serve("--node=a,ip=127.0.0.2")
    peer = "import json, os; print(json.loads(os.environ['TF_CONFIG'])['cluster']['ps'][0].split(':')[0])"
    script = f'set -- "$(python3 -c "{peer}")" ""; {_RESOLVE}'

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

    server.post(FRAMEWORKS, convert(job).framework)

    assert ended(server.completed("dist")) == "Succeeded"
    assert server.log("dist-worker-0") == "dist-ps-0.default.svc is 127.0.0.2\n"


@pytest.mark.parametrize("restart", [False, True], ids=["all along", "with a new launcher in between"])
def test_a_running_program_resolves_the_new_address_of_a_retried_task(serve: Serve, restart: bool) -> None:
    server = serve("--node=a,ip=127.0.0.2", "--node=b,ip=127.0.0.3")
    name = "mnist-ps-0.mnist"
    wait = f'until [ -e "{server.data.parent}/%s" ]; do sleep 0.1; done'
    watcher = f"{_RESOLVE}; set -- {name} 127.0.0.3; {_RESOLVE}; {wait % 'end'}; echo done"

    def roles(node: str) -> list[Json]:
        # It fails once, when the file exists.
        script = f"[ $FC_TASK_ATTEMPT_ID = 0 ] || exec sleep 1000; {wait % 'fail'}; exit 1"
        ps = a_role("ps", 1, pod=a_template(server, script, **on(node)))
        ps["task"]["retryPolicy"] = {"maxRetryCount": 1}
        worker = a_role("worker", 1, pod=a_template(server, watcher, name, "127.0.0.2", **on("b")))
        return [ps, {**worker, "frameworkAttemptCompletionPolicy": {"minSucceededTaskCount": 1}}]

    server.post(FRAMEWORKS, a_framework(*roles("a"), discovery={}))
    wait_for_output(server, "mnist-worker-0", [f"{name} is 127.0.0.2"])
    service = server.get(f"{SERVICES}/mnist")["metadata"]["uid"]
    server.patch(f"{FRAMEWORKS}/mnist", {"spec": {"taskRoles": roles("b")}})
    until(lambda: _is_observed(server.framework("mnist")) or None, "the launcher has observed the change")

    if restart:
        server.kill()
        server.start()
    (server.data.parent / "fail").write_text("")
    wait_for_output(server, "mnist-worker-0", [f"{name} is 127.0.0.3"])

    assert server.get(f"{SERVICES}/mnist")["metadata"]["uid"] == service
    (server.data.parent / "end").write_text("")
    assert ended(server.completed("mnist")) == "Succeeded"
    assert server.log("mnist-worker-0") == f"{name} is 127.0.0.2\n{name} is 127.0.0.3\ndone\n"
    until(lambda: not services(server) or None, "the Services of the completed Framework are deleted")


def _is_observed(framework: Any) -> bool:
    observed: bool = framework["status"].get("observedGeneration") == framework["metadata"]["generation"]
    return observed


def test_a_framework_waits_with_a_reason_while_another_service_has_its_name(serve: Serve) -> None:
    server = serve()
    uid = server.post(
        SERVICES,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "mnist"},
            "spec": {"ports": [{"port": 80}]},
        },
    )
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_template(server, "true")), discovery={}))

    def reason() -> str | None:
        status = server.framework("mnist").get("status") or {}
        roles = (status.get("attemptStatus") or {}).get("taskRoleStatuses") or [{}]
        tasks = roles[0].get("taskStatuses") or [{}]
        return tasks[0].get("message") or None

    output = until(reason, "its message has the reason")
    server.delete(f"{SERVICES}/mnist")

    assert uid["kind"] == "Service"
    assert "Service mnist already exists and is not owned by this Framework" in output
    assert ended(server.completed("mnist")) == "Succeeded"
