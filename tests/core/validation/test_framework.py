"""Validation of Frameworks: errors, warnings and updates."""

from typing import Any

import pytest
from hypothesis import given

from launcher.core.validation.framework import (
    creation_errors,
    update_errors,
    validation_errors,
    validation_warnings,
)
from tests.builders import a_framework, a_pod_template, a_role
from tests.core.manifests import full_framework, json_values
from tests.hypothesis_examples import examples


def error_messages(obj: Any) -> list[str]:
    return [str(problem) for problem in validation_errors(obj)]


def test_a_valid_framework_has_no_errors() -> None:
    assert error_messages(full_framework()) == []
    assert error_messages(a_framework()) == []


@pytest.mark.parametrize(
    "name",
    ["tfexample", "tf-example", "a", "0", "a" * 50],
)
def test_a_dns_label_is_a_valid_name_of_a_framework(name: str) -> None:
    assert error_messages(a_framework(name=name)) == []


@pytest.mark.parametrize("name", ["Tf", "tf_example", "tf.example", "-tf", "tf-", "a" * 64, "tf\n", "ü"])
def test_any_other_name_of_a_framework_is_rejected(name: str) -> None:
    assert [
        problem.field
        for problem in validation_errors(a_framework(name=name))
        if problem.field == "metadata.name"
    ]


@pytest.mark.parametrize("name", ["worker-a", "Worker", "", "a" * 64, "worker\n"])
def test_the_name_of_a_role_has_only_letters_and_digits(name: str) -> None:
    fields = [problem.field for problem in validation_errors(a_framework(a_role(name)))]

    assert fields == ["spec.taskRoles[0].name"]


def test_a_name_is_required_unless_one_is_generated() -> None:
    obj = a_framework()
    del obj["metadata"]["name"]

    assert error_messages(obj) == ["metadata.name: Required value: name or generateName must be set"]

    obj["metadata"]["generateName"] = "mnist-"
    assert error_messages(obj) == []


def test_a_pod_name_that_would_be_too_long_is_rejected_with_the_sum() -> None:
    obj = a_framework(a_role("w" * 20, 1001), name="f" * 38)

    assert error_messages(obj) == [
        f'spec.taskRoles[0].name: Invalid value: "{"w" * 20}": pod names would have up to 64 characters '
        "(38 of the Framework's name + 20 of the role's + 4 of the index + 2 hyphens); the maximum is 63: "
        "shorten a name by 1"
    ]
    assert error_messages(a_framework(a_role("w" * 20, 1000), name="f" * 38)) == []


def test_a_generated_name_is_counted_with_its_suffix() -> None:
    obj = a_framework(a_role("w" * 20, 1))
    obj["metadata"] = {"generateName": "f" * 60}

    assert "58 of" not in (message := error_messages(obj)[0])
    assert "63 of the Framework's name" in message


def test_names_of_roles_are_unique() -> None:
    obj = a_framework(a_role("a"), a_role("b"), a_role("a"))

    assert error_messages(obj) == [
        'spec.taskRoles[2].name: Duplicate value: "a": names of roles must be unique'
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"tasks": -1}, "taskNumber", id="no task number below 0"),
        pytest.param({"tasks": 10001}, "taskNumber", id="at most 10000 tasks"),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -2}},
            "frameworkAttemptCompletionPolicy.minFailedTaskCount",
            id="no threshold below -1",
        ),
    ],
)
def test_a_number_of_a_role_out_of_range_is_rejected(fields: dict[str, Any], field: str) -> None:
    problems = validation_errors(a_framework(a_role(**fields)))

    assert [problem.field for problem in problems] == [f"spec.taskRoles[0].{field}"]


@pytest.mark.parametrize("name", ["podGracefulDeletionTimeoutSec", "pendingDeadlineSeconds"])
def test_a_negative_timeout_is_rejected(name: str) -> None:
    role = a_role()
    role["task"][name] = -1

    assert [problem.field for problem in validation_errors(a_framework(role))] == [
        f"spec.taskRoles[0].task.{name}"
    ]


