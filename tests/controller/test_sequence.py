import logging

import pytest

from launcher.controller.sequence import tell_sequence

ROLES = ["worker", "chief", "ps", "evaluator"]


@pytest.mark.parametrize(
    ("annotations", "written"),
    [
        pytest.param(
            {"job-role-sequence": "Worker,Chief,PS,Evaluator"}, "Worker Chief PS Evaluator", id="arena"
        ),
        pytest.param({}, "worker chief ps evaluator", id="our own"),
    ],
)
def test_11_the_sequence_is_logged_in_the_words_that_users_look_for(
    annotations: dict[str, str], written: str, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = {"name": "tf", "namespace": "default", "uid": "u", "annotations": annotations}

    with caplog.at_level(logging.INFO):
        tell_sequence({"metadata": metadata, "spec": {"roleSequence": ROLES}})

    (record,) = caplog.records
    assert record.getMessage() == f"the Role Sequence of job tf is: [{written}]"
    assert vars(record)["job"] == "default.tf"


def test_without_a_sequence_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        tell_sequence({"metadata": {"name": "tf", "namespace": "default", "uid": "u"}, "spec": {}})

    assert caplog.records == []
