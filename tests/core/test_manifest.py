"""Parsing of manifests into Frameworks or errors."""

import json
from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import MAX_REPORTED_ERRORS, BadRequest, InvalidObject, RequestError, TooLarge
from launcher.core.manifest import Manifest, parse_framework, validate_framework
from launcher.core.parsing.decoder import MAX_BODY_BYTES, Media
from launcher.core.serialization.spec_json import spec_from_json, spec_to_json
from launcher.core.validation.field_errors import DUPLICATE_FIELD, UNKNOWN_FIELD
from launcher.core.validation.framework import validation_errors
from tests.builders import a_framework, a_pod_template, a_role
from tests.core.manifests import PROJECT, full_framework, json_values, paths_in, samples, set_value
from tests.hypothesis_examples import examples

EXAMPLES = sorted((PROJECT / "examples").glob("*.yaml"))


def parse(obj: Any, *, strict: bool = False) -> Manifest:
    return parse_framework(json.dumps(obj).encode(), media=Media.JSON, strict=strict)


@pytest.mark.parametrize("example", [pytest.param(path, id=path.stem) for path in EXAMPLES])
def test_every_example_passes_strict_validation_without_warnings(example: Any) -> None:
    manifest = parse_framework(example.read_bytes(), media=Media.YAML, strict=True)

    assert manifest.warnings == ()
    assert spec_from_json(manifest.object["spec"]).roles


@pytest.mark.parametrize("example", [pytest.param(path, id=path.stem) for path in EXAMPLES])
def test_every_example_starts_with_a_comment(example: Any) -> None:
    assert example.read_text().startswith("# ")


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in samples()])
def test_every_sample_is_accepted_with_warnings_only_about_misspelled_fields(data: bytes) -> None:
    manifest = parse_framework(data, media=Media.YAML)

    typos = data.count(b" olumeMounts:")
    assert manifest.warnings == (OLUME,) * typos
    assert spec_from_json(manifest.object["spec"]) == spec_from_json(yaml.safe_load(data)["spec"])


OLUME = (
    'unknown field "spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts"; did you mean "volumeMounts"?'
)


def with_misspelled_field() -> dict[str, Any]:
    mounts = [{"name": "config", "mountPath": "/configdir"}]
    return a_framework(a_role(pod=a_pod_template(containers=[{"name": "tf", "olumeMounts": mounts}])))


