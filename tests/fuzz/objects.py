"""Valid objects of every kind that local mode serves, which the fuzzer sends and damages."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

#: The namespaces of the requests; canaries have another one.
NAMESPACES = ("default", "fuzz")


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A resource of the API, with valid objects."""

    prefix: str
    plural: str
    objects: tuple[Json, ...]
    namespaced: bool = True
    subresources: tuple[str, ...] = ()

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """The path of the collection, of one object or of its subresource."""
        inside = f"/namespaces/{namespace}" if self.namespaced else ""
        parts = [f"{self.prefix}{inside}/{self.plural}", *filter(None, (name, subresource))]
        return "/".join(parts)


def _container(**fields: Any) -> Json:
    return {"name": "main", "image": "busybox:1.36", "command": ["true"], **fields}


def _pod_spec(*containers: Json, **fields: Any) -> Json:
    return {"restartPolicy": "Never", "containers": list(containers or (_container(),)), **fields}


def _object(version: str, kind: str, name: str, **fields: Any) -> Json:
    metadata = {"name": name, "labels": {"app": name}, "annotations": {"note": "x"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


#: A pod spec with values of most types.
_RICH_POD: Json = _pod_spec(
    _container(
        args=["a"],
        env=[
            {"name": "A", "value": "b"},
            {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k", "optional": True}}},
        ],
        envFrom=[{"configMapRef": {"name": "a", "optional": True}}],
        ports=[{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        resources={"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}},
        volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "s"}, {"name": "c", "mountPath": "/c"}],
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 3},
        lifecycle={"preStop": {"exec": {"command": ["true"]}}},
        terminationMessagePath="/dev/termination-log",
        workingDir="/",
    ),
    initContainers=[_container(name="init")],
    volumes=[
        {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": "c", "configMap": {"name": "a", "optional": True, "items": [{"key": "k", "path": "p"}]}},
        {"name": "s", "secret": {"secretName": "a", "optional": True, "defaultMode": 256}},
        {
            "name": "d",
            "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        },
    ],
    nodeSelector={"kubernetes.io/os": "linux"},
    tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["none"]}
                        ]
                    }
                ]
            }
        }
    },
    hostAliases=[{"ip": "127.0.0.1", "hostnames": ["me"]}],
    terminationGracePeriodSeconds=1,
    priority=1,
)


def _role(name: str, number: int, spec: Json, **task: Any) -> Json:
    return {"name": name, "taskNumber": number, "task": {"pod": {"spec": spec}, **task}}


def _framework(version: str, name: str, *roles: Json, **spec: Any) -> Json:
    return _object(version, "Framework", name, spec={**spec, "taskRoles": list(roles)})


def _frameworks(version: str) -> tuple[Json, ...]:
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    return (
        _framework(version, "plain", _role("worker", 2, _pod_spec())),
        _framework(
            version,
            "rich",
            _role("ps", 1, _RICH_POD, retryPolicy=retry),
            {
                **_role("worker", 2, _pod_spec(), podGracefulDeletionTimeoutSec=1, pendingDeadlineSeconds=9),
                "startAfter": [{"role": "ps", "condition": "Succeeded", "atLeast": 1}],
                "frameworkAttemptCompletionPolicy": {
                    "minFailedTaskCount": 1,
                    "minSucceededTaskCount": -1,
                    "succeededIndexes": "0",
                },
            },
            roleSequence=["ps", "worker"],
            retryPolicy=retry,
            activeDeadlineSeconds=60,
            ttlSecondsAfterFinished=60,
            cleanPodPolicy="All",
        ),
        _framework(
            version,
            "gang",
            _role("worker", 2, _pod_spec(_container(command=["sleep", "0.1"]))),
            gang={"timeoutSeconds": 5, "minTasks": 1},
        ),
        _framework(
            version,
            "peers",
            _role("worker", 2, _pod_spec()),
            discovery={"mountPath": "/peers", "ports": {"worker": "auto"}, "timeoutSeconds": 5},
        ),
    )


def _replicas(container: str, number: int = 1, **fields: Any) -> Json:
    template = {"spec": {"containers": [_container(name=container)]}}
    return {"replicas": number, "restartPolicy": "Never", "template": template, **fields}


def _job(kind: str, spec_field: str, container: str, *types: str, **spec: Any) -> Json:
    replicas = {type_: _replicas(container) for type_ in types}
    policy = {"cleanPodPolicy": "None", "backoffLimit": 1, "ttlSecondsAfterFinished": 60}
    return _object("kubeflow.org/v1", kind, "job", spec={spec_field: replicas, "runPolicy": policy, **spec})


