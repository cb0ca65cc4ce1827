"""DNS names of tasks: Services, and fields and variables of pods."""

from typing import Any

import orjson
import pytest

from launcher.core.errors import FieldError
from launcher.core.framework import Framework
from launcher.core.pods.dns_overlay import FIRST_LABELS_ANNOTATION, dns_overlays
from launcher.core.pods.pod_template import compile_templates
from launcher.core.pods.services import SERVICES_ANNOTATION, service_name, services_of
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName, RoleName
from launcher.core.validation.framework import validation_errors
from tests.builders import Json, a_framework, a_pod_template, a_role

HEADLESS = {"clusterIP": "None", "publishNotReadyAddresses": True}


def parse(framework: Json) -> Framework:
    name = FrameworkName(framework["metadata"]["name"])
    return Framework(name, "lab", "uid-1", 1, spec_from_json(framework["spec"]))


def a_template(annotations: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    return {**a_pod_template(**spec), "metadata": {"annotations": annotations or {}, "labels": labels or {}}}


def with_ports(*ports: Json) -> list[Json]:
    return [{"name": "main", "image": "i", "ports": list(ports)}]


def services(*roles: Json, **spec: Any) -> dict[str, Json]:
    return services_of(parse(a_framework(*roles, **spec)))


def a_created_pod(framework: Json, role: str = "worker", index: int = 0) -> Json:
    """The pod of one task with its host name and variables."""
    parsed = parse(framework)
    return compile_templates(parsed, 0, dns_overlays(parsed))[RoleName(role)].pod(index, 0, 0)


def variables_of(pod: Json) -> dict[str, str]:
    """The variables of its first container; of two with the same name the later counts."""
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


# Services.


def test_a_framework_without_dns_names_has_no_services_and_its_pods_are_unchanged() -> None:
    framework = parse(a_framework(a_role(), a_role("ps")))

    assert services_of(framework) == {}
    assert dns_overlays(framework) == {}


def test_with_discovery_all_pods_have_names_in_one_headless_service() -> None:
    (service,) = services(a_role(), a_role("ps"), discovery={}).values()

    assert service["metadata"]["name"] == "mnist"
    assert service["spec"] == {"selector": {"FC_FRAMEWORK_NAME": "mnist"}, **HEADLESS}
    assert service["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "launcher.microsoft.com/v1",
            "kind": "Framework",
            "name": "mnist",
            "uid": "uid-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_a_template_with_the_service_as_subdomain_gets_the_service() -> None:
    assert list(services(a_role(pod=a_pod_template(subdomain="mnist")))) == ["mnist"]
    assert services(a_role(pod=a_pod_template(subdomain="another"))) == {}


def test_the_name_of_a_service_begins_with_a_letter() -> None:
    assert service_name(FrameworkName("2nd-try")) == "fw-2nd-try"


def test_each_task_may_have_its_own_service() -> None:
    labels = {"job": "{{FC_FRAMEWORK_NAME}}", "index": "{{FC_TASK_INDEX}}", "odd": "{{FC_NOBODY}}"}
    port = {"name": "tfjob-port", "containerPort": 2222}
    template = a_template({SERVICES_ANNOTATION: "PerTask"}, labels, containers=with_ports(port))

    found = services(a_role(tasks=2, pod=template), a_role("ps"))

    assert list(found) == ["mnist-worker-0", "mnist-worker-1"]
    assert found["mnist-worker-1"]["spec"] == {
        "selector": {"FC_FRAMEWORK_NAME": "mnist", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1"},
        "ports": [{"name": "tfjob-port", "port": 2222, "protocol": "TCP", "targetPort": 2222}],
        **HEADLESS,
    }
    assert found["mnist-worker-1"]["metadata"]["labels"] == {
        "job": "mnist",
        "index": "1",
        "odd": "{{FC_NOBODY}}",
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": "1",
    }


def test_a_role_may_have_a_node_port_service() -> None:
    labels = {"role": "board", "index": "{{FC_TASK_INDEX}}"}
    template = a_template(
        {SERVICES_ANNOTATION: "NodePort"}, labels, containers=with_ports({"containerPort": 6006})
    )

    (service,) = services(a_role("board", 1, pod=template)).values()

    assert service["metadata"]["name"] == "mnist-board"
    assert service["metadata"]["labels"] == {
        "role": "board",
        "FC_FRAMEWORK_NAME": "mnist",
        "FC_TASKROLE_NAME": "board",
    }
    assert service["spec"] == {
        "selector": {"FC_FRAMEWORK_NAME": "mnist", "FC_TASKROLE_NAME": "board"},
        "type": "NodePort",
        "ports": [{"name": "tcp-6006", "port": 6006, "protocol": "TCP", "targetPort": 6006}],
    }


def test_ports_of_a_service_are_unique_and_named() -> None:
    containers = [
        *with_ports({"name": "web", "containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}),
        {
            "name": "side",
            "image": "i",
            "ports": [{"containerPort": 80}, {"name": "web", "containerPort": 81}],
        },
    ]
    template = a_template({SERVICES_ANNOTATION: "PerTask"}, containers=containers)

    ports = services(a_role(tasks=1, pod=template))["mnist-worker-0"]["spec"]["ports"]

    assert [(port["name"], port["port"], port["protocol"]) for port in ports] == [
        ("web", 80, "TCP"),
        ("udp-80", 80, "UDP"),
        ("tcp-81", 81, "TCP"),
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(
            "perTask",
            FieldError(
                'spec.taskRoles[0].task.pod.metadata.annotations["launcher.microsoft.com/services"]',
                'Unsupported value: "perTask": supported values: "PerTask", "NodePort"; did you mean "PerTask"?',
                "FieldValueNotSupported",
            ),
            id="an unknown value",
        ),
        pytest.param(
            "NodePort",
            FieldError(
                "spec.taskRoles[0].task.pod.spec.containers[0].ports",
                "Required value: a Service of type NodePort needs a port",
                "FieldValueRequired",
            ),
            id="no port",
        ),
    ],
)
def test_an_invalid_service_annotation_is_rejected(value: str, problem: FieldError) -> None:
    assert validation_errors(a_framework(a_role(pod=a_template({SERVICES_ANNOTATION: value})))) == (problem,)


# Pods.


def test_the_host_name_of_a_pod_is_its_name() -> None:
    spec = a_created_pod(a_framework(a_role(), discovery={}), index=1)["spec"]

    assert (spec["hostname"], spec["subdomain"]) == ("mnist-worker-1", "mnist")


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"hostNetwork": True}, id="in the host network"),
        pytest.param({"hostname": "me"}, id="with a host name of the user"),
        pytest.param({"subdomain": "mine"}, id="in a subdomain of the user"),
    ],
)
def test_a_pod_with_another_hostname_is_unchanged_and_no_pod_gets_names_of_peers(own: Json) -> None:
    framework = a_framework(a_role(pod=a_pod_template(**own)), a_role("ps", 1), discovery={})

    pod = a_created_pod(framework)

    named = ("hostNetwork", "hostname", "subdomain")
    assert {key: value for key, value in pod["spec"].items() if key in named} == own
    for each in (pod, a_created_pod(framework, "ps")):
        assert variables_of(each).keys().isdisjoint({"TF_CONFIG", "MASTER_ADDR", "WORKER_HOSTS", "RANK"})


