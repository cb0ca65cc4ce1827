"""The schema of a job: the fields that all versions of its kind have."""

from typing import Any

from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.job_kinds.job_kind import JobKind

Schema = dict[str, Any]

#: Nothing is pruned: the launcher rejects unsupported fields by name.
OPEN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_INT32, _INT64 = {"type": "integer", "format": "int32"}, {"type": "integer", "format": "int64"}
_TEMPLATE: Schema = {"type": "object", "description": "The pod of each replica.", **OPEN}
#: The label that distinguishes the launcher's CustomResourceDefinition from that of another operator.
OWN_LABEL = {"app.kubernetes.io/name": "framework-launcher"}


def spec_schema(job_kind: JobKind, template: Schema = _TEMPLATE) -> Schema:
    """The schema of the spec; *template* is the schema of a pod template."""
    fields = {
        job_kind.family.field: {
            "type": "object",
            "description": "The replicas, by their type.",
            "additionalProperties": _replica(template),
        },
        "runPolicy": _run_policy(),
    }
    return {"type": "object", "description": "The desired state.", "properties": fields, **OPEN}


def status_schema() -> Schema:
    """The schema of the status."""
    counts = {name: {**_INT32, "description": description} for name, description in _COUNTS.items()}
    replica = {
        "type": "object",
        "description": "Replicas of one type.",
        "properties": {**counts, "selector": _text("The label selector of their pods.")},
        **OPEN,
    }
    times = {name: _text(description, format="date-time") for name, description in _TIMES.items()}
    condition = {
        "type": "object",
        "description": "A condition of the job.",
        "properties": {name: _text(description) for name, description in _CONDITION.items()},
        **OPEN,
    }
    fields = {
        "conditions": {
            "type": "array",
            "description": "The conditions of the job, the latest last.",
            "items": condition,
        },
        "replicaStatuses": {
            "type": "object",
            "description": "The number of running, succeeded and failed replicas of each type.",
            "additionalProperties": replica,
        },
        **times,
    }
    return {
        "type": "object",
        "description": "The observed state, written by the launcher.",
        "properties": fields,
        **OPEN,
    }


def _replica(template: Schema) -> Schema:
    restart = "When a terminated pod is restarted: Never, OnFailure, Always or ExitCode."
    fields = {
        "replicas": {
            **_INT32,
            "description": "The number of replicas.",
            "minimum": 0,
            "maximum": INDEXES_END,
        },
        "restartPolicy": _text(restart),
        "template": template,
    }
    return {"type": "object", "description": "Replicas of one type.", "properties": fields, **OPEN}


def _run_policy() -> Schema:
    seconds = {
        name: {**_INT64, "description": description, "minimum": 0} for name, description in _LIMITS.items()
    }
    fields = {
        "cleanPodPolicy": _text("Which pods are deleted when the job finishes: All, Running or None."),
        **seconds,
        "suspend": {
            "type": "boolean",
            "description": "Whether the job is suspended; a suspended job has no pods.",
        },
        "managedBy": _text("The controller that runs the job."),
        "schedulingPolicy": {
            "type": "object",
            "description": "How its pods are scheduled as a gang.",
            **OPEN,
        },
    }
    return {"type": "object", "description": "Policies of the job as a whole.", "properties": fields, **OPEN}


def _text(description: str, **fields: str) -> Schema:
    return {"type": "string", "description": description, **fields}


_LIMITS = {
    "ttlSecondsAfterFinished": "Seconds after its completion when the job is deleted.",
    "activeDeadlineSeconds": "Seconds that the job may run.",
    "backoffLimit": "Maximum number of restarts of its containers.",
}
_COUNTS = {
    "active": "The number of running replicas.",
    "succeeded": "The number of succeeded replicas.",
    "failed": "The number of failed replicas.",
}
_TIMES = {
    "startTime": "When the job was started or resumed.",
    "completionTime": "When the job completed.",
    "lastReconcileTime": "When the status was last written.",
}
_CONDITION = {
    "type": "The type of the condition: Created, Running, Restarting, Suspended, Blocked, Succeeded or Failed.",
    "status": "True or False.",
    "reason": "The reason for the last transition, as one word.",
    "message": "The reason for the last transition, for users.",
    "lastUpdateTime": "When the condition was last written.",
    "lastTransitionTime": "When the status of the condition last changed.",
}