CONTAINERS = "spec.taskRoles[0].task.pod.spec.containers"


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        pytest.param(
            {}, f"{CONTAINERS}: Required value: a pod needs at least one container", id="no pod spec"
        ),
        pytest.param(
            a_pod_template(containers=[]),
            f"{CONTAINERS}: Required value: a pod needs at least one container",
            id="none",
        ),
        pytest.param(
            a_pod_template(containers=[{"image": "x"}]), f"{CONTAINERS}[0].name: Required value", id="no name"
        ),
        pytest.param(
            a_pod_template(containers=[{"name": ""}]),
            f"{CONTAINERS}[0].name: Required value",
            id="empty name",
        ),
        pytest.param(
            a_pod_template(initContainers=[{"name": "main"}]),
            f'{CONTAINERS}[0].name: Duplicate value: "main": names of containers must be unique in a pod',
            id="an init container of the same name",
        ),
        pytest.param(
            a_pod_template(
                containers=[{"name": "main", "volumeMounts": [{"name": "dat", "mountPath": "/data"}]}],
                volumes=[{"name": "data", "emptyDir": {}}],
            ),
            f'{CONTAINERS}[0].volumeMounts[0].name: Not found: "dat": no such volume in the pod; '
            'did you mean "data"?',
            id="a mount without a volume",
        ),
        pytest.param(
            a_pod_template(restartPolicy="never"),
            "spec.taskRoles[0].task.pod.spec.restartPolicy: Unsupported value: "
            '"never": supported values: "Always", "OnFailure", "Never"; did you mean "Never"?',
            id="a misspelled restart policy",
        ),
    ],
)
def test_an_invalid_pod_template_is_rejected(pod: dict[str, Any], message: str) -> None:
    role = a_role()
    role["task"]["pod"] = pod

    assert error_messages(a_framework(role)) == [message]


def test_a_role_without_a_task_has_no_error_about_containers() -> None:
    assert error_messages(a_framework({"name": "a", "taskNumber": 1})) == [
        f"{CONTAINERS}: Required value: a pod needs at least one container"
    ]


START = "spec.taskRoles[0].startAfter[0]"


@pytest.mark.parametrize(
    ("after", "message"),
    [
        pytest.param(
            {"role": "pss"},
            f'{START}.role: Not found: "pss": no such role; did you mean "ps"?',
            id="an unknown role",
        ),
        pytest.param(
            {"role": "worker"},
            f'{START}.role: Invalid value: "worker": must not be the role itself',
            id="itself",
        ),
        pytest.param(
            {"role": "ps", "atLeast": 3},
            f"{START}.atLeast: Invalid value: 3: must be at most 2, the number of tasks of role ps",
            id="more tasks than the role has",
        ),
    ],
)
def test_a_start_after_condition_that_cannot_be_met_is_rejected(after: dict[str, Any], message: str) -> None:
    assert error_messages(a_framework(a_role("worker", startAfter=[after]), a_role("ps", 2))) == [message]


def test_a_wrong_number_of_tasks_is_reported_at_its_field_only() -> None:
    waiting = a_role("worker", startAfter=[{"role": "ps"}])

    problems = error_messages(a_framework(waiting, a_role("ps", taskNumber=-1)))

    assert problems == ["spec.taskRoles[1].taskNumber: Invalid value: -1: must be at least 0"]


def test_a_cycle_of_start_after_is_reported_with_its_roles() -> None:
    obj = a_framework(
        a_role("a", startAfter=[{"role": "b"}]),
        a_role("b", startAfter=[{"role": "c"}]),
        a_role("c", startAfter=[{"role": "a"}]),
        a_role("d", startAfter=[{"role": "a"}]),
    )

    assert error_messages(obj) == [
        "spec.taskRoles[0].startAfter: Invalid value: a -> b -> c -> a: startAfter must not contain a cycle"
    ]