_CORE = "/api/v1"
_GROUP = "/apis/launcher.microsoft.com/v1"
_ALIAS = "/apis/frameworkcontroller.microsoft.com/v1"
_KUBEFLOW = "/apis/kubeflow.org/v1"
_JOB_PARTS = ("status", "scale")

RESOURCES: tuple[Resource, ...] = (
    Resource(
        _GROUP, "frameworks", _frameworks("launcher.microsoft.com/v1"), subresources=("status", "scale")
    ),
    Resource(
        _ALIAS,
        "frameworks",
        _frameworks("frameworkcontroller.microsoft.com/v1")[:1],
        subresources=("status", "scale"),
    ),
    Resource(
        _CORE,
        "pods",
        (_object("v1", "Pod", "bare", spec=_pod_spec()), _object("v1", "Pod", "rich", spec=_RICH_POD)),
        subresources=("status", "log", "eviction", "binding"),
    ),
    Resource(
        _CORE, "configmaps", (_object("v1", "ConfigMap", "a", data={"k": "v"}, binaryData={"b": "dg=="}),)
    ),
    Resource(_CORE, "secrets", (_object("v1", "Secret", "a", data={"k": "dg=="}, stringData={"s": "t"}),)),
    Resource(
        _CORE,
        "services",
        (
            _object(
                "v1",
                "Service",
                "a",
                spec={
                    "selector": {"app": "a"},
                    "ports": [{"name": "http", "port": 80, "targetPort": 8000, "protocol": "TCP"}],
                    "clusterIP": "None",
                    "type": "ClusterIP",
                },
            ),
        ),
    ),
    Resource(
        _CORE,
        "events",
        (
            _object(
                "v1",
                "Event",
                "a",
                involvedObject={"kind": "Pod", "name": "bare", "namespace": "default"},
                reason="Fuzzed",
                message="m",
                type="Normal",
                count=1,
                firstTimestamp="2026-01-01T00:00:00Z",
                lastTimestamp="2026-01-01T00:00:00Z",
            ),
        ),
    ),
    Resource(_CORE, "namespaces", (_object("v1", "Namespace", "fuzz"),), namespaced=False),
    Resource(_CORE, "nodes", (), namespaced=False, subresources=("status",)),
    Resource(
        _KUBEFLOW,
        "tfjobs",
        (_job("TFJob", "tfReplicaSpecs", "tensorflow", "PS", "Worker"),),
        subresources=_JOB_PARTS,
    ),
    Resource(
        _KUBEFLOW,
        "pytorchjobs",
        (_job("PyTorchJob", "pytorchReplicaSpecs", "pytorch", "Master", "Worker"),),
        subresources=_JOB_PARTS,
    ),
    Resource(
        _KUBEFLOW,
        "mpijobs",
        (_job("MPIJob", "mpiReplicaSpecs", "mpi", "Launcher", "Worker", slotsPerWorker=1),),
        subresources=_JOB_PARTS,
    ),
    Resource(
        _KUBEFLOW,
        "xgboostjobs",
        (_job("XGBoostJob", "xgbReplicaSpecs", "xgboost", "Master", "Worker"),),
        subresources=_JOB_PARTS,
    ),
    Resource(
        _KUBEFLOW,
        "jaxjobs",
        (_job("JAXJob", "jaxReplicaSpecs", "jax", "Worker"),),
        subresources=_JOB_PARTS,
    ),
)

#: Resources whose objects can be deleted as a collection, owners before their dependents.
DELETED: tuple[Resource, ...] = tuple(
    resource
    for resource in reversed(RESOURCES)
    if resource.namespaced and resource.prefix != _ALIAS and resource.plural != "events"
)


def canary(name: str, env: Mapping[str, str]) -> Json:
    """A Framework that completes within a second on a healthy launcher."""
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return _framework(
        "launcher.microsoft.com/v1",
        name,
        _role("worker", 2, _pod_spec(_container(env=variables))),
    )


def with_environment(obj: Json, env: Mapping[str, str]) -> Json:
    """A copy in which every container also has these variables, which identify its processes."""
    copy = deepcopy(obj)
    variables = [{"name": key, "value": value} for key, value in env.items()]
    for container in _containers_in(copy):
        existing = container.get("env")
        container["env"] = [*variables, *existing] if isinstance(existing, list) else variables
    return copy


def _containers_in(value: Any) -> list[Json]:
    if isinstance(value, list):
        return [each for item in value for each in _containers_in(item)]
    if not isinstance(value, dict):
        return []
    containers = (
        [each for each in value.get("containers", ()) if isinstance(each, dict)]
        if "containers" in value
        else []
    )
    return [*containers, *(each for item in value.values() for each in _containers_in(item))]
