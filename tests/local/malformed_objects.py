"""Objects with wrong types, as an older version may have stored them, written directly into a data directory."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.store.embedded.rows import Entry, new_row
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    ChangeType,
    ResourceKind,
)
from tests.converters.kubeflow.jobs import a_job
from tests.core.manifests import full_framework
from tests.job_kinds.samples import a_tfjob

Json = dict[str, Any]

JOBS = {foreign.kind.kind: foreign.kind for foreign in JOB_KINDS}
#: Values of other types.
WRONG: tuple[Any, ...] = ("x", 7, ["a"], {"a": ["b"]}, None, True, -1.5, [{}], "9999-99-99T99:99:99Z", 2**62)
#: Fields that the store needs to find an object.
_IDENTITY = {("metadata", name) for name in ("name", "namespace", "uid", "generation", "creationTimestamp")}
_UNCHANGED = {("apiVersion",), ("kind",), ("metadata",), *_IDENTITY}

NOW = "2026-01-31T12:00:00Z"


def with_wrong_values(sample: Json) -> Iterator[Json]:
    """Copies of *sample*, each with one wrong value, for every field of it."""
    for number, path in enumerate(_paths(sample)):
        if path in _UNCHANGED:
            continue
        copy = orjson.loads(orjson.dumps(sample))
        parent = copy
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = WRONG[number % len(WRONG)]
        yield copy


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if prefix:
        yield prefix
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in parts:
        yield from _paths(inner, (*prefix, step))


def samples(node: str) -> Iterator[tuple[ResourceKind, Json]]:
    """A complete object of every kind that local mode stores; pods are bound to *node*, or unscheduled."""
    started = _meta(full_framework())
    yield (
        FRAMEWORKS,
        started
        | {
            "spec": {**started["spec"], "executionType": "Start"},
            "status": _framework_status(),
        },
    )
    yield FRAMEWORKS, _meta(full_framework())
    yield PODS, _pod({"phase": "Pending"})
    yield PODS, _pod({"phase": "Pending"}, nodeName=node)
    yield PODS, _pod(_pod_status(), nodeName=node)
    yield NODES, _node()
    yield SERVICES, _of(SERVICES, spec={"selector": {"a": "b"}, "clusterIP": "None", "ports": [{"port": 80}]})
    yield (
        SERVICES,
        _owned(
            _of(SERVICES, spec={"selector": {"FC_FRAMEWORK_NAME": "next"}, "publishNotReadyAddresses": True})
        ),
    )
    yield CONFIG_MAPS, _of(CONFIG_MAPS, data={"a": "b"}, binaryData={"c": "ZA=="})
    yield SECRETS, _of(SECRETS, data={"a": "ZA=="}, type="Opaque")
    yield EVENTS, _event()
    yield NAMESPACES, _of(NAMESPACES, spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"})
    yield JOBS["TFJob"], _meta(a_tfjob()) | {"status": _job_status()}
    for kind, types in (
        ("PyTorchJob", {"Master": 1, "Worker": 1}),
        ("MPIJob", {"Launcher": 1, "Worker": 1}),
        ("XGBoostJob", {"Master": 1, "Worker": 1}),
        ("JAXJob", {"Worker": 1}),
    ):
        yield JOBS[kind], _meta(a_job(kind, types))


def _of(kind: ResourceKind, **fields: Any) -> Json:
    return _meta({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, **fields})


def _meta(obj: Json) -> Json:
    labels = {"FC_FRAMEWORK_NAME": "next", "team": "a"}
    metadata = {
        **obj["metadata"],
        "generation": 1,
        "creationTimestamp": NOW,
        "labels": labels,
        "annotations": {"note": "x"},
        "ownerReferences": [],
    }
    return {**obj, "metadata": metadata}


def _owned(obj: Json) -> Json:
    owner = {
        # Of a kind that the garbage collector ignores: it would delete an object whose owner does not exist.
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "next",
        "uid": "some-uid",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}


def _pod(status: Json, **spec: Any) -> Json:
    term = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a"]}]}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["true"],
        "args": [],
        "env": [
            {"name": "A", "value": "b"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "ports": [{"containerPort": 8080, "name": "web"}],
        "resources": {"requests": {"cpu": "1m"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 10},
        "securityContext": {"privileged": False},
    }
    return _owned(
        _of(
            PODS,
            spec={
                "restartPolicy": "Never",
                "containers": [container],
                "initContainers": [{"name": "first", "image": "busybox", "command": ["true"]}],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
                "nodeSelector": {},
                "tolerations": [
                    {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}
                ],
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]
                    },
                    "podAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "podAffinityTerm": {
                                    "labelSelector": {"matchLabels": {"a": "b"}},
                                    "topologyKey": "kubernetes.io/hostname",
                                },
                            }
                        ]
                    },
                },
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": {"a": "b"}},
                    }
                ],
                "schedulingGates": [],
                "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 1,
                "hostname": "h",
                "subdomain": "s",
                "hostNetwork": False,
                "priority": 0,
                "activeDeadlineSeconds": 60,
                **spec,
            },
            status=status,
        )
    )


def _pod_status() -> Json:
    state = {"running": {"startedAt": NOW}}
    container = {
        "name": "main",
        "state": state,
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": NOW}},
        "restartCount": 1,
        "ready": True,
        "started": True,
        "image": "busybox",
    }
    return {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "hostIP": "127.0.0.1",
        "startTime": NOW,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}],
        "containerStatuses": [container],
        "initContainerStatuses": [{**container, "name": "first"}],
    }


def _node() -> Json:
    return _of(
        NODES,
        spec={"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": False},
        status={
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": "4", "memory": "8Gi"},
            "addresses": [{"type": "InternalIP", "address": "127.0.0.9"}],
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": NOW, "lastHeartbeatTime": NOW}
            ],
            "nodeInfo": {"architecture": "x"},
        },
    )


def _event() -> Json:
    return _of(
        EVENTS,
        involvedObject={"kind": "Pod", "namespace": "default", "name": "p", "uid": "u", "apiVersion": "v1"},
        reason="R",
        message="m",
        type="Normal",
        source={"component": "c"},
        count=1,
        firstTimestamp=NOW,
        lastTimestamp=NOW,
    )


def _framework_status() -> Json:
    return {
        "observedGeneration": 1,
        "state": "AttemptRunning",
        "startTime": NOW,
        "transitionTime": NOW,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
        "taskCounts": {"AttemptRunning": 1},
        "conditions": [{"type": "Running", "status": "True", "reason": "R", "lastTransitionTime": NOW}],
        "attemptStatus": {
            "id": 0,
            "startTime": NOW,
            "taskRoleStatuses": [
                {
                    "name": "worker",
                    "taskStatuses": [
                        {
                            "index": 0,
                            "startTime": NOW,
                            "transitionTime": NOW,
                            "state": "AttemptRunning",
                            "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0},
                            "attemptStatus": {"id": 0, "startTime": NOW, "podUID": "u"},
                        }
                    ],
                }
            ],
        },
    }


def _job_status() -> Json:
    condition = {
        "type": "Created",
        "status": "True",
        "reason": "TFJobCreated",
        "message": "m",
        "lastUpdateTime": NOW,
        "lastTransitionTime": NOW,
    }
    return {
        "conditions": [condition],
        "replicaStatuses": {"Worker": {"active": 1, "selector": "a=b"}},
        "startTime": NOW,
        "lastReconcileTime": NOW,
    }


def store_objects(
    data: Path, objects: Iterable[tuple[ResourceKind, Json]]
) -> list[tuple[ResourceKind, str, str]]:
    """Stores *objects* without validation, each under its own name. Returns kind, namespace and name of each."""
    data.mkdir(mode=0o700, exist_ok=True)
    return asyncio.run(_store(data, objects))


async def _store(
    data: Path, objects: Iterable[tuple[ResourceKind, Json]]
) -> list[tuple[ResourceKind, str, str]]:
    store = await SqliteStore.open(data / "store.db", clock=time.time, new_uid=lambda: str(uuid4()))
    stored = []
    try:
        for number, (kind, obj) in enumerate(objects):
            namespace = "default" if kind.namespaced else ""
            metadata = {**obj["metadata"], "uid": str(uuid4())}
            name = metadata["name"] = f"bad-{number}"
            if namespace:
                metadata["namespace"] = namespace
            else:
                metadata.pop("namespace", None)
            # The store rejects such metadata, and labels of another type.
            valid = {name: metadata[name] for name in ("name", "namespace", "uid") if name in metadata}
            row = new_row(kind.resource, (namespace, name), {"metadata": valid}, store._next_version())
            main = {field: value for field, value in obj.items() if field != "status"}
            status = orjson.dumps(obj["status"]) if "status" in obj else None
            row = row._replace(main=orjson.dumps({**main, "metadata": metadata}), status=status)
            await store._save(Entry(ChangeType.ADDED, row))
            stored.append((kind, namespace, name))
    finally:
        await store.close()
    return stored
