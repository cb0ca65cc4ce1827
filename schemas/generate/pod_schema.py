"""
The structure of a pod template, for the schema of a Framework.

Field names, types and required fields are read from the development dependency kubernetes-validate, the descriptions
from ``pod_descriptions``.
"""

import json
from pathlib import Path

import kubernetes_validate

from schemas.generate.parts import INT32, INT64, Schema, kinds_of, mandatory
from schemas.generate.pod_descriptions import DESCRIPTIONS

#: The Kubernetes release whose pods are described.
KUBERNETES = "v1.37.0"
POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"

PORT = {"minimum": 1, "maximum": 65535}
FILE_MODE = {"minimum": 0, "maximum": 0o777}


def one_of(*words: str) -> Schema:
    """One of these words, or nothing."""
    return {"enum": [*words, None]}


#: Rules of Kubernetes beyond names and types, so that its rejections are reported at admission.
TIGHTER: dict[tuple[str, str], Schema] = {
    ("PodSpec", "restartPolicy"): one_of("Always", "OnFailure", "Never"),
    ("PodSpec", "dnsPolicy"): one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ("PodSpec", "preemptionPolicy"): one_of("PreemptLowerPriority", "Never"),
    ("PodSpec", "activeDeadlineSeconds"): {"minimum": 1, "maximum": INT32},
    # The time at which a grace ends has to be one that can be written.
    ("PodSpec", "terminationGracePeriodSeconds"): {"maximum": INT32},
    ("PodSecurityContext", "fsGroupChangePolicy"): one_of("OnRootMismatch", "Always"),
    ("Container", "imagePullPolicy"): one_of("Always", "IfNotPresent", "Never"),
    ("Container", "restartPolicy"): one_of("Always", "OnFailure", "Never"),
    ("Container", "terminationMessagePolicy"): one_of("File", "FallbackToLogsOnError"),
    ("ContainerPort", "containerPort"): PORT,
    ("ContainerPort", "hostPort"): {"minimum": 0, "maximum": 65535},
    ("ContainerPort", "protocol"): one_of("TCP", "UDP", "SCTP"),
    ("HTTPGetAction", "port"): PORT,
    ("HTTPGetAction", "scheme"): one_of("HTTP", "HTTPS"),
    ("TCPSocketAction", "port"): PORT,
    ("GRPCAction", "port"): PORT,
    ("Probe", "initialDelaySeconds"): {"minimum": 0},
    ("Probe", "timeoutSeconds"): {"minimum": 0},
    ("Probe", "periodSeconds"): {"minimum": 0},
    ("Probe", "successThreshold"): {"minimum": 0},
    ("Probe", "failureThreshold"): {"minimum": 0},
    ("VolumeMount", "mountPropagation"): one_of("None", "HostToContainer", "Bidirectional"),
    ("HostPathVolumeSource", "type"): one_of(
        "",
        "DirectoryOrCreate",
        "Directory",
        "FileOrCreate",
        "File",
        "Socket",
        "CharDevice",
        "BlockDevice",
    ),
    **{
        (source, "defaultMode"): FILE_MODE
        for source in ("ConfigMapVolumeSource", "SecretVolumeSource", "DownwardAPIVolumeSource")
    },
    ("ProjectedVolumeSource", "defaultMode"): FILE_MODE,
    ("KeyToPath", "mode"): FILE_MODE,
    ("DownwardAPIVolumeFile", "mode"): FILE_MODE,
    ("NodeSelectorRequirement", "operator"): one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    ("LabelSelectorRequirement", "operator"): one_of("In", "NotIn", "Exists", "DoesNotExist"),
    ("PreferredSchedulingTerm", "weight"): {"minimum": 1, "maximum": 100},
    ("WeightedPodAffinityTerm", "weight"): {"minimum": 1, "maximum": 100},
    ("Toleration", "operator"): one_of("", "Exists", "Equal", "Lt", "Gt"),
    ("Toleration", "effect"): one_of("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    ("TopologySpreadConstraint", "maxSkew"): {"minimum": 1},
    ("TopologySpreadConstraint", "whenUnsatisfiable"): one_of("DoNotSchedule", "ScheduleAnyway"),
    **{
        (context, field): {"minimum": 0, "maximum": INT32}
        for context in ("PodSecurityContext", "SecurityContext")
        for field in ("runAsUser", "runAsGroup")
    },
    ("PodSecurityContext", "fsGroup"): {"minimum": 0, "maximum": INT32},
    ("SeccompProfile", "type"): one_of("RuntimeDefault", "Unconfined", "Localhost"),
    ("AppArmorProfile", "type"): one_of("RuntimeDefault", "Unconfined", "Localhost"),
}


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1].rsplit(".", 1)[-1]


