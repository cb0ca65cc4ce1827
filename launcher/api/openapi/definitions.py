"""OpenAPI definitions of the kinds, from the schema that validates Frameworks."""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.api.api_resources import ApiResource
from launcher.api.openapi.schema_dialects import Dialect, Schema
from launcher.core.validation.schema import framework_schema
from launcher.job_kinds.job_kind import JobKind, job_kind_of
from launcher.job_kinds.schema import spec_schema, status_schema
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORK_ATTEMPTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    ResourceKind,
)

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_IN_META = frozenset(
    {
        "FieldsV1",
        "LabelSelector",
        "LabelSelectorRequirement",
        "ManagedFieldsEntry",
        "ObjectMeta",
        "OwnerReference",
    }
)
_LIST_META = f"{_META}.ListMeta"
#: Definitions that are parts of others.
_STATUS, _ATTEMPT = "FrameworkStatus", "FrameworkAttempt"
SCALE = "io.k8s.api.autoscaling.v1.Scale"
DIAGNOSIS = "com.microsoft.launcher.v1.Diagnosis"
_INT32 = 2**31 - 1


def name_of(kind: ResourceKind) -> str:
    """Returns the name of the definition: ``io.k8s.api.core.v1.Pod``."""
    if kind.group:
        return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))
    return f"io.k8s.api.core.{kind.version}.{kind.kind}"


def list_name_of(kind: ResourceKind) -> str:
    """Returns the name of the definition of a list."""
    return f"{name_of(kind)}List"


def definitions(resources: Iterable[ApiResource], dialect: Dialect) -> dict[str, Schema]:
    """Returns the definition of each kind, of its list, and of all that they refer to, by name."""
    shared = framework_schema()["$defs"].items()
    schemas = {_full_name(name): schema for name, schema in shared if name not in (_STATUS, _ATTEMPT)}
    schemas[_LIST_META] = _LIST_META_SCHEMA
    result = dialect.mixed() | {
        name: dialect.translated(_with_full_names(schema)) for name, schema in schemas.items()
    }
    for resource in resources:
        kind = resource.kind
        schema = dialect.translated(_with_full_names(_schema_of(resource.stored_kind)))
        result[name_of(kind)] = _with_kind(schema, kind, kind.kind)
        result[list_name_of(kind)] = _with_kind(dialect.translated(_list_of(kind)), kind, f"{kind.kind}List")
        if any(subresource.name == "scale" for subresource in resource.subresources):
            result[SCALE] = _with_kind(dialect.translated(_SCALE), _SCALES, "Scale")
        if any(subresource.name == "diagnosis" for subresource in resource.subresources):
            result[DIAGNOSIS] = _with_kind(dialect.translated(_DIAGNOSIS), FRAMEWORKS, "Diagnosis")
    return dict(sorted(result.items()))


def _with_kind(schema: Schema, kind: ResourceKind, name: str) -> Schema:
    group_version_kind = {"group": kind.group, "kind": name, "version": kind.version}
    return {**schema, "x-kubernetes-group-version-kind": [group_version_kind]}


def _full_name(name: str) -> str:
    """Returns Kubernetes' name of a definition that has a short name in the launcher's schema."""
    if "." in name:
        return name
    return f"{_META}.{name}" if name in _IN_META else f"io.k8s.api.core.v1.{name}"


