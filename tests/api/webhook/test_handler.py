"""What the admission webhook answers to a kube-apiserver."""

import copy
from typing import Any

import orjson
import pytest

from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import MAX_BODY_BYTES, Media
from launcher.core.parsing.yaml_reader import read_yaml
from launcher.core.replicas import with_replicas
from launcher.core.validation.admission_policy import AdmissionPolicy
from tests.api.conftest import Api
from tests.api.samples import B
from tests.api.webhook.conftest import WebhookClient, run_webhook
from tests.api.webhook.reviews import a_review, applied, options, patch_in
from tests.builders import a_framework, a_pod_template, a_role
from tests.core.manifests import full_framework, samples

Json = dict[str, Any]

CYCLE = a_framework(
    a_role("ps", startAfter=[{"role": "worker"}]), a_role("worker", startAfter=[{"role": "ps"}])
)


def with_defaults(obj: Json) -> Json:
    return parse_framework(orjson.dumps(obj), media=Media.JSON).object


def changed(obj: Json, **metadata: Any) -> Json:
    """A copy with these fields of its metadata."""
    return {**copy.deepcopy(obj), "metadata": {**obj["metadata"], **metadata}}


# Validating.


async def test_a_valid_framework_is_allowed_without_warnings(webhook: WebhookClient) -> None:
    response = await webhook.validate(a_review(with_defaults(a_framework())))

    assert response["allowed"] is True
    assert response.keys() == {"uid", "allowed"}


@pytest.mark.parametrize(
    ("invalid", "validation"),
    [
        pytest.param(CYCLE, "Strict", id="a rule of the launcher's"),
        pytest.param(a_framework(a_role(tasks=-1), a_role("UPPER")), "Warn", id="two wrong shapes"),
        pytest.param(
            a_framework(a_role(pod=a_pod_template(olumes=[]))), "Strict", id="an unknown field, strictly"
        ),
        pytest.param({**a_framework(), "metadata": {"labels": {}}}, "Warn", id="no name"),
        pytest.param({**a_framework(), "metadata": {"name": "a", "labels": 7}}, "Warn", id="bad metadata"),
    ],
)
async def test_a_denial_has_the_status_of_local_mode(
    webhook: WebhookClient, api: Api, invalid: Json, validation: str
) -> None:
    own = (await api.post(f"{B}?fieldValidation={validation}", invalid)).json()

    response = await webhook.validate(a_review(invalid, options=options(validation)))

    assert response["allowed"] is False
    assert response["status"] == own
    assert own["code"] >= 400


async def test_the_admission_policy_is_enforced_by_the_webhook(webhook: WebhookClient) -> None:
    desired = a_framework(a_role(pod=a_pod_template(hostNetwork=True)))

    async with run_webhook(AdmissionPolicy(host_network=False)) as strict:
        failure = await strict.validate(a_review(desired))
    allowed = await webhook.validate(a_review(desired))

    assert failure["status"]["reason"] == "Invalid"
    assert failure["status"]["details"]["causes"][0]["field"].endswith("hostNetwork")
    assert allowed["allowed"] is True


@pytest.mark.parametrize(
    ("validation", "warned"),
    [pytest.param("Warn", True, id="as most clients"), pytest.param("Ignore", False, id="if not unwanted")],
)
async def test_unknown_fields_of_a_pod_are_reported(
    webhook: WebhookClient, validation: str, warned: bool
) -> None:
    desired = with_defaults(a_framework(a_role(pod=a_pod_template(olumes=[]))))

    response = await webhook.validate(a_review(desired, options=options(validation)))

    assert response["allowed"] is True
    assert any("olumes" in text for text in response.get("warnings", [])) is warned


async def test_warnings_are_limited_as_in_kubernetes(webhook: WebhookClient) -> None:
    pods = a_pod_template(**{f"{number}\n{'x' * 300}": 0 for number in range(50)})

    response = await webhook.validate(a_review(with_defaults(a_framework(a_role(pod=pods)))))

    assert len(response["warnings"]) > 1
    assert sum(map(len, response["warnings"])) <= 4096
    assert all(text.isprintable() and len(text) <= 256 for text in response["warnings"])


async def test_a_change_that_is_not_allowed_is_denied(webhook: WebhookClient) -> None:
    stopped, started = (with_defaults(a_framework(executionType=desired)) for desired in ("Stop", "Start"))

    response = await webhook.validate(a_review(started, stopped))

    assert response["status"]["code"] == 422
    assert response["status"]["details"]["causes"][0]["field"] == "spec.executionType"