def test_every_cycle_is_reported() -> None:
    pairs = [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    obj = a_framework(*(a_role(name, startAfter=[{"role": awaited}]) for name, awaited in pairs))

    assert [problem.field for problem in validation_errors(obj)] == [
        "spec.taskRoles[0].startAfter",
        "spec.taskRoles[2].startAfter",
    ]


def test_two_paths_to_the_same_role_are_not_a_cycle() -> None:
    obj = a_framework(
        a_role("a", startAfter=[{"role": "b"}, {"role": "c"}]),
        a_role("b", startAfter=[{"role": "d"}]),
        a_role("c", startAfter=[{"role": "d"}]),
        a_role("d"),
    )

    assert error_messages(obj) == []


def test_a_role_cannot_start_after_one_that_is_created_later() -> None:
    roles = (a_role("worker", startAfter=[{"role": "ps"}]), a_role("ps"))

    assert error_messages(a_framework(*roles, roleSequence=["worker", "ps"])) == [
        f'{START}.role: Invalid value: "ps": worker -> ps -> worker: deadlock: '
        "roleSequence creates ps after worker; put ps before worker"
    ]
    assert (
        error_messages(a_framework(*roles, roleSequence=["worker"])) != []
    )  # roles that are not listed follow
    assert error_messages(a_framework(*roles, roleSequence=["ps", "worker"])) == []
    assert error_messages(a_framework(*roles, roleSequence=["ps"])) == []
    assert error_messages(a_framework(*roles)) == []


def test_the_role_sequence_contains_only_existing_roles_once() -> None:
    obj = a_framework(a_role("worker"), a_role("ps"), roleSequence=["worker", "ps", "worker", "workr"])

    assert error_messages(obj) == [
        'spec.roleSequence[2]: Duplicate value: "worker": each role may occur once',
        'spec.roleSequence[3]: Not found: "workr": no such role; did you mean "worker"?',
    ]


@pytest.mark.parametrize("condition", ["Running", "Ready", "Succeeded"])
def test_required_roles_of_a_gang_cannot_start_after_each_other(condition: str) -> None:
    roles = (a_role("worker", startAfter=[{"role": "ps", "condition": condition}]), a_role("ps", 1))

    assert error_messages(a_framework(*roles, gang={})) == [
        f'{START}.role: Invalid value: "ps": deadlock: pods of a gang are scheduled only when '
        "enough of them exist; remove startAfter or use roleSequence, "
        "or set gang.minTasks to at most 1"
    ]
    assert error_messages(a_framework(*roles)) == []


@pytest.mark.parametrize(
    ("gang", "ps", "sequence", "is_valid"),
    [
        pytest.param({"minTasks": 2}, {}, None, True, id="the gang is complete without it"),
        pytest.param({"minTasks": 3}, {}, None, False, id="the gang needs one more"),
        pytest.param({}, {"background": True}, None, True, id="a background role is not a member"),
        pytest.param({}, {"taskNumber": 0}, None, True, id="the role has no tasks"),
        pytest.param(
            {"minTasks": 2},
            {},
            ["ps", "worker", "chief"],
            False,
            id="later roles of the sequence wait too",
        ),
        pytest.param({"minTasks": 2}, {}, ["ps", "chief"], True, id="earlier roles of the sequence do not"),
    ],
)
def test_a_role_may_start_after_others_if_the_gang_does_not_require_it(
    gang: dict[str, int], ps: dict[str, Any], sequence: list[str] | None, is_valid: bool
) -> None:
    roles = (
        a_role("worker", 2, startAfter=[{"role": "ps", "condition": "Ready"}]),
        {**a_role("ps", 1), **ps},
        a_role("chief", 1),
    )

    problems = validation_errors(a_framework(*roles, gang=gang, roleSequence=sequence))

    assert [problem.field for problem in problems] == ([] if is_valid else [f"{START}.role"])


def test_a_background_role_may_start_after_the_gang() -> None:
    tensorboard = a_role(
        "tensorboard", background=True, startAfter=[{"role": "worker", "condition": "Running"}]
    )

    assert error_messages(a_framework(a_role("worker", 2), tensorboard, gang={})) == []


def test_the_annotation_of_arena_is_validated_like_the_role_sequence() -> None:
    roles = (a_role("worker", startAfter=[{"role": "ps", "condition": "Running"}]), a_role("ps"))
    obj = a_framework(*roles)
    obj["metadata"]["annotations"] = {"job-role-sequence": "w,p"}

    (problem,) = validation_errors(obj)
    with_sequence = {**obj, "spec": {**obj["spec"], "roleSequence": ["ps"]}}

    assert problem.field == f"{START}.role"
    assert "worker -> ps -> worker" in problem.message
    assert validation_errors(with_sequence) == ()


def test_an_unknown_role_in_the_annotation_is_a_warning() -> None:
    obj = a_framework(a_role("worker"), a_role("ps"))
    obj["metadata"]["annotations"] = {"job-role-sequence": "Worker, Chief,,ps"}

    assert validation_warnings(obj) == (
        'metadata.annotations[job-role-sequence]: unknown role "Chief" ignored',
        'metadata.annotations[job-role-sequence]: unknown role "" ignored',
    )
    assert validation_warnings({**obj, "spec": {**obj["spec"], "roleSequence": ["ps"]}}) == ()


def test_min_tasks_of_a_gang_is_at_most_the_number_of_tasks() -> None:
    assert error_messages(a_framework(a_role("a", 2), a_role("b", 1), gang={"minTasks": 4})) == [
        "spec.gang.minTasks: Invalid value: 4: must be at most 3, the number of tasks"
    ]
    assert error_messages(
        a_framework(a_role("a", 2), a_role("b", 1, background=True), gang={"minTasks": 3})
    ) == [
        "spec.gang.minTasks: Invalid value: 3: must be at most 2, the number of tasks, not counting background roles"
    ]


@pytest.mark.parametrize("gang", [{}, {"minTasks": None}])
def test_a_gang_without_min_tasks_has_no_error_about_its_number(gang: dict[str, None]) -> None:
    problems = error_messages(a_framework(a_role("a", -1), gang=gang))

    assert [problem.partition(":")[0] for problem in problems] == ["spec.taskRoles[0].taskNumber"]


def test_ports_of_discovery_belong_to_existing_roles() -> None:
    assert error_messages(a_framework(discovery={"ports": {"worker": 1, "wroker": 2}})) == [
        'spec.discovery.ports.wroker: Not found: "wroker": no such role; did you mean "worker"?'
    ]


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        pytest.param("255-128", "255-128 is the wrong way round: write 128-255", id="backwards"),
        pytest.param(
            ">=128",
            'must list exit codes and ranges, such as "128-255" or "130,137,143"',
            id="no list of codes",
        ),
    ],
)
def test_invalid_exit_codes_are_rejected(codes: str, message: str) -> None:
    role = a_role()
    role["task"]["retryPolicy"] = {"retryableExitCodes": codes}

    assert error_messages(a_framework(role)) == [
        f'spec.taskRoles[0].task.retryPolicy.retryableExitCodes: Invalid value: "{codes}": {message}'
    ]


