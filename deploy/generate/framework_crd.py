"""
The CustomResourceDefinitions of Frameworks and FrameworkAttempts, generated from their JSON schema.

That of Frameworks covers types, bounds, defaults and immutable values; rules over several fields are validated by the
launcher. Nothing is pruned from pod templates, which may be of any release of Kubernetes, nor from the status, which
may be of any release of the launcher.

The scale subresource uses ``spec.replicas``, the number of tasks of a Framework with one role: see ``core.replicas``.
"""

from collections.abc import Callable, Mapping

from deploy.generate.manifests import BASE
from deploy.generate.yaml_text import yaml_text
from launcher.core.names import API_VERSION
from launcher.core.validation.schema import Schema, framework_schema

CRD_FILE = BASE / "crd.yaml"
_HEAD = "# Generated from schemas/framework.schema.json by: python -m deploy.generate\n"
_GROUP, _VERSION = API_VERSION.split("/")
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
_OPEN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
#: Objects with defaults, which exist even if they are omitted.
_DEFAULTED_OBJECTS = frozenset({"retryPolicy", "frameworkAttemptCompletionPolicy"})
#: Additional rules, by field.
_EXTRAS: Mapping[str, Schema] = {
    "spec": {
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.replicas) || (has(self.taskRoles) && self.taskRoles.size() == 1)",
                "message": (
                    "only allowed with one task role; remove it and set taskNumber of a role, such as "
                    "spec.taskRoles[0].taskNumber"
                ),
                "fieldPath": ".replicas",
                "reason": "FieldValueForbidden",
            },
            {
                # For updates that the launcher's webhook did not see.
                "rule": (
                    "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas != oldSelf.replicas"
                    " || !has(self.taskRoles) || self.taskRoles.size() != 1"
                    " || self.taskRoles[0].taskNumber == self.replicas"
                    " || (has(oldSelf.taskRoles) && oldSelf.taskRoles.size() == 1"
                    " && oldSelf.taskRoles[0].taskNumber == self.taskRoles[0].taskNumber)"
                ),
                "message": ("overrides taskNumber, which was changed; set it to the same number, or to null"),
                "fieldPath": ".replicas",
            },
        ]
    },
    "executionType": {
        "x-kubernetes-validations": [
            {
                "rule": "oldSelf != 'Stop' || self == 'Stop'",
                "message": "may not change from Stop; create a new Framework to run it again",
            },
            {
                "rule": "oldSelf != 'Start' || self != 'Create'",
                "message": "may not change from Start to Create; use Stop to end the Framework",
            },
        ]
    },
    # Server-side apply merges roles by name.
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
        "description": "As in a Pod, stored as it is: kubectl explain pod.spec describes each field.",
        **_OPEN,
    },
}

#: As in local mode. kube-apiserver accepts at most eight.
_SELECTABLE_FIELDS = (
    ".spec.executionType",
    ".status.state",
    ".status.attemptStatus.completionStatus.type.name",
)
_SCALE: Schema = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def crd_text() -> str:
    """The content of ``deploy/kubernetes/base/crd.yaml``."""
    return _HEAD + "---\n".join(yaml_text(crd) for crd in (framework_crd(), framework_attempt_crd()))


def framework_crd() -> Schema:
    """The definition of Frameworks, as one would apply it."""
    names = {
        "plural": "frameworks",
        "singular": "framework",
        "kind": "Framework",
        "listKind": "FrameworkList",
        "shortNames": ["fw"],
        "categories": ["all"],
    }
    version = {
        "schema": {"openAPIV3Schema": _framework()},
        "subresources": {"status": {}, "scale": _SCALE},
        "selectableFields": [{"jsonPath": path} for path in _SELECTABLE_FIELDS],
        "additionalPrinterColumns": _COLUMNS,
    }
    return _definition(names, version)


def framework_attempt_crd() -> Schema:
    """The definition of FrameworkAttempts. The launcher writes them once; nothing in them is pruned."""
    names = {
        "plural": "frameworkattempts",
        "singular": "frameworkattempt",
        "kind": "FrameworkAttempt",
        "listKind": "FrameworkAttemptList",
        "shortNames": ["fwa"],
    }
    attempt = _status_schema(framework_schema()["$defs"]["FrameworkAttempt"])
    del attempt["nullable"]
    schema = {
        **attempt,
        "properties": {**_HEAD_FIELDS, "metadata": {"type": "object"}, **attempt["properties"]},
    }
    version = {"schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": _ATTEMPT_COLUMNS}
    return _definition(names, version)


