"""What tasks are told, as the files that shells and programs read."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.core.errors import BadRequest
from launcher.core.spec import FrameworkName, PodName, RoleName
from launcher.rendezvous.peer_files import ALL, NAMES, Files, TaskId, framework_file
from launcher.rendezvous.peer_tracker import Peer, PeerList
from tests.core.manifests import Json, a_role
from tests.rendezvous.world import PS, WORKER, spec_of

PORTS = {"worker": 46866, "ps": 46867}


def files(*counts: tuple[str, int], ports: dict[str, int] | None = None, **spec: Any) -> Files:
    """Those of a Framework with so many tasks in each role; task i of the n-th role is at 10.0.n.i."""
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
    backgrounds = spec.pop("background", ())
    written = [a_role(name, count, background=name in backgrounds) for name, count in counts]
    roster = PeerList("default", FrameworkName("mnist"), 0, 7, roles)
    return Files(roster, spec_of(*written, **spec))


def text(name: str, made: Files, asker: TaskId | None = None) -> str:
    return b"".join(made.pieces(name, asker)).decode()


def sourced(script: str, path: Path, shell: str = "sh", **environment: str) -> dict[str, str]:
    """The environment of a program that is started after the script was sourced."""
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


def test_hosts_json_tells_all_there_is_to_tell() -> None:
    told = json.loads(text("hosts.json", files(("worker", 2), ("ps", 1), ports={"ps": 46867})))

    assert told == {
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


@pytest.mark.parametrize(
    ("counts", "ports", "lines"),
    [
        pytest.param(
            [("worker", 2), ("ps", 1)],
            PORTS,
            ["10.0.0.0:46866,10.0.0.1:46866", "10.0.1.0:46867"],
            id="as the manual has it",
        ),
        pytest.param(
            [("ps", 1), ("chief", 1), ("worker", 1)],
            PORTS,
            ["10.0.2.0:46866", "10.0.1.0", "10.0.0.0:46867"],
            id="workers on the first line and ps on the last, whatever the order of the spec",
        ),
        pytest.param([("a", 1), ("b", 2)], {}, ["10.0.0.0", "10.0.1.0,10.0.1.1"], id="a line for each role"),
    ],
)
def test_configfile_has_a_line_for_each_role(
    counts: list[tuple[str, int]], ports: dict[str, int], lines: list[str]
) -> None:
    assert text("configfile", files(*counts, ports=ports)).splitlines() == lines


def test_hostfile_lists_those_who_compute_together() -> None:
    made = files(("launcher", 1), ("worker", 2), ("board", 1), background=("board",))

    assert text("hostfile", made) == "10.0.1.0 slots=1\n10.0.1.1 slots=1\n"


def test_tf_config_is_that_of_whoever_asks() -> None:
    made = files(("worker", 2), ("ps", 1), ports={"ps": 46867})

    assert text("tf_config.json", made, TaskId(WORKER, 1)) == (
        '{"cluster":{"ps":["10.0.1.0:46867"],"worker":["10.0.0.0:2222","10.0.0.1:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}\n'
    )
    assert json.loads(text("tf_config.json", made, TaskId(PS, 0)))["task"] == {"type": "ps", "index": 0}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_hosts_env_tells_programs_where_all_are_and_which_they_are(tmp_path: Path, shell: str) -> None:
    made = files(("worker", 2), ("master", 1), ports={"worker": 46866, "master": 5000})

    found = sourced(text("hosts.env", made, TaskId(WORKER, 1)), tmp_path / "hosts.env", shell)

    assert {name: value for name, value in found.items() if name not in ("PATH", "PWD", "SHLVL", "_")} == {
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


def test_hosts_env_gives_tensorflow_its_config_where_that_is_mounted(tmp_path: Path) -> None:
    made = files(("worker", 2), ("ps", 1), discovery={"mountPath": str(tmp_path)})
    script = text("hosts.env", made, TaskId(PS, 0))

    before = sourced(script, tmp_path / "hosts.env")
    (tmp_path / "tf_config.json").write_text(text("tf_config.json", made, TaskId(PS, 0)))
    after = sourced(script, tmp_path / "hosts.env")

    assert "TF_CONFIG" not in before
    assert json.loads(after["TF_CONFIG"])["task"] == {"type": "ps", "index": 0}


def test_who_is_in_the_background_has_no_rank(tmp_path: Path) -> None:
    made = files(("worker", 2), ("board", 1), background=("board",))

    found = sourced(text("hosts.env", made, TaskId(RoleName("board"), 0)), tmp_path / "hosts.env")

    assert "RANK" not in found
    assert found["MASTER_ADDR"] == "10.0.0.0"


def test_nobody_is_called_master_who_is_not_known_yet(tmp_path: Path) -> None:
    later = Files(
        PeerList(
            "default",
            FrameworkName("mnist"),
            0,
            1,
            {WORKER: (Peer(0, "10.0.0.0", "", PodName("p"), None, 0),)},
        ),
        spec_of(a_role("worker", 1), a_role("master", 1)),
    )

    found = sourced(text("hosts.env", later, TaskId(WORKER, 0)), tmp_path / "hosts.env")

    assert "MASTER_ADDR" not in found
    assert found["RANK"] == "1"


def test_programs_can_still_be_started_after_a_list_that_is_too_long_for_them(tmp_path: Path) -> None:
    made = files(("worker", 10_000), ports=PORTS)

    found = sourced(text("hosts.env", made, TaskId(WORKER, 9_999)), tmp_path / "hosts.env")

    assert "worker_hosts" not in found
    assert found["RANK"] == "9999"


def test_injector_sh_follows_the_port_that_it_is_sourced_with(tmp_path: Path) -> None:
    script = text("injector.sh", files(("worker", 2), ("ps", 1)))

    found = [
        sourced(script, tmp_path / "injector.sh", "bash", FB_WORKER_PORT=port, FB_PS_PORT="1")
        for port in ("5000", "6000")
    ]

    assert [each["FB_WORKER_IPS"] for each in found] == ["10.0.0.0,10.0.0.1"] * 2
    assert found[0]["FB_WORKER_ADDRESSES"] == "10.0.0.0:5000,10.0.0.1:5000"
    assert found[1]["FB_WORKER_ADDRESSES"] == "10.0.0.0:6000,10.0.0.1:6000"
    assert found[0]["FB_PS_ADDRESSES"] == "10.0.1.0:1"


def test_injector_sh_says_what_it_sets(tmp_path: Path) -> None:
    path = tmp_path / "injector.sh"
    path.write_text(text("injector.sh", files(("worker", 1))))

    said = subprocess.run(
        ["bash", str(path)],
        env={"FB_WORKER_PORT": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout

    assert said == "FB_WORKER_IPS=10.0.0.0\nFB_WORKER_ADDRESSES=10.0.0.0:1\n"


def test_an_ipv6_address_before_a_port_stands_in_brackets(tmp_path: Path) -> None:
    peer = Peer(0, "2001:db8::1", "2001:db8::2", PodName("p"), 5000, 0)
    made = Files(
        PeerList("default", FrameworkName("mnist"), 0, 1, {WORKER: (peer,)}), spec_of(a_role(tasks=1))
    )

    found = sourced(text("hosts.env", made, TaskId(WORKER, 0)), tmp_path / "hosts.env")

    assert text("configfile", made) == "[2001:db8::1]:5000\n"
    assert (found["worker_hosts"], found["MASTER_ADDR"]) == ("[2001:db8::1]:5000", "2001:db8::1")


def test_all_can_be_taken_apart_by_a_shell_that_has_only_sed(tmp_path: Path) -> None:
    made = files(("worker", 2), ("ps", 1), ports=PORTS)
    asker = TaskId(WORKER, 0)
    whole = b"".join(made.together((name, made.pieces(name, asker)) for name in ALL))
    (tmp_path / "all").write_bytes(whole)

    for name in ALL:
        found = subprocess.run(
            ["sed", "-n", f"/^==> {name} <==$/,/^==> .* <==$/{{/^==> .* <==$/!p;}}", str(tmp_path / "all")],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        assert found == text(name, made, asker)
        assert found.endswith("\n")


def test_a_file_of_which_there_is_nothing_is_left_out_of_all() -> None:
    made = files(("master", 1), ("trainer", 1))

    whole = b"".join(
        made.together((name, made.pieces(name, TaskId(RoleName("trainer"), 0))) for name in ALL)
    ).decode()

    assert "tf_config.json" not in whole
    assert "==> hosts.env <==" in whole


def test_most_of_a_file_is_the_same_bytes_for_everybody() -> None:
    made = files(("worker", 2000), ("ps", 1))

    one, other = (
        [piece for name in ALL for piece in made.pieces(name, TaskId(WORKER, index))] for index in (0, 1)
    )

    own = [piece for piece, same in zip(one, other, strict=True) if piece is not same]
    assert sum(map(len, own)) < 1000
    assert sum(map(len, one)) > 100_000


def test_a_task_that_there_is_not_is_told_nothing() -> None:
    with pytest.raises(BadRequest, match="there is no task worker/2"):
        files(("worker", 2)).pieces("hosts.env", TaskId(WORKER, 2))


def test_every_file_that_can_be_asked_for_is_made() -> None:
    made = files(("worker", 2))

    assert all(made.pieces(name, TaskId(WORKER, 0)) for name in NAMES if name != "framework.json")


def a_status(*tasks: Json) -> Json:
    return {"attemptStatus": {"id": 0, "taskRoleStatuses": [{"name": "worker", "taskStatuses": list(tasks)}]}}


def test_framework_json_has_addresses_that_the_status_does_not_tell_yet() -> None:
    tasks = [
        {"index": 0, "attemptStatus": {"id": 0, "podIP": None}},
        {"index": 5, "attemptStatus": {"id": 0}},
    ]
    framework = {"kind": "Framework", "status": a_status(*tasks)}

    told = json.loads(framework_file(framework, files(("worker", 1)).roster))

    assert told["status"] == a_status(
        {"index": 0, "attemptStatus": {"id": 0, "podIP": "10.0.0.0", "podHostIP": "192.0.2.0"}},
        {"index": 5, "attemptStatus": {"id": 0}},
    )
    assert framework["status"] == a_status(*tasks)


@pytest.mark.parametrize("status", [None, {}, {"attemptStatus": {"taskRoleStatuses": [{"name": "other"}]}}])
def test_framework_json_is_the_framework_as_it_is(status: Any) -> None:
    framework = {"kind": "Framework", "spec": {}, "status": status}

    assert json.loads(framework_file(framework, files(("worker", 1)).roster)) == framework