def test_tasks_get_the_names_of_peers_in_variables() -> None:
    framework = a_framework(
        a_role("ps", 1),
        a_role("worker", 2),
        a_role("board", 1, background=True, pod=a_pod_template(hostNetwork=True)),
        discovery={"ports": {"worker": 46866, "ps": 46867}},
    )

    variables = variables_of(a_created_pod(framework, index=1))

    where = "mnist.lab.svc"
    assert variables["WORKER_HOSTS"] == f"mnist-worker-0.{where}:46866,mnist-worker-1.{where}:46866"
    assert variables["PS_HOSTS"] == f"mnist-ps-0.{where}:46867"
    assert (variables["RANK"], variables["WORLD_SIZE"]) == ("2", "3")
    assert (variables["PET_NODE_RANK"], variables["PET_NNODES"]) == ("2", "3")
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == (f"mnist-ps-0.{where}", "46867")
    assert orjson.loads(variables["TF_CONFIG"]) == {
        "cluster": {
            "ps": [f"mnist-ps-0.{where}:46867"],
            "worker": [f"mnist-worker-0.{where}:46866", f"mnist-worker-1.{where}:46866"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    assert "RANK" not in variables_of(a_created_pod(framework, "board"))


def test_a_variable_of_the_user_overrides_ours() -> None:
    env = [{"name": "TF_CONFIG", "value": "mine"}]
    template = a_pod_template(containers=[{"name": "main", "image": "i", "env": env}])

    assert variables_of(a_created_pod(a_framework(a_role(pod=template), discovery={})))["TF_CONFIG"] == "mine"


def test_an_auto_port_is_in_no_variable() -> None:
    roles = (a_role("worker", 2), a_role("ps", 1))
    variables = variables_of(
        a_created_pod(a_framework(*roles, discovery={"ports": {"worker": "auto", "ps": 7}}))
    )

    assert variables.keys().isdisjoint({"TF_CONFIG", "MASTER_ADDR", "WORKER_HOSTS"})
    assert (variables["RANK"], variables["PS_HOSTS"]) == ("0", "mnist-ps-0.mnist.lab.svc:7")


def test_long_lists_of_peers_are_not_in_variables() -> None:
    variables = variables_of(a_created_pod(a_framework(a_role(tasks=1000), discovery={}), index=999))

    assert variables.keys().isdisjoint({"TF_CONFIG", "WORKER_HOSTS"})
    assert (variables["RANK"], variables["MASTER_ADDR"]) == ("999", "mnist-worker-0.mnist.lab.svc")


def test_the_first_task_may_have_additional_labels() -> None:
    framework = a_framework(a_role(pod=a_template({FIRST_LABELS_ANNOTATION: "a.b/role=master,first=yes"})))

    labels = [a_created_pod(framework, index=index)["metadata"]["labels"] for index in (0, 1)]

    assert (labels[0]["a.b/role"], labels[0]["first"]) == ("master", "yes")
    assert labels[1].keys().isdisjoint({"a.b/role", "first"})
