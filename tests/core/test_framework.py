"""The rules that a Framework has to keep, and what is said about one that keeps them badly."""

from typing import Any

import pytest
from hypothesis import given, settings

from launcher.core.validation.framework import (
    creation_problems,
    update_errors,
    validation_errors,
    validation_warnings,
)
from tests.core.manifests import a_framework, a_pod, a_role, full_framework, json_values


def told(obj: Any) -> list[str]:
    return [str(problem) for problem in validation_errors(obj)]


def test_a_framework_that_keeps_all_rules_has_no_problems() -> None:
    assert told(full_framework()) == []
    assert told(a_framework()) == []


@pytest.mark.parametrize(
    "name",
    ["tfexample", "tf-example", "a", "0", "a" * 50],
)
def test_a_framework_is_named_by_a_dns_label(name: str) -> None:
    assert told(a_framework(name=name)) == []


@pytest.mark.parametrize("name", ["Tf", "tf_example", "tf.example", "-tf", "tf-", "a" * 64, "tf\n", "ü"])
def test_a_framework_is_named_by_nothing_else(name: str) -> None:
    assert [
        problem.field
        for problem in validation_errors(a_framework(name=name))
        if problem.field == "metadata.name"
    ]


@pytest.mark.parametrize("name", ["worker-a", "Worker", "", "a" * 64, "worker\n"])
def test_a_role_is_named_by_letters_and_digits(name: str) -> None:
    fields = [problem.field for problem in validation_errors(a_framework(a_role(name)))]

    assert fields == ["spec.taskRoles[0].name"]


def test_a_name_is_required_unless_one_is_generated() -> None:
    obj = a_framework()
    del obj["metadata"]["name"]

    assert told(obj) == ["metadata.name: Required value: the Framework and its pods are named by it"]

    obj["metadata"]["generateName"] = "mnist-"
    assert told(obj) == []


def test_a_pod_name_that_would_be_too_long_is_refused_with_the_sum() -> None:
    obj = a_framework(a_role("w" * 20, 1001), name="f" * 38)

    assert told(obj) == [
        f'spec.taskRoles[0].name: Invalid value: "{"w" * 20}": pod names would have up to 64 characters '
        "(38 of the Framework's name + 20 of the role's + 4 of the index + 2 hyphens), and 63 are the most: "
        "shorten a name by 1"
    ]
    assert told(a_framework(a_role("w" * 20, 1000), name="f" * 38)) == []


def test_a_generated_name_counts_with_what_will_be_added() -> None:
    obj = a_framework(a_role("w" * 20, 1))
    obj["metadata"] = {"generateName": "f" * 60}

    assert "58 of" not in (message := told(obj)[0])
    assert "63 of the Framework's name" in message


def test_roles_need_names_of_their_own() -> None:
    obj = a_framework(a_role("a"), a_role("b"), a_role("a"))

    assert told(obj) == ['spec.taskRoles[2].name: Duplicate value: "a": each role needs a name of its own']


@pytest.mark.parametrize(
    ("fields", "told_field"),
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
def test_numbers_of_a_role_stay_in_their_ranges(fields: dict[str, Any], told_field: str) -> None:
    problems = validation_errors(a_framework(a_role(**fields)))

    assert [problem.field for problem in problems] == [f"spec.taskRoles[0].{told_field}"]


@pytest.mark.parametrize("name", ["podGracefulDeletionTimeoutSec", "pendingDeadlineSeconds"])
def test_no_timeout_is_negative(name: str) -> None:
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
            a_pod(containers=[]),
            f"{CONTAINERS}: Required value: a pod needs at least one container",
            id="none",
        ),
        pytest.param(
            a_pod(containers=[{"image": "x"}]), f"{CONTAINERS}[0].name: Required value", id="no name"
        ),
        pytest.param(
            a_pod(containers=[{"name": ""}]), f"{CONTAINERS}[0].name: Required value", id="empty name"
        ),
        pytest.param(
            a_pod(initContainers=[{"name": "main"}]),
            f'{CONTAINERS}[0].name: Duplicate value: "main": each container of a pod needs a name of its own',
            id="an init container of the same name",
        ),
        pytest.param(
            a_pod(
                containers=[{"name": "main", "volumeMounts": [{"name": "dat", "mountPath": "/data"}]}],
                volumes=[{"name": "data", "emptyDir": {}}],
            ),
            f'{CONTAINERS}[0].volumeMounts[0].name: Not found: "dat": there is no such volume in the pod; '
            'did you mean "data"?',
            id="a mount of no volume",
        ),
        pytest.param(
            a_pod(restartPolicy="never"),
            "spec.taskRoles[0].task.pod.spec.restartPolicy: Unsupported value: "
            '"never": supported values: "Always", "OnFailure", "Never"; did you mean "Never"?',
            id="a misspelt restart policy",
        ),
    ],
)
def test_a_pod_template_must_make_a_pod(pod: dict[str, Any], message: str) -> None:
    role = a_role()
    role["task"]["pod"] = pod

    assert told(a_framework(role)) == [message]