async def test_warnings_about_the_old_object_are_not_repeated(webhook: WebhookClient) -> None:
    old = with_defaults(a_framework(a_role(pod=a_pod_template(olumes=[]))))
    new = {**old, "spec": {**old["spec"], "description": "new"}}

    response = await webhook.validate(a_review(new, old, options=options("Strict", "UpdateOptions")))

    assert response["allowed"] is True
    assert "warnings" not in response


async def test_unknown_fields_of_a_patch_are_reported_as_in_local_mode(webhook: WebhookClient) -> None:
    old = with_defaults(a_framework())
    new = with_defaults(a_framework(a_role(pod=a_pod_template(olumes=[]))))
    force = {**options("Strict", "PatchOptions"), "force": True}

    patched = await webhook.validate(a_review(new, old, options=options("Strict", "PatchOptions")))
    forced = await webhook.validate(a_review(new, old, options=force))

    assert (patched["status"]["code"], patched["status"]["reason"]) == (422, "Invalid")
    assert (forced["status"]["code"], forced["status"]["reason"]) == (400, "BadRequest")


# Objects that were stored while the webhook was unavailable.


INVALID: list[Any] = [
    pytest.param(CYCLE, id="against the rules"),
    pytest.param({**a_framework(), "spec": {"taskRoles": "none"}}, id="in a strange shape"),
    pytest.param({key: value for key, value in a_framework().items() if key != "spec"}, id="without a spec"),
]


@pytest.mark.parametrize("invalid", INVALID)
@pytest.mark.parametrize("path", ["validate", "mutate"])
async def test_the_metadata_of_an_invalid_framework_can_be_changed(
    webhook: WebhookClient, invalid: Json, path: str
) -> None:
    held = changed(invalid, finalizers=["example.com/hold"], labels={"old": "1"})

    answer = await webhook.send(path, a_review(changed(invalid), held))

    assert answer.json()["response"].keys() == {"uid", "allowed"}
    assert answer.json()["response"]["allowed"] is True


@pytest.mark.parametrize("path", ["validate", "mutate"])
async def test_objects_being_deleted_may_change(webhook: WebhookClient, path: str) -> None:
    deleting = changed(CYCLE, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/hold"])

    answer = await webhook.send(path, a_review(deleting, a_framework()))

    assert answer.json()["response"].keys() == {"uid", "allowed"}
    assert answer.json()["response"]["allowed"] is True


@pytest.mark.parametrize("invalid", INVALID)
async def test_an_invalid_framework_can_be_corrected_but_not_changed_otherwise(
    webhook: WebhookClient, invalid: Json
) -> None:
    other = changed(CYCLE)
    other["spec"]["description"] = "still no good"

    corrected = await webhook.validate(a_review(with_defaults(a_framework()), invalid))
    worse = await webhook.validate(a_review(other, invalid))

    assert corrected["allowed"] is True
    assert worse["allowed"] is False


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"operation": "DELETE", "object": None}, id="a deletion"),
        pytest.param({"operation": "CONNECT"}, id="a connection"),
        pytest.param({"subResource": "status"}, id="a status"),
        pytest.param({"subResource": "scale", "object": {"kind": "Scale"}}, id="a scale"),
    ],
)
@pytest.mark.parametrize("path", ["validate", "mutate"])
async def test_other_operations_and_subresources_are_allowed(
    webhook: WebhookClient, path: str, fields: Json
) -> None:
    answer = await webhook.send(path, a_review(CYCLE, a_framework(), **fields))

    assert answer.json()["response"]["allowed"] is True
    assert "patch" not in answer.json()["response"]


# Defaults.


@pytest.mark.parametrize("sample", [pytest.param(text, id=name) for name, text in samples()])
async def test_every_sample_gets_its_defaults_once(webhook: WebhookClient, sample: bytes) -> None:
    bare = read_yaml(sample.decode()).value

    first = await webhook.mutate(a_review(bare))
    whole = applied(bare, first)
    again = await webhook.mutate(a_review(whole))

    assert whole["spec"] == with_replicas(parse_framework(sample, media=Media.YAML).object)["spec"]
    assert patch_in(first) != []
    assert patch_in(again) == []


async def test_defaults_are_those_of_local_mode(webhook: WebhookClient, api: Api) -> None:
    desired = full_framework()
    own = (await api.post(B, desired)).json()

    response = await webhook.mutate(a_review(desired))

    assert applied(desired, response)["spec"] == own["spec"]


async def test_the_status_of_a_reviewed_object_is_ignored(webhook: WebhookClient) -> None:
    desired = a_framework()

    plain = await webhook.mutate(a_review(desired))
    with_status = await webhook.mutate(a_review({**desired, "status": "strange"}))

    assert with_status == plain
    assert patch_in(plain) != []


