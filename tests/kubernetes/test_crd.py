"""The definition of a Framework on a real API server: it takes what the launcher takes, and means the same."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.defaults import defaulted
from launcher.core.errors import FieldError
from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import Media
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.status import FRAMEWORK_STEPS
from launcher.core.validation.framework import validation_errors
from launcher.core.validation.schema import schema_errors
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import Json, a_framework, a_pod, a_role, full_framework, places_in, put, samples
from tests.kubernetes.conftest import CRD
from tests.local.server import until

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/frameworks.launcher.microsoft.com"
#: What kubectl notes on an object that it applies may not be larger than this.
MOST_NOTED = 256 * 1024
#: Gone, instead of having another value.
ABSENT = object()
#: What each field is spoilt with, or given another value by.
VALUES: tuple[Any, ...] = (
    ABSENT, None, True, -3, -1, 0, 1, 2.0, 1.5, 10_001, 2**31, "", "1-2", "worker", "auto", "/there", "Start", "All",
    [], ["ps"], [{}], {}, {"worker": 1},
)  # fmt: skip


def frameworks(namespace: str, name: str = "") -> str:
    """Where the Frameworks of a namespace are, or one of them."""
    return f"/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks" + (name and f"/{name}")


def test_the_definition_is_structural_and_established(cluster: ControlPlane) -> None:
    conditions = {
        each["type"]: each["status"] for each in cluster.admin.get(DEFINITION)["status"]["conditions"]
    }

    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_kubectl_applies_the_definition_in_both_ways_without_a_complaint(cluster: ControlPlane) -> None:
    by_the_server = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", str(CRD))
    by_itself = cluster.kubectl("apply", "--dry-run=server", "-f", str(CRD))

    assert "serverside-applied" in by_the_server
    assert "frameworks.launcher.microsoft.com" in by_itself
    assert "Warning" not in by_the_server + by_itself
    assert len(json.dumps(cluster.admin.get(DEFINITION)["spec"])) < MOST_NOTED / 4


def test_what_the_server_tells_of_a_framework_explains_every_field(cluster: ControlPlane) -> None:
    framework = until(lambda: published(cluster), "Frameworks are described")

    bare = [path for path, schema in _fields(framework, "") if not schema.get("description")]

    assert bare == []


def published(cluster: ControlPlane) -> Json | None:
    """What a client is told a Framework is; None until the server has got round to it."""
    answer = cluster.admin.ask("GET", "/openapi/v3/apis/launcher.microsoft.com/v1")
    schemas: Json = answer.body["components"]["schemas"] if answer.status == 200 else {}
    return next((schema for name, schema in schemas.items() if name.endswith(".v1.Framework")), None)


def _fields(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from _fields(inner, f"{path}.{name}")
    if isinstance(items := schema.get("items"), dict):
        yield from _fields(items, f"{path}[]")


def test_who_asks_kubectl_about_a_role_is_told_of_all_its_fields_and_where_to_read_on(
    cluster: ControlPlane,
) -> None:
    until(lambda: published(cluster), "Frameworks are described")

    told = cluster.kubectl("explain", "frameworks.spec.taskRoles", "--recursive")
    pod = cluster.kubectl("explain", "fw.spec.taskRoles.task.pod.spec")
    replicas = cluster.kubectl("explain", "fw.spec.replicas")

    for word in ("name", "taskNumber", "startAfter", "succeededIndexes", "maxRetryCount", "pod"):
        assert f" {word}\t<" in told
    assert "kubectl explain pod.spec" in pod
    assert "kubectl scale" in replicas


def test_the_columns_fit_into_a_terminal(cluster: ControlPlane, namespace: str) -> None:
    cluster.admin.post(frameworks(namespace), a_framework(name="a-name-of-20-letters"))
    longest = max((state.value for state in FRAMEWORK_STEPS), key=len)
    end = {"completionStatus": {"type": {"name": "Succeeded"}}}
    status = {"state": longest, "taskCounts": {"AttemptRunning": 10_000}, "attemptStatus": end}
    cluster.admin.patch(frameworks(namespace, "a-name-of-20-letters/status"), {"status": status})

    head, row = cluster.kubectl("get", "fw", "-n", namespace).splitlines()

    assert head.split() == ["NAME", "STATE", "RESULT", "RUNNING", "DONE", "AGE"]
    assert max(len(head.rstrip()), len(row.rstrip())) <= 80


@pytest.mark.parametrize(("name", "text"), [pytest.param(*each, id=each[0]) for each in samples()])
def test_every_sample_is_taken_and_means_what_it_means_to_the_launcher(
    cluster: ControlPlane, namespace: str, tmp_path: Path, name: str, text: bytes
) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_bytes(text)
    ours = parse_framework(text, media=Media.YAML).object

    made = json.loads(cluster.kubectl("create", "-n", namespace, "-f", str(file), "-o", "json"))

    assert made["spec"] == ours["spec"]


def test_nothing_is_taken_from_a_pod_template(cluster: ControlPlane, namespace: str) -> None:
    later = {"fieldOfALaterRelease": {"a": [1, {"b": None}]}, "olumeMounts": [{"name": "x"}]}
    pod = {**a_pod(**later), "metadata": {"labels": {"a": "b"}, "other": 1}, "beside": True}
    wanted = a_framework(a_role(pod=pod))

    cluster.admin.post(frameworks(namespace), wanted)
    cluster.kubectl("label", "fw", "mnist", "a=b", "-n", namespace)

    assert cluster.admin.get(frameworks(namespace, "mnist"))["spec"]["taskRoles"][0]["task"]["pod"] == pod


def spoilt() -> Iterator[tuple[str, Json]]:
    """Frameworks that have another value in one field of ours, or lack it; many are still valid."""
    one = a_framework(replicas=3)
    everywhere = [*places_in(full_framework()["spec"])]
    only_there = [place for place in places_in(one["spec"]) if place not in everywhere]
    for whole, places in ((full_framework(), everywhere), (one, only_there)):
        # What is inside of a pod template is the launcher's to check.
        for place in (place for place in places if "pod" not in place[:-1]):
            for value in VALUES:
                framework = copy.deepcopy(whole)
                put(framework, ("spec", *place), copy.deepcopy(value))
                if value is ABSENT:
                    _drop(framework, ("spec", *place))
                yield f"{'.'.join(map(str, place))}={value!r}", framework


def _drop(obj: Any, place: tuple[str | int, ...]) -> None:
    for step in place[:-1]:
        obj = obj[step]
    del obj[place[-1]]


def test_what_the_launcher_takes_the_server_takes_and_what_has_no_shape_neither_does(
    cluster: ControlPlane, namespace: str
) -> None:
    taken, wrong = 0, []
    for what, framework in spoilt():
        answer = cluster.admin.ask("POST", f"{frameworks(namespace)}?dryRun=All", framework)
        if not validation_errors(framework):
            taken += 1
            if answer.status != 201:
                wrong.append(f"{what}: refused: {answer.body['message']}")
            elif _meant(answer.body) != _meant(defaulted(framework)):
                wrong.append(f"{what}: means something else: {answer.body['spec']}")
        elif answer.status == 201 and (told := [*_seen_by_the_server(framework)]):
            wrong.append(f"{what}: taken, though {told}")

    assert not wrong, "\n".join(wrong)
    assert taken > 100


def _meant(framework: Json) -> Any:
    return spec_from_json(framework["spec"])


def _seen_by_the_server(framework: Json) -> Iterator[FieldError]:
    """What of its shape the server looks at: not a pod template, nor the nulls in a map, which it leaves out."""
    for problem in schema_errors(framework):
        is_null = problem.field.startswith("spec.discovery.ports.") and problem.reason == "FieldValueRequired"
        if not is_null and ".task.pod" not in problem.field:
            yield problem
