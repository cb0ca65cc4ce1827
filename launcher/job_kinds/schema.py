"""What a job looks like, as far as all versions of its kind agree; and the definition that teaches it to a cluster."""

from typing import Any

from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.job_kinds.job_kind import JobKind

Schema = dict[str, Any]

#: Nothing is ever taken from what a user writes: what has no counterpart is refused by name, by the launcher itself.
OPEN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_INT32, _INT64 = {"type": "integer", "format": "int32"}, {"type": "integer", "format": "int64"}
_TEMPLATE: Schema = {"type": "object", "description": "The pod of each replica.", **OPEN}
#: By this label the launcher knows its own definition from one that another operator serves.
OWN_LABEL = {"app.kubernetes.io/name": "framework-launcher"}


def spec_schema(foreign: JobKind, template: Schema = _TEMPLATE) -> Schema:
    """The spec; *template* is the schema of a pod template."""
    fields = {
        foreign.family.field: {
            "type": "object",
            "description": "The replicas, by their type.",
            "additionalProperties": _replica(template),
        },
        "runPolicy": _run_policy(),
    }
    return {"type": "object", "description": "What is wanted.", "properties": fields, **OPEN}


def status_schema() -> Schema:
    """The status."""
    counts = {name: {**_INT32, "description": what} for name, what in _COUNTS.items()}
    replica = {
        "type": "object",
        "description": "Replicas of one type.",
        "properties": {**counts, "selector": _text("The label selector of their pods.")},
        **OPEN,
    }
    times = {name: _text(what, format="date-time") for name, what in _TIMES.items()}
    condition = {
        "type": "object",
        "description": "One thing that has become true, or no longer is.",
        "properties": {name: _text(what) for name, what in _CONDITION.items()},
        **OPEN,
    }
    fields = {
        "conditions": {
            "type": "array",
            "description": "What has happened, the latest last.",
            "items": condition,
        },
        "replicaStatuses": {
            "type": "object",
            "description": "How many replicas of each type run or have ended.",
            "additionalProperties": replica,
        },
        **times,
    }
    return {"type": "object", "description": "What has happened so far.", "properties": fields, **OPEN}


def crd_of(foreign: JobKind) -> Schema:
    """The whole definition, as one would apply it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": foreign.kind.resource, "labels": OWN_LABEL},
        "spec": {
            "group": foreign.kind.group,
            "names": {
                "plural": foreign.plural,
                "singular": foreign.singular,
                "kind": foreign.kind.kind,
                "listKind": f"{foreign.kind.kind}List",
            },
            "scope": "Namespaced",
            "versions": [_version(foreign, kind.version) for kind in foreign.kinds],
        },
    }


def _version(foreign: JobKind, version: str) -> Schema:
    worker = ".status.replicaStatuses.Worker"
    scale = {
        "specReplicasPath": f".spec.{foreign.family.field}.Worker.replicas",
        "statusReplicasPath": f"{worker}.active",
        "labelSelectorPath": f"{worker}.selector",
    }
    fields = {
        "apiVersion": _text("The group and version of the API that the object is written for."),
        "kind": _text("What the object is."),
        "metadata": {"type": "object"},
        "spec": spec_schema(foreign),
        "status": status_schema(),
    }
    columns = [
        {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    return {
        "name": version,
        "served": True,
        "storage": version == foreign.kind.version,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": f"A {foreign.kind.kind}, run by a Framework of the same name.",
                "properties": fields,
            }
        },
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": columns,
    }


def _replica(template: Schema) -> Schema:
    restart = "When a pod that ends is run again: Never, OnFailure, Always or ExitCode."
    fields = {
        "replicas": {**_INT32, "description": "How many there are.", "minimum": 0, "maximum": INDEXES_END},
        "restartPolicy": _text(restart),
        "template": template,
    }
    return {"type": "object", "description": "Replicas of one type.", "properties": fields, **OPEN}


def _run_policy() -> Schema:
    seconds = {name: {**_INT64, "description": what, "minimum": 0} for name, what in _LIMITS.items()}
    fields = {
        "cleanPodPolicy": _text("Which pods go when the job is over: All, Running or None."),
        **seconds,
        "suspend": {"type": "boolean", "description": "Set, the job has no pods until it is taken back."},
        "managedBy": _text("Who runs the job."),
        "schedulingPolicy": {"type": "object", "description": "How its pods are placed together.", **OPEN},
    }
    return {"type": "object", "description": "How the job as a whole is run.", "properties": fields, **OPEN}


def _text(description: str, **more: str) -> Schema:
    return {"type": "string", "description": description, **more}


_LIMITS = {
    "ttlSecondsAfterFinished": "How long the job is kept after its end.",
    "activeDeadlineSeconds": "How long it may run.",
    "backoffLimit": "How often its containers may be run again.",
}
_COUNTS = {
    "active": "Those that run.",
    "succeeded": "Those that ended well.",
    "failed": "Those that failed.",
}
_TIMES = {
    "startTime": "When it was begun, or resumed.",
    "completionTime": "When it came to its end.",
    "lastReconcileTime": "When this was last written.",
}
_CONDITION = {
    "type": "What it is about: Created, Running, Restarting, Suspended, Blocked, Succeeded or Failed.",
    "status": "True or False.",
    "reason": "Why, in one word.",
    "message": "Why, for people.",
    "lastUpdateTime": "When it was last written.",
    "lastTransitionTime": "When its status last turned.",
}
