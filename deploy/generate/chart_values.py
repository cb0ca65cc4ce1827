"""The values of the chart, each with its meaning, default and schema."""

from dataclasses import dataclass
from typing import Any

import yaml

from deploy.generate.manifests import BASE, base_objects, named, read
from launcher.job_kinds.job_kind import JOB_KINDS

_TEXT: Any = {"type": "string"}
_YES: Any = {"type": "boolean"}
_MAPPING: Any = {"type": "object"}
_LIST: Any = {"type": "array"}
_NUMBER_OR_PERCENTAGE: Any = {
    "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+%$"}]
}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart, by its path."""

    path: str
    meaning: str
    default: Any
    schema: Any


def values() -> tuple[Value, ...]:
    """The values in the order of the file; the defaults are those of the kustomize base."""
    deployment = named(base_objects(), "Deployment", "framework-launcher")["spec"]
    container = deployment["template"]["spec"]["containers"][0]
    repository, _, _ = container["image"].partition(":")
    return (
        Value(
            "image.repository",
            "The image that you built with deploy/Containerfile and pushed.",
            repository,
            _TEXT,
        ),
        Value("image.tag", "The version of the chart if it is empty.", "", _TEXT),
        Value(
            "image.digest",
            "sha256:…; instead of the tag: always the same image.",
            "",
            {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        ),
        Value(
            "image.pullPolicy",
            "",
            container["imagePullPolicy"],
            {"enum": ["Always", "IfNotPresent", "Never"]},
        ),
        Value("imagePullSecrets", "Secrets for the registry: [{name: …}].", [], _LIST),
        Value(
            "replicas",
            "One replica leads, all of them serve requests.",
            deployment["replicas"],
            {"type": "integer", "minimum": 1},
        ),
        Value("podDisruptionBudget.enabled", "Drains leave replicas running.", True, _YES),
        Value(
            "podDisruptionBudget.maxUnavailable",
            "A number of replicas, or a percentage.",
            named(base_objects(), "PodDisruptionBudget", "framework-launcher")["spec"]["maxUnavailable"],
            _NUMBER_OR_PERCENTAGE,
        ),
        Value(
            "podDisruptionBudget.minAvailable",
            "Instead of maxUnavailable, if it is given.",
            None,
            {"anyOf": [{"type": "null"}, _NUMBER_OR_PERCENTAGE]},
        ),
        Value("resources", "", container["resources"], _MAPPING),
        Value("nodeSelector", "", {}, _MAPPING),
        Value("tolerations", "", [], _LIST),
        Value(
            "policy",
            "Limits what Frameworks may request; omitted rules allow everything.",
            _policy(),
            _MAPPING,
        ),
        Value(
            "podFailureSpec",
            "Failure rules in FrameworkController's format; they precede the built-in ones.",
            [],
            _LIST,
        ),
        Value("webhook.enabled", "kube-apiserver calls the launcher for every Framework.", True, _YES),
        Value("networkPolicy.enabled", "", True, _YES),
        Value("serviceMonitor.enabled", "Needs the Prometheus operator.", False, _YES),
        Value(
            "metricsAuth.enabled",
            "The cluster decides who may get /metrics; bind framework-launcher-metrics-reader to Prometheus.",
            False,
            _YES,
        ),
        Value(
            "logArchive.enabled",
            "Logs are stored in an archive before pods are deleted; see docs/logs.md.",
            False,
            _YES,
        ),
        Value(
            "logArchive.url",
            "file:///DIR, s3://BUCKET/PREFIX, gs://… or az://…; if it is empty, LAUNCHER_LOG_ARCHIVE of the Secret.",
            "",
            {"type": "string", "pattern": "^((file:///|s3://|gs://|az://).+)?$"},
        ),
        Value(
            "logArchive.existingSecret",
            "A Secret whose keys are environment variables: the credentials of the object store.",
            "framework-launcher-log-archive",
            _TEXT,
        ),
        Value(
            "logArchive.existingClaim",
            "A PersistentVolumeClaim that all replicas share, for file:///var/lib/framework-launcher/logs.",
            "",
            _TEXT,
        ),
        Value(
            "certManager.enabled",
            "cert-manager issues the certificate, not the launcher.",
            False,
            _YES,
        ),
        Value(
            "clientCertificates.enabled",
            "The API proxy accepts client certificates; see docs/install-kubernetes.md before you enable it.",
            False,
            _YES,
        ),
        Value(
            "crd.enabled",
            "Install and upgrade the CRD with the chart; it is kept on uninstall.",
            True,
            _YES,
        ),
        *(
            Value(
                f"{foreign.singular}.enabled",
                f"{foreign.kind.kind}s run as Frameworks; only if no other operator runs them.",
                False,
                _YES,
            )
            for foreign in JOB_KINDS
        ),
    )


def values_text() -> str:
    """``values.yaml``."""
    lines: list[str] = []
    parents: set[str] = set()
    for value in values():
        *parent, name = value.path.split(".")
        indent = "  " * len(parent)
        if parent and parent[0] not in parents:
            parents.add(parent[0])
            lines.append(f"{parent[0]}:")
        if value.meaning:
            lines.append(f"{indent}# {value.meaning}")
        text = yaml.safe_dump({name: value.default}, sort_keys=False)
        lines += [indent + line for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def values_schema() -> Any:
    """``values.schema.json``: a misspelt value is rejected."""
    schema = _closed({})
    for value in values():
        *parents, name = value.path.split(".")
        place = schema["properties"]
        for parent in parents:
            place = place.setdefault(parent, _closed({}))["properties"]
        place[name] = value.schema
    # Set by Helm for subcharts.
    schema["properties"]["global"] = _MAPPING
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _closed(properties: Any) -> Any:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _policy() -> Any:
    (config,) = read(BASE / "config.yaml")
    return yaml.safe_load(config["data"]["config.yaml"])["policy"]