def test_a_role_without_a_task_has_no_container_either() -> None:
    assert told(a_framework({"name": "a", "taskNumber": 1})) == [
        f"{CONTAINERS}: Required value: a pod needs at least one container"
    ]


START = "spec.taskRoles[0].startAfter[0]"


@pytest.mark.parametrize(
    ("after", "message"),
    [
        pytest.param(
            {"role": "pss"},
            f'{START}.role: Not found: "pss": there is no such role; did you mean "ps"?',
            id="an unknown role",
        ),
        pytest.param(
            {"role": "worker"},
            f'{START}.role: Invalid value: "worker": a role cannot wait for itself',
            id="itself",
        ),
        pytest.param(
            {"role": "ps", "atLeast": 3},
            f"{START}.atLeast: Invalid value: 3: role ps has only 2 tasks",
            id="more tasks than there are",
        ),
    ],
)
def test_a_role_waits_for_what_can_be(after: dict[str, Any], message: str) -> None:
    assert told(a_framework(a_role("worker", startAfter=[after]), a_role("ps", 2))) == [message]


def test_a_wrong_number_of_tasks_is_told_where_it_stands_and_not_where_others_wait_for_it() -> None:
    waiting = a_role("worker", startAfter=[{"role": "ps"}])

    problems = told(a_framework(waiting, a_role("ps", taskNumber=-1)))

    assert problems == ["spec.taskRoles[1].taskNumber: Invalid value: -1: must be at least 0"]


def test_a_ring_of_waits_is_spelt_out() -> None:
    obj = a_framework(
        a_role("a", startAfter=[{"role": "b"}]),
        a_role("b", startAfter=[{"role": "c"}]),
        a_role("c", startAfter=[{"role": "a"}]),
        a_role("d", startAfter=[{"role": "a"}]),
    )

    assert told(obj) == [
        "spec.taskRoles[0].startAfter: Invalid value: a -> b -> c -> a: "
        "each of these roles waits for the next, so none can ever start"
    ]


