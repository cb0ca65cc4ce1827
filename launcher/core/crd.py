"""
The CustomResourceDefinition that teaches a cluster what a Framework is, from the schema that we check with.

What Kubernetes can say it says itself: types, bounds, defaults, and what may not change. What takes more than one
field to see is left to the launcher. Nothing is ever taken from a pod template, whichever release of Kubernetes its
fields are from, nor from a status, whichever release of the launcher wrote it.

Its scale is ``spec.replicas``, the number of tasks of a Framework that has one role: see ``core.replicas``.
"""

from collections.abc import Callable, Mapping

from launcher.core.names import API_VERSION
from launcher.core.validation.schema import Schema, framework_schema

_GROUP, _VERSION = API_VERSION.split("/")
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
_OPEN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
#: Objects that are there even when nobody writes them, since their members have defaults.
_ALWAYS_THERE = frozenset({"retryPolicy", "frameworkAttemptCompletionPolicy"})
#: What stands beside the schema's own rules, by field.
_EXTRAS: Mapping[str, Schema] = {
    "spec": {
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.replicas) || (has(self.taskRoles) && self.taskRoles.size() == 1)",
                "message": (
                    "only a Framework with one task role has it; leave it out, and set taskNumber of the role "
                    "you mean, such as spec.taskRoles[0].taskNumber"
                ),
                "fieldPath": ".replicas",
                "reason": "FieldValueForbidden",
            },
            {
                # The launcher's webhook has seen to it, unless it was away.
                "rule": (
                    "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas != oldSelf.replicas"
                    " || !has(self.taskRoles) || self.taskRoles.size() != 1"
                    " || self.taskRoles[0].taskNumber == self.replicas"
                    " || (has(oldSelf.taskRoles) && oldSelf.taskRoles.size() == 1"
                    " && oldSelf.taskRoles[0].taskNumber == self.taskRoles[0].taskNumber)"
                ),
                "message": (
                    "it stands over taskNumber, which was changed: set it to the same number, or to null"
                ),
                "fieldPath": ".replicas",
            },
        ]
    },
    "executionType": {
        "x-kubernetes-validations": [
            {
                "rule": "oldSelf != 'Stop' || self == 'Stop'",
                "message": "Stop is final; make a new Framework to run it again",
            },
            {
                "rule": "oldSelf != 'Start' || self != 'Create'",
                "message": "it has been started and cannot be held back; Stop ends it",
            },
        ]
    },
    # Whoever applies a part of a Framework names the role that it is about.
    "taskRoles": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
}
_TEMPLATE: Schema = {
    "metadata": {
        "type": "object",
        "description": "Labels and annotations of the pods.",
        **_OPEN,
    },
    "spec": {
        "type": "object",
        "description": "As in a Pod, and kept whole: kubectl explain pod.spec tells of each field.",
        **_OPEN,
    },
}


