"""Every name, reference, path and quantity of a pod template is validated as by Kubernetes."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.validation.framework import validation_errors
from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.core.manifests import json_values, paths_in, set_value
from tests.hypothesis_examples import examples

POD = "spec.taskRoles[0].task.pod"
VOLUMES = [{"name": "v", "emptyDir": {}}]


def fields_of(pod: Json) -> list[str]:
    """The invalid fields of the template."""
    found = [problem.field for problem in validation_errors(a_framework(a_role(pod=pod)))]
    return [field.removeprefix(f"{POD}.").removeprefix("spec.") for field in found]


def with_container(**fields: Any) -> Json:
    return a_pod_template(containers=[{"name": "main", "image": "busybox", **fields}], volumes=VOLUMES)


def with_volume(**source: Any) -> Json:
    return a_pod_template(volumes=[{"name": "v", **source}])


def messages(pod: Json) -> str:
    return "\n".join(map(str, validation_errors(a_framework(a_role(pod=pod)))))


BAD_NAMES = ["Main", "my_main", "a/b", "a" * 300, "a" * 64, "../../../../victim", "..", "", "-a", "a\n", "ä"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_a_container_is_named_by_a_dns_label(kind: str, name: str) -> None:
    pod = a_pod_template(**{kind: [{"name": name, "image": "busybox"}]})

    assert fields_of(pod) == [f"{kind}[0].name"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_volume_is_named_by_a_dns_label(name: str) -> None:
    assert fields_of(a_pod_template(volumes=[{"name": name, "configMap": {"name": "c"}}])) == [
        "volumes[0].name"
    ]


def test_names_of_volumes_and_containers_are_unique() -> None:
    twice = [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]

    assert fields_of(a_pod_template(volumes=twice)) == ["volumes[1].name"]
    assert fields_of(a_pod_template(ephemeralContainers=[{"name": "main"}])) == [
        "ephemeralContainers[0].name"
    ]


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"hostPath": {"path": ""}}, "hostPath.path"),
        ({"hostPath": {"path": "data"}}, "hostPath.path"),
        ({"hostPath": {"path": "/data/../etc"}}, "hostPath.path"),
        ({"hostPath": {"path": "/d", "type": "Dir"}}, "hostPath.type"),
        ({"nfs": {"server": "", "path": "/"}}, "nfs.server"),
        ({"nfs": {"server": "s", "path": "export"}}, "nfs.path"),
        ({"emptyDir": {"sizeLimit": "1GB"}}, "emptyDir.sizeLimit"),
        ({"persistentVolumeClaim": {"claimName": "../x"}}, "persistentVolumeClaim.claimName"),
        ({"persistentVolumeClaim": {"claimName": ""}}, "persistentVolumeClaim.claimName"),
        ({"configMap": {}}, "configMap.name"),
        ({"configMap": {"name": "../c"}}, "configMap.name"),
        ({"configMap": {"name": "c", "items": [{"key": "a/b", "path": "p"}]}}, "configMap.items[0].key"),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "/p"}]}}, "configMap.items[0].path"),
        (
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "a/../../p"}]}},
            "configMap.items[0].path",
        ),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "..p"}]}}, "configMap.items[0].path"),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": ""}]}}, "configMap.items[0].path"),
        ({"configMap": {"name": "c", "defaultMode": 512}}, "configMap.defaultMode"),
        ({"secret": {"secretName": ""}}, "secret.secretName"),
        ({"secret": {"secretName": "s", "items": [{"key": "k", "path": "../p"}]}}, "secret.items[0].path"),
        (
            {"downwardAPI": {"items": [{"path": "../p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            "downwardAPI.items[0].path",
        ),
        (
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "spec.x"}}]}},
            "downwardAPI.items[0].fieldRef.fieldPath",
        ),
        (
            {"projected": {"sources": [{"secret": {"name": "s", "items": [{"key": "k", "path": "/p"}]}}]}},
            "projected.sources[0].secret.items[0].path",
        ),
        ({"emptyDir": {}, "hostPath": {"path": "/d"}}, "hostPath"),
    ],
)
def test_volumes_are_validated(source: Json, field: str) -> None:
    assert fields_of(with_volume(**source)) == [f"volumes[0].{field}"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"ports": [{"containerPort": 80, "name": "HTTP"}]}, "ports[0].name"),
        ({"ports": [{"containerPort": 80, "name": "a" * 16}]}, "ports[0].name"),
        ({"ports": [{"containerPort": 80, "name": "80"}]}, "ports[0].name"),
        (
            {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
            "ports[1].name",
        ),
        ({"ports": [{"containerPort": 0}]}, "ports[0].containerPort"),
        ({"ports": [{"containerPort": 1, "protocol": "tcp"}]}, "ports[0].protocol"),
        ({"imagePullPolicy": "always"}, "imagePullPolicy"),
        ({"terminationMessagePolicy": "Log"}, "terminationMessagePolicy"),
        ({"env": [{"name": ""}]}, "env[0].name"),
        ({"env": [{"name": "A=B"}]}, "env[0].name"),
        ({"env": [{"name": "A\x00"}]}, "env[0].name"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "env[0].valueFrom"),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.nope"}}}]},
            "env[0].valueFrom.fieldRef.fieldPath",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a b"}}}]},
            "env[0].valueFrom.configMapKeyRef.key",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}]},
            "env[0].valueFrom.secretKeyRef.name",
        ),
        (
            {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]},
            "env[0].valueFrom",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}}]},
            "env[0].valueFrom.resourceFieldRef.resource",
        ),
        ({"envFrom": [{"configMapRef": {"name": ""}}]}, "envFrom[0].configMapRef.name"),
        ({"envFrom": [{}]}, "envFrom[0]"),
        ({"volumeMounts": [{"name": "v", "mountPath": ""}]}, "volumeMounts[0].mountPath"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]},
            "volumeMounts[1].mountPath",
        ),
        ({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]}, "volumeMounts[0].subPath"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "/b"}]}, "volumeMounts[0].subPath"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPathExpr": "$(X)/.."}]},
            "volumeMounts[0].subPathExpr",
        ),
        ({"livenessProbe": {"periodSeconds": 1}}, "livenessProbe"),
        ({"livenessProbe": {"exec": {"command": []}}}, "livenessProbe.exec.command"),
        ({"livenessProbe": {"httpGet": {"port": 0}}}, "livenessProbe.httpGet.port"),
        ({"livenessProbe": {"httpGet": {"port": "80"}}}, "livenessProbe.httpGet.port"),
        ({"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": -1}}, "livenessProbe.periodSeconds"),
        (
            {"readinessProbe": {"tcpSocket": {"port": 1}, "exec": {"command": ["x"]}}},
            "readinessProbe.tcpSocket",
        ),
        ({"lifecycle": {"preStop": {}}}, "lifecycle.preStop"),
    ],
)
def test_containers_are_validated(fields: Json, field: str) -> None:
    assert fields_of(with_container(**fields)) == [f"containers[0].{field}"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"dnsPolicy": "clusterFirst"}, "dnsPolicy"),
        ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds"),
        ({"hostname": "a.b"}, "hostname"),
        ({"subdomain": "A"}, "subdomain"),
        ({"priorityClassName": "a_b"}, "priorityClassName"),
        ({"nodeSelector": {"a b": "c"}}, 'nodeSelector["a b"]'),
        ({"nodeSelector": {"a": "b c"}}, "nodeSelector.a"),
        ({"hostAliases": [{"ip": "x", "hostnames": ["a"]}]}, "hostAliases[0].ip"),
        ({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a\n1.1.1.1 b"]}]}, "hostAliases[0].hostnames[0]"),
        ({"tolerations": [{"operator": "equals"}]}, "tolerations[0].operator"),
        ({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}, "tolerations[0].value"),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, "schedulingGates[1].name"),
        ({"securityContext": {"runAsUser": -1}}, "securityContext.runAsUser"),
    ],
)
def test_other_fields_of_a_pod_are_validated(spec: Json, field: str) -> None:
    assert fields_of(a_pod_template(**spec)) == [field]


@pytest.mark.parametrize(
    ("requirement", "field"),
    [
        ({"key": "k", "operator": "in", "values": ["v"]}, "operator"),
        ({"key": "k", "operator": "In"}, "values"),
        ({"key": "k", "operator": "Exists", "values": ["v"]}, "values"),
        ({"key": "k", "operator": "Gt", "values": ["x"]}, "values"),
        ({"key": "a b", "operator": "Exists"}, "key"),
    ],
)
def test_node_affinity_is_validated(requirement: Json, field: str) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    name = "requiredDuringSchedulingIgnoredDuringExecution"

    found = fields_of(a_pod_template(affinity={"nodeAffinity": {name: terms}}))

    assert found == [f"affinity.nodeAffinity.{name}.nodeSelectorTerms[0].matchExpressions[0].{field}"]


def test_labels_and_annotations_of_a_template_are_validated() -> None:
    pod = {**a_pod_template(), "metadata": {"labels": {"a": "b c"}, "annotations": {"a b": "c"}}}

    assert fields_of(pod) == ["metadata.labels.a", 'metadata.annotations["a b"]']


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"memory": "4GB"}, 'did you mean "4G" or "4Gi"?'),
        ({"memory": "4 GiB"}, 'did you mean "4Gi"?'),
        ({"memory": "512mb"}, 'did you mean "512M" or "512Mi"?'),
        ({"memory": "4K"}, 'did you mean "4k" or "4Ki"?'),
        ({"nvidia.com/gpu": "one"}, "must be a quantity"),
        ({"nvidia.com/gpu": "0.5"}, "must be an integer"),
        ({"cpu": "-1"}, "must not be negative"),
        ({"cpu": ""}, "must be a quantity"),
        ({"gpu": 1}, 'did you mean "nvidia.com/gpu"?'),
        ({"nvidia.com/": 1}, "must consist of"),
    ],
)
def test_an_invalid_quantity_is_an_error_with_a_suggestion(limits: Json, message: str) -> None:
    pod = with_container(resources={"limits": limits})

    assert len(fields_of(pod)) == 1
    assert message in messages(pod)


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}},
        {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
        {"requests": {"nvidia.com/gpu": 1}},
    ],
)
def test_a_limit_is_not_below_its_request(resources: Json) -> None:
    assert len(fields_of(with_container(resources=resources))) == 1


def test_quantities_that_kubernetes_accepts_are_accepted() -> None:
    resources = {
        "requests": {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": 1},
        "limits": {"cpu": 2, "memory": "1e9", "nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi", "rdma/hca": 1},
    }

    assert fields_of(with_container(resources=resources)) == []


def test_a_placeholder_that_does_not_exist_is_an_error_with_a_suggestion() -> None:
    pod = with_container(command=["echo", "{{FC_TASKINDEX}}"])

    assert fields_of(pod) == ["containers[0].command[1]"]
    assert "did you mean {{FC_TASK_INDEX}}?" in messages(pod)


def test_names_are_validated_with_their_placeholders_replaced() -> None:
    volume = {"name": "data-{{FC_TASK_INDEX}}", "persistentVolumeClaim": {"claimName": "{{FC_POD_NAME}}"}}
    mount = {"name": "data-{{FC_TASK_INDEX}}", "mountPath": "/data", "subPath": "{{FC_TASKROLE_NAME}}"}
    container = {
        "name": "{{FC_TASKROLE_NAME}}-{{FC_TASK_INDEX+1}}",
        "image": "busybox",
        "command": ["echo", "{{FC_TASK_INDEX}} {{other}} {{FC_FRAMEWORK_NAME}}"],
        "volumeMounts": [mount],
    }

    assert fields_of(a_pod_template(containers=[container], volumes=[volume])) == []
    assert fields_of(a_pod_template(volumes=[{"name": "{{FC_TASK_INDEX}}_x"}])) == ["volumes[0].name"]


def test_a_pod_of_openpai_is_valid() -> None:
    pod = {
        "metadata": {
            "labels": {"userName": "u", "virtualCluster": "default", "type": "kube-launcher-task"},
            "annotations": {"container.apparmor.security.beta.kubernetes.io/app": "unconfined"},
        },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "runtime-account",
            "initContainers": [
                {
                    "name": "init",
                    "image": "runtime",
                    "env": [{"name": "USER_CMD", "value": "python x.py"}],
                    "volumeMounts": [
                        {"name": "pai-vol", "mountPath": "/usr/local/pai"},
                        {"name": "host-log", "subPath": "u/j/r", "mountPath": "/usr/local/pai/logs"},
                    ],
                }
            ],
            "containers": [
                {
                    "name": "app",
                    "image": "tensorflow",
                    "resources": {
                        "limits": {"cpu": 4, "memory": "8192Mi", "github.com/fuse": 1, "nvidia.com/gpu": 0}
                    },
                    "env": [
                        {
                            "name": "PAI_TASK_INDEX",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['FC_TASK_INDEX']"}},
                        }
                    ],
                    "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
                }
            ],
            "volumes": [
                {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}},
                {"name": "pai-vol", "emptyDir": {}},
                {"name": "host-log", "hostPath": {"path": "/var/log/pai"}},
            ],
            "imagePullSecrets": [{"name": "regcred"}],
            "hostNetwork": True,
        },
    }

    assert fields_of(pod) == []


POD_WITH_MANY_FIELDS: Json = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "{{FC_TASK_INDEX}}"}},
    "spec": {
        "hostname": "h",
        "nodeSelector": {"disk": "ssd"},
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["x"]}],
        "imagePullSecrets": [{"name": "s"}],
        "schedulingGates": [{"name": "g"}],
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}
                    ]
                }
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "t", "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            },
        },
        "volumes": [
            {"name": "a", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "s"}}]}},
            {
                "name": "c",
                "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]},
            },
            {"name": "d", "hostPath": {"path": "/d"}},
        ],
        "containers": [
            {
                "name": "main",
                "image": "i",
                "ports": [{"name": "http", "containerPort": 80}],
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}},
                    }
                ],
                "envFrom": [{"prefix": "P", "configMapRef": {"name": "c"}}],
                "volumeMounts": [{"name": "a", "mountPath": "/a", "subPath": "b"}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"port": "http"}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            }
        ],
    },
}


def test_a_pod_with_many_fields_is_valid() -> None:
    assert fields_of(POD_WITH_MANY_FIELDS) == []


@examples(400)
@given(data=st.data())
def test_any_value_in_a_pod_is_valid_or_an_error(data: st.DataObject) -> None:
    pod = deepcopy(POD_WITH_MANY_FIELDS)
    for _ in range(data.draw(st.integers(1, 3))):
        set_value(
            pod, data.draw(st.sampled_from(list(paths_in(pod)))), data.draw(json_values | st.just(10**30))
        )

    problems = validation_errors(a_framework(a_role(pod=pod)))

    assert all(problem.field for problem in problems)
