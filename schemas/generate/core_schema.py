"""
The content of ``schemas/kubernetes.schema.json``: the structure of the core kinds that the local API stores.

Field names, types and required fields are read from the development dependency kubernetes-validate. Kubernetes
publishes no enumerations and no bounds there; those are in ``TIGHTER``. Metadata is left out: the store validates the
metadata of every kind in the same way.
"""

import json
from pathlib import Path

from schemas.generate.parts import Schema, kinds_of
from schemas.generate.pod_schema import PORT, PodDefinitions, definitions_of_kubernetes, one_of

SCHEMA_FILE = Path(__file__).parents[1] / "kubernetes.schema.json"
#: The kinds that clients can write through the local API and that are neither Frameworks, jobs nor pods.
KINDS = ("ConfigMap", "Event", "Namespace", "Secret", "Service")
_GROUP = "io.k8s.api.core.v1"

PORT_OR_NONE = {"minimum": 0, "maximum": 65535}
TIGHTER: dict[tuple[str, str], Schema] = {
    ("ServiceSpec", "type"): one_of("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    ("ServiceSpec", "sessionAffinity"): one_of("ClientIP", "None"),
    ("ServiceSpec", "externalTrafficPolicy"): one_of("Cluster", "Local"),
    ("ServiceSpec", "internalTrafficPolicy"): one_of("Cluster", "Local"),
    ("ServiceSpec", "ipFamilyPolicy"): one_of("SingleStack", "PreferDualStack", "RequireDualStack"),
    ("ServiceSpec", "healthCheckNodePort"): PORT_OR_NONE,
    ("ServicePort", "port"): PORT,
    ("ServicePort", "nodePort"): PORT_OR_NONE,
    # As a number; as the name of a container's port it is checked by the launcher.
    ("ServicePort", "targetPort"): PORT,
    ("ServicePort", "protocol"): one_of("TCP", "UDP", "SCTP"),
    ("ClientIPConfig", "timeoutSeconds"): {"minimum": 1, "maximum": 86400},
}
#: A timestamp as RFC 3339 writes it.
TIMESTAMP = {
    "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    "(\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
    "x-must": "must be a time such as 2026-01-31T12:00:00Z",
}


class CoreDefinitions(PodDefinitions):
    """The definitions that the core kinds consist of, without the descriptions, which only editors show."""

    def __init__(self, known: Schema) -> None:
        super().__init__(known, TIGHTER, {})

    def _definition(self, short: str, source: Schema) -> Schema:
        if short in KINDS:
            # The envelope is checked before; a missing involvedObject is accepted by Kubernetes, too.
            parts = {
                name: part
                for name, part in source["properties"].items()
                if name not in ("apiVersion", "kind", "metadata")
            }
            source = {"type": "object", "properties": parts}
        return super()._definition(short, source)

    def _compact(self, source: Schema) -> Schema:
        compact = super()._compact(source)
        if source.get("format") == "date-time" and "string" in kinds_of(source):
            return {**compact, **TIMESTAMP}
        if "additionalProperties" in compact:
            # Where the keys are the user's own, null is not a way to leave one out.
            values = compact["additionalProperties"]
            compact["additionalProperties"] = {**values, "type": _without_null(values)}
        return compact


def _without_null(schema: Schema) -> str | list[str]:
    kinds = [kind for kind in kinds_of(schema) if kind != "null"]
    return kinds[0] if len(kinds) == 1 else kinds


def schema_text() -> str:
    """The file's content, each definition on one line."""
    definitions = CoreDefinitions(definitions_of_kubernetes())
    for kind in KINDS:
        definitions.refer(f"{_GROUP}.{kind}")
    lines = [
        f"    {json.dumps(name)}: {json.dumps(definition, separators=(',', ':'), ensure_ascii=False)}"
        for name, definition in sorted(definitions.found.items())
    ]
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Core kinds of Kubernetes as the launcher stores them; each is one of the definitions",
    }
    start = json.dumps(head, indent=2).removesuffix("\n}")
    return start + ',\n  "$defs": {\n' + ",\n".join(lines) + "\n  }\n}\n"
