"""The addresses of tasks as files for shells and programs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.core.errors import BadRequest
from launcher.core.spec import FrameworkName, PodName, RoleName
from launcher.rendezvous.peer_files import DISCOVERY_FILES, FILE_NAMES, PeerFiles, framework_json
from launcher.rendezvous.peer_tracker import Peer, PeerList, TaskId
from tests.builders import Json, a_role
from tests.rendezvous.harness import PS, WORKER, spec_of

PORTS = {"worker": 46866, "ps": 46867}


def some_files(*counts: tuple[str, int], ports: dict[str, int] | None = None, **spec: Any) -> PeerFiles:
    """The files of a Framework with these roles; task i of role n has the address 10.0.n.i."""
    roles = {
        RoleName(name): tuple(
            Peer(
                i,
                f"10.0.{n}.{i}",
                f"192.0.2.{n}",
                PodName(f"mnist-{name}-{i}"),
                (ports or {}).get(name),
                0,
            )
            for i in range(count)
        )
        for n, (name, count) in enumerate(counts)
    }
    background = spec.pop("background", ())
    task_roles = [a_role(name, count, background=name in background) for name, count in counts]
    peer_list = PeerList("default", FrameworkName("mnist"), 0, 7, roles)
    return PeerFiles(peer_list, spec_of(*task_roles, **spec))


def content(name: str, files: PeerFiles, task: TaskId | None = None) -> str:
    return b"".join(files.segments(name, task)).decode()


def environment_after(script: str, path: Path, shell: str = "sh", **environment: str) -> dict[str, str]:
    """The environment of a program that a shell starts after it has sourced the script."""
    path.write_text(script)
    done = subprocess.run(
        [shell, "-eu", "-c", f". {path} >/dev/null && exec env -0"],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


def test_hosts_json_has_all_addresses_by_role() -> None:
    hosts = json.loads(content("hosts.json", some_files(("worker", 2), ("ps", 1), ports={"ps": 46867})))

    assert hosts == {
        "generation": 7,
        "namespace": "default",
        "framework": "mnist",
        "attempt": 0,
        "roles": {
            "worker": [
                {"index": 0, "ip": "10.0.0.0", "hostIP": "192.0.2.0", "host": "mnist-worker-0"},
                {"index": 1, "ip": "10.0.0.1", "hostIP": "192.0.2.0", "host": "mnist-worker-1"},
            ],
            "ps": [
                {"index": 0, "ip": "10.0.1.0", "hostIP": "192.0.2.1", "host": "mnist-ps-0", "port": 46867}
            ],
        },
    }


def test_hosts_json_names_the_roles_that_are_left_out() -> None:
    roles = {PS: (Peer(0, "10.0.0.0", "", PodName("p"), None, 0),)}
    peer_list = PeerList("default", FrameworkName("mnist"), 0, 1, roles, dependent_roles=(WORKER,))

    hosts = json.loads(content("hosts.json", PeerFiles(peer_list, spec_of(a_role("ps", 1), a_role()))))

    assert (list(hosts["roles"]), hosts["later"]) == (["ps"], ["worker"])


@pytest.mark.parametrize(
    ("counts", "ports", "lines"),
    [
        pytest.param(
            [("worker", 2), ("ps", 1)],
            PORTS,
            ["10.0.0.0:46866,10.0.0.1:46866", "10.0.1.0:46867"],
            id="as in the manual",
        ),
        pytest.param(
            [("ps", 1), ("chief", 1), ("worker", 1)],
            PORTS,
            ["10.0.2.0:46866", "10.0.1.0", "10.0.0.0:46867"],
            id="workers on the first line and ps on the last in any order of the spec",
        ),
        pytest.param([("a", 1), ("b", 2)], {}, ["10.0.0.0", "10.0.1.0,10.0.1.1"], id="other roles"),
    ],
)
def test_configfile_has_a_line_for_each_role(
    counts: list[tuple[str, int]], ports: dict[str, int], lines: list[str]
) -> None:
    assert content("configfile", some_files(*counts, ports=ports)).splitlines() == lines


def test_hostfile_lists_the_tasks_with_ranks_without_the_mpi_launcher() -> None:
    files = some_files(("launcher", 1), ("worker", 2), ("board", 1), background=("board",))

    assert content("hostfile", files) == "10.0.1.0 slots=1\n10.0.1.1 slots=1\n"


def test_tf_config_has_the_role_and_index_of_the_task() -> None:
    files = some_files(("worker", 2), ("ps", 1), ports={"ps": 46867})

    assert content("tf_config.json", files, TaskId(WORKER, 1)) == (
        '{"cluster":{"ps":["10.0.1.0:46867"],"worker":["10.0.0.0:2222","10.0.0.1:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}\n'
    )
    assert json.loads(content("tf_config.json", files, TaskId(PS, 0)))["task"] == {"type": "ps", "index": 0}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_hosts_env_sets_the_addresses_of_all_tasks_and_the_rank_of_the_task(
    tmp_path: Path, shell: str
) -> None:
    files = some_files(("worker", 2), ("master", 1), ports={"worker": 46866, "master": 5000})

    variables = environment_after(
        content("hosts.env", files, TaskId(WORKER, 1)), tmp_path / "hosts.env", shell
    )

    of_shell = ("PATH", "PWD", "SHLVL", "_")
    assert {name: value for name, value in variables.items() if name not in of_shell} == {
        "LAUNCHER_GENERATION": "7",
        "worker_hosts": "10.0.0.0:46866,10.0.0.1:46866",
        "WORKER_HOSTS": "10.0.0.0:46866,10.0.0.1:46866",
        "master_hosts": "10.0.1.0:5000",
        "MASTER_HOSTS": "10.0.1.0:5000",
        "MASTER_ADDR": "10.0.1.0",
        "MASTER_PORT": "5000",
        "PET_MASTER_ADDR": "10.0.1.0",
        "PET_MASTER_PORT": "5000",
        "WORLD_SIZE": "3",
        "RANK": "2",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "2",
        "LAUNCHER_PORT": "46866",
    }


def test_hosts_env_sets_tf_config_where_the_file_is_mounted(tmp_path: Path) -> None:
    files = some_files(("worker", 2), ("ps", 1), discovery={"mountPath": str(tmp_path)})
    script = content("hosts.env", files, TaskId(PS, 0))

    before = environment_after(script, tmp_path / "hosts.env")
    (tmp_path / "tf_config.json").write_text(content("tf_config.json", files, TaskId(PS, 0)))
    after = environment_after(script, tmp_path / "hosts.env")

    assert "TF_CONFIG" not in before
    assert json.loads(after["TF_CONFIG"])["task"] == {"type": "ps", "index": 0}


def test_a_background_task_has_no_rank(tmp_path: Path) -> None:
    files = some_files(("worker", 2), ("board", 1), background=("board",))

    script = content("hosts.env", files, TaskId(RoleName("board"), 0))
    variables = environment_after(script, tmp_path / "hosts.env")

    assert "RANK" not in variables
    assert variables["MASTER_ADDR"] == "10.0.0.0"


def test_the_master_is_not_set_while_its_address_is_unknown(tmp_path: Path) -> None:
    roles = {WORKER: (Peer(0, "10.0.0.0", "", PodName("p"), None, 0),)}
    files = PeerFiles(
        PeerList("default", FrameworkName("mnist"), 0, 1, roles),
        spec_of(a_role("worker", 1), a_role("master", 1)),
    )

    variables = environment_after(content("hosts.env", files, TaskId(WORKER, 0)), tmp_path / "hosts.env")

    assert "MASTER_ADDR" not in variables
    assert variables["RANK"] == "1"


def test_a_list_that_is_too_long_for_the_environment_is_not_exported(tmp_path: Path) -> None:
    files = some_files(("worker", 10_000), ports=PORTS)

    variables = environment_after(content("hosts.env", files, TaskId(WORKER, 9_999)), tmp_path / "hosts.env")

    assert "worker_hosts" not in variables
    assert variables["RANK"] == "9999"


def test_injector_sh_uses_the_port_in_the_environment(tmp_path: Path) -> None:
    script = content("injector.sh", some_files(("worker", 2), ("ps", 1)))

    first, second = (
        environment_after(script, tmp_path / "injector.sh", "bash", FB_WORKER_PORT=port, FB_PS_PORT="1")
        for port in ("5000", "6000")
    )

    assert first["FB_WORKER_IPS"] == second["FB_WORKER_IPS"] == "10.0.0.0,10.0.0.1"
    assert first["FB_WORKER_ADDRESSES"] == "10.0.0.0:5000,10.0.0.1:5000"
    assert second["FB_WORKER_ADDRESSES"] == "10.0.0.0:6000,10.0.0.1:6000"
    assert first["FB_PS_ADDRESSES"] == "10.0.1.0:1"


def test_injector_sh_prints_the_variables(tmp_path: Path) -> None:
    path = tmp_path / "injector.sh"
    path.write_text(content("injector.sh", some_files(("worker", 1))))

    output = subprocess.run(
        ["bash", str(path)],
        env={"FB_WORKER_PORT": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout

    assert output == "FB_WORKER_IPS=10.0.0.0\nFB_WORKER_ADDRESSES=10.0.0.0:1\n"


def test_an_ipv6_address_with_a_port_has_brackets(tmp_path: Path) -> None:
    peer = Peer(0, "2001:db8::1", "2001:db8::2", PodName("p"), 5000, 0)
    files = PeerFiles(
        PeerList("default", FrameworkName("mnist"), 0, 1, {WORKER: (peer,)}), spec_of(a_role(tasks=1))
    )

    variables = environment_after(content("hosts.env", files, TaskId(WORKER, 0)), tmp_path / "hosts.env")

    assert content("configfile", files) == "[2001:db8::1]:5000\n"
    assert (variables["worker_hosts"], variables["MASTER_ADDR"]) == ("[2001:db8::1]:5000", "2001:db8::1")


def test_sed_can_split_the_concatenated_files(tmp_path: Path) -> None:
    files = some_files(("worker", 2), ("ps", 1), ports=PORTS)
    task = TaskId(WORKER, 0)
    text = b"".join(files.concatenated((name, files.segments(name, task)) for name in DISCOVERY_FILES))
    (tmp_path / "all").write_bytes(text)

    for name in DISCOVERY_FILES:
        output = subprocess.run(
            ["sed", "-n", f"/^==> {name} <==$/,/^==> .* <==$/{{/^==> .* <==$/!p;}}", str(tmp_path / "all")],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        assert output == content(name, files, task)
        assert output.endswith("\n")


def test_a_file_that_does_not_apply_to_the_task_is_left_out() -> None:
    files = some_files(("master", 1), ("trainer", 1))
    task = TaskId(RoleName("trainer"), 0)

    text = b"".join(
        files.concatenated((name, files.segments(name, task)) for name in DISCOVERY_FILES)
    ).decode()

    assert "tf_config.json" not in text
    assert "==> hosts.env <==" in text


def test_most_segments_are_shared_by_all_tasks() -> None:
    files = some_files(("worker", 2000), ("ps", 1))

    first, second = (
        [segment for name in DISCOVERY_FILES for segment in files.segments(name, TaskId(WORKER, index))]
        for index in (0, 1)
    )

    own = [segment for segment, other in zip(first, second, strict=True) if segment is not other]
    assert sum(map(len, own)) < 1000
    assert sum(map(len, first)) > 100_000


def test_a_task_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(BadRequest, match="worker/2 does not exist"):
        some_files(("worker", 2)).segments("hosts.env", TaskId(WORKER, 2))


def test_every_file_name_has_a_generator() -> None:
    files = some_files(("worker", 2))

    assert all(files.segments(name, TaskId(WORKER, 0)) for name in FILE_NAMES if name != "framework.json")


def a_status(*tasks: Json) -> Json:
    return {"attemptStatus": {"id": 0, "taskRoleStatuses": [{"name": "worker", "taskStatuses": list(tasks)}]}}


def test_framework_json_has_addresses_that_the_status_does_not_have_yet() -> None:
    tasks = [
        {"index": 0, "attemptStatus": {"id": 0, "podIP": None}},
        {"index": 5, "attemptStatus": {"id": 0}},
    ]
    framework = {"kind": "Framework", "status": a_status(*tasks)}

    written = json.loads(framework_json(framework, some_files(("worker", 1)).peer_list))

    assert written["status"] == a_status(
        {"index": 0, "attemptStatus": {"id": 0, "podIP": "10.0.0.0", "podHostIP": "192.0.2.0"}},
        {"index": 5, "attemptStatus": {"id": 0}},
    )
    assert framework["status"] == a_status(*tasks)


@pytest.mark.parametrize("status", [None, {}, {"attemptStatus": {"taskRoleStatuses": [{"name": "other"}]}}])
def test_framework_json_without_task_statuses_is_the_unchanged_framework(status: Any) -> None:
    framework = {"kind": "Framework", "spec": {}, "status": status}

    assert json.loads(framework_json(framework, some_files(("worker", 1)).peer_list)) == framework
