"""The CRD of Frameworks on a real API server accepts the same objects as the launcher."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.core.defaults import with_defaults
from launcher.core.errors import FieldError
from launcher.core.failures.spec_parser import role_rules
from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import Media
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.status import FRAMEWORK_STEPS
from launcher.core.validation.framework import validation_errors
from launcher.core.validation.schema import schema_errors
from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import full_framework, paths_in, samples, set_value
from tests.eventually import until
from tests.kubernetes.conftest import CRD
from tests.kubernetes.namespace_client import frameworks_path

CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/frameworks.launcher.microsoft.com"
#: The limit of the annotation in which kubectl apply stores the applied object.
MAX_ANNOTATION_BYTES = 256 * 1024
#: The field is deleted instead of changed.
ABSENT = object()
#: The values that are set in each field.
VALUES: tuple[Any, ...] = (
    ABSENT, None, True, -3, -1, 0, 1, 2.0, 1.5, 10_001, 2**31, "", "1-2", "worker", "auto", "/there", "Start", "All",
    [], ["ps"], [{}], {}, {"worker": 1},
)  # fmt: skip


def test_the_crd_is_structural_and_established(cluster: ControlPlane) -> None:
    conditions = {
        item["type"]: item["status"] for item in cluster.admin.get(CRD_PATH)["status"]["conditions"]
    }

    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_kubectl_applies_the_crd_client_side_and_server_side(cluster: ControlPlane) -> None:
    server_side = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", str(CRD))
    client_side = cluster.kubectl("apply", "--dry-run=server", "-f", str(CRD))

    assert "serverside-applied" in server_side
    assert "frameworks.launcher.microsoft.com" in client_side
    assert "Warning" not in server_side + client_side
    assert len(json.dumps(cluster.admin.get(CRD_PATH)["spec"])) < MAX_ANNOTATION_BYTES / 4


def test_the_published_schema_explains_every_field(cluster: ControlPlane) -> None:
    framework = until(lambda: published_schema(cluster), "the schema of Frameworks is published")

    undocumented = [path for path, schema in _fields(framework, "") if not schema.get("description")]

    assert undocumented == []


def published_schema(cluster: ControlPlane) -> Json | None:
    """The OpenAPI definition of Frameworks; None until the server publishes it."""
    response = cluster.admin.request("GET", "/openapi/v3/apis/launcher.microsoft.com/v1")
    schemas: Json = response.body["components"]["schemas"] if response.status == 200 else {}
    return next((schema for name, schema in schemas.items() if name.endswith(".v1.Framework")), None)


def _fields(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from _fields(inner, f"{path}.{name}")
    if isinstance(items := schema.get("items"), dict):
        yield from _fields(items, f"{path}[]")


def test_kubectl_explain_shows_all_fields_of_a_role(
    cluster: ControlPlane,
) -> None:
    until(lambda: published_schema(cluster), "the schema of Frameworks is published")

    message = cluster.kubectl("explain", "frameworks.spec.taskRoles", "--recursive")
    pod = cluster.kubectl("explain", "fw.spec.taskRoles.task.pod.spec")
    replicas = cluster.kubectl("explain", "fw.spec.replicas")

    for word in ("name", "taskNumber", "startAfter", "succeededIndexes", "maxRetryCount", "pod"):
        assert f" {word}\t<" in message
    assert "kubectl explain pod.spec" in pod
    assert "kubectl scale" in replicas


def test_the_columns_fit_into_a_terminal(cluster: ControlPlane, namespace: str) -> None:
    cluster.admin.post(frameworks_path(namespace), a_framework(name="a-name-of-20-letters"))
    longest = max((state.value for state in FRAMEWORK_STEPS), key=len)
    end = {"completionStatus": {"type": {"name": "Succeeded"}}}
    status = {"state": longest, "taskCounts": {"AttemptRunning": 10_000}, "attemptStatus": end}
    cluster.admin.patch(frameworks_path(namespace, "a-name-of-20-letters/status"), {"status": status})

    head, row = cluster.kubectl("get", "fw", "-n", namespace).splitlines()

    assert head.split() == ["NAME", "STATE", "RESULT", "RUNNING", "DONE", "AGE"]
    assert max(len(head.rstrip()), len(row.rstrip())) <= 80


@pytest.mark.parametrize(("name", "text"), [pytest.param(*item, id=item[0]) for item in samples()])
def test_every_sample_is_accepted_and_interpreted_as_by_the_launcher(
    cluster: ControlPlane, namespace: str, tmp_path: Path, name: str, text: bytes
) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_bytes(text)
    parsed = parse_framework(text, media=Media.YAML).object

    created = json.loads(cluster.kubectl("create", "-n", namespace, "-f", str(file), "-o", "json"))

    assert created["spec"] == parsed["spec"]


def test_no_field_of_a_pod_template_is_pruned(cluster: ControlPlane, namespace: str) -> None:
    unknown_fields = {"fieldOfALaterRelease": {"a": [1, {"b": None}]}, "olumeMounts": [{"name": "x"}]}
    pod = {**a_pod_template(**unknown_fields), "metadata": {"labels": {"a": "b"}, "other": 1}, "beside": True}
    framework = a_framework(a_role(pod=pod))

    cluster.admin.post(frameworks_path(namespace), framework)
    cluster.kubectl("label", "fw", "mnist", "a=b", "-n", namespace)

    assert (
        cluster.admin.get(frameworks_path(namespace, "mnist"))["spec"]["taskRoles"][0]["task"]["pod"] == pod
    )


def modified_frameworks() -> Iterator[tuple[str, Json]]:
    """Frameworks with another value in one field, or without that field; many are still valid."""
    scalable = a_framework(replicas=3)
    paths_of_full = [*paths_in(full_framework()["spec"])]
    paths_of_scalable = [path for path in paths_in(scalable["spec"]) if path not in paths_of_full]
    for original, paths in ((full_framework(), paths_of_full), (scalable, paths_of_scalable)):
        # Only the launcher validates the content of pod templates.
        for path in (path for path in paths if "pod" not in path[:-1]):
            for value in VALUES:
                framework = copy.deepcopy(original)
                set_value(framework, ("spec", *path), copy.deepcopy(value))
                if value is ABSENT:
                    _delete_field(framework, ("spec", *path))
                yield f"{'.'.join(map(str, path))}={value!r}", framework


def _delete_field(obj: Any, path: tuple[str | int, ...]) -> None:
    for step in path[:-1]:
        obj = obj[step]
    del obj[path[-1]]


def test_server_and_launcher_accept_the_same_objects(cluster: ControlPlane, namespace: str) -> None:
    accepted, differences = 0, []
    for change, framework in modified_frameworks():
        response = cluster.admin.request("POST", f"{frameworks_path(namespace)}?dryRun=All", framework)
        if not validation_errors(framework):
            accepted += 1
            if response.status != 201:
                differences.append(f"{change}: rejected: {response.body['message']}")
            elif _parsed_spec(response.body) != _parsed_spec(with_defaults(framework)):
                differences.append(f"{change}: parsed differently: {response.body['spec']}")
        elif response.status == 201 and (errors := [*_errors_for_the_server(framework)]):
            differences.append(f"{change}: accepted in spite of {errors}")

    assert not differences, "\n".join(differences)
    assert accepted > 100


def _parsed_spec(framework: Json) -> Any:
    """The spec, and its failure rules as the classifier reads them: with nulls as absent, which the server drops."""
    spec = spec_from_json(framework["spec"])
    roles = tuple(replace(role, pod_failure_spec=()) for role in spec.roles)
    return replace(spec, roles=roles), [role_rules(role.pod_failure_spec) for role in spec.roles]


def _errors_for_the_server(framework: Json) -> Iterator[FieldError]:
    """The schema errors that the server detects: not those in pod templates, nor nulls in maps, which it drops."""
    for error in schema_errors(framework):
        is_null = error.field.startswith("spec.discovery.ports.") and error.reason == "FieldValueRequired"
        if not is_null and ".task.pod" not in error.field:
            yield error
