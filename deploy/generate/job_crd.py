"""The CustomResourceDefinitions of the job kinds that are run as Frameworks."""

from launcher.job_kinds.job_kind import JobKind
from launcher.job_kinds.schema import OWN_LABEL, Schema, spec_schema, status_schema


def job_crd(job_kind: JobKind) -> Schema:
    """The complete CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": job_kind.kind.resource, "labels": OWN_LABEL},
        "spec": {
            "group": job_kind.kind.group,
            "names": {
                "plural": job_kind.plural,
                "singular": job_kind.singular,
                "kind": job_kind.kind.kind,
                "listKind": f"{job_kind.kind.kind}List",
            },
            "scope": "Namespaced",
            "versions": [_version(job_kind, kind.version) for kind in job_kind.kinds],
        },
    }


def _version(job_kind: JobKind, version: str) -> Schema:
    worker = ".status.replicaStatuses.Worker"
    scale = {
        "specReplicasPath": f".spec.{job_kind.family.field}.Worker.replicas",
        "statusReplicasPath": f"{worker}.active",
        "labelSelectorPath": f"{worker}.selector",
    }
    fields = {
        "apiVersion": {
            "type": "string",
            "description": "The group and version of the API that the object is written for.",
        },
        "kind": {"type": "string", "description": "What the object is."},
        "metadata": {"type": "object"},
        "spec": spec_schema(job_kind),
        "status": status_schema(),
    }
    columns = [
        {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    return {
        "name": version,
        "served": True,
        "storage": version == job_kind.kind.version,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": f"A {job_kind.kind.kind}, run by a Framework of the same name.",
                "properties": fields,
            }
        },
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": columns,
    }