def test_every_ring_is_found() -> None:
    pairs = [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    obj = a_framework(*(a_role(name, startAfter=[{"role": awaited}]) for name, awaited in pairs))

    assert [problem.field for problem in validation_errors(obj)] == [
        "spec.taskRoles[0].startAfter",
        "spec.taskRoles[2].startAfter",
    ]


def test_waits_that_only_meet_again_are_no_ring() -> None:
    obj = a_framework(
        a_role("a", startAfter=[{"role": "b"}, {"role": "c"}]),
        a_role("b", startAfter=[{"role": "d"}]),
        a_role("c", startAfter=[{"role": "d"}]),
        a_role("d"),
    )

    assert told(obj) == []


def test_a_role_cannot_wait_for_one_that_is_created_after_it() -> None:
    roles = (a_role("worker", startAfter=[{"role": "ps"}]), a_role("ps"))

    assert told(a_framework(*roles, roleSequence=["worker", "ps"])) == [
        f'{START}.role: Invalid value: "ps": worker -> ps -> worker: worker waits for ps, and ps is created only '
        "after worker by roleSequence; put ps before worker there"
    ]
    assert told(a_framework(*roles, roleSequence=["worker"])) != []  # the others follow
    assert told(a_framework(*roles, roleSequence=["ps", "worker"])) == []
    assert told(a_framework(*roles, roleSequence=["ps"])) == []
    assert told(a_framework(*roles)) == []


def test_the_sequence_names_each_role_once_and_no_other() -> None:
    obj = a_framework(a_role("worker"), a_role("ps"), roleSequence=["worker", "ps", "worker", "workr"])

    assert told(obj) == [
        'spec.roleSequence[2]: Duplicate value: "worker": each role is created once',
        'spec.roleSequence[3]: Not found: "workr": there is no such role; did you mean "worker"?',
    ]


@pytest.mark.parametrize("condition", ["Running", "Ready", "Succeeded"])
def test_the_roles_of_a_gang_cannot_wait_for_each_other(condition: str) -> None:
    roles = (a_role("worker", startAfter=[{"role": "ps", "condition": condition}]), a_role("ps", 1))

    assert told(a_framework(*roles, gang={})) == [
        f'{START}.role: Invalid value: "ps": no pod of a gang gets a node before there are enough of them, so they '
        "would wait for each other for ever; leave it out, or use roleSequence, "
        "or ask for at most 1 by gang.minTasks"
    ]
    assert told(a_framework(*roles)) == []


@pytest.mark.parametrize(
    ("gang", "ps", "sequence", "fits"),
    [
        pytest.param({"minTasks": 2}, {}, None, True, id="the gang is complete before"),
        pytest.param({"minTasks": 3}, {}, None, False, id="the gang needs one more"),
        pytest.param({}, {"background": True}, None, True, id="a background role is not part of it"),
        pytest.param({}, {"taskNumber": 0}, None, True, id="there is nobody to wait for"),
        pytest.param(
            {"minTasks": 2},
            {},
            ["ps", "worker", "chief"],
            False,
            id="those behind it in the sequence wait too",
        ),
        pytest.param({"minTasks": 2}, {}, ["ps", "chief"], True, id="those before it in the sequence do not"),
    ],
)
def test_a_role_may_wait_when_the_gang_does_not_need_it(
    gang: dict[str, int], ps: dict[str, Any], sequence: list[str] | None, fits: bool
) -> None:
    roles = (
        a_role("worker", 2, startAfter=[{"role": "ps", "condition": "Ready"}]),
        {**a_role("ps", 1), **ps},
        a_role("chief", 1),
    )

    problems = validation_errors(a_framework(*roles, gang=gang, roleSequence=sequence))

    assert [problem.field for problem in problems] == ([] if fits else [f"{START}.role"])


def test_roles_that_a_gang_leaves_out_may_wait_for_it() -> None:
    board = a_role("board", background=True, startAfter=[{"role": "worker", "condition": "Running"}])

    assert told(a_framework(a_role("worker", 2), board, gang={})) == []


def test_the_annotation_of_arena_orders_roles_as_the_sequence_does() -> None:
    roles = (a_role("worker", startAfter=[{"role": "ps", "condition": "Running"}]), a_role("ps"))
    obj = a_framework(*roles)
    obj["metadata"]["annotations"] = {"job-role-sequence": "w,p"}

    (problem,) = validation_errors(obj)
    overruled = {**obj, "spec": {**obj["spec"], "roleSequence": ["ps"]}}

    assert problem.field == f"{START}.role"
    assert "worker -> ps -> worker" in problem.message
    assert validation_errors(overruled) == ()


def test_a_role_that_the_annotation_names_and_that_is_not_there_is_said_to_be_passed_over() -> None:
    obj = a_framework(a_role("worker"), a_role("ps"))
    obj["metadata"]["annotations"] = {"job-role-sequence": "Worker, Chief,,ps"}

    assert validation_warnings(obj) == (
        'metadata.annotations[job-role-sequence]: there is no role "Chief"; it is passed over',
        'metadata.annotations[job-role-sequence]: there is no role ""; it is passed over',
    )
    assert validation_warnings({**obj, "spec": {**obj["spec"], "roleSequence": ["ps"]}}) == ()


def test_a_gang_is_no_larger_than_the_framework() -> None:
    assert told(a_framework(a_role("a", 2), a_role("b", 1), gang={"minTasks": 4})) == [
        "spec.gang.minTasks: Invalid value: 4: there are only 3 tasks"
    ]
    assert told(a_framework(a_role("a", 2), a_role("b", 1, background=True), gang={"minTasks": 3})) == [
        "spec.gang.minTasks: Invalid value: 3: there are only 2 tasks, not counting background roles"
    ]


@pytest.mark.parametrize("gang", [{}, {"minTasks": None}])
def test_a_gang_that_asks_for_no_number_is_not_told_that_it_asks_for_too_many(gang: dict[str, None]) -> None:
    problems = told(a_framework(a_role("a", -1), gang=gang))

    assert [problem.partition(":")[0] for problem in problems] == ["spec.taskRoles[0].taskNumber"]


def test_ports_belong_to_roles() -> None:
    assert told(a_framework(discovery={"ports": {"worker": 1, "wroker": 2}})) == [
        'spec.discovery.ports.wroker: Not found: "wroker": there is no such role; did you mean "worker"?'
    ]


@pytest.mark.parametrize(
    ("codes", "why"),
    [
        pytest.param("255-128", "255-128 is the wrong way round: write 128-255", id="backwards"),
        pytest.param(
            ">=128",
            'must list exit codes and ranges, such as "128-255" or "130,137,143"',
            id="no list of codes",
        ),
    ],
)
def test_exit_codes_can_be_read(codes: str, why: str) -> None:
    role = a_role()
    role["task"]["retryPolicy"] = {"retryableExitCodes": codes}

    assert told(a_framework(role)) == [
        f'spec.taskRoles[0].task.retryPolicy.retryableExitCodes: Invalid value: "{codes}": {why}'
    ]


@pytest.mark.parametrize(
    ("indexes", "why"),
    [
        pytest.param(
            "3", "there is no task 3: the tasks of role worker go from 0 to 2", id="beyond the last"
        ),
        pytest.param(7, "there is no task 7: the tasks of role worker go from 0 to 2", id="a number"),
        pytest.param(7.0, "there is no task 7: the tasks of role worker go from 0 to 2", id="with a point"),
        pytest.param("0,1-3", "there is no task 3: the tasks of role worker go from 0 to 2", id="a range"),
        pytest.param("2-0", "2-0 is the wrong way round: write 0-2", id="backwards"),
        pytest.param(
            "0-", 'must list task indexes and ranges, such as "0" or "0,2-5"', id="no list of indexes"
        ),
    ],
)
def test_succeeded_indexes_are_tasks_of_the_role(indexes: str | float, why: str) -> None:
    obj = a_framework(a_role("worker", 3, frameworkAttemptCompletionPolicy={"succeededIndexes": indexes}))

    (problem,) = validation_errors(obj)

    assert problem.field == "spec.taskRoles[0].frameworkAttemptCompletionPolicy.succeededIndexes"
    assert problem.message.endswith(why)


def test_problems_of_shape_and_of_sense_come_together_and_one_field_is_told_once() -> None:
    obj = a_framework(a_role("a", -1), a_role("a", pod=a_pod(containers=[{"name": 1}])), executionType="Go")

    assert {problem.field for problem in validation_errors(obj)} == {
        "spec.taskRoles[0].taskNumber",
        "spec.taskRoles[1].name",
        "spec.taskRoles[1].task.pod.spec.containers[0].name",
        "spec.executionType",
    }
    assert len(validation_errors(obj)) == 4


@settings(max_examples=200)
@given(obj=json_values)
def test_whatever_it_is_the_answer_is_a_list_of_problems(obj: Any) -> None:
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
            f"{POLICY}.minFailedTaskCount: 0 is read as -1, which is never",
            id="a threshold of zero",
        ),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minSucceededTaskCount": 3}},
            f"{POLICY}.minSucceededTaskCount: 3 can never be reached with 2 tasks",
            id="more successes than tasks",
        ),
        pytest.param(
            {"pod": a_pod(restartPolicy=None)},
            f"{RESTART}: left out, which is Always: its pods are restarted for ever and never complete; "
            "use Never or OnFailure",
            id="no restart policy",
        ),
        pytest.param(
            {"pod": a_pod(restartPolicy="Always")},
            f"{RESTART}: Always: its pods are restarted for ever and never complete; use Never or OnFailure",
            id="restarted always",
        ),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -1}},
            "spec.taskRoles: no role has a threshold, so the Framework ends as Succeeded whatever its tasks do",
            id="no threshold",
        ),
    ],
)
def test_what_is_hardly_meant_is_warned_about(fields: dict[str, Any], warning: str) -> None:
    obj = a_framework(a_role(**fields))

    assert validation_errors(obj) == ()
    assert validation_warnings(obj) == (warning,)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"pod": a_pod(restartPolicy="OnFailure")}, id="restarted on failure"),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 3, "minSucceededTaskCount": 2}},
            id="more failures than tasks is a way to tolerate all",
        ),
        pytest.param(
            {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -1, "succeededIndexes": "0"}},
            id="an index decides",
        ),
    ],
)
def test_what_is_well_meant_is_not_warned_about(fields: dict[str, Any]) -> None:
    assert validation_warnings(a_framework(a_role(**fields))) == ()