async def test_only_missing_defaults_are_patched(webhook: WebhookClient) -> None:
    desired = with_defaults(a_framework(a_role(), a_role("ps")))
    desired["metadata"] |= {"creationTimestamp": None, "managedFields": [{"manager": "kubectl"}]}
    del desired["spec"]["taskRoles"][1]["background"]

    response = await webhook.mutate(a_review(desired))

    assert patch_in(response) == [{"op": "add", "path": "/spec/taskRoles/1/background", "value": False}]


async def test_replicas_are_set_for_a_framework_with_one_role(webhook: WebhookClient) -> None:
    one, two = with_defaults(a_framework(a_role(tasks=3))), with_defaults(a_framework(a_role(), a_role("ps")))

    single = await webhook.mutate(a_review(one))
    double = await webhook.mutate(a_review(two))

    assert patch_in(single) == [{"op": "add", "path": "/spec/replicas", "value": 3}]
    assert patch_in(double) == []


async def test_replicas_follow_a_change_of_the_number_of_tasks(webhook: WebhookClient) -> None:
    old, new = (with_defaults(a_framework(a_role(tasks=tasks), replicas=3)) for tasks in (3, 5))

    response = await webhook.mutate(a_review(new, old))

    assert patch_in(response) == [{"op": "replace", "path": "/spec/replicas", "value": 5}]


async def test_warnings_about_defaulted_fields_are_reported_by_mutate(webhook: WebhookClient) -> None:
    role = a_role(frameworkAttemptCompletionPolicy={"minFailedTaskCount": 0})

    response = await webhook.mutate(a_review(a_framework(role)))

    assert len(response["warnings"]) == 1
    assert "0 is read as -1" in response["warnings"][0]


@pytest.mark.parametrize("invalid", [CYCLE, {**a_framework(), "spec": {"taskRoles": "none"}}])
async def test_mutate_denies_nothing(webhook: WebhookClient, invalid: Json) -> None:
    response = await webhook.mutate(a_review(invalid))

    assert response["allowed"] is True


async def test_a_dry_run_is_reviewed_like_any_other_request(webhook: WebhookClient) -> None:
    answers = [await webhook.mutate(a_review(a_framework(), dryRun=dry)) for dry in (False, True)]

    assert answers[0] == answers[1]


# What is no review.


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        pytest.param(b"", 400, "not valid JSON", id="nothing"),
        pytest.param(b"{", 400, "not valid JSON", id="half of it"),
        pytest.param(b"[]", 400, "AdmissionReview", id="a list"),
        pytest.param(orjson.dumps(a_framework()), 400, "AdmissionReview", id="the object itself"),
        pytest.param(
            orjson.dumps({**a_review(a_framework()), "apiVersion": "admission.k8s.io/v1beta1"}),
            400,
            "admission.k8s.io/v1",
            id="another version",
        ),
        pytest.param(orjson.dumps({**a_review({}), "request": None}), 400, "request", id="no request"),
        pytest.param(orjson.dumps(a_review({}, uid="")), 400, "request.uid", id="no uid"),
        pytest.param(orjson.dumps(a_review({}, resource="pods")), 400, "request.resource", id="no resource"),
        pytest.param(orjson.dumps(a_review(None)), 400, "request.object", id="no object"),
        pytest.param(b" " * (2 * MAX_BODY_BYTES + 10**6), 413, "too large", id="too large"),
    ],
)
@pytest.mark.parametrize("path", ["validate", "mutate"])
async def test_a_malformed_review_is_rejected_with_the_reason(
    webhook: WebhookClient, path: str, body: bytes, code: int, word: str
) -> None:
    answer = await webhook.send(path, body)

    assert answer.status == code
    assert word in answer.json()["message"]


async def test_two_objects_of_the_largest_size_fit_into_a_review(webhook: WebhookClient) -> None:
    large = a_framework(a_role(), description="x" * (MAX_BODY_BYTES - 2000))

    response = await webhook.validate(a_review(large, changed(large)))

    assert response["allowed"] is True


@pytest.mark.parametrize("depth", [300, 1000])
async def test_a_too_deeply_nested_object_is_denied(webhook: WebhookClient, depth: int) -> None:
    # Written by hand: what writes JSON here does not go so deep.
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    body = orjson.dumps(a_review(a_framework(description=0), a_framework(description=0)))
    body = body.replace(b'"description":0', b'"description":' + deep)

    validated = (await webhook.send("validate", body.replace(b"1}", b"2}", 1))).json()
    mutated = (await webhook.send("mutate", body.replace(b"1}", b"2}", 1))).json()

    assert validated["response"]["status"]["code"] == 400
    assert mutated["response"]["allowed"] is True
