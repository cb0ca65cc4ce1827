"""Conversion of specs from and to JSON."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.serialization.spec_json import MAX_GRACE_SECONDS, spec_from_json, spec_to_json
from launcher.core.spec import (
    CleanPodPolicy,
    CompletionPolicy,
    Discovery,
    ExecutionType,
    FrameworkSpec,
    Gang,
    RetryPolicy,
    RoleName,
    StartAfter,
    StartCondition,
    TaskRole,
)
from tests.builders import a_framework, a_pod_template, a_role

counts = st.none() | st.integers(1, 2**31 - 1)
retry_policies = st.builds(RetryPolicy, fancy=st.booleans(), max_retries=st.integers(-2, 2**31 - 1))
thresholds = st.just(-1) | st.integers(1, 2**31 - 1)
role_names = st.from_regex(r"[a-z0-9]{1,10}", fullmatch=True).map(RoleName)


@st.composite
def specs(draw: st.DrawFn) -> FrameworkSpec:
    names = draw(st.lists(role_names, max_size=4, unique=True))
    return FrameworkSpec(
        roles=tuple(draw(roles(name, names)) for name in names),
        execution=draw(st.sampled_from(ExecutionType)),
        retry=draw(retry_policies),
        description=draw(st.text(max_size=10)),
        role_sequence=draw(st.just(()) | st.permutations(names).map(tuple)),
        gang=draw(
            st.none()
            | st.builds(Gang, timeout_seconds=counts, min_tasks=counts, queue=st.sampled_from(["", "team"]))
        ),
        discovery=draw(
            st.none()
            | st.builds(
                Discovery,
                mount_path=st.just("/peers"),
                ports=st.dictionaries(role_names, st.just("auto") | st.integers(1, 65535), max_size=2),
                wait_for_ports=st.booleans(),
                timeout_seconds=counts,
                image=st.sampled_from(["", "busybox"]),
            )
        ),
        active_deadline_seconds=draw(counts),
        ttl_seconds=draw(st.none() | st.integers(0, 2**31 - 1)),
        clean_pods=draw(st.sampled_from(CleanPodPolicy)),
    )


def roles(name: RoleName, names: list[RoleName]) -> st.SearchStrategy[TaskRole]:
    after = st.builds(
        StartAfter,
        role=st.sampled_from(names),
        condition=st.sampled_from(StartCondition),
        at_least=st.none() | st.integers(1, 10000),
    )
    return st.builds(
        TaskRole,
        name=st.just(name),
        tasks=st.integers(0, 10000),
        pod=st.just(a_pod_template()),
        completion=st.builds(
            CompletionPolicy,
            min_failed=thresholds,
            min_succeeded=thresholds,
            succeeded_indexes=st.frozensets(st.integers(0, 30)),
        ),
        retry=st.builds(
            replace,
            retry_policies,
            exit_codes=st.none() | st.frozensets(st.integers(0, 300), min_size=1),
        ),
        start_after=st.lists(after, max_size=2).map(tuple),
        background=st.booleans(),
        graceful_deletion_seconds=st.none() | st.integers(0, 2**31 - 1),
        pending_deadline_seconds=counts,
    )


@given(spec=specs())
def test_a_spec_is_equal_after_conversion_to_json_and_back(spec: FrameworkSpec) -> None:
    assert spec_from_json(spec_to_json(spec)) == spec


def test_absent_fields_have_their_defaults() -> None:
    spec = spec_from_json({"taskRoles": [{"name": "a", "task": {"pod": a_pod_template()}}]})

    assert spec == FrameworkSpec(
        roles=(TaskRole(RoleName("a"), 0, a_pod_template(), CompletionPolicy(1, -1), RetryPolicy(False, 0)),),
        execution=ExecutionType.START,
        retry=RetryPolicy(False, 0),
        clean_pods=CleanPodPolicy.RUNNING,
    )


def test_null_means_absent() -> None:
    names = [
        "description",
        "executionType",
        "retryPolicy",
        "roleSequence",
        "gang",
        "discovery",
        "cleanPodPolicy",
    ]
    names += ["activeDeadlineSeconds", "ttlSecondsAfterFinished"]
    role = {"startAfter": None, "frameworkAttemptCompletionPolicy": None, "background": None}
    task = {"retryPolicy": None, "podGracefulDeletionTimeoutSec": None, "pod": a_pod_template()}

    spec = spec_from_json(
        dict.fromkeys(names) | {"taskRoles": [{"name": "a", "taskNumber": 1, **role, "task": task}]}
    )

    assert spec == spec_from_json({"taskRoles": [a_role("a", 1)]})


def test_null_inside_policies_means_absent() -> None:
    policy = {"minFailedTaskCount": None, "minSucceededTaskCount": None, "succeededIndexes": None}

    spec = a_parsed_role(
        a_role(frameworkAttemptCompletionPolicy=policy),
        retryPolicy={"fancyRetryPolicy": None, "maxRetryCount": None},
        discovery={"mountPath": None, "ports": None},
    )

    assert spec.roles[0].completion == CompletionPolicy(1, -1)
    assert spec.retry == RetryPolicy(False, 0)
    assert spec.discovery == Discovery("/configdir", {})


def test_a_threshold_of_zero_is_disabled() -> None:
    spec = a_parsed_role(
        a_role(frameworkAttemptCompletionPolicy={"minFailedTaskCount": 0, "minSucceededTaskCount": 0})
    )

    assert spec.roles[0].completion == CompletionPolicy(-1, -1)


def test_a_number_without_a_fraction_is_an_integer() -> None:
    spec = a_parsed_role(a_role(tasks=2.0), retryPolicy={"maxRetryCount": 1.0})  # type: ignore[arg-type]  # as in JSON

    assert (spec.roles[0].tasks, spec.retry.max_retries) == (2, 1)
    assert all(isinstance(number, int) for number in (spec.roles[0].tasks, spec.retry.max_retries))


@pytest.mark.parametrize(
    ("written", "indexes"),
    [
        pytest.param("0", {0}, id="one"),
        pytest.param("0,2-5", {0, 2, 3, 4, 5}, id="one and a range"),
        pytest.param("2-5,3", {2, 3, 4, 5}, id="overlapping"),
        pytest.param(3, {3}, id="without quotes"),
        pytest.param(0, {0}, id="zero without quotes"),
    ],
)
def test_succeeded_indexes_are_numbers_and_ranges(written: str | int, indexes: set[int]) -> None:
    spec = a_parsed_role(a_role(frameworkAttemptCompletionPolicy={"succeededIndexes": written}))

    assert spec.roles[0].completion.succeeded_indexes == indexes


def test_roles_that_are_not_in_the_sequence_follow_in_spec_order() -> None:
    spec = a_parsed_role(a_role("a"), a_role("b"), a_role("c"), roleSequence=["b"])

    assert spec.role_sequence == ("b", "a", "c")


def test_a_role_that_is_not_in_the_sequence_follows_those_that_it_starts_after() -> None:
    waits = [{"role": "c"}]

    spec = a_parsed_role(a_role("a", startAfter=waits), a_role("b"), a_role("c"), roleSequence=["b"])

    assert spec.role_sequence == ("b", "c", "a")


@pytest.mark.parametrize(
    ("annotation", "sequence"),
    [
        pytest.param("Worker,Chief,PS", ("worker", "chief", "ps"), id="as Arena writes it"),
        pytest.param(" W , c,PS ", ("worker", "chief", "ps"), id="as Arena reads it"),
        pytest.param("ps", ("ps", "worker", "chief"), id="the others follow"),
        pytest.param("PS,Evaluator,ps", ("ps", "worker", "chief"), id="unknown roles are ignored"),
        pytest.param("", (), id="nothing"),
        pytest.param("Evaluator", (), id="only unknown roles"),
    ],
)
def test_the_annotation_of_arena_sets_the_role_sequence(annotation: str, sequence: tuple[str, ...]) -> None:
    spec = a_framework(a_role("worker"), a_role("chief"), a_role("ps"))["spec"]
    own = {**spec, "roleSequence": ["chief"]}
    annotations = {"job-role-sequence": annotation}

    assert spec_from_json(spec, annotations).role_sequence == sequence
    assert spec_from_json(own, annotations).role_sequence == ("chief", "worker", "ps")


def test_the_role_sequence_is_empty_by_default() -> None:
    assert a_parsed_role(a_role("a"), a_role("b")).role_sequence == ()


def test_a_pod_template_is_not_copied() -> None:
    role = a_role()

    assert a_parsed_role(role).roles[0].pod is role["task"]["pod"]


def test_a_very_long_grace_period_is_limited() -> None:
    role = a_role()
    role["task"]["podGracefulDeletionTimeoutSec"] = 2**62

    assert a_parsed_role(role).roles[0].graceful_deletion_seconds == MAX_GRACE_SECONDS


def a_parsed_role(*roles: dict[str, Any], **spec: Any) -> FrameworkSpec:
    return spec_from_json(a_framework(*roles, **spec)["spec"])


def test_exit_codes_may_be_ranges_or_one_number() -> None:
    def codes(value: str | int) -> frozenset[int] | None:
        task = {"retryPolicy": {"retryableExitCodes": value}, "pod": a_pod_template()}
        return spec_from_json({"taskRoles": [{"name": "a", "task": task}]}).roles[0].retry.exit_codes

    assert codes("130,137-138") == frozenset({130, 137, 138})
    assert codes(143) == frozenset({143})


@pytest.mark.parametrize("replicas", [None, 2**31 - 1])
def test_a_role_with_too_many_tasks_is_rejected(replicas: int | None) -> None:
    spec = {"replicas": replicas, "taskRoles": [{"name": "worker", "taskNumber": 2**31 - 1}]}

    with pytest.raises(ValueError, match="2147483647 tasks; the maximum is 10000"):
        spec_from_json(spec)