@pytest.mark.parametrize(
    ("rules", "errors"),
    [
        pytest.param([{"code": 300, "podPatterns": [{"messageRegex": "oom"}]}], [], id="a valid rule"),
        pytest.param(
            [{"code": 205, "podPatterns": [{}]}],
            ["[0].code: Invalid value: 205: -999 to 0 and 200 to 219 are reserved"],
            id="a reserved code",
        ),
        pytest.param(
            [{"code": 300, "podPatterns": [{}]}, {"code": 300, "podPatterns": [{}]}],
            ["[1].code: Duplicate value: 300"],
            id="the same code twice",
        ),
        pytest.param(
            [{"code": 300, "podPatterns": [{"messageRegex": "("}]}],
            [
                "[0].podPatterns[0].messageRegex: Invalid value: '(': not a regular expression:"
                " missing ), unterminated subpattern at position 0"
            ],
            id="an invalid regular expression",
        ),
        pytest.param(
            [{"podPatterns": []}],
            ["[0].code: Required value", "[0].podPatterns: Required value: must have at least one pattern"],
            id="no code and no pattern",
        ),
        pytest.param(
            [{"code": 300, "podPatterns": [{}], "type": {"attributes": ["Transiant"]}}],
            [
                '[0].type.attributes[0]: Unsupported value: "Transiant": supported values: "Transient",'
                ' "Permanent", "Conflict"; did you mean "Transient"?'
            ],
            id="an unknown attribute",
        ),
        pytest.param(
            [{"code": 300, "podPatterns": [{"containers": [{"codeRange": {"min": 2, "max": 1}}]}]}],
            [
                "[0].podPatterns[0].containers[0].codeRange: Invalid value: 2 to 1:"
                " min must not be greater than max"
            ],
            id="an empty range",
        ),
    ],
)
def test_failure_rules_of_a_role_are_checked(rules: list[Any], errors: list[str]) -> None:
    role = a_role()
    role["task"]["podFailureSpec"] = rules

    assert error_messages(a_framework(role)) == [
        f"spec.taskRoles[0].task.podFailureSpec{error}" for error in errors
    ]


