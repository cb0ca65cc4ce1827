"""The kinds as OpenAPI definitions, from the one schema that Frameworks are checked against."""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.api.http.api_group_alias import stored
from launcher.api.openapi.schema_dialects import Dialect, Schema
from launcher.core.validation.schema import framework_schema
from launcher.job_kinds.job_kind import JobKind, foreign_of
from launcher.job_kinds.schema import spec_schema, status_schema
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
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
#: The definition that is shown in place, with the Framework.
_STATUS = "FrameworkStatus"
SCALE = "io.k8s.api.autoscaling.v1.Scale"
_INT32 = 2**31 - 1


def name_of(kind: ResourceKind) -> str:
    """The name of its definition: ``io.k8s.api.core.v1.Pod``."""
    if kind.group:
        return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))
    return f"io.k8s.api.core.{kind.version}.{kind.kind}"


def list_name_of(kind: ResourceKind) -> str:
    """The name of the definition of a list of them."""
    return f"{name_of(kind)}List"


def definitions(kinds: Iterable[ResourceKind], dialect: Dialect) -> dict[str, Schema]:
    """Each of *kinds*, its list, and all that they refer to, by name."""
    shared = framework_schema()["$defs"].items()
    found = {_shared_name(name): schema for name, schema in shared if name != _STATUS}
    found[_LIST_META] = _LIST_META_SCHEMA
    written = dialect.mixed() | {name: dialect.translated(_renamed(schema)) for name, schema in found.items()}
    for kind in kinds:
        written[name_of(kind)] = _marked(dialect.translated(_renamed(_schema_of(kind))), kind, kind.kind)
        written[list_name_of(kind)] = _marked(dialect.translated(_list_of(kind)), kind, f"{kind.kind}List")
        if stored(kind) == FRAMEWORKS or foreign_of(kind) is not None:
            written[SCALE] = _marked(dialect.translated(_SCALE), _SCALES, "Scale")
    return dict(sorted(written.items()))


def _marked(schema: Schema, kind: ResourceKind, name: str) -> Schema:
    mark = {"group": kind.group, "kind": name, "version": kind.version}
    return {**schema, "x-kubernetes-group-version-kind": [mark]}


def _shared_name(name: str) -> str:
    """What Kubernetes calls a definition that our schema has under a short name."""
    if "." in name:
        return name
    return f"{_META}.{name}" if name in _IN_META else f"io.k8s.api.core.v1.{name}"


def _renamed(schema: Any) -> Any:
    """The schema with references to definitions by their full names."""
    if isinstance(schema, list):
        return [_renamed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _shared_name(value.rpartition("/")[2]) if key == "$ref" else _renamed(value)
        for key, value in schema.items()
    }


def _schema_of(kind: ResourceKind) -> Schema:
    if stored(kind) == FRAMEWORKS:
        return _framework()
    if (foreign := foreign_of(kind)) is not None:
        return _job(foreign)
    description, fields = _CORE[kind]
    return _thing({**_HEAD, **fields}, description) | ({} if fields else _UNKNOWN_KEPT)


def _framework() -> Schema:
    """The Framework's own schema, whole: with what is said of its name, and of the status that it is not checked by."""
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
    status = {**schema["$defs"][_STATUS], **_UNKNOWN_KEPT}
    own = {**_HEAD, "metadata": metadata, "spec": spec, "status": status}
    return {**_thing(own, schema["description"]), "required": ["spec"]}


def _job(foreign: JobKind) -> Schema:
    template = {"$ref": "PodTemplateSpec", "description": "The pod of each replica."}
    fields = {**_HEAD, "spec": spec_schema(foreign, template), "status": status_schema()}
    return _thing(fields, f"A {foreign.kind.kind}, run by a Framework of the same name.")


def _metadata_fields(own: Mapping[str, Schema]) -> dict[str, Schema]:
    shared: dict[str, Schema] = framework_schema()["$defs"]["ObjectMeta"]["properties"]
    return {**shared, **own}


# What stands in no schema: the shape that all objects share, and the little that is said of the core kinds.


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _texts(description: str) -> Schema:
    return {"type": "object", "description": description, "additionalProperties": {"type": "string"}}


def _number(description: str) -> Schema:
    return {"type": "integer", "description": description, "maximum": _INT32}


def _open(description: str) -> Schema:
    """Something of which no more is said than that it is there."""
    return {"type": "object", "description": description, **_UNKNOWN_KEPT}


def _thing(fields: Mapping[str, Schema], description: str) -> Schema:
    return {"type": "object", "description": description, "properties": dict(fields)}


_UNKNOWN_KEPT: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_HEAD: Mapping[str, Schema] = {
    "apiVersion": _text("The group and version of the API that the object is written for."),
    "kind": _text("What the object is."),
    "metadata": {"$ref": "ObjectMeta", "description": "Name, namespace, labels and annotations."},
}
_LIST_META_SCHEMA = _thing(
    {
        "continue": _text("Brings the next part, where a list comes in parts."),
        "remainingItemCount": {"type": "integer", "description": "How many come after this part."},
        "resourceVersion": _text("The state that is shown; a watch from here misses and repeats nothing."),
    },
    "What is true of the list as a whole.",
)


def _list_of(kind: ResourceKind) -> Schema:
    fields = {
        **_HEAD,
        "metadata": {"$ref": _LIST_META, "description": "What is true of the list as a whole."},
        "items": {"type": "array", "description": f"The {kind.plural}.", "items": {"$ref": name_of(kind)}},
    }
    return {**_thing(fields, f"A list of {kind.plural}."), "required": ["items"]}


_SCALES = ResourceKind("autoscaling", "v1", "scales", "Scale")
_SCALE = _thing(
    {
        **_HEAD,
        "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "That of what is scaled."},
        "spec": _thing({"replicas": _number("How many tasks there should be.")}, "What is wanted."),
        "status": _thing(
            {
                "replicas": _number("How many tasks there are."),
                "selector": _text("The label selector of their pods."),
            },
            "What there is.",
        ),
    },
    "How many tasks the only role of a Framework has, or how many workers a job.",
)

#: What each kind is, and its fields as far as anything is said of them here.
_CORE: Mapping[ResourceKind, tuple[str, Mapping[str, Schema]]] = {
    CONFIG_MAPS: (
        "Settings for pods, as texts under names.",
        {
            "data": _texts("The texts, by name."),
            "binaryData": _texts("What is no text, in base64, by name."),
            "immutable": {"type": "boolean", "description": "Set, the data cannot be changed any more."},
        },
    ),
    SECRETS: (
        "What pods need and others should not see, under names.",
        {
            "data": _texts("The values in base64, by name."),
            "stringData": _texts("The same as plain text, for writing; it is stored as data."),
            "type": _text("Which program the secret is for."),
            "immutable": {"type": "boolean", "description": "Set, the data cannot be changed any more."},
        },
    ),
    PODS: (
        "Containers that run together on one node.",
        {
            "spec": {"$ref": "PodSpec", "description": "What is wanted."},
            "status": _open("What has happened so far; written by the node."),
        },
    ),
    NODES: (
        "A machine, or a part of one, that runs pods.",
        {"spec": _open("What is wanted of the node."), "status": _open("What it has, and how it is.")},
    ),
    NAMESPACES: (
        "A room for names: objects of different namespaces may have the same name.",
        {"spec": _open("What is wanted."), "status": _open("Whether it is in use or going away.")},
    ),
    SERVICES: (
        "A name under which pods are found.",
        {"spec": _open("Which pods, and on which ports."), "status": _open("What has become of it.")},
    ),
    EVENTS: ("Something that happened to an object, for people to read.", {}),
}