def _with_full_names(schema: Any) -> Any:
    """Returns the schema with references to definitions by their full names."""
    if isinstance(schema, list):
        return [_with_full_names(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _full_name(value.rpartition("/")[2]) if key == "$ref" else _with_full_names(value)
        for key, value in schema.items()
    }


def _schema_of(kind: ResourceKind) -> Schema:
    if kind == FRAMEWORKS:
        return _framework()
    if kind == FRAMEWORK_ATTEMPTS:
        attempt = framework_schema()["$defs"][_ATTEMPT]
        return _object({**_HEAD, **attempt["properties"]}, attempt["description"]) | _PRESERVE_UNKNOWN
    if (job_kind := job_kind_of(kind)) is not None:
        return _job(job_kind)
    description, fields = _CORE[kind]
    return _object({**_HEAD, **fields}, description) | ({} if fields else _PRESERVE_UNKNOWN)


def _framework() -> Schema:
    """Returns the whole schema of a Framework, with its metadata and with the status, which validation ignores."""
    schema = framework_schema()
    fields = schema["properties"]
    metadata = {**fields["metadata"], "properties": _metadata_fields(fields["metadata"]["properties"])}
    del metadata["$ref"]
    roles = {
        **fields["spec"]["properties"]["taskRoles"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    spec = {**fields["spec"], "properties": {**fields["spec"]["properties"], "taskRoles": roles}}
    status = {**schema["$defs"][_STATUS], **_PRESERVE_UNKNOWN}
    properties = {**_HEAD, "metadata": metadata, "spec": spec, "status": status}
    return {**_object(properties, schema["description"]), "required": ["spec"]}


def _job(job_kind: JobKind) -> Schema:
    template = {"$ref": "PodTemplateSpec", "description": "The pod of each replica."}
    fields = {**_HEAD, "spec": spec_schema(job_kind, template), "status": status_schema()}
    return _object(fields, f"A {job_kind.kind.kind}, run by a Framework of the same name.")


def _metadata_fields(own: Mapping[str, Schema]) -> dict[str, Schema]:
    shared: dict[str, Schema] = framework_schema()["$defs"]["ObjectMeta"]["properties"]
    return {**shared, **own}


# Definitions that are in no schema: the fields of all objects, and of the core kinds.


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _texts(description: str) -> Schema:
    return {"type": "object", "description": description, "additionalProperties": {"type": "string"}}


def _number(description: str) -> Schema:
    return {"type": "integer", "description": description, "maximum": _INT32}


def _open(description: str) -> Schema:
    """Returns an object with any fields."""
    return {"type": "object", "description": description, **_PRESERVE_UNKNOWN}


def _object(fields: Mapping[str, Schema], description: str) -> Schema:
    return {"type": "object", "description": description, "properties": dict(fields)}


_PRESERVE_UNKNOWN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_HEAD: Mapping[str, Schema] = {
    "apiVersion": _text("The API group and version of the object."),
    "kind": _text("The kind of the object."),
    "metadata": {"$ref": "ObjectMeta", "description": "Name, namespace, labels and annotations."},
}
_LIST_META_SCHEMA = _object(
    {
        "continue": _text("The token of the next page, if the list has one."),
        "remainingItemCount": {"type": "integer", "description": "The number of items after this page."},
        "resourceVersion": _text("The version of the list, from which a watch can start."),
    },
    "The metadata of the list.",
)


def _list_of(kind: ResourceKind) -> Schema:
    fields = {
        **_HEAD,
        "metadata": {"$ref": _LIST_META, "description": "The metadata of the list."},
        "items": {"type": "array", "description": f"The {kind.plural}.", "items": {"$ref": name_of(kind)}},
    }
    return {**_object(fields, f"A list of {kind.plural}."), "required": ["items"]}


_SCALES = ResourceKind("autoscaling", "v1", "scales", "Scale")
_SCALE = _object(
    {
        **_HEAD,
        "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "The metadata of the scaled object."},
        "spec": _object({"replicas": _number("The desired number of tasks.")}, "The desired state."),
        "status": _object(
            {
                "replicas": _number("The current number of tasks."),
                "selector": _text("The label selector of their pods."),
            },
            "The current state.",
        ),
    },
    "The number of tasks of a Framework's only role, or of workers of a job.",
)

_FINDING = _object(
    {
        "id": _text("The stable id of the cause, such as FL-PEND-02; see docs/troubleshooting.md."),
        "severity": _text("Error, Warning or Info."),
        "summary": _text("What is wrong, in one line."),
        "waiting": _text("Whether waiting can help: Never, MayHelp or Helps."),
        "nextStep": _text("A command or an edit."),
        "evidence": {
            "type": "array",
            "description": "The fields that show the cause.",
            "items": _object(
                {
                    "object": _text("The object, such as pod/mnist-worker-0."),
                    "field": _text("The path of the field."),
                    "value": _text("The value of the field."),
                },
                "A field of an object.",
            ),
        },
        "tasks": _number("The number of tasks concerned; 0 for the whole Framework."),
        "taskNames": {
            "type": "array",
            "description": "The names of the first of these tasks.",
            "items": {"type": "string"},
        },
    },
    "A cause with its evidence and the next step.",
)
_DIAGNOSIS = _object(
    {
        **_HEAD,
        "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Name and namespace of the Framework."},
        "message": _text("The message of the Framework's status."),
        "findings": {
            "type": "array",
            "description": "The findings, the most important first; empty if nothing is wrong.",
            "items": _FINDING,
        },
        "missingEvidence": {
            "type": "array",
            "description": "Resources that could not be read, and why.",
            "items": _object(
                {"resource": _text("The resource, such as nodes."), "reason": _text("The error.")},
                "A resource that could not be read.",
            ),
        },
    },
    "Why a Framework or its tasks do not run.",
)

#: Description and fields of each core kind.
_CORE: Mapping[ResourceKind, tuple[str, Mapping[str, Schema]]] = {
    CONFIG_MAPS: (
        "Configuration data for pods.",
        {
            "data": _texts("The text values by key."),
            "binaryData": _texts("The binary values by key, in base64."),
            "immutable": {"type": "boolean", "description": "If true, the data cannot be updated."},
        },
    ),
    SECRETS: (
        "Secret data for pods.",
        {
            "data": _texts("The values by key, in base64."),
            "stringData": _texts("Values by key in plain text; write-only, merged into data."),
            "type": _text("The type of the secret."),
            "immutable": {"type": "boolean", "description": "If true, the data cannot be updated."},
        },
    ),
    PODS: (
        "Containers that run together on one node.",
        {
            "spec": {"$ref": "PodSpec", "description": "The desired state."},
            "status": _open("The current state, written by the node."),
        },
    ),
    NODES: (
        "A machine, or a part of one, that runs pods.",
        {"spec": _open("The desired state."), "status": _open("Capacity, conditions and addresses.")},
    ),
    NAMESPACES: (
        "A scope for names: objects of different namespaces may have the same name.",
        {"spec": _open("The desired state."), "status": _open("The phase: Active or Terminating.")},
    ),
    SERVICES: (
        "A DNS name for a set of pods.",
        {"spec": _open("The selected pods and ports."), "status": _open("The current state.")},
    ),
    EVENTS: ("A report of an event about an object.", {}),
}
