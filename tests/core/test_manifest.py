"""From bytes to a Framework, or to everything that is wrong with them."""

import json
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.core.errors import BadRequest, InvalidObject, RequestError, TooLarge
from launcher.core.manifest import Manifest, parse_framework, validate_framework
from launcher.core.parsing.decoder import MAX_BODY_BYTES, Media
from launcher.core.serialization.spec_json import spec_from_json, spec_to_json
from launcher.core.validation.field_errors import DUPLICATE_FIELD, MAX_REPORTED_ERRORS, UNKNOWN_FIELD
from launcher.core.validation.framework import validation_errors
from tests.core.manifests import (
    PROJECT,
    a_framework,
    a_pod,
    a_role,
    full_framework,
    json_values,
    places_in,
    put,
    samples,
)

EXAMPLES = sorted((PROJECT / "examples").glob("*.yaml"))


def read(obj: Any, *, strict: bool = False) -> Manifest:
    return parse_framework(json.dumps(obj).encode(), media=Media.JSON, strict=strict)


@pytest.mark.parametrize("example", [pytest.param(path, id=path.stem) for path in EXAMPLES])
def test_every_example_is_valid_even_to_the_strict_and_leaves_nothing_to_warn_about(example: Any) -> None:
    manifest = parse_framework(example.read_bytes(), media=Media.YAML, strict=True)

    assert manifest.warnings == ()
    assert spec_from_json(manifest.object["spec"]).roles


@pytest.mark.parametrize("example", [pytest.param(path, id=path.stem) for path in EXAMPLES])
def test_every_example_says_what_it_shows(example: Any) -> None:
    assert example.read_text().startswith("# ")


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in samples()])
def test_every_sample_is_accepted_as_printed_and_warned_about_only_where_it_is_misspelt(data: bytes) -> None:
    manifest = parse_framework(data, media=Media.YAML)

    typos = data.count(b" olumeMounts:")
    assert manifest.warnings == (OLUME,) * typos
    assert spec_from_json(manifest.object["spec"]) == spec_from_json(yaml.safe_load(data)["spec"])


OLUME = (
    'unknown field "spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts"; did you mean "volumeMounts"?'
)


def misspelt() -> dict[str, Any]:
    mounts = [{"name": "config", "mountPath": "/configdir"}]
    return a_framework(a_role(pod=a_pod(containers=[{"name": "tf", "olumeMounts": mounts}])))


