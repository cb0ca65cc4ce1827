"""Completion codes, and completionStatus as JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.completion_codes import (
    PREDEFINED,
    Attribute,
    Code,
    Completion,
    ContainerTermination,
    PodDetail,
    completion_for,
    is_reserved,
)
from launcher.core.serialization.completion_json import completion_from_json, completion_to_json

TRANSIENT, PERMANENT, CONFLICT = Attribute.TRANSIENT, Attribute.PERMANENT, Attribute.CONFLICT

texts = st.text(max_size=20)
pods = st.builds(
    PodDetail,
    reason=texts,
    message=texts,
    containers=st.lists(
        st.builds(
            ContainerTermination,
            name=texts,
            code=st.integers(-(2**31), 2**31 - 1),
            reason=texts,
            message=texts,
            signal=st.integers(0, 64),
        ),
        max_size=3,
    ).map(tuple),
)
completions = st.builds(
    Completion,
    code=st.integers(-(2**31), 2**31 - 1),
    phrase=texts,
    failed=st.booleans(),
    attributes=st.frozensets(st.sampled_from(Attribute)),
    diagnostics=texts,
    pod=st.none() | pods,
)


@pytest.mark.parametrize(
    ("code", "phrase", "attributes"),
    [
        (0, "Succeeded", set()),
        (200, "ContainerTransientFailed", {TRANSIENT}),
        (201, "ContainerTransientConflictFailed", {TRANSIENT, CONFLICT}),
        (210, "ContainerPermanentFailed", {PERMANENT}),
        (-100, "FrameworkExternalDeleted", {TRANSIENT}),
        (-101, "PodExternalDeleted", {TRANSIENT}),
        (-111, "PodLocalCacheCreationTimeout", {TRANSIENT}),
        (-112, "PodPendingDeadlineExceeded", {TRANSIENT, CONFLICT}),
        (-113, "GangTimeout", {TRANSIENT, CONFLICT}),
        (-120, "PodCreationTransientError", {TRANSIENT}),
        (-200, "PodCreationPermanentError", {PERMANENT}),
        (-210, "StopFrameworkRequested", {PERMANENT}),
        (-211, "ActiveDeadlineExceeded", {PERMANENT}),
        (-220, "FrameworkAttemptCompletion", {PERMANENT}),
        (-230, "DeleteTaskRequested", {PERMANENT}),
        (-240, "StartConditionUnreachable", {PERMANENT}),
        (-300, "PodFailedWithoutFailedContainer", set()),
        (-310, "PodCreationUnknownError", set()),
    ],
)
def test_a_predefined_code_has_its_phrase_and_attributes(
    code: int, phrase: str, attributes: set[Attribute]
) -> None:
    completion = completion_for(code, "because")

    assert completion == Completion(code, phrase, code != 0, frozenset(attributes), "because")
    assert completion.succeeded is (code == 0)


def test_every_predefined_code_has_a_phrase_and_is_reserved() -> None:
    assert set(PREDEFINED) == set(Code)
    assert all(map(is_reserved, Code))


@pytest.mark.parametrize(
    ("code", "reserved"),
    [
        (-1000, False),
        (-999, True),
        (0, True),
        (1, False),
        (199, False),
        (200, True),
        (219, True),
        (220, False),
    ],
)
def test_codes_of_the_launcher_are_reserved(code: int, reserved: bool) -> None:
    assert is_reserved(code) is reserved


def test_empty_fields_of_a_completion_are_omitted_in_json() -> None:
    pod = PodDetail(
        containers=(ContainerTermination("init"), ContainerTermination("main", 137, "Error", "bye", 9))
    )

    status = completion_to_json(completion_for(Code.CONTAINER_TRANSIENT_CONFLICT, "text", pod))

    assert status == {
        "code": 201,
        "phrase": "ContainerTransientConflictFailed",
        "type": {"name": "Failed", "attributes": ["Transient", "Conflict"]},
        "diagnostics": "text",
        "pod": {
            "containers": [
                {"name": "init", "code": 0},
                {"name": "main", "reason": "Error", "message": "bye", "signal": 9, "code": 137},
            ]
        },
    }


def test_a_completion_without_a_pod_has_no_pod_in_json() -> None:
    assert "pod" not in completion_to_json(completion_for(Code.SUCCEEDED, ""))


def test_unknown_fields_are_ignored_and_null_means_absent() -> None:
    status = {
        "code": 221,
        "phrase": None,
        "type": {"name": "Failed", "attributes": None, "colour": "red"},
        "diagnostics": None,
        "pod": {"reason": None, "containers": [{"name": "a", "signal": None, "code": 3, "age": 7}]},
        "trigger": {"message": "not ours"},
    }

    completion = completion_from_json(status)

    assert completion == Completion(221, "", True, pod=PodDetail(containers=(ContainerTermination("a", 3),)))


def test_unknown_attributes_are_ignored() -> None:
    kind = {"name": "Failed", "attributes": ["Transient", "Internal"]}

    completion = completion_from_json({"code": 5, "type": kind})

    assert completion.attributes == {TRANSIENT}


@given(completions)
def test_a_completion_is_equal_after_conversion_to_json_and_back(completion: Completion) -> None:
    assert completion_from_json(completion_to_json(completion)) == completion


def test_equal_completions_are_the_same_object() -> None:
    status = completion_to_json(completion_for(Code.SUCCEEDED, "Pod succeeded", PodDetail()))

    assert completion_from_json(status) is completion_from_json(dict(status))
    assert completion_for(Code.SUCCEEDED, "same") is completion_for(Code.SUCCEEDED, "same")