@pytest.mark.parametrize(
    ("indexes", "message"),
    [
        pytest.param("3", "no task 3: the tasks of role worker are 0 to 2", id="beyond the last"),
        pytest.param(7, "no task 7: the tasks of role worker are 0 to 2", id="a number"),
        pytest.param(7.0, "no task 7: the tasks of role worker are 0 to 2", id="with a point"),
        pytest.param("0,1-3", "no task 3: the tasks of role worker are 0 to 2", id="a range"),
        pytest.param("2-0", "2-0 is the wrong way round: write 0-2", id="backwards"),
        pytest.param(
            "0-", 'must list task indexes and ranges, such as "0" or "0,2-5"', id="no list of indexes"
        ),
    ],
)
def test_succeeded_indexes_are_tasks_of_the_role(indexes: str | float, message: str) -> None:
    obj = a_framework(a_role("worker", 3, frameworkAttemptCompletionPolicy={"succeededIndexes": indexes}))

    (problem,) = validation_errors(obj)

    assert problem.field == "spec.taskRoles[0].frameworkAttemptCompletionPolicy.succeededIndexes"
    assert problem.message.endswith(message)


def test_schema_errors_and_rule_errors_are_reported_together_and_each_field_once() -> None:
    obj = a_framework(
        a_role("a", -1), a_role("a", pod=a_pod_template(containers=[{"name": 1}])), executionType="Go"
    )

    assert {problem.field for problem in validation_errors(obj)} == {
        "spec.taskRoles[0].taskNumber",
        "spec.taskRoles[1].name",
        "spec.taskRoles[1].task.pod.spec.containers[0].name",
        "spec.executionType",
    }
    assert len(validation_errors(obj)) == 4


@examples(200)
@given(obj=json_values)
def test_validation_returns_a_list_of_errors_for_any_value(obj: Any) -> None:
    assert validation_errors(obj)
    assert validation_errors({"metadata": obj, "spec": {"taskRoles": obj, "gang": obj, "roleSequence": obj}})
    assert validation_errors({"spec": {"taskRoles": [obj, {"name": "a", "startAfter": obj, "task": obj}]}})


POLICY = "spec.taskRoles[0].frameworkAttemptCompletionPolicy"
RESTART = "spec.taskRoles[0].task.pod.spec.restartPolicy"


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 0, "minSucceededTaskCount": 1}},
            f"{POLICY}.minFailedTaskCount: 0 is read as -1 (never)",
            id="a threshold of zero",
        ),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minSucceededTaskCount": 3}},
            f"{POLICY}.minSucceededTaskCount: 3 cannot be reached with 2 tasks",
            id="more successes than tasks",
        ),
        pytest.param(
            {"pod": a_pod_template(restartPolicy=None)},
            f"{RESTART}: not set (Always): pods are restarted and never complete; use Never or OnFailure",
            id="no restart policy",
        ),
        pytest.param(
            {"pod": a_pod_template(restartPolicy="Always")},
            f"{RESTART}: Always: pods are restarted and never complete; use Never or OnFailure",
            id="restarted always",
        ),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -1}},
            "spec.taskRoles: no role has a completion threshold; the Framework succeeds even if all tasks fail",
            id="no threshold",
        ),
    ],
)
def test_a_probable_mistake_is_a_warning(fields: dict[str, Any], warning: str) -> None:
    obj = a_framework(a_role(**fields))

    assert validation_errors(obj) == ()
    assert validation_warnings(obj) == (warning,)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"pod": a_pod_template(restartPolicy="OnFailure")}, id="restarted on failure"),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 3, "minSucceededTaskCount": 2}},
            id="more failures than tasks tolerates all failures",
        ),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -1, "succeededIndexes": "0"}},
            id="an index decides",
        ),
    ],
)
def test_a_sensible_policy_has_no_warning(fields: dict[str, Any]) -> None:
    assert validation_warnings(a_framework(a_role(**fields))) == ()


