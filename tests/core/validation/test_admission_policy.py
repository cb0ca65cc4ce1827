from typing import Any

import pytest

from launcher.core.errors import FieldError
from launcher.core.validation.admission_policy import AdmissionPolicy

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


def test_without_a_policy_everything_is_allowed() -> None:
    spec = {
        **host_path("/"),
        "hostNetwork": True,
        "containers": [{"name": "c", "securityContext": {"privileged": True}}],
    }

    assert AdmissionPolicy().errors(framework(spec)) == ()
    assert AdmissionPolicy().pod_errors({"spec": spec}) == ()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/data", id="the directory itself"),
        pytest.param("/data/", id="a slash at its end"),
        pytest.param("/data/sets/mnist", id="below"),
        pytest.param("//data//sets", id="repeated slashes"),
        pytest.param("/data/./sets", id="a dot"),
        pytest.param("/mnt/nfs", id="the second directory"),
    ],
)
def test_host_paths_below_an_allowed_directory_are_admitted(path: str) -> None:
    assert AdmissionPolicy(host_path_prefixes=("/data/", "/mnt")).errors(framework(host_path(path))) == ()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/etc", id="elsewhere"),
        pytest.param("/", id="above"),
        pytest.param("/database", id="a directory with the same prefix"),
        pytest.param("/data/../etc", id="with .. to another directory"),
        pytest.param("/data/link/../sets", id="with .. out of a possible link"),
        pytest.param("data", id="not absolute"),
        pytest.param("", id="nothing"),
    ],
)
def test_other_host_paths_are_rejected(path: str) -> None:
    (problem,) = AdmissionPolicy(host_path_prefixes=("/data",)).errors(framework(host_path(path)))

    assert problem.field == f"{ROLE}.volumes[1].hostPath.path"
    assert problem.reason == "FieldValueForbidden"


def test_a_host_path_must_be_absolute_even_if_every_path_is_allowed() -> None:
    policy = AdmissionPolicy(host_path_prefixes=("/",))

    assert policy.errors(framework(host_path("/etc"))) == ()
    assert policy.errors(framework(host_path("etc")))


def test_an_error_lists_the_allowed_values() -> None:
    (path,) = AdmissionPolicy(host_path_prefixes=("/data", "/mnt")).errors(framework(host_path("/etc")))
    (server,) = AdmissionPolicy(nfs_servers=("nas.example", "10.0.0.9")).errors(
        framework(nfs("evil.example"))
    )
    (none,) = AdmissionPolicy(nfs_servers=()).errors(framework(nfs("nas.example")))

    allowed = "not allowed by the admission policy (host-path-prefixes: [/data, /mnt])"
    assert path.message == f'Forbidden: "/etc" is {allowed}'
    assert server == FieldError(
        f"{ROLE}.volumes[0].nfs.server",
        'Forbidden: "evil.example" is not allowed by the admission policy (nfs-servers: [nas.example, 10.0.0.9])',
        "FieldValueForbidden",
    )
    assert none.message.endswith("(nfs-servers: [])")


def test_nfs_servers_are_compared_case_insensitively() -> None:
    assert AdmissionPolicy(nfs_servers=("NAS.example",)).errors(framework(nfs("nas.EXAMPLE"))) == ()


def test_host_network_can_be_forbidden() -> None:
    policy = AdmissionPolicy(host_network=False)

    assert policy.errors(framework({"hostNetwork": False})) == ()
    (problem,) = policy.errors(framework({}, {"hostNetwork": True}))
    assert problem.field == "spec.taskRoles[1].task.pod.spec.hostNetwork"


def test_privileged_containers_of_every_sort_can_be_forbidden() -> None:
    privileged = {"name": "c", "securityContext": {"privileged": True}}
    spec = {
        kind: [{"name": "plain"}, privileged]
        for kind in ("containers", "initContainers", "ephemeralContainers")
    }

    fields = {problem.field for problem in AdmissionPolicy(privileged=False).pod_errors({"spec": spec})}

    assert fields == {
        f"spec.{kind}[1].securityContext.privileged"
        for kind in ("containers", "initContainers", "ephemeralContainers")
    }


def test_max_tasks_limits_the_sum_of_all_roles() -> None:
    policy = AdmissionPolicy(max_tasks=5)

    assert policy.errors(framework({}, tasks=5)) == ()
    (problem,) = policy.errors(framework({}, {}, tasks=3))
    assert problem.field == "spec.taskRoles"
    assert "6 tasks" in problem.message
    assert "(max-tasks: 5)" in problem.message
    assert AdmissionPolicy(max_tasks=None).errors(framework({}, {}, tasks=10_000)) == ()
    assert AdmissionPolicy().errors(framework({}, {}, tasks=5001))


def test_all_errors_are_reported_at_once() -> None:
    policy = AdmissionPolicy(host_path_prefixes=(), host_network=False, max_tasks=0)

    assert len(policy.errors(framework({"hostNetwork": True, **host_path("/etc")}))) == 3


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
def test_malformed_values_are_left_to_the_schema(broken: dict[str, Any]) -> None:
    policy = AdmissionPolicy(
        host_path_prefixes=(), nfs_servers=(), host_network=False, privileged=False, max_tasks=0
    )

    assert policy.errors(broken) == ()
