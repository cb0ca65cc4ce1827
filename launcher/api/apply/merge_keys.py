"""Merge keys of the lists of core kinds, for strategic merge patches."""

from dataclasses import dataclass

from launcher.core.validation.schema import framework_schema
from launcher.store.interface import PODS, SERVICES

#: A type without a definition; its lists are replaced.
UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class MergeKey:
    """The field that identifies the entries of a list; without a *key*, the list is a set of plain values."""

    key: str | None = None


_NAME = MergeKey("name")
_IN_CONTAINERS = {
    "env": _NAME,
    "ports": MergeKey("containerPort"),
    "volumeDevices": MergeKey("devicePath"),
    "volumeMounts": MergeKey("mountPath"),
}
#: By type and field. Every other list is replaced.
MERGED: dict[str, dict[str, MergeKey]] = {
    "ObjectMeta": {"finalizers": MergeKey(), "ownerReferences": MergeKey("uid")},
    "PodSpec": {
        "containers": _NAME,
        "ephemeralContainers": _NAME,
        "evictionResponders": _NAME,
        "hostAliases": MergeKey("ip"),
        "imagePullSecrets": _NAME,
        "initContainers": _NAME,
        "resourceClaims": _NAME,
        "schedulingGates": _NAME,
        "topologySpreadConstraints": MergeKey("topologyKey"),
        "volumes": _NAME,
    },
    "Container": _IN_CONTAINERS,
    "EphemeralContainer": _IN_CONTAINERS,
    "ServiceSpec": {"ports": MergeKey("port")},
}
#: Types of the fields of a kind itself, which has no definition in the schema.
_KIND_FIELDS = {(PODS.kind, "spec"): "PodSpec", (SERVICES.kind, "spec"): "ServiceSpec"}


def merge_key(type_name: str, field: str) -> MergeKey | None:
    """Returns the merge key of the list in that field of a type, or None if the list is replaced."""
    return MERGED.get(type_name, {}).get(field)


def field_type(type_name: str, field: str) -> str:
    """Returns the type of a field, or of the entries of a list."""
    definition = framework_schema()["$defs"].get(type_name)
    if definition is None:
        return "ObjectMeta" if field == "metadata" else _KIND_FIELDS.get((type_name, field), UNKNOWN)
    schema = definition.get("properties", {}).get(field, {})
    reference: str = schema.get("items", schema).get("$ref", UNKNOWN)
    return reference.rpartition("/")[2]