def _present(schema: Schema) -> Schema:
    """The schema without null; a shared definition gets the type next to its reference."""
    return {**schema, "type": "object"} if "$ref" in schema else mandatory(schema)


class PodDefinitions:
    """Everything a PodTemplateSpec is made of, with nothing but types, names and what is required."""

    def __init__(
        self,
        known: Schema,
        tighter: dict[tuple[str, str], Schema] = TIGHTER,
        descriptions: dict[str, dict[str, str]] = DESCRIPTIONS,
    ) -> None:
        self._known, self._tighter, self._descriptions = known, tighter, descriptions
        self.found: Schema = {}

    def refer(self, name: str) -> Schema:
        """A reference to the definition *name* if it is an object, else its schema."""
        source, short = self._known[name], _short(name)
        if "object" not in kinds_of(source):
            return self._compact(source)
        if short not in self.found:
            self.found[short] = {}  # in its place before its parts ask for it
            self.found[short] = self._definition(short, source)
        return {"$ref": f"#/$defs/{short}"}

    def _definition(self, short: str, source: Schema) -> Schema:
        compact = self._compact(source)
        properties = compact.get("properties", {})
        for field in compact.get("required", ()):
            properties[field] = _present(properties[field])
        for (owner, field), rules in self._tighter.items():
            if owner == short:
                properties[field] |= rules
        for field, description in self._descriptions.get(short, {}).items():
            properties[field] = {"description": description, **properties[field]}
        return compact

    def _compact(self, source: Schema) -> Schema:
        if "$ref" in source:
            return self.refer(source["$ref"].rsplit("/", 1)[-1])
        if "oneOf" in source:  # a quantity or an int-or-string: upstream's oneOf would reject null
            kinds = [kind for option in source["oneOf"] for kind in kinds_of(option) if kind != "null"]
            return {"type": [*kinds, "null"]}
        compact: Schema = {"type": source["type"]}
        if "integer" in kinds_of(source):
            largest = INT32 if source.get("format") == "int32" else INT64
            compact |= {"minimum": -largest - 1, "maximum": largest}
        if "items" in source:
            compact["items"] = _present(self._compact(source["items"]))
        if isinstance(source.get("additionalProperties"), dict):
            compact["additionalProperties"] = self._compact(source["additionalProperties"])
        if "properties" in source:
            compact["properties"] = {name: self._compact(part) for name, part in source["properties"].items()}
        if "required" in source:
            compact["required"] = source["required"]
        return compact


def definitions_of_kubernetes() -> Schema:
    """Every definition of Kubernetes, by its full name."""
    data = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"{KUBERNETES}-local"
    definitions: Schema = json.loads((data / "_definitions.json").read_text())["$defs"]
    return definitions


def pod_definitions() -> Schema:
    """The definitions behind ``#/$defs/PodTemplateSpec``, by short name."""
    definitions = PodDefinitions(definitions_of_kubernetes())
    definitions.refer(POD_TEMPLATE)
    return dict(sorted(definitions.found.items()))