def test_a_background_role_may_run_for_ever_and_decides_nothing() -> None:
    board = a_role("board", pod=a_pod(restartPolicy="Always"), background=True)

    assert validation_warnings(a_framework(a_role(), board)) == ()
    assert len(validation_warnings(a_framework(board))) == 1


def test_a_status_of_the_users_own_is_said_to_be_dropped() -> None:
    obj = {**a_framework(), "status": {"state": "Completed"}}

    assert validation_warnings(obj) == ("status: dropped; it is written by the launcher alone",)


@pytest.mark.parametrize(
    ("was", "wish"),
    [
        ("Create", "Start"),
        ("Create", "Stop"),
        ("Start", "Stop"),
        ("Start", "Start"),
        ("Stop", "Stop"),
        (None, "Stop"),
    ],
)
def test_a_framework_may_be_started_and_stopped(was: str | None, wish: str) -> None:
    assert update_errors(a_framework(executionType=was), a_framework(executionType=wish)) == ()


@pytest.mark.parametrize(
    ("was", "wish", "why"),
    [
        ("Stop", "Start", "Stop is final; make a new Framework to run it again"),
        ("Stop", "Create", "Stop is final; make a new Framework to run it again"),
        ("Start", "Create", "it has been started and cannot be held back; Stop ends it"),
        (None, "Create", "it has been started and cannot be held back; Stop ends it"),
    ],
)
def test_what_has_been_done_cannot_be_undone(was: str | None, wish: str, why: str) -> None:
    (problem,) = update_errors(a_framework(executionType=was), a_framework(executionType=wish))

    assert str(problem) == f'spec.executionType: Invalid value: "{wish}": {why}'