def _definition(names: Schema, version: Schema) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names['plural']}.{_GROUP}",
            "labels": {"app.kubernetes.io/name": "framework-launcher"},
        },
        "spec": {
            "group": _GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": _VERSION, "served": True, "storage": True, **version}],
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
    _column("State", ".status.state", "The state of the Framework."),
    _column("Result", ".status.attemptStatus.completionStatus.type.name", "How its last attempt ended."),
    _column("Running", ".status.taskCounts.AttemptRunning", "How many tasks run.", "integer"),
    _column("Done", ".status.taskCounts.Completed", "How many tasks are completed.", "integer"),
    _column("Age", ".metadata.creationTimestamp", "How long ago it was created.", "date"),
    _column(
        "Retries",
        ".status.retryPolicyStatus.totalRetriedCount",
        "The number of retries of the Framework.",
        "integer",
        wide=True,
    ),
    _column("Execution", ".spec.executionType", "The executionType: Create, Start or Stop.", wide=True),
    _column("Message", ".status.message", "Why it is in this state.", wide=True),
    _column("Task States", ".status.taskCounts", "The number of tasks in each state, as JSON.", wide=True),
]

_ATTEMPT_COLUMNS = [
    _column("Framework", ".frameworkName", "The Framework."),
    _column("Attempt", ".attempt", "The number of the attempt, from 1.", "integer"),
    _column("Result", ".attemptStatus.completionStatus.type.name", "How the attempt ended."),
    _column("Counted", ".counted", "Whether the retry counts towards maxRetryCount.", "boolean"),
    _column("Completed", ".attemptStatus.completionTime", "How long ago the attempt completed.", "date"),
    _column("Message", ".message", "Why the attempt completed.", wide=True),
]
_HEAD_FIELDS: Schema = {
    "apiVersion": {
        "type": "string",
        "description": "The group and version of the API that the object is written for.",
    },
    "kind": {"type": "string", "description": "The kind of the object."},
}


def _framework() -> Schema:
    schema = framework_schema()
    fields = schema["properties"]
    own_name = fields["metadata"]["properties"]
    return {
        "type": "object",
        "description": schema["description"],
        "required": ["spec"],
        "properties": {
            **_HEAD_FIELDS,
            # A definition may not specify more of the metadata.
            "metadata": {
                "type": "object",
                "properties": {name: _name(own_name[name]) for name in ("name", "generateName")},
            },
            "spec": _spec_schema(fields["spec"], "spec"),
            "status": _status_schema(schema["$defs"]["FrameworkStatus"]),
        },
    }


def _name(source: Schema) -> Schema:
    return {"type": "string", "pattern": source["pattern"]}


def _spec_schema(source: Schema, field: str = "") -> Schema:
    """
    A part of the spec, with its defaults.

    No field is nullable: Kubernetes then treats null as absent, as the launcher does.
    """
    schema = _typed(source) | _inside(source, _spec_schema) | _EXTRAS.get(field, {})
    if "$ref" in source:
        schema |= {"type": "object", "properties": _TEMPLATE, **_OPEN}
    if "default" in source:
        schema["default"] = source["default"]
    elif field in _DEFAULTED_OBJECTS:
        schema["default"] = {}
    return schema


def _status_schema(source: Schema, _field: str = "") -> Schema:
    """A part of the status: no defaults, and nothing is pruned."""
    schema = _typed(source) | _inside(source, _status_schema)
    if "properties" in schema:
        schema |= _OPEN
    if "null" in _kinds(source):
        schema["nullable"] = True
    return schema


def _inside(source: Schema, written: Callable[[Schema, str], Schema]) -> Schema:
    """The schemas of the parts of a value, each *written* from its schema and name."""
    schema: Schema = {
        key: written(source[key], "") for key in ("items", "additionalProperties") if key in source
    }
    if "properties" in source:
        schema["properties"] = {name: written(part, name) for name, part in source["properties"].items()}
    return schema


def _typed(source: Schema) -> Schema:
    """The rules of the value itself, without its parts."""
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
        # Implied by the format; Kubernetes would parse the number as a slightly larger fraction.
        del schema["maximum"]
    if "string" in _kinds(source):
        return schema
    return {"format": "int32" if schema.get("maximum", _INT64) <= _INT32 else "int64", **schema}