def test_a_background_role_has_no_warnings_about_restarts_and_completion() -> None:
    tensorboard = a_role("tensorboard", pod=a_pod_template(restartPolicy="Always"), background=True)

    assert validation_warnings(a_framework(a_role(), tensorboard)) == ()
    assert len(validation_warnings(a_framework(tensorboard))) == 1


def test_a_status_in_a_request_is_a_warning() -> None:
    obj = {**a_framework(), "status": {"state": "Completed"}}

    assert validation_warnings(obj) == ("status: ignored; only the launcher writes it",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Create", "Start"),
        ("Create", "Stop"),
        ("Start", "Stop"),
        ("Start", "Start"),
        ("Stop", "Stop"),
        (None, "Stop"),
    ],
)
def test_a_framework_may_be_started_and_stopped(old: str | None, new: str) -> None:
    assert update_errors(a_framework(executionType=old), a_framework(executionType=new)) == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Stop", "Start", "may not change from Stop; create a new Framework to run it again"),
        ("Stop", "Create", "may not change from Stop; create a new Framework to run it again"),
        ("Start", "Create", "may not change from Start to Create; use Stop to end the Framework"),
        (None, "Create", "may not change from Start to Create; use Stop to end the Framework"),
    ],
)
def test_an_impossible_change_of_the_execution_type_is_rejected(
    old: str | None, new: str, message: str
) -> None:
    (problem,) = update_errors(a_framework(executionType=old), a_framework(executionType=new))

    assert str(problem) == f'spec.executionType: Invalid value: "{new}": {message}'


def test_the_name_of_a_framework_cannot_change() -> None:
    (problem,) = update_errors(a_framework(name="a"), a_framework(name="b"))

    assert problem.field == "metadata.name"


def test_all_other_fields_may_change() -> None:
    old = a_framework(a_role("a"), a_role("b"))
    new = a_framework(
        a_role("a", 5, pod=a_pod_template(hostNetwork=True)), a_role("c"), retryPolicy={"maxRetryCount": 9}
    )

    assert update_errors(old, new) == ()


@pytest.mark.parametrize(
    ("role", "hint"),
    [
        pytest.param({}, "", id="left out"),
        pytest.param({"taskNumber": None}, "", id="null"),
        pytest.param({"taskNum": 2}, '; write "taskNumber" instead of "taskNum"', id="misspelled"),
    ],
)
def test_a_role_needs_a_number_of_tasks(role: dict[str, Any], hint: str) -> None:
    obj = a_framework({"name": "worker", "task": {"pod": a_pod_template()}, **role})

    message = "spec.taskRoles[0].taskNumber: Required value: must be the number of tasks, such as 1"
    assert error_messages(obj) == [message + hint]
    obj["spec"]["replicas"] = 2
    assert error_messages(obj) == []


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        pytest.param({}, "", id="left out"),
        pytest.param(
            {"taskroles": [a_role()]}, '; write "taskRoles" instead of "taskroles"', id="misspelled"
        ),
    ],
)
def test_a_framework_lists_its_roles(spec: dict[str, Any], hint: str) -> None:
    obj = {**a_framework(), "spec": spec}

    assert error_messages(obj) == [f"spec.taskRoles: Required value: must list the task roles{hint}"]


NO_TASKS = "a new Framework must have at least one task; set taskNumber of a role to 1 or more"


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        pytest.param(
            a_framework(a_role(tasks=0)),
            f"spec.taskRoles[0].taskNumber: Invalid value: 0: {NO_TASKS}",
            id="one role",
        ),
        pytest.param(
            a_framework(a_role("a", 0), a_role("b", 0)),
            f"spec.taskRoles: Required value: {NO_TASKS}",
            id="two roles",
        ),
        pytest.param(
            a_framework(a_role(tasks=5), replicas=0),
            f"spec.replicas: Invalid value: 0: {NO_TASKS}",
            id="scaled to nothing",
        ),
    ],
)
def test_a_new_framework_has_tasks_and_an_existing_one_may_have_none(
    obj: dict[str, Any], message: str
) -> None:
    assert [str(problem) for problem in creation_errors(obj)] == [message]
    assert validation_errors(obj) == ()


def test_a_new_framework_may_have_a_role_without_tasks_beside_others() -> None:
    assert creation_errors(a_framework(a_role("a", 0), a_role("b", 1))) == ()