_SCALE: Schema = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def framework_crd() -> Schema:
    """The whole definition, as one would apply it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"frameworks.{_GROUP}",
            "labels": {"app.kubernetes.io/name": "framework-launcher"},
        },
        "spec": {
            "group": _GROUP,
            "names": {
                "plural": "frameworks",
                "singular": "framework",
                "kind": "Framework",
                "listKind": "FrameworkList",
                "shortNames": ["fw"],
                "categories": ["all"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": _VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _framework()},
                    "subresources": {"status": {}, "scale": _SCALE},
                    "selectableFields": [{"jsonPath": ".spec.executionType"}, {"jsonPath": ".status.state"}],
                    "additionalPrinterColumns": _COLUMNS,
                }
            ],
        },
    }


def _column(name: str, path: str, description: str, kind: str = "string", *, wide: bool = False) -> Schema:
    return {
        "name": name,
        "type": kind,
        "jsonPath": path,
        "description": description,
        **({"priority": 1} if wide else {}),
    }


_COLUMNS = [
    _column("State", ".status.state", "Where the Framework stands."),
    _column("Result", ".status.attemptStatus.completionStatus.type.name", "How its last attempt ended."),
    _column("Running", ".status.taskCounts.AttemptRunning", "How many tasks run.", "integer"),
    _column("Done", ".status.taskCounts.Completed", "How many tasks are completed.", "integer"),
    _column("Age", ".metadata.creationTimestamp", "How long ago it was created.", "date"),
    _column(
        "Retries",
        ".status.retryPolicyStatus.totalRetriedCount",
        "How often the whole Framework has been run again.",
        "integer",
        wide=True,
    ),
    _column(
        "Execution", ".spec.executionType", "What its user wants of it: Create, Start or Stop.", wide=True
    ),
    _column("Message", ".status.message", "Why it is where it is.", wide=True),
]


def _framework() -> Schema:
    schema = framework_schema()
    fields = schema["properties"]
    own_name = fields["metadata"]["properties"]
    return {
        "type": "object",
        "description": schema["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": "The group and version of the API that the object is written for.",
            },
            "kind": {"type": "string", "description": "What the object is: a Framework."},
            # All that a definition may say of it: the rest is the same for every object.
            "metadata": {
                "type": "object",
                "properties": {name: _name(own_name[name]) for name in ("name", "generateName")},
            },
            "spec": _asked(fields["spec"], "spec"),
            "status": _told(schema["$defs"]["FrameworkStatus"]),
        },
    }


def _name(source: Schema) -> Schema:
    return {"type": "string", "pattern": source["pattern"]}


def _asked(source: Schema, field: str = "") -> Schema:
    """
    A part of what users write, with its defaults.

    Null means absent, and nothing here may be null to Kubernetes: so it takes a null for an absent field, as we do.
    """
    schema = _typed(source) | _inside(source, _asked) | _EXTRAS.get(field, {})
    if "$ref" in source:
        schema |= {"type": "object", "properties": _TEMPLATE, **_OPEN}
    if "default" in source:
        schema["default"] = source["default"]
    elif field in _ALWAYS_THERE:
        schema["default"] = {}
    return schema


def _told(source: Schema, _field: str = "") -> Schema:
    """A part of what the launcher writes: nothing is added to it, and nothing taken away."""
    schema = _typed(source) | _inside(source, _told)
    if "properties" in schema:
        schema |= _OPEN
    if "null" in _kinds(source):
        schema["nullable"] = True
    return schema


def _inside(source: Schema, written: Callable[[Schema, str], Schema]) -> Schema:
    """What is said of the parts of a value, each as *written* from its schema and its name."""
    schema: Schema = {
        key: written(source[key], "") for key in ("items", "additionalProperties") if key in source
    }
    if "properties" in source:
        schema["properties"] = {name: written(part, name) for name, part in source["properties"].items()}
    return schema


def _typed(source: Schema) -> Schema:
    """What holds of the value itself, whatever is inside of it."""
    schema: Schema = {key: source[key] for key in ("description", "pattern", "required") if key in source}
    kinds = [kind for kind in _kinds(source) if kind != "null"]
    if len(kinds) == 1:
        schema["type"] = kinds[0]
    elif kinds:
        schema["x-kubernetes-int-or-string"] = True
    if "enum" in source:
        schema["enum"] = [value for value in source["enum"] if value is not None]
    return schema | (_bounds(source) if "integer" in kinds else {})


def _kinds(source: Schema) -> list[str]:
    kinds = source.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]


def _bounds(source: Schema) -> Schema:
    schema: Schema = {key: source[key] for key in ("minimum", "maximum") if key in source}
    if schema.get("maximum") == _INT64:
        # The format says as much, and Kubernetes would take the number for a fraction that is a little larger.
        del schema["maximum"]
    if "string" in _kinds(source):
        return schema
    return {"format": "int32" if schema.get("maximum", _INT64) <= _INT32 else "int64", **schema}