def test_a_misspelt_field_of_a_pod_is_warned_about_and_kept() -> None:
    manifest = read(misspelt())

    assert manifest.warnings == (OLUME,)
    container = manifest.object["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
    assert container["olumeMounts"] == [{"name": "config", "mountPath": "/configdir"}]


def test_an_unknown_field_of_ours_is_warned_about_and_dropped() -> None:
    obj = a_framework(a_role(taskNumbr=3), bogus=1)
    obj["metadata"]["nam"] = "x"
    obj["Spec"] = {}

    manifest = read(obj)

    assert set(manifest.warnings) == {
        'unknown field "metadata.nam"; did you mean "name"?',
        'unknown field "spec.bogus"',
        'unknown field "spec.taskRoles[0].taskNumbr"; did you mean "taskNumber"?',
        'unknown field "Spec"; did you mean "spec"?',
    }
    assert manifest.object == read(a_framework()).object


def test_a_wrong_case_is_guessed() -> None:
    manifest = read(a_framework(a_role(pod=a_pod(ActiveDeadlineSeconds=5))))

    assert manifest.warnings[0].endswith('did you mean "activeDeadlineSeconds"?')


def test_keys_of_maps_are_the_users_own() -> None:
    obj = a_framework(
        a_role(pod={**a_pod(nodeSelector={"bogus": "1"}), "metadata": {"labels": {"bogus": "1"}}})
    )
    obj["metadata"]["annotations"] = {"bogus": "1"}

    assert read(obj).warnings == ()


def test_to_the_strict_unknown_fields_are_problems_beside_all_others() -> None:
    obj = misspelt()
    obj["spec"]["taskRoles"][0]["taskNumber"] = -1

    with pytest.raises(InvalidObject) as refused:
        read(obj, strict=True)

    assert [(problem.field, problem.reason) for problem in refused.value.errors] == [
        ("spec.taskRoles[0].taskNumber", "FieldValueInvalid"),
        ("spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts", UNKNOWN_FIELD),
    ]
    assert refused.value.errors[1].message == OLUME


@pytest.mark.parametrize("media", Media)
def test_a_key_that_stands_twice_is_a_warning_or_to_the_strict_a_problem(media: Media) -> None:
    data = (
        json.dumps(a_framework(description="b"))
        .replace('"spec": {', '"spec": {"description": "a", ', 1)
        .encode()
    )

    manifest = parse_framework(data, media=media)

    assert manifest.warnings == ('duplicate field "spec.description"; the last one counts',)
    assert manifest.object["spec"]["description"] == "b"
    with pytest.raises(InvalidObject) as refused:
        parse_framework(data, media=media, strict=True)
    assert [(problem.field, problem.reason) for problem in refused.value.errors] == [
        ("spec.description", DUPLICATE_FIELD)
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            {"apiVersion": None},
            'apiVersion is missing, and it has to be "launcher.microsoft.com/v1"',
            id="no version",
        ),
        pytest.param(
            {"apiVersion": "launcher.microsoft.com/v2"},
            'apiVersion is "launcher.microsoft.com/v2", and it has to be "launcher.microsoft.com/v1"',
            id="another version",
        ),
        pytest.param(
            {"apiVersion": "frameworkcontroller.microsoft.com/v1"},
            'apiVersion is "frameworkcontroller.microsoft.com/v1", and it has to be "launcher.microsoft.com/v1"; '
            "launcher convert prints the Framework that it becomes",
            id="one that can be moved in",
        ),
        pytest.param({"kind": None}, 'kind is missing, and it has to be "Framework"', id="no kind"),
    ],
)
def test_what_does_not_say_what_it_is_cannot_be_read(change: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read({**a_framework(), **change})

    assert str(refused.value) == told


def test_another_kind_is_invalid() -> None:
    with pytest.raises(InvalidObject) as refused:
        read({**a_framework(), "kind": "FrameworkList"})

    assert [str(problem) for problem in refused.value.errors] == [
        'kind: Unsupported value: "FrameworkList": supported values: "Framework"; did you mean "Framework"?'
    ]


@pytest.mark.parametrize("value", [[], [a_framework()], "x", 1, None, True])
def test_a_framework_is_an_object(value: Any) -> None:
    with pytest.raises(BadRequest, match="one object"):
        read(value)


def test_a_request_may_be_as_large_as_the_limit_and_no_larger() -> None:
    data = json.dumps(a_framework()).encode()

    assert parse_framework(data.ljust(MAX_BODY_BYTES), media=Media.JSON)
    with pytest.raises(TooLarge, match="3145728"):
        parse_framework(data.ljust(MAX_BODY_BYTES + 1), media=Media.JSON)


@pytest.mark.parametrize("media", Media)
def test_text_that_is_not_utf8_is_refused_where_it_is_not(media: Media) -> None:
    with pytest.raises(BadRequest, match="line 2, column 3: this is not UTF-8"):
        parse_framework(b"{}\n  \xfc", media=media)


def test_all_problems_come_at_once() -> None:
    obj = a_framework(
        a_role("a", -1),
        a_role("a", pod=a_pod(containers=[])),
        executionType="Go",
        roleSequence=["b"],
        name="A",
    )

    with pytest.raises(InvalidObject) as refused:
        read(obj)

    assert {problem.field for problem in refused.value.errors} == {
        "metadata.name",
        "spec.executionType",
        "spec.roleSequence[0]",
        "spec.taskRoles[0].taskNumber",
        "spec.taskRoles[1].name",
        "spec.taskRoles[1].task.pod.spec.containers",
    }


def test_more_problems_than_anybody_reads_are_counted() -> None:
    with pytest.raises(InvalidObject) as refused:
        read(a_framework(*[{"name": "a"}] * 200))

    assert len(refused.value.errors) == MAX_REPORTED_ERRORS + 1
    assert str(refused.value.errors[-1]) == "there are at least 499 more problems"


def test_a_status_that_was_sent_is_dropped_with_a_warning() -> None:
    manifest = read({**a_framework(), "status": {"state": "Completed"}})

    assert "status" not in manifest.object
    assert manifest.warnings == ("status: dropped; it is written by the launcher alone",)


def test_yaml_and_json_of_the_same_framework_are_the_same() -> None:
    obj = full_framework()

    from_yaml = parse_framework(yaml.safe_dump(obj).encode(), media=Media.YAML)

    assert from_yaml == read(obj)


def test_an_object_in_hand_is_checked_alike_and_keeps_its_status() -> None:
    obj = {**misspelt(), "status": {"state": "Completed", "more": [None]}}
    before = deepcopy(obj)

    manifest = validate_framework(obj)

    assert manifest.warnings == (OLUME,)
    assert manifest.object == {**read(misspelt()).object, "status": {"state": "Completed", "more": [None]}}
    assert obj == before


def test_an_object_in_hand_shares_nothing_with_what_comes_back() -> None:
    obj = a_framework()

    manifest = validate_framework(obj)

    pod = manifest.object["spec"]["taskRoles"][0]["task"]["pod"]
    assert pod == obj["spec"]["taskRoles"][0]["task"]["pod"]
    assert pod is not obj["spec"]["taskRoles"][0]["task"]["pod"]


@pytest.mark.parametrize(
    "part", [pytest.param({1: 2}, id="a key that is no text"), pytest.param({1, 2}, id="a set"), 2**70, b"x"]
)
def test_an_object_in_hand_that_is_no_json_is_refused(part: Any) -> None:
    with pytest.raises(BadRequest, match="no plain JSON"):
        validate_framework(a_framework(a_role(pod=a_pod(nodeSelector=part))))


def test_an_object_in_hand_that_is_invalid_is_refused() -> None:
    with pytest.raises(InvalidObject):
        validate_framework(a_framework(a_role(tasks=-1)))
    with pytest.raises(InvalidObject):
        validate_framework(misspelt(), strict=True)


@settings(max_examples=300)
@given(data=st.data())
def test_whatever_is_sent_the_answer_is_a_framework_or_an_error_of_ours(data: st.DataObject) -> None:
    obj = full_framework()
    for _ in range(data.draw(st.integers(0, 3))):
        put(obj, data.draw(st.sampled_from(list(places_in(obj)))), data.draw(json_values))
    media, strict = data.draw(st.sampled_from(Media)), data.draw(st.booleans())

    manifest = answer(json.dumps(obj).encode(), media, strict)

    if manifest is not None:
        assert validation_errors(manifest.object) == ()
        assert read(manifest.object).object == manifest.object
        assert spec_to_json(spec_from_json(manifest.object["spec"]))


def answer(data: bytes, media: Media, strict: bool) -> Manifest | None:
    try:
        return parse_framework(data, media=media, strict=strict)
    except RequestError:
        return None


@given(data=st.binary(max_size=60) | st.text(max_size=60).map(str.encode), media=st.sampled_from(Media))
def test_noise_is_refused_by_an_error_of_ours(data: bytes, media: Media) -> None:
    with pytest.raises(RequestError):
        parse_framework(data, media=media)
