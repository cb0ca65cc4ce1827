"""How the lists of core kinds are merged by a strategic merge patch: by which field their entries are known."""

from dataclasses import dataclass

from launcher.core.validation.schema import framework_schema
from launcher.store.interface import PODS, SERVICES

#: A type whose fields nobody here knows; its lists are replaced whole.
UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Merging:
    """Entries of a list that are one thing each, known by the field *key*; without one, a set of plain values."""

    key: str | None = None


_NAME = Merging("name")
_IN_CONTAINERS = {
    "env": _NAME,
    "ports": Merging("containerPort"),
    "volumeDevices": Merging("devicePath"),
    "volumeMounts": Merging("mountPath"),
}
#: By type and field. Every other list is replaced whole.
MERGED: dict[str, dict[str, Merging]] = {
    "ObjectMeta": {"finalizers": Merging(), "ownerReferences": Merging("uid")},
    "PodSpec": {
        "containers": _NAME,
        "ephemeralContainers": _NAME,
        "evictionResponders": _NAME,
        "hostAliases": Merging("ip"),
        "imagePullSecrets": _NAME,
        "initContainers": _NAME,
        "resourceClaims": _NAME,
        "schedulingGates": _NAME,
        "topologySpreadConstraints": Merging("topologyKey"),
        "volumes": _NAME,
    },
    "Container": _IN_CONTAINERS,
    "EphemeralContainer": _IN_CONTAINERS,
    "ServiceSpec": {"ports": Merging("port")},
}
#: What stands in the fields of a kind itself, which has no definition in the schema.
_IN_KINDS = {(PODS.kind, "spec"): "PodSpec", (SERVICES.kind, "spec"): "ServiceSpec"}


def merging_of(of: str, field: str) -> Merging | None:
    """How the list in that field of a type is merged; None when it is replaced."""
    return MERGED.get(of, {}).get(field)


def type_in(of: str, field: str) -> str:
    """The type of the object, or of the entries of the list, in that field of a type."""
    definition = framework_schema()["$defs"].get(of)
    if definition is None:
        return "ObjectMeta" if field == "metadata" else _IN_KINDS.get((of, field), UNKNOWN)
    schema = definition.get("properties", {}).get(field, {})
    reference: str = schema.get("items", schema).get("$ref", UNKNOWN)
    return reference.rpartition("/")[2]