def test_a_misspelled_field_of_a_pod_is_kept_with_a_warning() -> None:
    manifest = parse(with_misspelled_field())

    assert manifest.warnings == (OLUME,)
    container = manifest.object["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
    assert container["olumeMounts"] == [{"name": "config", "mountPath": "/configdir"}]


def test_an_unknown_field_of_the_framework_is_dropped_with_a_warning() -> None:
    obj = a_framework(a_role(taskNumbr=3), bogus=1)
    obj["metadata"]["nam"] = "x"
    obj["Spec"] = {}

    manifest = parse(obj)

    assert set(manifest.warnings) == {
        'unknown field "metadata.nam"; did you mean "name"?',
        'unknown field "spec.bogus"',
        'unknown field "spec.taskRoles[0].taskNumbr"; did you mean "taskNumber"?',
        'unknown field "Spec"; did you mean "spec"?',
    }
    assert manifest.object == parse(a_framework()).object


def test_a_field_with_wrong_case_gets_a_suggestion() -> None:
    manifest = parse(a_framework(a_role(pod=a_pod_template(ActiveDeadlineSeconds=5))))

    assert manifest.warnings[0].endswith('did you mean "activeDeadlineSeconds"?')


def test_keys_of_maps_are_not_checked() -> None:
    obj = a_framework(
        a_role(pod={**a_pod_template(nodeSelector={"bogus": "1"}), "metadata": {"labels": {"bogus": "1"}}})
    )
    obj["metadata"]["annotations"] = {"bogus": "1"}

    assert parse(obj).warnings == ()


@pytest.mark.parametrize("strict", [False, True])
def test_an_unknown_field_of_a_failure_rule_is_an_error_reported_once(strict: bool) -> None:
    role = a_role()
    role["task"]["podFailureSpec"] = [{"code": 300, "podPatterns": [{"reasonRegx": "Error"}]}]

    with pytest.raises(InvalidObject) as caught:
        parse(a_framework(role), strict=strict)

    assert [problem.field for problem in caught.value.errors] == [
        "spec.taskRoles[0].task.podFailureSpec[0].podPatterns[0].reasonRegx"
    ]


def test_in_strict_validation_unknown_fields_are_errors() -> None:
    obj = with_misspelled_field()
    obj["spec"]["taskRoles"][0]["taskNumber"] = -1

    with pytest.raises(InvalidObject) as caught:
        parse(obj, strict=True)

    assert [(problem.field, problem.reason) for problem in caught.value.errors] == [
        ("spec.taskRoles[0].taskNumber", "FieldValueInvalid"),
        ("spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts", UNKNOWN_FIELD),
    ]
    assert caught.value.errors[1].message == OLUME


@pytest.mark.parametrize("media", Media)
def test_a_duplicate_key_is_a_warning_or_in_strict_validation_an_error(media: Media) -> None:
    data = (
        json.dumps(a_framework(description="b"))
        .replace('"spec": {', '"spec": {"description": "a", ', 1)
        .encode()
    )

    manifest = parse_framework(data, media=media)

    assert manifest.warnings == ('duplicate field "spec.description"; the last value is used',)
    assert manifest.object["spec"]["description"] == "b"
    with pytest.raises(InvalidObject) as caught:
        parse_framework(data, media=media, strict=True)
    assert [(problem.field, problem.reason) for problem in caught.value.errors] == [
        ("spec.description", DUPLICATE_FIELD)
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"apiVersion": None},
            'apiVersion is missing; must be "launcher.microsoft.com/v1"',
            id="no version",
        ),
        pytest.param(
            {"apiVersion": "launcher.microsoft.com/v2"},
            'apiVersion is "launcher.microsoft.com/v2"; must be "launcher.microsoft.com/v1"',
            id="another version",
        ),
        pytest.param(
            {"apiVersion": "frameworkcontroller.microsoft.com/v1"},
            'apiVersion is "frameworkcontroller.microsoft.com/v1"; must be "launcher.microsoft.com/v1"; '
            "convert it with: launcher convert FILE",
            id="a version of another system that can be converted",
        ),
        pytest.param({"kind": None}, 'kind is missing; must be "Framework"', id="no kind"),
    ],
)
def test_an_object_without_a_known_api_version_and_kind_is_rejected(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        parse({**a_framework(), **change})

    assert str(caught.value) == message


def test_another_kind_is_invalid() -> None:
    with pytest.raises(InvalidObject) as caught:
        parse({**a_framework(), "kind": "FrameworkList"})

    assert [str(problem) for problem in caught.value.errors] == [
        'kind: Unsupported value: "FrameworkList": supported values: "Framework"; did you mean "Framework"?'
    ]


@pytest.mark.parametrize("value", [[], [a_framework()], "x", 1, None, True])
def test_a_manifest_that_is_not_an_object_is_rejected(value: Any) -> None:
    with pytest.raises(BadRequest, match="a single object"):
        parse(value)


def test_a_manifest_larger_than_the_limit_is_rejected() -> None:
    data = json.dumps(a_framework()).encode()

    assert parse_framework(data.ljust(MAX_BODY_BYTES), media=Media.JSON)
    with pytest.raises(TooLarge, match="3145728"):
        parse_framework(data.ljust(MAX_BODY_BYTES + 1), media=Media.JSON)


@pytest.mark.parametrize("media", Media)
def test_text_that_is_not_utf8_is_rejected_with_its_position(media: Media) -> None:
    with pytest.raises(BadRequest, match="line 2, column 3: not UTF-8"):
        parse_framework(b"{}\n  \xfc", media=media)


def test_all_errors_are_reported_at_once() -> None:
    obj = a_framework(
        a_role("a", -1),
        a_role("a", pod=a_pod_template(containers=[])),
        executionType="Go",
        roleSequence=["b"],
        name="A",
    )

    with pytest.raises(InvalidObject) as caught:
        parse(obj)

    assert {problem.field for problem in caught.value.errors} == {
        "metadata.name",
        "spec.executionType",
        "spec.roleSequence[0]",
        "spec.taskRoles[0].taskNumber",
        "spec.taskRoles[1].name",
        "spec.taskRoles[1].task.pod.spec.containers",
    }


def test_errors_beyond_the_maximum_are_counted() -> None:
    with pytest.raises(InvalidObject) as caught:
        parse(a_framework(*[{"name": "a"}] * 200))

    assert len(caught.value.errors) == MAX_REPORTED_ERRORS + 1
    assert str(caught.value.errors[-1]) == "at least 499 more errors"


def test_a_status_that_was_sent_is_dropped_with_a_warning() -> None:
    manifest = parse({**a_framework(), "status": {"state": "Completed"}})

    assert "status" not in manifest.object
    assert manifest.warnings == ("status: ignored; only the launcher writes it",)


def test_yaml_and_json_of_the_same_framework_are_the_same() -> None:
    obj = full_framework()

    from_yaml = parse_framework(yaml.safe_dump(obj).encode(), media=Media.YAML)

    assert from_yaml == parse(obj)


def test_a_decoded_object_is_validated_in_the_same_way_and_keeps_its_status() -> None:
    obj = {**with_misspelled_field(), "status": {"state": "Completed", "more": [None]}}
    before = deepcopy(obj)

    manifest = validate_framework(obj)

    assert manifest.warnings == (OLUME,)
    assert manifest.object == {
        **parse(with_misspelled_field()).object,
        "status": {"state": "Completed", "more": [None]},
    }
    assert obj == before


def test_a_validated_object_shares_no_data_with_the_result() -> None:
    obj = a_framework()

    manifest = validate_framework(obj)

    pod = manifest.object["spec"]["taskRoles"][0]["task"]["pod"]
    assert pod == obj["spec"]["taskRoles"][0]["task"]["pod"]
    assert pod is not obj["spec"]["taskRoles"][0]["task"]["pod"]


@pytest.mark.parametrize(
    "part", [pytest.param({1: 2}, id="a key that is no text"), pytest.param({1, 2}, id="a set"), 2**70, b"x"]
)
def test_an_object_that_is_not_json_is_rejected(part: Any) -> None:
    with pytest.raises(BadRequest, match="must be plain JSON"):
        validate_framework(a_framework(a_role(pod=a_pod_template(nodeSelector=part))))


def test_an_invalid_object_is_rejected() -> None:
    with pytest.raises(InvalidObject):
        validate_framework(a_framework(a_role(tasks=-1)))
    with pytest.raises(InvalidObject):
        validate_framework(with_misspelled_field(), strict=True)


@examples(300)
@given(data=st.data())
def test_any_object_is_parsed_or_rejected_with_a_launcher_error(data: st.DataObject) -> None:
    obj = full_framework()
    for _ in range(data.draw(st.integers(0, 3))):
        set_value(obj, data.draw(st.sampled_from(list(paths_in(obj)))), data.draw(json_values))
    media, strict = data.draw(st.sampled_from(Media)), data.draw(st.booleans())

    manifest = parse_or_reject(json.dumps(obj).encode(), media, strict)

    if manifest is not None:
        assert validation_errors(manifest.object) == ()
        assert parse(manifest.object).object == manifest.object
        assert spec_to_json(spec_from_json(manifest.object["spec"]))


def parse_or_reject(data: bytes, media: Media, strict: bool) -> Manifest | None:
    try:
        return parse_framework(data, media=media, strict=strict)
    except RequestError:
        return None


@given(data=st.binary(max_size=60) | st.text(max_size=60).map(str.encode), media=st.sampled_from(Media))
def test_random_bytes_are_rejected_with_a_launcher_error(data: bytes, media: Media) -> None:
    with pytest.raises(RequestError):
        parse_framework(data, media=media)