def test_a_framework_keeps_its_name() -> None:
    (problem,) = update_errors(a_framework(name="a"), a_framework(name="b"))

    assert problem.field == "metadata.name"


def test_everything_else_may_change() -> None:
    old = a_framework(a_role("a"), a_role("b"))
    new = a_framework(
        a_role("a", 5, pod=a_pod(hostNetwork=True)), a_role("c"), retryPolicy={"maxRetryCount": 9}
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
def test_a_role_says_how_many_tasks_it_has(role: dict[str, Any], hint: str) -> None:
    obj = a_framework({"name": "worker", "task": {"pod": a_pod()}, **role})

    message = "spec.taskRoles[0].taskNumber: Required value: how many tasks the role has, such as 1"
    assert told(obj) == [message + hint]
    obj["spec"]["replicas"] = 2
    assert told(obj) == []


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

    assert told(obj) == [f"spec.taskRoles: Required value: the groups of tasks to run{hint}"]


NO_TASKS = "a Framework without tasks would never end: give at least one role a taskNumber of 1 or more"


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
    assert [str(problem) for problem in creation_problems(obj)] == [message]
    assert validation_errors(obj) == ()


def test_a_new_framework_may_have_a_role_without_tasks_beside_others() -> None:
    assert creation_problems(a_framework(a_role("a", 0), a_role("b", 1))) == ()
