"""The role sequence; the numbers are those of the specification's test cases."""

import pytest

from launcher.converters.arena.job_spec import JobEnvironment, read_config
from tests.converters.arena.flags import distributed, pod, problems, roles

ALL = "Worker,Chief,PS,Evaluator"


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(ALL, id="1 in full"),
        pytest.param("w,c,p,e", id="2 in short"),
        pytest.param(" W , c,PS , eValuator ", id="3 with spaces and capitals"),
    ],
)
def test_a_sequence_is_an_annotation_of_the_job_and_every_pod_and_the_order_of_creation(written: str) -> None:
    found = distributed(role_sequence=written, chief=True, evaluator=True)

    assert found.framework["metadata"]["annotations"]["job-role-sequence"] == ALL
    for role in roles(found):
        assert pod(found, role)["metadata"]["annotations"]["job-role-sequence"] == ALL
    assert found.framework["spec"]["roleSequence"] == ["worker", "chief", "ps", "evaluator"]


@pytest.mark.parametrize(
    ("written", "role"),
    [pytest.param("w,x", '"x"', id="4 no role"), pytest.param("w,p,", '""', id="5 a comma at the end")],
)
def test_an_unknown_role_is_rejected_by_name(written: str, role: str) -> None:
    (problem,) = problems(role_sequence=written)

    assert problem.startswith(f"--role-sequence: Invalid value: {role}: no such role")
    assert problem.endswith("must be one of Worker (w), PS (p), Chief (c), Evaluator (e)")


def test_6_without_the_flag_the_config_file_is_used() -> None:
    around = JobEnvironment("joe", read_config("# mine\ntfjob_role_sequence = w,p,c,e\n"))

    found = distributed(around)

    assert found.framework["metadata"]["annotations"]["job-role-sequence"] == "Worker,PS,Chief,Evaluator"
    assert found.framework["spec"]["roleSequence"] == ["worker", "ps"]


def test_an_error_in_the_config_file_names_the_config_file() -> None:
    (problem,) = problems(JobEnvironment("joe", {"tfjob_role_sequence": "w,x"}))

    assert problem.startswith("tfjob_role_sequence of the config file: ")


def test_7_the_flag_overrides_the_config_file() -> None:
    found = distributed(JobEnvironment("joe", {"tfjob_role_sequence": "w,p,c,e"}), role_sequence="c,w")

    assert found.framework["metadata"]["annotations"]["job-role-sequence"] == "Chief,Worker"


def test_8_without_flag_and_config_file_there_is_no_sequence() -> None:
    found = distributed()

    assert "job-role-sequence" not in found.framework["metadata"]["annotations"]
    assert "roleSequence" not in found.framework["spec"]


def test_9_roles_that_are_not_listed_follow_as_they_are_declared() -> None:
    found = distributed(role_sequence="w,c", chief=True)

    assert found.framework["spec"]["roleSequence"] == ["worker", "chief"]
    assert list(roles(found)) == ["ps", "worker", "chief"]


def test_10_a_role_that_the_job_does_not_have_is_ignored_with_a_note() -> None:
    found = distributed(role_sequence="e,w,p")

    assert found.framework["spec"]["roleSequence"] == ["worker", "ps"]
    assert "role sequence: the job has no Evaluator; ignored" in found.notes


def test_a_role_that_is_listed_twice_is_created_once() -> None:
    found = distributed(role_sequence="w,p,w")

    assert found.framework["metadata"]["annotations"]["job-role-sequence"] == "Worker,PS,Worker"
    assert found.framework["spec"]["roleSequence"] == ["worker", "ps"]
