from typing import Any

import pytest

from launcher.core.errors import FieldError
from launcher.core.validation.admission_policy import Policy

ROLE = "spec.taskRoles[0].task.pod.spec"


def framework(*pod_specs: dict[str, Any], tasks: int = 1) -> dict[str, Any]:
    roles = [
        {"name": f"role{i}", "taskNumber": tasks, "task": {"pod": {"spec": spec}}}
        for i, spec in enumerate(pod_specs)
    ]
    return {"spec": {"taskRoles": roles}}


def host_path(path: str) -> dict[str, Any]:
    return {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": path}}]}


def nfs(server: str) -> dict[str, Any]:
    return {"volumes": [{"name": "a", "nfs": {"server": server, "path": "/x"}}]}


def test_with_no_rules_everything_is_allowed() -> None:
    spec = {
        **host_path("/"),
        "hostNetwork": True,
        "containers": [{"name": "c", "securityContext": {"privileged": True}}],
    }

    assert Policy().problems(framework(spec)) == ()
    assert Policy().pod_problems({"spec": spec}) == ()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/data", id="the directory itself"),
        pytest.param("/data/", id="a slash at its end"),
        pytest.param("/data/sets/mnist", id="below"),
        pytest.param("//data//sets", id="slashes too many"),
        pytest.param("/data/./sets", id="a dot"),
        pytest.param("/mnt/nfs", id="the second directory"),
    ],
)
def test_host_paths_below_an_allowed_directory_pass(path: str) -> None:
    assert Policy(host_path_prefixes=("/data/", "/mnt")).problems(framework(host_path(path))) == ()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/etc", id="elsewhere"),
        pytest.param("/", id="above"),
        pytest.param("/database", id="a name that begins alike"),
        pytest.param("/data/../etc", id="out again"),
        pytest.param("/data/link/../sets", id="out of what may be a link"),
        pytest.param("data", id="not absolute"),
        pytest.param("", id="nothing"),
    ],
)
def test_other_host_paths_are_refused(path: str) -> None:
    (problem,) = Policy(host_path_prefixes=("/data",)).problems(framework(host_path(path)))

    assert problem.field == f"{ROLE}.volumes[1].hostPath.path"
    assert problem.reason == "FieldValueForbidden"


def test_even_where_every_path_is_allowed_it_must_be_absolute() -> None:
    policy = Policy(host_path_prefixes=("/",))

    assert policy.problems(framework(host_path("/etc"))) == ()
    assert policy.problems(framework(host_path("etc")))


def test_a_refusal_says_what_is_allowed() -> None:
    (path,) = Policy(host_path_prefixes=("/data", "/mnt")).problems(framework(host_path("/etc")))
    (server,) = Policy(nfs_servers=("nas.example", "10.0.0.9")).problems(framework(nfs("evil.example")))
    (none,) = Policy(nfs_servers=()).problems(framework(nfs("nas.example")))

    allowed = "the host paths that are allowed here: /data, /mnt"
    assert path.message == f'Forbidden: "/etc" is outside of {allowed}'
    assert server == FieldError(
        f"{ROLE}.volumes[0].nfs.server",
        'Forbidden: "evil.example" is none of the NFS servers that are allowed here: nas.example, 10.0.0.9',
        "FieldValueForbidden",
    )
    assert none.message.endswith("there are none")


def test_nfs_servers_are_known_in_any_case() -> None:
    assert Policy(nfs_servers=("NAS.example",)).problems(framework(nfs("nas.EXAMPLE"))) == ()


def test_host_network_can_be_forbidden() -> None:
    policy = Policy(host_network=False)

    assert policy.problems(framework({"hostNetwork": False})) == ()
    (problem,) = policy.problems(framework({}, {"hostNetwork": True}))
    assert problem.field == "spec.taskRoles[1].task.pod.spec.hostNetwork"


def test_privileged_containers_of_every_sort_can_be_forbidden() -> None:
    privileged = {"name": "c", "securityContext": {"privileged": True}}
    spec = {
        kind: [{"name": "plain"}, privileged]
        for kind in ("containers", "initContainers", "ephemeralContainers")
    }

    fields = {problem.field for problem in Policy(privileged=False).pod_problems({"spec": spec})}

    assert fields == {
        f"spec.{kind}[1].securityContext.privileged"
        for kind in ("containers", "initContainers", "ephemeralContainers")
    }


def test_the_tasks_of_all_roles_count_together() -> None:
    policy = Policy(max_tasks=5)

    assert policy.problems(framework({}, tasks=5)) == ()
    (problem,) = policy.problems(framework({}, {}, tasks=3))
    assert problem.field == "spec.taskRoles"
    assert "6 tasks" in problem.message
    assert "may have 5" in problem.message
    assert Policy(max_tasks=None).problems(framework({}, {}, tasks=10_000)) == ()
    assert Policy().problems(framework({}, {}, tasks=5001))


def test_every_problem_is_told_at_once() -> None:
    policy = Policy(host_path_prefixes=(), host_network=False, max_tasks=0)

    assert len(policy.problems(framework({"hostNetwork": True, **host_path("/etc")}))) == 3


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"spec": None},
        {"spec": {"taskRoles": {"a": 1}}},
        {"spec": {"taskRoles": [None, 3, {"task": [], "taskNumber": "x"}]}},
        {"spec": {"taskRoles": [{"task": {"pod": {"spec": {"volumes": [None, {"hostPath": "x"}]}}}}]}},
    ],
)
def test_what_has_no_proper_shape_is_passed_over(broken: dict[str, Any]) -> None:
    policy = Policy(host_path_prefixes=(), nfs_servers=(), host_network=False, privileged=False, max_tasks=0)

    assert policy.problems(broken) == ()
